//! Blocked requests: beginning to wait for keys, and being served by the writer that changes one of them.
//!
//! A request that finds no data is added to the queues of its keys while their latches are held
//! ([`Executor::begin_wait`]). A writer that changes such a key serves its waiters before it releases the
//! latches: in order of arrival, each waiter is claimed and its own request is run again, with a serve
//! context in place of its session. The reply goes to the waiter's worker by mail. So each command has
//! one implementation, and no other client sees data that a waiter takes.
//!
//! Touches the data under the writer's latches, and other workers by mail. Invariants:
//! 1. A waiter's request runs only while its claim is held.
//! 2. When the latches are released, each ready key is served, or is in a [`DeferredServe`].
//!
//! **Deferred serves.** A serve that is impossible now (a destination's slot is latched, another writer
//! is serving the waiter, a key expired outside of serving, a change came from the primary) is done later
//! by the same worker, which then acquires all necessary latches in order, as any command does. A worker
//! has at most one for a key with the same other slots: it finds the key as it is when it runs.

use std::sync::Arc;

use base::{DbIndex, Millis, Slot};
use commands::acl::{DenialContext, DenialEvent, User, Users};
use commands::command::Flags;
use commands::context::{CommandReport, PlannedKey};
use commands::error::CommandError;
use commands::host::Host;
use commands::run::RunFor;
use commands::session::{BlockReason, Endpoints, Session, SessionFlags};
use commands::table::{CATALOGUE, ResolvedCommand};
use commands::tracking::Tracking;
use config::Config;
use keyspace::{Busy, EffectOrigin, Latched, Latches, OwnedKey, SCRIPT_TOKEN, Waiter};
use os::clock::Ticks;
use sync::simulation::planted;
use sync::{Mode, PutBack, TryServe};
use wire::reply::{Protocol, ReplyBuffer};
use wire::request::{Args, ArgsBuf};

use super::handler::{context, run_handler};
use super::{CurrentRequest, Executor};
use crate::connection::client::{BlockedRequest, Client, ParkedRequest};
use crate::connection::token::Token;
use crate::faults;
use crate::mail::Mail;
use crate::monitoring::command_log::{self, Cost};
use crate::monitoring::statistics::WorkerStatistics;
use crate::shared::Shared;
use crate::shared::modes::GlobalFlags;

/// A request that waits, with the data necessary to run it again.
struct WaitingRequest {
    found: ResolvedCommand,
    args: ArgsBuf,
    keys: Vec<PlannedKey>,
    /// Slots that it writes besides those of its awaited keys.
    also: Vec<Slot>,
    /// Slots of the awaited keys, if there are several. Ascending, each once.
    waited: Vec<Slot>,
    db: DbIndex,
    protocol: Protocol,
    flags: SessionFlags,
    user: Arc<User>,
    users_version: u64,
    /// Its size on the wire, in bytes.
    size: usize,
    tracking: Option<Box<Tracking>>,
}

/// A key whose waiters are to be served as soon as its slot, and others, can be latched.
pub struct DeferredServe {
    key: Arc<OwnedKey>,
    /// Ascending.
    slots: Vec<Slot>,
    /// The latch it waits for.
    pub parked: Option<ParkedRequest>,
}

/// A key whose waiters are to be served, and the slots that are necessary.
pub type DeferredAim = (Arc<OwnedKey>, Vec<Slot>);

/// The outcome of a deferred serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeferredStep {
    /// Every waiter that could be served is served.
    Done,
    /// The deferred serve waits for a latch.
    Parked,
    /// It is to be run again when the pause of writes ends.
    Paused,
}

/// The substitute for the sessions of the served connections.
pub(super) struct ServeContext {
    session: Session,
    /// Serves that were not possible at once.
    deferred_serves: Vec<DeferredServe>,
}

impl ServeContext {
    pub(super) fn new() -> Self {
        let session = Session::new(0, Endpoints::none(""), &Users::new(&CATALOGUE));
        Self { session, deferred_serves: Vec::new() }
    }
}

