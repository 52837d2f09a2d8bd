//! A run of a script: its latches, its effects, and the functions that the interpreter calls ([`script::Server`]).
//!
//! Owns the latches and effects of the request while the script runs, and a session of its own, as scripts select
//! databases for themselves. Owns nothing borrowed, so that it can be stored while the script is paused.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use base::DbIndex;
use commands::context::{CommandReport, Ctx, PlannedKey};
use commands::host::{Host, ScriptKind};
use commands::session::{Session, SessionFlags};
use config::Config;
use keyspace::{Latched, Latches};
use os::clock::Ticks;
use script::{LogLevel, Runnable, ScriptFlags, Server, Verdict};
use sync::Mutex;
use sync::atomic::{AtomicBool, Ordering};
use sync::simulation::{self, Gap};
use sync::write_log::Audience;
use wire::reply::{Protocol, ReplyBuffer};
use wire::request::{Args, ArgsBuf};

use super::timing::{SLICE_NS_MAX, Timing};
use crate::monitoring::command_log::Thresholds;
use crate::scripts::ScriptLatches;
use crate::scripts::cache::Script;
use crate::scripts::libraries::Libraries;
use crate::scripts::memory::MemoryShare;
use crate::scripts::running::RunningScript;
use crate::shared::Shared;

/// The bits of `redis.set_repl`.
const PROPAGATE_AOF: u8 = 1;
const PROPAGATE_REPLICAS: u8 = 2;

/// The time on the clock goes on for scripts that run longer than this, in milliseconds, if `busy-reply-threshold` is 0.
const FROZEN_MS_MAX: u64 = 5_000;

/// A script or function.
#[derive(Clone)]
pub enum Code {
    /// A script.
    Script(Arc<Script>),
    /// A function of a library.
    Function {
        /// Its name.
        name: Vec<u8>,
        /// The flags that it declares.
        flags: ScriptFlags,
        /// Whether the code of its library proves that it accesses declared keys only.
        keeps_to_keys: bool,
        /// The libraries of which this is true.
        generation: u64,
    },
}

impl Code {
    /// The flags that it declares.
    #[must_use]
    pub fn flags(&self) -> ScriptFlags {
        match self {
            Self::Script(script) => script.flags(),
            Self::Function { flags, .. } => *flags,
        }
    }

    /// Selects the command that kills it.
    #[must_use]
    pub fn kind(&self) -> ScriptKind {
        match self {
            Self::Script(_) => ScriptKind::Script,
            Self::Function { .. } => ScriptKind::Function,
        }
    }

    /// The form that the interpreter runs.
    #[must_use]
    pub fn run(&self) -> Runnable<'_> {
        match self {
            Self::Script(script) => Runnable::Script { sha: &script.sha, body: script.code() },
            Self::Function { name, .. } => Runnable::Function { name },
        }
    }

    /// Whether the libraries are those among which it was found.
    pub(super) fn is_current(&self, libraries: &Libraries) -> bool {
        match self {
            Self::Script(_) => true,
            Self::Function { generation, .. } => libraries.generation() == *generation,
        }
    }

    fn name(&self) -> Vec<u8> {
        match self {
            Self::Script(script) => script.sha.to_vec(),
            Self::Function { name, .. } => name.clone(),
        }
    }
}

/// What runs, and for which client.
pub(super) struct ScriptCall {
    pub(super) code: Option<Code>,
    pub(super) keys: Rc<ArgsBuf>,
    pub(super) arguments: Rc<ArgsBuf>,
    pub(super) reads_only: bool,
    /// Whether it, or a later command of its transaction, may write.
    pub(super) may_write: bool,
    pub(super) allows_oom: bool,
    /// The protocol of its reply.
    pub(super) protocol: Protocol,
    /// The connection whose request it is; 0: it is closed.
    pub(super) client: u64,
}

/// What was observed of the script until now.
#[derive(Default)]
pub(super) struct Observed {
    pub(super) has_written: bool,
    pub(super) has_met_undeclared: bool,
    /// Whether one of its commands accesses all slots.
    pub(super) has_needed_all: bool,
    /// The latches with which it must be run again after [`RunOutcome::Again`](script::RunOutcome::Again).
    pub(super) rerun_latches: ScriptLatches,
}

/// See the module documentation.
pub struct Job {
    pub(super) shared: &'static Shared,
    pub(super) thread: usize,
    pub(super) host: Box<dyn Host>,
    pub(super) data: Latched<'static>,
    pub(super) latches: Latches<'static>,
    pub(super) effects: CommandReport,
    pub(super) session: Session,
    pub(super) config: Arc<Config>,
    pub(super) thresholds: Thresholds,
    pub(super) script: ScriptCall,
    pub(super) observed: Observed,
    pub(super) timing: Timing,
    pub(super) out: Vec<u8>,
    pub(super) planned: Vec<PlannedKey>,
    pub(super) found: Vec<u32>,
    pub(super) running: Option<Arc<RunningScript>>,
    /// What the interpreter uses.
    memory: Rc<RefCell<MemoryShare>>,
}

