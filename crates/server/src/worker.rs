//! A worker: a server thread with an event loop and its connections. All workers are equal, except that
//! the first one listens; another one stands in for it while it is in a long turn.
//!
//! Owns its reactor, its connections and its timers. Touches shared state, and other workers by mail
//! only.
//! Invariants:
//! 1. A worker blocks only in its reactor's wait.
//! 2. A connection is in exactly one worker's table, or in transit between two in a [`MovedConnection`].
//!
//! Start reading at [`Worker::run`].

mod arrivals;
mod balancing;
mod caching;
mod connection_table;
mod cron;
mod defragment;
mod encryption;
mod ending;
mod events;
mod expiring;
mod input;
mod links;
mod memory;
mod moving;
mod output;
mod parked;
mod pending;
mod primary;
mod ready;
mod replicas;
mod scaling;
mod starting;
mod waits;

pub use starting::{replay, start};

use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

use base::Millis;
use commands::session::SessionFlags;
use os::clock::{self, Ticks, Uptime};
use reactor::{Event, Reactor};
use sync::atomic::Ordering;
use sync::simulation::planted;

use crate::admin::host::WorkerHost;
use crate::connection::Life;
use crate::connection::client::UnblockReply;
use crate::connection::listeners::Listeners;
use crate::connection::token::Token;
use crate::executor::long_commands::LONG_COMMAND_NS;
use crate::executor::{Executor, Planned, Processed};
use crate::faults;
use crate::mail::{Mail, WorkerHandle};
use crate::monitoring::statistics::WorkerStatistics;
use crate::pubsub::LocalSubscriptions;
use crate::script_runs::{MakeHost, WorkerScripts};
use crate::shared::Shared;
use arrivals::Arrivals;
use connection_table::ConnectionTable;
use cron::Cron;
use encryption::EncryptionWork;
use ending::Ending;
use events::{Events, Taken};
use input::LARGE_INPUT_SIZE;
use links::Links;
use output::WorkerOutput;
use primary::PrimaryConnection;
use replicas::OwnReplicas;
use scaling::Scaling;
use waits::Waits;

/// Maximum wait without checking the timers, in microseconds.
const WAIT_US_MAX: u64 = 1_000_000;

/// A worker.
pub struct Worker {
    index: usize,
    shared: &'static Shared,
    statistics: &'static WorkerStatistics,
    events: Events,
    executor: Executor,
    host: WorkerHost,
    connections: ConnectionTable,
    arrivals: Arrivals,
    waits: Waits,
    output: WorkerOutput,
    encryption: EncryptionWork,
    links: Links,
    primary: PrimaryConnection,
    replicas: OwnReplicas,
    clock: Clock,
    cron: Cron,
    scaling: Scaling,
    ending: Ending,
}

/// The time as of the beginning of the turn.
#[derive(Default)]
struct Clock {
    /// Unix time.
    now: Millis,
    /// Monotonic time, used by all timers.
    uptime: Uptime,
    next_tick: Uptime,
    /// When the turn began to handle its events.
    turn_began: Option<Ticks>,
}

impl Worker {
    /// Returns a worker in its handle, ready to run on the calling thread.
    pub fn new(index: usize, shared: &'static Shared, reactor: Reactor, listeners: Listeners) -> Self {
        let handle = shared.workers.handle(index);
        let subscriptions = Rc::new(LocalSubscriptions::new(index, shared.hub, handle));
        let seed = clock::unix_micros() as u64 ^ (index as u64) << 48 ^ 0x5DEE_CE66_D1CE_4E5B;
        let of_scripts = Rc::clone(&subscriptions);
        let make_host: MakeHost =
            Box::new(move || Box::new(WorkerHost::of_script(shared, index, Rc::clone(&of_scripts))));
        let scripts = WorkerScripts::new(shared, index, make_host, true);
        let own = Rc::clone(&subscriptions);
        let mut executor = Executor::new(shared, index, seed, own, Rc::clone(&scripts));
        assert!(executor.latching.join_epochs(), "a handle for each thread");
        assert!(executor.latching.join_log(), "a lane for each thread, and for one that is ending");
        Self {
            index,
            shared,
            statistics: shared.monitoring.statistics.thread(index),
            events: Events::new(reactor),
            executor,
            host: WorkerHost::new(shared, index, subscriptions, scripts),
            connections: ConnectionTable::new(index, handle),
            arrivals: Arrivals::new(listeners),
            waits: Waits::default(),
            output: WorkerOutput::default(),
            encryption: EncryptionWork::default(),
            links: Links::default(),
            primary: PrimaryConnection::default(),
            replicas: OwnReplicas::default(),
            clock: Clock {
                now: Millis(clock::unix_millis()),
                uptime: Uptime::now(),
                next_tick: Uptime::default(),
                turn_began: None,
            },
            cron: Cron::new(index),
            scaling: Scaling::new(),
            ending: Ending::default(),
        }
    }