/// All state that serving touches, borrowed from the executor that has just run a command.
pub(super) struct Serving<'a> {
    pub(super) latches: &'a mut Latches<'static>,
    pub(super) data: &'a mut Latched<'static>,
    pub(super) effects: &'a mut CommandReport,
    pub(super) config: &'a Config,
    pub(super) host: &'a dyn Host,
    pub(super) shared: &'static Shared,
    pub(super) statistics: &'static WorkerStatistics,
    pub(super) serve_context: &'a mut ServeContext,
}

/// Whether a blocking request could begin to wait.
pub(super) enum BeginWait {
    Begun,
    /// Its slots are latched for reading, but adding to the queues requires latches for writing.
    NeedsWriting,
}

impl Executor {
    /// Adds a blocking request to the queues of its keys, which are still latched.
    #[cold]
    pub(super) fn begin_wait(&mut self, client: &mut Client, current: CurrentRequest<'_>) -> BeginWait {
        let CurrentRequest { found, args, keys, size, .. } = current;
        let session = &client.session;
        let (id, address) = (session.id, client.token.0);
        let is_muted = session.flags.intersects(SessionFlags::REPLY_OFF | SessionFlags::REPLY_SKIP);
        let waiter = match session.blocked.as_ref().map(|blocked| &blocked.reason) {
            None
            | Some(
                BlockReason::Pause
                | BlockReason::Congestion
                | BlockReason::Log
                | BlockReason::Turns
                | BlockReason::Barrier
                | BlockReason::Shutdown
                | BlockReason::Save
                | BlockReason::Free
                | BlockReason::Transfer { .. },
            ) => {
                client.wait.begin().is_muted = is_muted;
                return BeginWait::Begun;
            }
            Some(BlockReason::Replicas { .. } | BlockReason::Disk { .. }) => {
                Waiter::without_keys(id, address)
            }
            Some(BlockReason::Reload(reload)) => {
                let waiter = Waiter::without_keys(id, address);
                self.shared.loading.begin_reload(self.shared, *reload, Arc::clone(&waiter));
                waiter
            }
            Some(BlockReason::Keys(wait)) => {
                let key = |planned: &PlannedKey| planned.key(args, session.db);
                let waited = &keys[wait.keys.clone()];
                if !self.latching.may_begin_wait(waited.iter().map(key)) {
                    return BeginWait::NeedsWriting;
                }
                let queued_size: usize = waited.iter().map(|planned| key(planned).bytes.len()).sum();
                let is_other = |index: &usize| !wait.keys.contains(index);
                let others = (0..keys.len()).filter(is_other);
                let request = WaitingRequest {
                    found,
                    args: with_replaced(args, &wait.replaced),
                    keys: keys.to_vec(),
                    waited: match waited {
                        [_] => Vec::new(),
                        several => distinct(several.iter().map(|key| key.slot()).collect()),
                    },
                    also: others.map(|index| keys[index].slot()).collect(),
                    db: session.db,
                    protocol: session.protocol,
                    flags: session.flags & SessionFlags::NO_TOUCH,
                    user: Arc::clone(&session.login.user),
                    users_version: session.login.users_version,
                    size,
                    tracking: session.tracking.clone().filter(|_| !session.broadcasts()),
                };
                client.wait.begin().size = request.args.allocated_size() + queued_size;
                self.latching.begin_wait(waited.iter().map(key), wait.needs, id, address, Box::new(request))
            }
        };
        if let Some(record) = &client.record {
            record.set_waiter(Some(Arc::clone(&waiter)));
        }
        let wait = client.wait.begin();
        wait.is_muted = is_muted;
        wait.waiter = Some(waiter);
        BeginWait::Begun
    }

