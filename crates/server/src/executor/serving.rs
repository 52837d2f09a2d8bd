//! Blocked requests: beginning to wait for keys, and being served by the writer that changes one of them.
//!
//! A request that finds no data is added to the queues of its keys while their latches are held
//! ([`Executor::begin_wait`]). A writer that changes such a key serves its waiters before it releases the
//! latches: in order of arrival, each waiter is claimed and its own request is run again, with a serve
//! context in place of its session. The reply goes to the waiter's worker by mail. So each command has
//! one implementation, and no other client sees data that a waiter takes.
//!
//! Touches the view with the writer's latches, and other workers by mail. Invariants:
//! 1. A waiter's request runs only while its claim is held.
//! 2. When the latches are released, each ready key is served, or is in a [`DeferredServe`].
//!
//! **Deferred serves.** A serve that is impossible now (a destination's slot is latched, another writer
//! is serving the waiter, a key expired outside of serving) is done later by the same worker, which then
//! acquires all necessary latches in order, as any command does.

use std::sync::Arc;

use base::{DbIndex, Millis, Slot};
use commands::context::{Ctx, Effects, PlannedKey};
use commands::host::Host;
use commands::reply::Reply;
use commands::session::{BlockReason, Session, SessionFlags};
use commands::table::Found;
use commands::tracking::Tracking;
use config::Config;
use keyspace::{Busy, OwnedKey, View, Waiter, slot_of_hash};
use os::clock::Ticks;
use sync::{Mode, PutBack, TryServe};
use wire::reply::{Protocol, ReplyBuffer};
use wire::request::{Args, ArgsBuf};

use super::{Asked, Executor};
use crate::command_log::{self, Cost};
use crate::connection::{Connection, ParkedCommand, Token};
use crate::mail::Mail;
use crate::shared::Shared;
use crate::statistics::ThreadStatistics;

/// A request that waits, with the data necessary to run it again.
struct WaitingRequest {
    found: Found,
    args: ArgsBuf,
    keys: Vec<PlannedKey>,
    /// Slots that it writes besides those of its awaited keys.
    also: Vec<Slot>,
    /// Slots of the awaited keys, if there are several. Ascending, each once.
    waited: Vec<Slot>,
    db: DbIndex,
    protocol: Protocol,
    flags: SessionFlags,
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
    pub parked: Option<ParkedCommand>,
}

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
        let session = Session::new(0, String::new(), String::new(), Millis(0), false);
        Self { session, deferred_serves: Vec::new() }
    }
}

/// All state that serving touches, borrowed from the executor that has just run a command.
pub(super) struct Serving<'a> {
    pub(super) view: &'a mut View<'static>,
    pub(super) effects: &'a mut Effects,
    pub(super) config: &'a Config,
    pub(super) host: &'a dyn Host,
    pub(super) shared: &'static Shared,
    pub(super) statistics: &'static ThreadStatistics,
    pub(super) serve_context: &'a mut ServeContext,
}

/// Whether a blocking request could begin to wait.
pub(super) enum BeginWait {
    Begun,
    /// Its slots are latched for reading, but adding to the queues is a write.
    NeedsWriting,
}

impl Executor {
    /// Adds a blocking request to the queues of its keys, which are still latched.
    #[cold]
    pub(super) fn begin_wait(&mut self, connection: &mut Connection, asked: Asked<'_>) -> BeginWait {
        let Asked { found, args, keys, size } = asked;
        let session = &connection.session;
        let (id, address) = (session.id, connection.token.0);
        let waiter = match session.blocked.as_ref().map(|blocked| &blocked.reason) {
            None
            | Some(
                BlockReason::Pause
                | BlockReason::Congestion
                | BlockReason::Turns
                | BlockReason::Barrier
                | BlockReason::Shutdown,
            ) => {
                return BeginWait::Begun;
            }
            Some(BlockReason::Replicas { .. } | BlockReason::Disk) => Waiter::without_keys(id, address),
            Some(BlockReason::Keys(wait)) => {
                let key = |planned: &PlannedKey| planned.key(args, session.db);
                let waited = &keys[wait.keys.clone()];
                if !self.view.may_enlist(waited.iter().map(key)) {
                    return BeginWait::NeedsWriting;
                }
                let is_other = |index: &usize| !wait.keys.contains(index);
                let others = (0..keys.len()).filter(is_other);
                let request = WaitingRequest {
                    found,
                    args: with_replaced(args, &wait.replaced),
                    keys: keys.to_vec(),
                    waited: match waited {
                        [_] => Vec::new(),
                        several => distinct(several.iter().map(|key| slot_of_hash(key.hash)).collect()),
                    },
                    also: others.map(|index| slot_of_hash(keys[index].hash)).collect(),
                    db: session.db,
                    protocol: session.protocol,
                    flags: session.flags & SessionFlags::NO_TOUCH,
                    size,
                    tracking: session.tracking.clone().filter(|_| !session.broadcasts()),
                };
                self.view.enlist(waited.iter().map(key), wait.needs, id, address, Box::new(request))
            }
        };
        let unheard = SessionFlags::REPLY_OFF | SessionFlags::REPLY_SKIP;
        connection.is_muted = connection.session.flags.intersects(unheard);
        connection.record.set_waiter(Some(Arc::clone(&waiter)));
        connection.waiter = Some(waiter);
        BeginWait::Begun
    }

