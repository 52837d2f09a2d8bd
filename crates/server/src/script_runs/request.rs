//! A command of a script: checked as a request of a client is, and run under the latches of the script.

use std::sync::Arc;

use base::Slot;
use base::limits::SLOT_COUNT;
use commands::acl::{DenialContext, DenialEvent};
use commands::command::{Access, Flags, find_keys};
use commands::context::{Ctx, PlannedKey};
use commands::error::CommandError;
use commands::help::unknown_subcommand;
use commands::host::ScriptKind;
use commands::run::{self, RunFor};
use commands::session::SessionFlags;
use commands::table::ResolvedCommand;
use keyspace::{EffectOrigin, SCRIPT_TOKEN};
use os::clock::Ticks;
use sync::atomic::Ordering;
use sync::simulation::planted;
use wire::reply::ReplyBuffer;
use wire::request::Args;

use super::job::{Code, Job};
use crate::faults;
use crate::monitoring::command_log::Cost;
use crate::request::admission::{self, Candidate, Hindrance, Origin};
use crate::scripts::{ScriptLatches, errors};
use crate::shared::modes::GlobalFlags;

/// A script that only reads is run again with the latches of at most so many slots; beyond, with all.
const FURTHER_COUNT_MAX: usize = 256;

/// Why a command is not run.
pub(super) enum CallRefusal {
    /// The reply is an error.
    Error(CommandError),
    /// The script must be run again, with other latches.
    RunAgain,
}

impl From<CommandError> for CallRefusal {
    fn from(error: CommandError) -> Self {
        Self::Error(error)
    }
}

impl Job {
    /// The command or subcommand of a request.
    pub(super) fn find(&self, args: Args<'_>) -> Option<ResolvedCommand> {
        self.find_sub(self.shared.commands.find(args.name())?, args)
    }

    fn find_sub(&self, container: ResolvedCommand, args: Args<'_>) -> Option<ResolvedCommand> {
        if container.command.subcommands.is_empty() || args.len() < 2 {
            return Some(container);
        }
        self.shared.commands.find_sub(container, args.at(1))
    }

    /// Runs a command, and writes its reply.
    pub(super) fn request(&mut self, args: Args<'_>, out: &mut Vec<u8>) -> Result<(), CallRefusal> {
        let container = self.shared.commands.find(args.name());
        let container =
            container.ok_or_else(|| self.counted(None, CommandError::new(errors::UNKNOWN_COMMAND)))?;
        let Some(found) = self.find_sub(container, args) else {
            let error = unknown_subcommand(container.command.name, args.at(1));
            return Err(self.counted(None, error).into());
        };
        self.check(found, args)?;
        self.plan(found, args)?;
        if self.hold(found, args)? {
            // Permissions and modes may have changed meanwhile.
            self.check(found, args)?;
        }
        if found.command.flags.intersects(Flags::WRITE | Flags::MAY_REPLICATE) {
            self.observed.has_written |= found.command.flags.contains(Flags::WRITE);
            if let Some(running) = &self.running {
                running.has_written.store(self.observed.has_written, Ordering::Release);
            }
        }
        self.run(found, args, out);
        Ok(())
    }

    /// Counts an error of a request that is not run.
    fn counted(&self, found: Option<ResolvedCommand>, error: CommandError) -> CommandError {
        let monitoring = &self.shared.monitoring;
        let statistics = monitoring.statistics.thread(self.thread);
        match found {
            Some(found) => monitoring.count_rejected(statistics, found.id, error.code()),
            None => monitoring.count_error(statistics, error.code()),
        }
        error
    }

    /// Checks whether the script may run the command.
    fn check(&mut self, found: ResolvedCommand, args: Args<'_>) -> Result<(), CommandError> {
        let flags = found.command.flags;
        let refused = |job: &Self, text| Err(job.counted(Some(found), CommandError::new(text)));
        if !found.command.accepts(args.len()) {
            return refused(self, errors::WRONG_ARITY);
        }
        if flags.contains(Flags::NOSCRIPT) && !self.shared.modes.scripts_run_all.load(Ordering::Relaxed) {
            let is_redis = self.config.extended_redis_compatibility;
            let text = if is_redis { errors::NOT_IN_SCRIPTS_OF_REDIS } else { errors::NOT_IN_SCRIPTS };
            return refused(self, text);
        }
        if self.session.login.users_version < self.shared.users.version()
            && !self.observed.has_written
            && !planted(faults::UNCHECKED_SCRIPT)
        {
            self.follow_users(found)?;
        }
        if self.session.login.user.is_restricted() {
            self.check_permissions(found, args)?;
        }
        if self.script.reads_only && flags.intersects(Flags::WRITE | Flags::MAY_REPLICATE) {
            return refused(self, errors::READ_ONLY);
        }
        self.check_modes(found)?;
        // The script may have begun before the server became a primary.
        self.shared.modes.flags.follow_promotion(&mut self.data.effects);
        Ok(())
    }