    /// Serves the waiters of the keys that the command changed, under its latches.
    #[cold]
    pub(super) fn serve_ready(&mut self, host: &dyn Host) {
        let (latches, data) = self.latching.split();
        let mut serving = Serving {
            latches,
            data,
            effects: &mut self.effects,
            config: &self.settings.config,
            host,
            shared: self.shared,
            statistics: self.statistics,
            serve_context: &mut self.serve_context,
        };
        serving.serve_ready();
    }

    /// Counts a request whose wait ended without being served, as if it had run until now. `error` is the
    /// code of its reply, if that is an error.
    #[cold]
    pub fn count_waited(&mut self, client: &mut Client, ended: &BlockedRequest, error: Option<&str>) {
        let Some(id) = client.session.ran.last else { return };
        client.session.ran.count += 1;
        let ns = ended.ran_ns;
        self.statistics.ran(id, 1, ns);
        if let Some(code) = error {
            self.shared.monitoring.count_rejected(self.statistics, id, code);
        }
        let waiter = ended.waiter.as_ref();
        if let Some(request) = waiter.and_then(|waiter| waiter.request.downcast_ref::<WaitingRequest>()) {
            let cost = Cost { ns, reply_size: 0, request_size: request.size };
            if command_log::is_wanted(&self.settings.config, cost) {
                self.log_command(client, request.found, request.args.args(), cost);
            }
        }
    }

    /// Takes the deferred serves, including those for keys that became ready outside of serving.
    pub fn take_deferred(&mut self) -> Vec<DeferredServe> {
        debug_assert!(self.latching.holds_nothing());
        while let Some(key) = self.latching.take_ready() {
            self.serve_context.deferred_serves.push(DeferredServe::new(key, &[]));
        }
        std::mem::take(&mut self.serve_context.deferred_serves)
    }

    /// Whether there are deferred serves.
    #[inline]
    pub fn has_deferred_serves(&self) -> bool {
        self.latching.has_ready() || !self.serve_context.deferred_serves.is_empty()
    }

    /// Runs a deferred serve with the latches that it has, or parks it for the next latch with the token
    /// `token`. While writes are paused it holds none.
    pub fn run_deferred(
        &mut self,
        deferred: &mut DeferredServe,
        token: Token,
        host: &dyn Host,
    ) -> DeferredStep {
        if let Some(parked) = deferred.parked.take() {
            self.latching.restore(parked.held);
            if !self.latching.claim(parked.busy, token.0) {
                deferred.parked = Some(ParkedRequest { held: self.latching.keep(), busy: parked.busy });
                return DeferredStep::Parked;
            }
        }
        if self.shared.modes.pauses_writes() {
            self.latching.release();
            return DeferredStep::Paused;
        }
        self.follow_promotion();
        while let Err(busy) = self.latch_deferred(deferred) {
            if !self.latching.park(busy, Mode::Write, token.0) {
                deferred.parked = Some(ParkedRequest { held: self.latching.keep(), busy });
                return DeferredStep::Parked;
            }
        }
        self.latching.note_ready(&deferred.key);
        self.serve_ready(host);
        self.latching.release();
        if self.effects.dirty > 0 {
            self.latching.counters.dirty.add(std::mem::take(&mut self.effects.dirty));
        }
        DeferredStep::Done
    }

    fn latch_deferred(&mut self, deferred: &DeferredServe) -> Result<(), Busy> {
        // It keeps latches while it waits for others.
        let script_token = (deferred.slots.len() > 1 && deferred.slots.first() != Some(&SCRIPT_TOKEN))
            .then_some(SCRIPT_TOKEN);
        self.latching
            .latch_several(script_token.into_iter().chain(deferred.slots.iter().copied()), Mode::Write)
    }
}