    /// Serves the waiters of the keys that the command changed, under its latches.
    #[cold]
    pub(super) fn serve_ready(&mut self, host: &dyn Host) {
        let mut serving = Serving {
            view: &mut self.view,
            effects: &mut self.effects,
            config: &self.config,
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
    pub fn count_waited(
        &mut self,
        connection: &mut Connection,
        waiter: Option<&Waiter>,
        error: Option<&str>,
    ) {
        let Some(id) = connection.session.last_command else { return };
        connection.session.command_count += 1;
        self.statistics.commands_processed.add(1);
        let ns = std::mem::take(&mut connection.waited_ns);
        let statistics = self.statistics.command(id);
        self.statistics.ran(id, 1, ns);
        if let Some(code) = error {
            statistics.rejected.add(1);
            self.statistics.errors.add(1);
            self.shared.errors.count(code);
        }
        if let Some(request) = waiter.and_then(|waiter| waiter.request.downcast_ref::<WaitingRequest>()) {
            let cost = Cost { ns, reply_size: 0, request_size: request.size };
            if command_log::is_wanted(&self.config, cost) {
                self.log_command(connection, request.found, request.args.args(), cost);
            }
        }
    }

    /// Takes the deferred serves, including those for keys that became ready outside of serving.
    pub fn take_deferred(&mut self) -> Vec<DeferredServe> {
        debug_assert!(self.view.holds_nothing());
        while let Some(key) = self.view.take_ready() {
            self.serve_context.deferred_serves.push(DeferredServe::new(key, &[]));
        }
        std::mem::take(&mut self.serve_context.deferred_serves)
    }

    /// Whether there are deferred serves.
    #[inline]
    pub fn has_errands(&self) -> bool {
        self.view.has_ready() || !self.serve_context.deferred_serves.is_empty()
    }

    /// Runs a deferred serve with the latches that it has, or parks it for the next latch under the name
    /// `token`. While writes are paused it has none.
    pub fn run_deferred(
        &mut self,
        deferred: &mut DeferredServe,
        token: Token,
        host: &dyn Host,
    ) -> DeferredStep {
        if let Some(parked) = deferred.parked.take() {
            self.view.restore(parked.kept);
            if !self.view.claim(parked.busy, token.0) {
                deferred.parked = Some(ParkedCommand { kept: self.view.keep(), busy: parked.busy });
                return DeferredStep::Parked;
            }
        }
        if self.shared.pauses_writes() {
            self.view.release();
            return DeferredStep::Paused;
        }
        while let Err(busy) = self.latch_deferred(deferred) {
            if !self.view.park(busy, Mode::Write, token.0) {
                deferred.parked = Some(ParkedCommand { kept: self.view.keep(), busy });
                return DeferredStep::Parked;
            }
        }
        self.view.note_ready(&deferred.key);
        self.serve_ready(host);
        self.view.release();
        if self.effects.dirty > 0 {
            self.view.counters.dirty.add(std::mem::take(&mut self.effects.dirty));
        }
        DeferredStep::Done
    }

    fn latch_deferred(&mut self, deferred: &DeferredServe) -> Result<(), Busy> {
        self.view.latch_several(deferred.slots.iter().copied(), Mode::Write)
    }
}

impl Serving<'_> {
    /// Serves every ready key, and the keys that become ready by that. Uses the current time: the command
    /// may have taken so long that the keys have expired.
    pub(super) fn serve_ready(&mut self) {
        self.view.now = self.view.now.max(Millis(os::clock::unix_millis()));
        while let Some(key) = self.view.take_ready() {
            if self.view.may_enlist(std::iter::once(key.key())) {
                self.serve_key(&key);
            } else {
                self.serve_context.deferred_serves.push(DeferredServe::new(key, &[]));
            }
        }
    }

    /// Serves the waiters of a key in order of arrival, while it has data for them.
    fn serve_key(&mut self, key: &Arc<OwnedKey>) {
        let mut place = 0;
        while let Some(waiter) = self.view.next_waiter(key.key(), &mut place) {
            let Some(request) = waiter.request.downcast_ref::<WaitingRequest>() else {
                unreachable!("everybody who waits for a key is entered by `begin_wait`");
            };
            if !request.also.iter().all(|slot| self.view.try_latch_extra(*slot)) {
                // Later waiters must not overtake: the data remains for the first.
                self.serve_context.deferred_serves.push(DeferredServe::new(Arc::clone(key), &request.also));
                return;
            }
            match waiter.wait.try_serve() {
                TryServe::Over => continue,
                TryServe::BeingServed => {
                    // Another writer is serving it with another key, perhaps in vain: then it must not miss this one.
                    self.serve_context
                        .deferred_serves
                        .push(DeferredServe::new(Arc::clone(key), &request.also));
                    place += 1;
                    continue;
                }
                TryServe::Claimed => {}
            }
            // Another of its keys may hold the wrong type by now. Otherwise the other keys hold no data
            // for it and are not latched. A key whose latch is taken is not examined either.
            if waiter.has_met_other() {
                self.view.latch_free_too(&request.waited);
            }
            if let Some(reply) = self.run_again(&waiter, request) {
                waiter.wait.served();
                self.view.dismiss(&waiter);
                self.post(&waiter, |token, client| Mail::Served(token, client, reply));
            } else {
                place += 1;
                if waiter.wait.put_back() == PutBack::Ended {
                    self.view.dismiss(&waiter);
                    self.post(&waiter, Mail::Missed);
                }
            }
        }
    }

    fn post(&self, waiter: &Waiter, mail: impl FnOnce(Token, u64) -> Mail) {
        let token = Token(waiter.address());
        self.shared.workers.post(token.thread(), mail(token, waiter.client));
    }

    /// Runs a waiter's request again. Returns its reply, or `None` if it would block again.
    fn run_again(&mut self, waiter: &Waiter, request: &WaitingRequest) -> Option<Vec<u8>> {
        let session = &mut self.serve_context.session;
        session.id = waiter.client;
        session.db = request.db;
        session.protocol = request.protocol;
        session.flags = request.flags;
        // Its changes count as made by its own client (`NOLOOP`).
        let client = std::mem::replace(&mut self.view.client, waiter.client);
        session.tracking.clone_from(&request.tracking);
        let touch = std::mem::replace(&mut self.view.touch, !request.flags.contains(SessionFlags::NO_TOUCH));
        self.view.hides_unheld = true;
        let accepted = self.effects.lending.accept(false);
        let mut out = Vec::new();
        let args = request.args.args();
        let started = Ticks::now();
        let result = {
            let mut ctx = Ctx {
                data: &mut *self.view,
                session,
                config: self.config,
                host: self.host,
                command: request.found.command,
                planned: &request.keys,
                args,
                effects: &mut *self.effects,
                hasher: self.shared.keyspace.hasher(),
            };
            let reply = Reply::new(ReplyBuffer::new(&mut out, request.protocol));
            let result = (request.found.command.run)(&mut ctx, args, reply);
            if ctx.session.tracking.is_some() {
                ctx.remember_reads();
            }
            result
        };
        self.view.hides_unheld = false;
        self.effects.lending.accept(accepted);
        self.view.touch = touch;
        self.view.client = client;
        if result.is_ok() && self.serve_context.session.blocked.take().is_some() {
            return None;
        }
        let ns = Ticks::now().ns_since(started);
        let statistics = self.statistics.command(request.found.id);
        self.statistics.ran(request.found.id, 1, ns);
        self.statistics.commands_processed.add(1);
        if let Err(error) = result {
            out.clear();
            ReplyBuffer::new(&mut out, request.protocol).error(error.text());
            statistics.failed.add(1);
            self.statistics.errors.add(1);
            self.shared.errors.count(error.code());
        }
        let cost = Cost { ns, reply_size: out.len(), request_size: request.size };
        if command_log::is_wanted(self.config, cost) {
            self.log(waiter, request, cost);
        }
        Some(out)
    }

    /// Writes a served request to the logs that want it, under its client's name.
    #[cold]
    fn log(&mut self, waiter: &Waiter, request: &WaitingRequest, cost: Cost) {
        let session = &mut self.serve_context.session;
        if let Some(record) = self.shared.clients.find(waiter.client) {
            session.peer.clone_from(&record.peer);
            session.name.clone_from(&record.texts().name);
        }
        command_log::log(self.shared, self.config, session, request.found, request.args.args(), cost);
    }
}

impl DeferredServe {
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