    /// Checks what the modes of the server require. A script that has written continues.
    fn check_modes(&self, found: ResolvedCommand) -> Result<(), CommandError> {
        let flags = found.command.flags;
        let modes = match self.data.effects.origin() {
            EffectOrigin::Primary => self.shared.modes.flags.load() & !GlobalFlags::EXEMPT_PRIMARY,
            EffectOrigin::Own | EffectOrigin::Local => self.shared.modes.flags.load(),
        };
        let lacks_memory =
            flags.contains(Flags::DENYOOM) && self.data.mode.is_over_memory_limit && !self.script.allows_oom;
        if modes == 0 && !lacks_memory || self.observed.has_written {
            return Ok(());
        }
        let candidate = Candidate {
            origin: Origin::Script,
            found,
            session: &self.session,
            modes,
            declared_flags: &|| flags,
            own_flags: &|| flags,
            lacks_memory,
            is_pause_in_force: false,
            outruns_snapshot: false,
            redirection: &|| None,
            append_failure: &|| self.shared.persistence.append_only.failure(),
            is_redis: self.config.extended_redis_compatibility,
        };
        match admission::hindrance(&candidate) {
            Some(Hindrance::Refused(error)) => Err(self.counted(Some(found), error)),
            _ => Ok(()),
        }
    }

    /// Adopts the current permissions of the user, which may have changed while the script was paused. A script that has
    /// written is completed with the permissions that it has, as its effects can't be undone.
    #[cold]
    fn follow_users(&mut self, found: ResolvedCommand) -> Result<(), CommandError> {
        let users = self.shared.users.load_full();
        let Some(current) = users.current(&self.session.login.user) else {
            return Err(self.counted(Some(found), CommandError::NO_AUTH));
        };
        self.session.login.user = Arc::clone(current);
        self.session.login.users_version = users.version();
        Ok(())
    }

    fn check_permissions(&self, found: ResolvedCommand, args: Args<'_>) -> Result<(), CommandError> {
        let user = &self.session.login.user;
        let record = |event: &DenialEvent<'_>| self.host.record_denial(&self.session, event);
        let place = (self.session.db, self.data.db_count());
        let Err(denial) = user.authorise(found.id, args, place, DenialContext::Lua, record) else {
            return Ok(());
        };
        let error = denial.error(user.name(), user.catalogue().name(found.id));
        let text = error.text();
        let reason = text.strip_prefix(b"NOPERM ").unwrap_or(text);
        // Counted as the denial that it is, although its text has another code.
        self.counted(Some(found), error.clone());
        Err(CommandError::quoting([b"ERR ACL failure in script: ", reason].concat()))
    }

    /// Plans the keys of the command.
    fn plan(&mut self, found: ResolvedCommand, args: Args<'_>) -> Result<(), CommandError> {
        self.planned.clear();
        if found.command.keys.is_empty() {
            return Ok(());
        }
        self.found.clear();
        if !find_keys(found.command, args, &mut self.found) {
            let error = CommandError::new("ERR Invalid arguments specified for command");
            return Err(self.counted(Some(found), error));
        }
        let hasher = self.shared.keyspace.hasher();
        let keys = self.found.iter().map(|arg| PlannedKey::new(hasher.hash(args.at(*arg as usize)), *arg));
        self.planned.extend(keys);
        Ok(())
    }

    /// Checks that the latches that the command needs are held, or takes them. Returns whether the script has waited.
    fn hold(&mut self, found: ResolvedCommand, args: Args<'_>) -> Result<bool, CallRefusal> {
        let command = found.command;
        let reaches = !self.session.login.user.is_restricted() || {
            let (db, db_count) = (self.session.db, self.data.db_count());
            self.session.login.user.may_read_all_keys(found.id, args, db, db_count)
        };
        let access = if reaches { command.access.of_request(args) } else { command.access.of_own_keys() };
        let (needs_all, writes) = match access {
            Access::None => (command.flags.contains(Flags::READONLY), false),
            Access::ReadAll | Access::KeyCount | Access::RandomKeys => (true, false),
            Access::WriteAll => (true, true),
            Access::Write => (false, true),
            Access::Read => (false, self.session.tracks_reads()),
            _ => (false, false),
        };
        self.observed.has_needed_all |= needs_all;
        if self.data.holds_everything() && !self.script.reads_only {
            return Ok(false);
        }
        let is_held = |key: &PlannedKey| {
            let slot = key.slot();
            if writes { self.data.holds_for_writing(slot) } else { self.data.holds(slot) }
        };
        let all_held = (!needs_all || self.data.holds_everything()) && self.planned.iter().all(is_held);
        if all_held {
            return Ok(false);
        }
        self.observed.has_met_undeclared = true;
        let extended = self.extend(needs_all, writes);
        if let Some(running) = &self.running {
            running.set_slots(self.data.held_slots());
        }
        extended
    }