impl Serving<'_> {
    /// Serves every ready key, and the keys that become ready by that. Uses the current time: the command
    /// may have taken so long that the keys have expired.
    pub(super) fn serve_ready(&mut self) {
        self.data.mode.now = self.data.mode.now.max(Millis(os::clock::unix_millis()));
        while let Some(key) = self.data.take_ready() {
            if self.data.may_begin_wait(std::iter::once(key.key())) {
                self.serve_key(&key);
            } else {
                self.serve_context.deferred_serves.push(DeferredServe::new(key, &[]));
            }
        }
    }

    /// Serves the waiters of a key in order of arrival, while it has data for them.
    fn serve_key(&mut self, key: &Arc<OwnedKey>) {
        let mut from = 0;
        while let Some(waiter) = self.data.next_waiter(key.key(), &mut from) {
            let Some(request) = waiter.request.downcast_ref::<WaitingRequest>() else {
                unreachable!("every waiter for a key is added by `begin_wait`");
            };
            if request.found.command.flags.contains(Flags::WRITE)
                && self.data.effects.origin() == EffectOrigin::Primary
            {
                // What a waiter changes is no change of the primary, whose request this is.
                self.serve_context.deferred_serves.push(DeferredServe::new(Arc::clone(key), &request.also));
                continue;
            }
            if !request.also.iter().all(|slot| self.latches.try_latch_extra(self.data, *slot)) {
                // Later waiters must not overtake: the data remains for the first.
                self.serve_context.deferred_serves.push(DeferredServe::new(Arc::clone(key), &request.also));
                return;
            }
            match waiter.wait.try_serve() {
                TryServe::Over => continue,
                TryServe::BeingServed => {
                    // Another writer is serving it with another key. If that fails, it must be served with this key.
                    self.serve_context
                        .deferred_serves
                        .push(DeferredServe::new(Arc::clone(key), &request.also));
                    continue;
                }
                TryServe::Claimed => {}
            }
            // Another of its keys may hold the wrong type by now. Otherwise the other keys hold no data
            // for it and are not latched. A key whose latch is taken is not examined either.
            if waiter.had_other_type() {
                self.latches.latch_free_too(self.data, &request.waited);
            }
            if let Some(reply) = self.run_again(&waiter, request) {
                waiter.wait.served();
                self.data.remove_served(&waiter);
                // The effects so far, its own included, precede the reply. A deferred serve shows earlier changes, too.
                self.data.log_effects();
                let lsn = self.data.shown_lsn();
                self.post(&waiter, |token, client| Mail::Served(token, client, reply, lsn));
            } else if waiter.wait.put_back() == PutBack::Ended {
                self.data.remove_served(&waiter);
                self.post(&waiter, Mail::Missed);
            }
        }
    }

    fn post(&self, waiter: &Waiter, mail: impl FnOnce(Token, u64) -> Mail) {
        let token = Token(waiter.address());
        self.shared.workers.post(token.thread(), mail(token, waiter.client));
    }

    /// Checks again that the request of a waiter may run: the server may have become a replica, and permissions may have
    /// changed since it began to wait.
    ///
    /// # Errors
    /// The reply, if it may not.
    fn check(&self, waiter: &Waiter, request: &WaitingRequest) -> Result<(), Vec<u8>> {
        let flags = request.found.command.flags;
        if flags.contains(Flags::WRITE) && self.shared.modes.flags.is_set(GlobalFlags::READ_ONLY) {
            return Err(self.refused(request, &CommandError::READ_ONLY));
        }
        let users = &self.shared.users;
        if request.users_version >= users.version() || planted(faults::UNCHECKED_WAITER) {
            return Ok(());
        }
        let users = users.load_full();
        // The user is deleted: the connection is about to be closed.
        let user = users.current(&request.user).ok_or_else(Vec::new)?;
        let (found, args) = (request.found, request.args.args());
        let place = (request.db, self.data.db_count());
        let record = |event: &DenialEvent<'_>| self.shared.record_denial(waiter.client, event);
        user.authorise(found.id, args, place, DenialContext::Toplevel, record)
            .map_err(|denial| self.refused(request, &denial.error(user.name(), CATALOGUE.name(found.id))))
    }

    /// Counts a request as refused. Returns its reply.
    fn refused(&self, request: &WaitingRequest, error: &CommandError) -> Vec<u8> {
        self.shared.monitoring.count_rejected(self.statistics, request.found.id, error.code());
        let mut reply = Vec::new();
        ReplyBuffer::new(&mut reply, request.protocol).error(error.text());
        reply
    }

    /// Runs a waiter's request again. Returns its reply, or `None` if it would block again.
    fn run_again(&mut self, waiter: &Waiter, request: &WaitingRequest) -> Option<Vec<u8>> {
        if let Err(reply) = self.check(waiter, request) {
            return Some(reply);
        }
        let session = &mut self.serve_context.session;
        session.id = waiter.client;
        session.db = request.db;
        session.protocol = request.protocol;
        session.flags = request.flags;
        // Its changes count as made by its own client (`NOLOOP`).
        let client = std::mem::replace(&mut self.data.events.client, waiter.client);
        session.tracking.clone_from(&request.tracking);
        let touch =
            std::mem::replace(&mut self.data.mode.touch, !request.flags.contains(SessionFlags::NO_TOUCH));
        self.data.mode.hides_unheld = true;
        let accepted = self.effects.shared_replies.accept(false);
        let mut out = Vec::new();
        let (args, size) = (request.args.args(), request.size);
        let current = CurrentRequest { found: request.found, args, keys: &request.keys, size, raw: &[] };
        let started = Ticks::now();
        let data = (&mut *self.data, &mut *self.effects);
        let mut ctx = context(data, session, self.config, self.host, self.shared, current);
        let failed = run_handler(
            &mut ctx,
            (&mut out, request.protocol),
            RunFor::Request,
            self.shared,
            self.statistics,
        );
        self.data.mode.hides_unheld = false;
        self.effects.shared_replies.accept(accepted);
        self.data.mode.touch = touch;
        self.data.events.client = client;
        if !failed && self.serve_context.session.blocked.take().is_some() {
            return None;
        }
        let ns = Ticks::now().ns_since(started);
        self.statistics.ran(request.found.id, 1, ns);
        let cost = Cost { ns, reply_size: out.len(), request_size: request.size };
        if command_log::is_wanted(self.config, cost) {
            self.log(waiter, request, cost);
        }
        Some(out)
    }

    /// Writes a served request to the logs that select it, with its own client.
    #[cold]
    fn log(&mut self, waiter: &Waiter, request: &WaitingRequest, cost: Cost) {
        let session = &mut self.serve_context.session;
        if let Some(record) = self.shared.clients.find(waiter.client) {
            session.endpoints = Arc::clone(&record.endpoints);
            session.names.client.clone_from(&record.texts().names.client);
        }
        self.shared.monitoring.log_command(self.config, session, request.found, request.args.args(), cost);
    }
}

impl DeferredServe {
    /// The key, and the slots that are necessary. Another one with these has the same effect.
    #[must_use]
    pub fn aim(&self) -> DeferredAim {
        (Arc::clone(&self.key), self.slots.clone())
    }

    fn new(key: Arc<OwnedKey>, also: &[Slot]) -> Self {
        let slots = distinct(also.iter().copied().chain([key.slot()]).collect());
        Self { key, slots, parked: None }
    }
}

/// Sorts the slots and removes duplicates.
fn distinct(mut slots: Vec<Slot>) -> Vec<Slot> {
    slots.sort_unstable();
    slots.dedup();
    slots
}

/// Returns the arguments with some replaced, given with their indexes, which ascend.
fn with_replaced(args: Args<'_>, replaced: &[(usize, Vec<u8>)]) -> ArgsBuf {
    let mut replaced = replaced.iter().peekable();
    let arg = |(at, arg)| replaced.next_if(|(index, _)| *index == at).map_or(arg, |(_, text)| &text[..]);
    args.iter().enumerate().map(arg).collect()
}