impl Job {
    pub(super) fn new(
        shared: &'static Shared,
        host: Box<dyn Host>,
        thread: usize,
        memory: Rc<RefCell<MemoryShare>>,
        ctx: &Ctx<'_>,
    ) -> Self {
        let users = shared.users.load_full();
        let session = Session::new(0, Arc::clone(&ctx.session.endpoints), &users);
        let now = Ticks::now();
        let config = shared.config.load_full();
        Self {
            shared,
            thread,
            host,
            data: ctx.data.companion(now.to_raw()),
            latches: Latches::default(),
            effects: CommandReport::default(),
            session,
            thresholds: Thresholds::of(&config),
            config,
            script: ScriptCall {
                code: None,
                keys: Rc::default(),
                arguments: Rc::default(),
                reads_only: false,
                may_write: false,
                allows_oom: false,
                protocol: Protocol::Resp2,
                client: 0,
            },
            observed: Observed::default(),
            timing: Timing::new(now),
            out: Vec::new(),
            planned: Vec::new(),
            found: Vec::new(),
            running: None,
            memory,
        }
    }

    /// Takes the latched data from the context, and copies the state of the client for which the script runs.
    pub(super) fn begin(&mut self, ctx: &mut Ctx<'_>) {
        ctx.session.write_lsn = ctx.session.write_lsn.max(ctx.data.take_write_lsn());
        ctx.data.exchange(&mut self.data);
        self.data.mode = ctx.data.mode;
        self.config = self.shared.config.load_full();
        self.thresholds = Thresholds::of(&self.config);
        let (own, caller) = (&mut self.session, &mut *ctx.session);
        own.id = caller.id;
        if !Arc::ptr_eq(&own.endpoints, &caller.endpoints) {
            own.endpoints = Arc::clone(&caller.endpoints);
        }
        own.names.client.clone_from(&caller.names.client);
        own.ran.last = caller.ran.last;
        own.write_lsn = caller.write_lsn;
        own.script_micros = None;
        own.db = caller.db;
        own.login.user = Arc::clone(&caller.login.user);
        own.login.users_version = caller.login.users_version;
        own.login.is_authenticated = true;
        own.options.is_import_source = caller.options.is_import_source;
        // A copy: the connection receives invalidations while the script is paused.
        own.tracking.clone_from(&caller.tracking);
        own.flags = caller.flags & (SessionFlags::NO_TOUCH | SessionFlags::TRACKING);
        own.flags |= SessionFlags::IN_EXEC | SessionFlags::IN_SCRIPT;
        own.flags |= caller.flags & (SessionFlags::TRACKING_BCAST | SessionFlags::TRACKING_NOLOOP);
        self.script.protocol = caller.protocol;
        self.memory.borrow_mut().begin();
        self.observed = Observed::default();
        self.out.clear();
        self.timing.begin();
        if self.data.logs() && !self.data.effects.is_transaction() {
            self.data.effects.begin_transaction();
        }
        self.script.client = ctx.session.id;
    }

    /// Returns the latched data and the effects to the context. `in_transaction`: the request is part of a transaction.
    pub(super) fn end(&mut self, ctx: &mut Ctx<'_>, in_transaction: bool) {
        self.data.effects.set_audience(Some(Audience::All));
        if self.data.effects.is_transaction() && !in_transaction {
            self.data.effects.end_transaction();
        }
        // The effects of its commands are logged instead of the request.
        ctx.report.is_logged = self.data.logs();
        ctx.data.exchange(&mut self.data);
        self.session.tracking = None;
        ctx.session.ran.count += std::mem::take(&mut self.session.ran.count);
        ctx.report.dirty += std::mem::take(&mut self.effects.dirty);
        ctx.report.needs_barrier |= std::mem::take(&mut self.effects.needs_barrier);
        if let Some(running) = self.running.take() {
            self.shared.scripts.running.leave(&running);
        }
        self.script.code = None;
    }

    /// Like [`Self::end`], for a closed connection. Returns the number of changes.
    pub(super) fn end_orphan(&mut self, data: &mut Latched<'static>) -> u64 {
        self.data.effects.set_audience(Some(Audience::All));
        if self.data.effects.is_transaction() {
            self.data.effects.end_transaction();
        }
        data.exchange(&mut self.data);
        self.session.tracking = None;
        if let Some(running) = self.running.take() {
            self.shared.scripts.running.leave(&running);
        }
        self.script.code = None;
        std::mem::take(&mut self.effects.dirty)
    }

    /// Logs that the script runs longer than `busy-reply-threshold`, once.
    #[cold]
    fn report_if_slow(&mut self, now: Ticks) {
        let ms = now.ns_since(self.timing.started) / 1_000_000;
        let threshold_ms = self.config.busy_reply_threshold;
        let Some(code) = self.script.code.as_ref().filter(|_| threshold_ms > 0 && ms >= threshold_ms) else {
            return;
        };
        self.timing.is_reported = true;
        log::warn!(
            "Slow script detected: still in execution after {ms} milliseconds. You can try killing the script using the {} \
             command. Script name is: {}.",
            crate::scripts::kill_command(code.kind()),
            String::from_utf8_lossy(&code.name()),
        );
    }