    fn own_handle(&self) -> &'static WorkerHandle {
        self.shared.workers.handle(self.index)
    }

    /// Serves until the worker is to retire or stop, and no output remains.
    pub fn run(mut self) {
        self.arrivals.listeners.listen(&mut self.events.reactor);
        self.shared.hub.follow_config(&self.executor.settings.config);
        self.set_time(Ticks::now());
        // The server began to stop before this handle was occupied.
        if self.shared.modes.is_stopping() {
            self.stop();
        }
        while self.turn().is_continue() {}
    }

    /// Waits for events and handles them. Breaks when this worker has no work left and must end.
    fn turn(&mut self) -> ControlFlow<()> {
        if self.may_end() {
            return ControlFlow::Break(());
        }
        self.statistics.turn.since_ms.set(0);
        self.wait();
        self.shared.modes.await_stall();
        let started = Ticks::now();
        self.set_time(started);
        self.clock.turn_began = Some(started);
        self.statistics.turn.since_ms.set(self.clock.uptime.to_raw() as u64);
        let commands_before = self.statistics.commands_processed.value();
        self.executor.budget.begin_turn();
        self.update_dormancy();
        self.read_mail();
        // Later barrier requests concern events after this turn.
        let barrier_counts = self.waits.barrier_counts();
        while let Some(taken) = self.next_event() {
            // Messages published before these bytes were sent precede their replies.
            self.read_mail();
            self.handle(taken);
        }
        self.show_unsent();
        self.work_after_events();
        self.end_waits();
        self.acknowledge_if_asked();
        self.check_links();
        if self.clock.uptime > self.cron.reclaimed_at {
            self.cron.reclaimed_at = self.clock.uptime;
            self.shared.keyspace.reclaim(&mut self.cron.retired);
        }
        if self.waits.parked.is_due(started) {
            self.waits.parked.look(&self.connections, &self.executor.latching);
        }
        if self.cron.next_look.is_some_and(|at| self.clock.uptime >= at) {
            self.do_first_workers_work();
        }
        if self.clock.uptime >= self.clock.next_tick {
            self.clock.next_tick = self.clock.uptime.plus_ms(self.tick_ms());
            let before = Ticks::now();
            self.tick();
            self.statistics.turn.cron_ns.add(Ticks::now().ns_since(before));
        }
        self.work_after_timers();
        // Waiters that this worker serves receive their replies in this turn.
        self.broadcast();
        if !self.output.after_reply.is_empty() {
            self.invalidate_after_replies();
        }
        self.executor.publish_log();
        if !self.waits.for_disk.is_empty() {
            self.end_disk_waits();
        }
        if !self.waits.for_replicas.is_empty() {
            self.end_replica_waits();
        }
        // Connections whose wait has ended may have gone on.
        self.executor.publish_log();
        self.send_to_replicas();
        self.flush_dirty();
        self.pause_waiting_input();
        if self.scaling.has_leaving() {
            self.move_leaving();
        }
        if barrier_counts != (0, 0) {
            self.answer_barriers(barrier_counts);
        }
        let ended = Ticks::now();
        self.scale(ended);
        let spent_ns = ended.ns_since(started);
        self.statistics.turn.count.add(1);
        self.statistics.turn.busy_ns.add(spent_ns);
        self.statistics.turn.ns_max.raise(spent_ns);
        self.statistics
            .turn
            .commands_max
            .raise(self.statistics.commands_processed.value().saturating_sub(commands_before));
        self.executor.latching.quiescent();
        ControlFlow::Continue(())
    }

    /// Waits for events, mail or the next timer.
    fn wait(&mut self) {
        let mut timeout = Some(Duration::ZERO);
        let sleeps = !self.has_work() && self.own_handle().mailbox().prepare_sleep();
        if sleeps {
            let deadline = self.waits.deadlines.first().map(|(at, _)| at.plus_ms(1));
            let timers = [deadline, self.cron.next_look, self.links.next_check()].into_iter().flatten();
            let (next, now) = (timers.fold(self.clock.next_tick, Ord::min), Ticks::now());
            let look_us =
                self.waits.parked.next_look.map_or(WAIT_US_MAX, |at| at.ns_since(now).div_ceil(1_000));
            timeout = Some(Duration::from_micros(next.us_since(now).min(look_us).min(WAIT_US_MAX)));
            self.executor.latching.offline();
        }
        let waited = self.events.reactor.wait(timeout);
        if sleeps {
            self.executor.latching.online();
            self.own_handle().mailbox().awake();
        }
        if let Err(error) = waited {
            panic!("the event loop of thread {} can't continue: {error}", self.index);
        }
    }

    fn set_time(&mut self, started: Ticks) {
        self.clock.now = Millis(clock::unix_millis());
        self.clock.uptime =
            if planted(faults::WALL_TIMERS) { Uptime::from_raw(self.clock.now.0) } else { started.uptime() };
        self.executor.set_time(self.clock.now, started);
    }

    /// The current time of the monotonic clock; `clock.uptime` is that of the start of the turn.
    fn uptime(&self) -> Uptime {
        if planted(faults::WALL_TIMERS) { self.clock.uptime } else { Ticks::now().uptime() }
    }

    fn read_mail(&mut self) {
        if !self.host.subscriptions.has_mail() {
            return;
        }
        self.host.subscriptions.fetch();
        while let Some((number, mail)) = self.host.subscriptions.next() {
            self.handle_mail(number, mail);
        }
        if !self.output.after_reply.is_empty() {
            self.invalidate_after_replies();
        }
    }

    fn handle_mail(&mut self, number: u64, mail: Mail) {
        match mail {
            Mail::Accepted(socket, origin) => {
                self.own_handle().connection_arrived();
                self.begin_serving(socket, origin);
            }
            Mail::Primary(stream) => self.begin_applying(*stream),
            Mail::Moved(moved) => self.take_over(*moved, number),
            Mail::Resume(token) => self.resume(token),
            Mail::Kill(token, id) => self.kill(token, id),
            Mail::Evict { connection, client, size } => self.evict(connection, client, size),
            Mail::Relisten(change) => self.arrivals.listeners.change(change, &mut self.events.reactor),
            Mail::BarrierRequest(request) => self.waits.barrier_requests.push(request),
            Mail::PauseRequest(request) => self.waits.pause_requests.push(request),
            Mail::BarrierAck { request, thread } => self.barrier_acknowledged(request, thread),
            Mail::Served(..) | Mail::Missed(..) | Mail::Unblock(..) | Mail::Answered(..) => {
                self.handle_end_of_wait(mail)
            }
            Mail::Link(mail) => self.handle_link_mail(mail),
            Mail::PauseChanged => self.end_pause(),
            Mail::ConfigChanged => self.apply_config(),
            Mail::UsersChanged => self.apply_users(),
            Mail::ReleaseFreeMemory => self.release_free_memory(),
            Mail::Monitor(line) => self.send_to_monitors(&line),
            Mail::Published(message) => self.deliver(number, &message),
            Mail::Invalidated(invalidation) => self.invalidate(*invalidation),
            Mail::Broadcast(broadcast) => self.deliver_broadcast(number, &broadcast),
            Mail::InvalidatedAll => self.invalidate_all(number),
            // Each turn checks the held replies.
            Mail::Durable | Mail::Nothing => {}
            Mail::ThreadCountChanged => self.apply_thread_count(),
            Mail::Stop => self.stop(),
        }
    }

    fn handle(&mut self, taken: Taken) {
        match taken.event {
            event if links::concerns_link(&event) => self.handle_link_event(event),
            Event::Accepted { listener, socket, peer } => {
                self.arrivals.arrived(listener, socket, peer);
            }
            // A listener shut down by another worker, about to be closed.
            Event::AcceptError { error, .. } if error.kind() == std::io::ErrorKind::InvalidInput => {}
            Event::AcceptError { error, .. } => log::warn!("Error accepting a client connection: {error}"),
            Event::Received { token, mut data, .. } => {
                match taken.is_encrypted {
                    false => self.received(Token(token), &data, taken.planned),
                    true => self.received_encrypted(Token(token), &mut data),
                }
                self.events.reactor.recycle(data);
            }
            Event::Eof { token, .. } => self.reached_end(Token(token)),
            Event::HungUp { token, .. } => self.hung_up(Token(token)),
            Event::Sent { token, buffer, .. } => self.sent(Token(token), buffer),
            Event::Closed { token, .. } => self.remove(Token(token)),
            Event::Detached { token, socket, unsent, unread, .. } => {
                self.hand_over(Token(token), socket, unsent, unread);
            }
            // Of links only.
            Event::Connected { .. } | Event::Woken => {}
        }
    }

    /// Handles received bytes: executes complete requests, keeps the rest.
    fn received(&mut self, token: Token, data: &[u8], planned: Option<Box<Planned>>) {
        self.statistics.sockets.reads.add(1);
        self.statistics.sockets.received_bytes.add(data.len() as u64);
        let Some(connection) = self.connections.find_mut(token) else {
            return;
        };
        connection.record.received_bytes.add(data.len() as u64);
        connection.input.is_within_request = false;
        let waits =
            connection.sending.pauses_requests || connection.input.has_more || connection.is_waiting();
        if waits
            || data.len() >= LARGE_INPUT_SIZE
                && input::must_yield(connection, data.len(), &mut self.waits, &self.clock)
        {
            return self.keep_waiting_input(token, data);
        }
        if !connection.input.query.is_empty() {
            connection.keep_input(data);
            self.run_query(token);
            return;
        }
        let (done, processed) = self.executor.process(&mut connection.client, data, planned, &self.host);
        if done < data.len() {
            connection.keep_input(&data[done..]);
        }
        self.after_input(token, processed);
    }

    /// Executes the complete requests in the connection's own input.
    fn run_query(&mut self, token: Token) {
        let Some(connection) = self.connections.find_mut(token) else {
            return;
        };
        if connection.is_waiting() {
            // The end of its wait continues.
            connection.input.has_more = false;
            return;
        }
        let query = std::mem::take(&mut connection.input.query);
        let (done, processed) = self.executor.process(&mut connection.client, &query, None, &self.host);
        connection.take_query_back(query, done);
        if processed != Processed::Yielded {
            connection.input.release_query(self.executor.settings.query_size_kept_max);
        }
        self.after_input(token, processed);
    }

    /// Follows the execution: registers the connection's wait, and its output for sending.
    fn after_input(&mut self, token: Token, processed: Processed) {
        let Some(connection) = self.connections.find_mut(token) else {
            return;
        };
        connection.record.active_at.store(self.clock.uptime.to_raw(), Ordering::Relaxed);
        self.statistics.memory.unsent.add(connection.client.replies.passing_bytes());
        self.statistics.memory.current_reply.set(0);
        connection.input.has_more = processed == Processed::Yielded;
        let took_long = connection.client.recent_time.take_longest() >= LONG_COMMAND_NS;
        let input_passes = connection.input.has_more || connection.input.passing_size > 0;
        match processed {
            Processed::Everything => {
                if connection.input.at_eof {
                    connection.close();
                }
                if !connection.input.query.is_empty() || connection.client.session.multi.is_some() {
                    self.check_query_size(token);
                }
            }
            Processed::Closing => {
                connection.close();
            }
            Processed::Yielded => {
                let has_transaction = connection.client.session.multi.is_some();
                let is_expected_long = connection.client.attempt.was_expected_long;
                if connection.may_continue() && !(is_expected_long && self.isolate(token)) {
                    self.waits.ready.push(token);
                }
                if has_transaction {
                    self.check_query_size(token);
                }
            }
            Processed::Waiting => {
                self.waits.parked.note(&connection.client);
                self.start_waiting(token);
            }
        }
        if took_long && !self.waited_for_cpu() {
            self.shared.pool.note_long_command(self.clock.uptime);
            self.isolate(token);
        }
        self.resume_input(token, processed);
        if input_passes {
            self.note_passing_input(token);
        }
        self.update_record(token);
        self.output.dirty.push(token);
    }

    /// Resumes a session, which may claim the latch it waits for.
    fn resume(&mut self, token: Token) {
        if let Some(number) = token.deferred_number() {
            return self.resume_deferred(number);
        }
        let Some(connection) = self.connections.find_mut(token) else {
            return;
        };
        if connection.client.awaits_log() {
            return self.end_wait(token, UnblockReply::Timeout);
        }
        let Some(parked) = connection.client.wait.take_parked() else { return };
        let latching = &mut self.executor.latching;
        latching.restore(parked.held);
        if latching.claim(parked.busy, token.0) {
            self.run_query(token);
            // A connection that is being closed runs no further request.
            self.executor.latching.release();
        } else {
            connection.client.wait.park(latching.keep(), parked.busy);
            self.waits.parked.note(&connection.client);
        }
    }

    /// Handles the end of input: requests sent before are executed and answered, then the connection is closed.
    fn reached_end(&mut self, token: Token) {
        // A connection that is being moved gets this event again at its new worker.
        let Some(connection) = self.connections.find_mut(token).filter(|connection| !connection.is_moving())
        else {
            return;
        };
        connection.input.at_eof = true;
        if connection.encryption.as_ref().is_some_and(|encryption| encryption.awaits_step) {
            return;
        }
        // Requests sent before are executed first: these waits end soon.
        let ends_soon = connection.client.waits_briefly() || connection.input.has_more;
        if connection.client.wait.parked().is_some() || ends_soon {
            return;
        }
        self.cancel_wait(token);
        let Some(connection) = self.connections.find_mut(token) else { return };
        connection.close();
        self.output.dirty.push(token);
    }

    /// Removes a closed connection with all its state.
    fn remove(&mut self, token: Token) {
        let Some(connection) = self.connections.find_mut(token) else { return };
        connection.input.has_more = false;
        self.note_passing_input(token);
        self.cancel_wait(token);
        self.deregister(token);
        let Some(mut connection) = self.connections.remove(token) else { return };
        encryption::note_abandoned_handshake(&connection, &self.shared.certificates);
        if let Some(parked) = connection.client.wait.take_parked() {
            self.executor.latching.cancel(parked.busy, token.0);
        }
        self.statistics.memory.clients.subtract(connection.release());
        self.note_end_of_replica(connection.replica.take());
        if let Life::Closing(closing) = connection.life {
            self.statistics.memory.closing.subtract(closing.charge);
        }
    }

    /// Deregisters a connection that is about to be closed: other workers no longer find it, and no count includes it.
    fn deregister(&mut self, token: Token) {
        let Some(connection) = self.connections.find_mut(token) else {
            return;
        };
        self.shared.clients.remove(connection.client.session.id);
        self.end_services(token);
    }

    /// Ends what the server does for a connection that runs no further request: it gets no more messages.
    pub(super) fn end_services(&mut self, token: Token) {
        self.note_end_of_primary(token);
        let Some(connection) = self.connections.find_mut(token) else { return };
        self.host.remove(&connection.client.session);
        connection.client.session.flags.remove(SessionFlags::MONITOR);
        if connection.client.session.redirects() {
            self.shared.hub.set_redirection(connection.client.session.id, None);
        }
        if let Some(watching) = connection.client.session.watching.take() {
            self.executor.latching.end_watches(*watching);
        }
        if let Some(subscriptions) = connection.client.session.subscriptions.take() {
            self.host.subscriptions.remove(token, &subscriptions);
            if connection.client.session.broadcasts() {
                self.shared.update_workers();
            }
        }
        connection.publish_session();
    }

    /// Checks every connection after a change of the users: closes those whose user is deleted, or that have a subscription
    /// that they may no longer have.
    fn apply_users(&mut self) {
        self.executor.follow_config();
        for token in self.connections.tokens() {
            self.apply_users_to(token);
        }
    }

    fn apply_users_to(&mut self, token: Token) {
        let Some(connection) = self.connections.find_mut(token).filter(|connection| !connection.is_closing())
        else {
            return;
        };
        if !self.executor.follow_users(&mut connection.client.session) {
            return;
        }
        if planted(faults::KEPT_SUBSCRIBER) && connection.client.session.login.is_authenticated {
            connection.client.session.flags.remove(SessionFlags::CLOSE_AFTER_REPLY | SessionFlags::REVOKED);
            return;
        }
        let holds_output =
            connection.is_waiting() || connection.client.holds_replies() || connection.sending.awaits_disk;
        if holds_output || connection.sending.pauses_requests || connection.is_moving() {
            return self.close_now(token);
        }
        // Messages that were published before the change are counted as received, so they are sent. A client that
        // does not read them is closed later: see `Closing::by`.
        connection.close();
        self.flush(token);
    }

    fn apply_config(&mut self) {
        self.executor.apply_config();
        self.shared.hub.follow_config(&self.executor.settings.config);
        self.set_time(Ticks::now());
    }
}