    /// Latches what a command needs and the script does not hold. A script that only reads takes what is free, and is run
    /// again otherwise. One that holds the token waits: see `docs/design/scripts.md` for why that ends. Returns whether it
    /// has waited.
    #[cold]
    fn extend(&mut self, needs_all: bool, writes: bool) -> Result<bool, CallRefusal> {
        if !self.data.holds_for_writing(SCRIPT_TOKEN) || self.timing.pause.is_none() {
            let only_reads = self.script.reads_only && !needs_all && !writes;
            let slots = self.planned.iter().map(|key| key.slot());
            let (latches, data) = (&mut self.latches, &mut self.data);
            if only_reads && slots.into_iter().all(|slot| latches.try_latch_extra_to_read(data, slot)) {
                // The slot may have changes that were made after a change of the function, which does not see that.
                if self
                    .script
                    .code
                    .as_ref()
                    .is_none_or(|code| code.is_current(&self.shared.scripts.libraries))
                {
                    return Ok(false);
                }
            }
            if self.observed.has_written {
                // Else its changes would be made twice.
                let error = CommandError::new("ERR Script accessed a key that it has not declared");
                return Err(self.counted(None, error).into());
            }
            self.observed.rerun_latches = self.further_latches(only_reads);
            return Err(CallRefusal::RunAgain);
        }
        if needs_all {
            if !self.observed.has_written {
                self.observed.rerun_latches = ScriptLatches::Everything;
                return Err(CallRefusal::RunAgain);
            }
            let all: Vec<Slot> = (0..SLOT_COUNT as u16).map(Slot::new).collect();
            self.latches.latch_free_too(&mut self.data, &all);
            return all.into_iter().try_fold(false, |waited, slot| Ok(self.wait_for(slot)? | waited));
        }
        let mut indices = 0..self.planned.len();
        indices.try_fold(false, |waited, index| Ok(self.wait_for(self.planned[index].slot())? | waited))
    }

    /// The latches for the next run of a script that only reads: those that it has, and those that its command needs.
    fn further_latches(&self, only_reads: bool) -> ScriptLatches {
        let mut slots = self.data.held_slots();
        slots.extend(self.planned.iter().map(|key| key.slot()));
        match only_reads && slots.len() <= FURTHER_COUNT_MAX {
            true => ScriptLatches::Further(slots.into()),
            false => ScriptLatches::Everything,
        }
    }

    /// Waits for a latch, while the worker serves others. As long as it has written nothing, a script does not wait for one
    /// that runs too long. Returns whether it has waited.
    fn wait_for(&mut self, slot: Slot) -> Result<bool, CallRefusal> {
        let mut has_waited = false;
        while !self.latches.try_latch_extra(&mut self.data, slot) {
            let is_killed = self.register().is_killed.load(Ordering::Acquire);
            let running = &self.shared.scripts.running;
            if !self.observed.has_written
                && let Some(kind) = running.busy_in(slot, self.config.busy_reply_threshold)
            {
                return Err(self.counted(None, errors::busy(kind)).into());
            }
            if is_killed && !self.observed.has_written {
                let kind = self.script.code.as_ref().map_or(ScriptKind::Script, Code::kind);
                return Err(self.counted(None, errors::killed(kind, "")).into());
            }
            has_waited = true;
            match &self.timing.pause {
                Some(pause) => pause(),
                None => sync::thread::yield_now(),
            }
        }
        Ok(has_waited)
    }

    fn run(&mut self, found: ResolvedCommand, args: Args<'_>, out: &mut Vec<u8>) {
        let began = Ticks::now();
        let protocol = self.session.protocol;
        let mut ctx = Ctx {
            data: &mut self.data,
            session: &mut self.session,
            config: &self.config,
            host: &*self.host,
            command: found.command,
            id: found.id,
            planned: &self.planned,
            args,
            report: &mut self.effects,
            hasher: self.shared.keyspace.hasher(),
        };
        let result = run::run(&mut ctx, &mut ReplyBuffer::new(out, protocol), RunFor::Part);
        self.session.blocked = None;
        self.session.unfinished = None;
        self.session.flags.remove(SessionFlags::CLOSE_AFTER_REPLY);
        let statistics = self.shared.monitoring.statistics.thread(self.thread);
        if let Err(error) = result {
            self.shared.monitoring.count_failed(statistics, found.id, &error);
        }
        let ns = Ticks::now().ns_since(began);
        self.timing.called_ns += ns;
        statistics.ran(found.id, 1, ns);
        // Sizes are those of what a client sends and receives.
        let cost = Cost { ns, reply_size: 0, request_size: 0 };
        if self.thresholds.are_exceeded(cost) {
            self.shared.monitoring.log_command(&self.config, &self.session, found, args, cost);
        }
        self.session.ran.count += 1;
        let unshown = Flags::SKIP_MONITOR | Flags::ADMIN;
        if self.shared.modes.flags.is_set(GlobalFlags::MONITORED) && !found.command.flags.intersects(unshown)
        {
            self.shared.hub.show_to_monitors(self.thread, &self.session, found, args);
        }
    }
}