    /// A script sees one time, unless it has run so long that it may wait for a later one.
    fn follow_clock(&mut self, now: Ticks) {
        let threshold_ms = match self.config.busy_reply_threshold {
            0 => FROZEN_MS_MAX,
            threshold_ms => threshold_ms,
        };
        if now.ns_since(self.timing.started) / 1_000_000 >= threshold_ms {
            self.session.script_micros = None;
        }
    }

    /// Enters the list of the scripts that run long.
    pub(super) fn register(&mut self) -> &Arc<RunningScript> {
        let (shared, code) = (self.shared, &self.script.code);
        let slots = if self.running.is_some() { Vec::new() } else { self.data.held_slots() };
        self.running.get_or_insert_with(|| {
            let words =
                self.script.keys.args().iter().chain(self.script.arguments.args().iter()).map(<[u8]>::to_vec);
            let kind = code.as_ref().map_or(ScriptKind::Script, Code::kind);
            let name = code.as_ref().map(Code::name).unwrap_or_default();
            let verb: &[u8] = match (kind, self.script.reads_only) {
                (ScriptKind::Script, _) => b"evalsha",
                (ScriptKind::Function, false) => b"fcall",
                (ScriptKind::Function, true) => b"fcall_ro",
            };
            let count = self.script.keys.args().len().to_string().into_bytes();
            let command = [verb.to_vec(), name.clone(), count].into_iter().chain(words).collect();
            let running = Arc::new(RunningScript {
                kind,
                name,
                command,
                started: self.timing.started,
                client: self.script.client,
                may_write: self.script.may_write,
                slots: Mutex::new(slots),
                has_written: AtomicBool::new(self.observed.has_written),
                is_killed: AtomicBool::new(false),
            });
            shared.scripts.running.enter(&running);
            running
        })
    }
}

impl Server for Job {
    fn call(&mut self, args: Args<'_>, is_resp3: bool, out: &mut Vec<u8>) -> bool {
        self.session.protocol = if is_resp3 { Protocol::Resp3 } else { Protocol::Resp2 };
        match self.request(args, out) {
            Ok(()) => true,
            Err(super::request::CallRefusal::RunAgain) => false,
            Err(super::request::CallRefusal::Error(error)) => {
                out.clear();
                ReplyBuffer::new(out, self.session.protocol).error(error.text());
                true
            }
        }
    }

    fn is_allowed(&mut self, args: Args<'_>) -> Option<bool> {
        // The number of arguments is of no interest, as in Valkey.
        let found = self.find(args)?;
        let (db, db_count): (DbIndex, usize) = (self.session.db, self.data.db_count());
        Some(self.session.login.user.check(found.id, args, db, db_count).is_ok())
    }

    fn log(&mut self, level: LogLevel, text: &[u8]) -> bool {
        let text = String::from_utf8_lossy(text);
        match level {
            LogLevel::Debug => log::trace!("{text}"),
            LogLevel::Verbose => log::debug!("{text}"),
            LogLevel::Notice => log::info!("{text}"),
            LogLevel::Warning => log::warn!("{text}"),
        }
        true
    }

    fn set_propagation(&mut self, flags: u8) {
        self.data.effects.set_audience(match flags & (PROPAGATE_AOF | PROPAGATE_REPLICAS) {
            0 => None,
            PROPAGATE_AOF => Some(Audience::File),
            PROPAGATE_REPLICAS => {
                Some(Audience::Replicas).filter(|_| self.shared.keyspace.log.has_replicas())
            }
            _ => Some(Audience::All),
        });
    }

    fn interrupt(&mut self) -> Verdict {
        // Without the time that a simulation lets pass here, which does not depend on the number of instructions.
        let passed_ns = self.timing.since_interrupt_ns();
        simulation::pass(Gap::ScriptHook);
        #[cfg(feature = "simulation")]
        if simulation::planted(crate::faults::LOOSE_SCRIPT) {
            self.let_go();
        }
        let now = self.timing.interrupted(passed_ns);
        if self.running.is_none() && now.ns_since(self.timing.started) < SLICE_NS_MAX {
            return Verdict::Continue;
        }
        let running = self.register();
        if running.is_killed.load(Ordering::Acquire) && !running.has_written.load(Ordering::Relaxed) {
            return Verdict::Kill;
        }
        if !self.timing.is_reported {
            self.report_if_slow(now);
        }
        self.follow_clock(now);
        if self.timing.is_slice_over(now) {
            self.timing.pauses = true;
            return Verdict::Yield;
        }
        Verdict::Continue
    }

    fn interval(&self) -> u32 {
        self.timing.interval()
    }

    fn is_due(&self) -> bool {
        self.timing.is_due()
    }

    fn memory_max(&mut self, used: usize) -> usize {
        let allowed = self.memory.borrow_mut().report(used as u64, self.config.lua_memory_limit);
        usize::try_from(allowed).unwrap_or(usize::MAX)
    }
}
