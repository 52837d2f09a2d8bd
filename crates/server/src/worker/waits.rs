//! Waiting connections: their deadlines, and the ends of their waits.
//!
//! A wait that a write, `CLIENT UNBLOCK` or `CLIENT KILL` on any worker can end has a
//! [`Waiter`](keyspace::Waiter), which determines the thread that ends it. Other workers end it there and
//! notify this one by mail. This worker ends it at its deadline or when the connection is closed. While another
//! thread is serving it, the end is only requested: mail brings either the reply or the notice that the serve has
//! failed.
//!
//! Invariant: a connection whose `session.blocked` is set is in `deadlines` if the wait has an end, and in `paused` if
//! it waits for the end of a pause.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::Lsn;
use commands::error::CommandError;
use commands::session::{BlockReason, Blocked};
use keyspace::{Latching, Waiter};
use os::clock::Uptime;
use slab::Slab;
use sync::{EndOrRequest, HashSet};
use wire::reply::ReplyBuffer;

use super::Worker;
use super::parked::ParkedConnections;
use crate::connection::Connection;
use crate::connection::client::{Attempt, BlockedRequest, Client, Logged, UnblockReply};
use crate::connection::token::Token;
use crate::executor::{DeferredAim, DeferredServe, DeferredStep, TURNS_TIME_MAX};
use crate::logging;
use crate::mail::{BarrierRequest, Mail};

/// The error of a wait that ends because the server has become a replica, in the words of Valkey.
const ROLE_CHANGED: &[u8] =
    b"UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)";

/// The waits of a worker's connections and deferred serves.
#[derive(Default)]
pub(super) struct Waits {
    /// Connections that wait with a time limit, in the order of its end.
    pub(super) deadlines: BTreeSet<(Uptime, Token)>,
    /// Connections that yielded: they have requests left to run.
    pub(super) ready: Vec<Token>,
    /// Bytes of the buffers of their input.
    pub(super) passing_input_size: usize,
    /// Connections whose waiting input has grown large in this turn.
    pub(super) with_much_input: Vec<Token>,
    /// Connections that wait for the end of a pause.
    paused: Vec<Token>,
    /// Connections that wait for a latch.
    pub(super) parked: ParkedConnections,
    /// Connections that wait until their writes are durable (`WAITAOF`).
    pub(super) for_disk: Vec<Token>,
    /// Connections that wait for acknowledgements of replicas (`WAIT`, `WAITAOF`).
    pub(super) for_replicas: Vec<Token>,
    /// Ended waits that are still in some queues.
    pub(super) lingering: Vec<Arc<Waiter>>,
    /// Mail for connections that are being moved to this worker.
    pub(super) early: Vec<Mail>,
    /// Connections of other workers that wait for the end of this turn, each with the number of its request.
    pub(super) barrier_requests: Vec<BarrierRequest>,
    /// Those that, besides, wait for the end of the scripts that have begun here and may write.
    pub(super) pause_requests: Vec<BarrierRequest>,
    /// The deferred serves that wait for latches.
    pub(super) deferred_serves: Slab<DeferredServe>,
    /// Deferred serves that wait for the end of a pause, without latches.
    pub(super) paused_serves: Vec<DeferredServe>,
    /// The keys and slots of both.
    deferred_aims: HashSet<DeferredAim>,
}

impl Waits {
    /// Registers a client, if it waits. `now`: when its wait begins, unless it has begun.
    fn register(&mut self, client: &mut Client, now: Uptime) {
        let Some(blocked) = &client.session.blocked else { return };
        let token = client.token;
        let wait = client.wait.begin();
        if wait.deadline.is_none() {
            wait.deadline = blocked.timeout.map(|timeout| now.plus(timeout));
        }
        if let Some(waiter) = &wait.waiter {
            waiter.set_address(token.0);
        }
        if blocked.reason == BlockReason::Pause {
            self.paused.push(token);
        }
        if blocked.awaits_disk() {
            self.for_disk.push(token);
        }
        if blocked.awaits_replicas() {
            self.for_replicas.push(token);
        }
        if let Some(deadline) = wait.deadline {
            self.deadlines.insert((deadline, token));
        }
    }

    /// Removes a client from the deadlines.
    pub(super) fn leave_deadlines(&mut self, client: &Client) {
        if let Some(deadline) = client.wait.blocked().and_then(|wait| wait.deadline) {
            self.deadlines.remove(&(deadline, client.token));
        }
    }

    /// The numbers of requests that wait for the end of a turn, of each kind.
    pub(super) fn barrier_counts(&self) -> (usize, usize) {
        (self.barrier_requests.len(), self.pause_requests.len())
    }

    /// Takes the first ones of them.
    fn take_barriers(
        &mut self,
        barrier_count: usize,
        pause_count: usize,
    ) -> impl Iterator<Item = BarrierRequest> {
        let of_pauses = self.pause_requests.drain(..pause_count);
        self.barrier_requests.drain(..barrier_count).chain(of_pauses)
    }

    /// Removes ended waits from queues whose slots were latched before.
    pub(super) fn remove_lingering(&mut self, latching: &mut Latching<'static>) {
        self.lingering.retain(|waiter| !latching.leave(waiter));
    }
}

impl Worker {
    /// Begins the wait of a connection.
    pub(super) fn start_waiting(&mut self, token: Token) {
        let Some(connection) = self.connections.find_mut(token) else { return };
        let is_blocked = connection.client.session.blocked.is_some() && !connection.client.waits_briefly();
        if connection.input.has_ended() && is_blocked {
            // The peer has disconnected.
            connection.close();
            self.cancel_wait(token);
        } else {
            self.wait_on(token);
        }
    }

    /// Records that a worker has answered the barrier request of a connection here.
    pub(super) fn barrier_acknowledged(&mut self, request: BarrierRequest, thread: usize) {
        let token = request.connection;
        let Some(connection) = self.connections.find_mut(token) else { return };
        if !connection.client.awaits_turns() || connection.client.turns.requested != request.number {
            return;
        }
        connection.client.turns.awaited.retain(|awaited| *awaited != thread);
        if connection.client.turns.awaited.is_empty() {
            self.end_wait(token, UnblockReply::Timeout);
        }
    }

    /// Registers a waiting connection in this worker.
    pub(super) fn wait_on(&mut self, token: Token) {
        // Requests before it in this turn may have taken long.
        let uptime = self.uptime();
        if let Some(connection) = self.connections.find_mut(token) {
            self.waits.register(&mut connection.client, uptime);
        }
    }

    /// Ends the waits for the disk of connections whose writes are now durable, or never will be: without an append-only
    /// file.
    pub(super) fn end_disk_waits(&mut self) {
        let _ = self.shared.persistence.append_only.durable.request_wake(self.index);
        let is_on = self.executor.settings.config.appendonly;
        for token in std::mem::take(&mut self.waits.for_disk) {
            let Some(connection) = self.connections.find_mut(token) else { continue };
            let session = &connection.client.session;
            if !session.blocked.as_ref().is_some_and(Blocked::awaits_disk) {
                continue;
            }
            let ends = match session.blocked.as_ref().is_some_and(Blocked::awaits_replicas) {
                _ if !is_on => true,
                true => self.has_acknowledgements(token),
                false => self.shared.persistence.append_only.is_durable(session.write_lsn),
            };
            if ends {
                self.end_wait(token, if is_on { UnblockReply::Timeout } else { UnblockReply::SwitchedOff });
            } else {
                self.waits.for_disk.push(token);
            }
        }
        forget_doubles(&mut self.waits.for_disk);
    }

    /// Ends the waits for replicas that have acknowledged the connections' writes.
    pub(super) fn end_replica_waits(&mut self) {
        // Before they are looked at: a later acknowledgement wakes this worker.
        self.shared.replication.replicas.request_wake(self.index);
        for token in std::mem::take(&mut self.waits.for_replicas) {
            let Some(connection) = self.connections.find_mut(token) else { continue };
            if !connection.client.session.blocked.as_ref().is_some_and(Blocked::awaits_replicas) {
                continue;
            }
            if self.has_acknowledgements(token) {
                self.end_wait(token, UnblockReply::Timeout);
            } else {
                self.waits.for_replicas.push(token);
            }
        }
        forget_doubles(&mut self.waits.for_replicas);
    }

    /// Notes how many acknowledgements a connection's writes have. Returns whether they end its wait.
    fn has_acknowledgements(&mut self, token: Token) -> bool {
        let is_on = self.executor.settings.config.appendonly;
        let Some(connection) = self.connections.find_mut(token) else { return false };
        let session = &mut connection.client.session;
        let (applied, durable) = self.shared.replication.acknowledged_counts(session.write_lsn);
        match session.blocked.as_mut().map(|blocked| &mut blocked.reason) {
            Some(BlockReason::Replicas { wanted, acknowledged }) => {
                *acknowledged = applied;
                applied >= *wanted
            }
            Some(BlockReason::Disk { awaits_local, wanted, is_durable, acknowledged }) => {
                *acknowledged = durable;
                *is_durable = is_on && self.shared.persistence.append_only.is_durable(session.write_lsn);
                durable >= *wanted && (*is_durable || !*awaits_local)
            }
            _ => false,
        }
    }

    /// Ends the waits past their deadline: one millisecond later, so that none ends early.
    pub(super) fn end_waits(&mut self) {
        while let Some((deadline, token)) =
            self.waits.deadlines.first().copied().filter(|(deadline, _)| *deadline < self.clock.uptime)
        {
            self.waits.deadlines.remove(&(deadline, token));
            let _ = self.has_acknowledgements(token);
            if !self.awaits_barrier(token) {
                self.end_wait(token, UnblockReply::Timeout);
            }
        }
    }

    /// Whether a connection must continue to wait for turns of workers that still exist. Ended workers
    /// run nothing and do not answer.
    fn awaits_barrier(&mut self, token: Token) -> bool {
        let (workers, deadline) = (self.shared.workers, self.clock.uptime.plus(TURNS_TIME_MAX));
        let Some(connection) = self.connections.find_mut(token) else { return false };
        if !connection.client.holds_replies() {
            return false;
        }
        connection.client.turns.awaited.retain(|thread| workers.handle(*thread).is_occupied());
        if connection.client.turns.awaited.is_empty() {
            return false;
        }
        connection.client.wait.begin().deadline = Some(deadline);
        self.waits.deadlines.insert((deadline, token));
        true
    }

    /// Ends a connection's wait, unless another thread does.
    pub(super) fn end_wait(&mut self, token: Token, how: UnblockReply) {
        let Some(connection) = self.connections.find_mut(token) else { return };
        match connection.client.wait.waiter().map(|waiter| waiter.wait.end_or_request()) {
            None | Some(EndOrRequest::Ended) => self.finish_wait(token, how),
            Some(EndOrRequest::Requested) => connection.client.wait.begin().end_requested = Some(how),
            // Mail brings the result.
            Some(EndOrRequest::WasOver) => {}
        }
    }

    /// Answers a connection whose wait was ended, and continues with its later requests.
    fn finish_wait(&mut self, token: Token, how: UnblockReply) {
        let ended = self.leave_queues(token);
        let Some(connection) = self.connections.find_mut(token) else {
            return;
        };
        let Some(mut blocked) = connection.client.session.blocked.take() else { return };
        debug_assert!(ended.held_latches.is_none(), "latches are kept until an answer");
        if let BlockReason::Disk { is_durable, .. } = &mut blocked.reason {
            *is_durable = self.executor.settings.config.appendonly
                && self.shared.persistence.append_only.is_durable(connection.client.session.write_lsn);
        }
        if blocked.reason == BlockReason::Turns {
            connection.client.turns.are_over = true;
        }
        let redirection = match how {
            UnblockReply::RoleChange => self.redirection_of(token, &blocked.reason),
            _ => None,
        };
        let Some(connection) = self.connections.find_mut(token) else { return };
        // Requests that wait for another reason run when their wait ends.
        if let BlockReason::Keys(_) | BlockReason::Replicas { .. } | BlockReason::Disk { .. } = blocked.reason
        {
            let code = match how {
                UnblockReply::SwitchedOff => "ERR",
                _ if redirection.is_some() => "REDIRECT",
                _ => "UNBLOCKED",
            };
            let error = (how != UnblockReply::Timeout).then_some(code);
            self.executor.count_waited(&mut connection.client, &ended, error);
        }
        if !ended.is_muted {
            let mut reply =
                ReplyBuffer::new(&mut connection.client.replies.bytes, connection.client.session.protocol);
            match how {
                UnblockReply::Timeout => blocked.write_timeout(&mut reply),
                UnblockReply::Error => reply.error(b"UNBLOCKED client unblocked via CLIENT UNBLOCK"),
                UnblockReply::SwitchedOff => reply.error(CommandError::NO_APPEND_ONLY_FILE.text()),
                UnblockReply::RoleChange => reply.error(redirection.as_deref().unwrap_or(ROLE_CHANGED)),
            }
        }
        if how == UnblockReply::RoleChange && redirection.is_none() {
            connection.close();
            self.output.dirty.push(token);
            return;
        }
        self.continue_requests(token);
    }

    /// The reply to a client that waits for keys and follows redirections, when the server has become a replica.
    fn redirection_of(&self, token: Token, reason: &BlockReason) -> Option<Vec<u8>> {
        let client = &self.connections.find(token)?.client;
        if !client.session.options.follows_redirects || !matches!(reason, BlockReason::Keys(_)) {
            return None;
        }
        let address = self.shared.replication.role.redirection()?;
        Some(format!("REDIRECT {address}").into_bytes())
    }

    /// Sends the reply to a connection that was served.
    fn finish_served(&mut self, token: Token, reply: &[u8], lsn: Lsn) {
        let ended = self.leave_queues(token);
        let Some(connection) = self.connections.find_mut(token) else { return };
        let session = &mut connection.client.session;
        session.reply_lsn = session.reply_lsn.max(lsn);
        // `WAIT` of this client waits for what it was served, too.
        session.write_lsn = session.write_lsn.max(lsn);
        session.blocked = None;
        session.ran.count += 1;
        if !ended.is_muted {
            connection.client.replies.bytes.extend_from_slice(reply);
        }
        self.continue_requests(token);
    }

    /// Sends the reply to a connection that waits for the end of a save, of freeing or of the server, or continues the request of one
    /// that waits for another server.
    fn finish_answered(&mut self, token: Token, reply: &[u8]) {
        let Some(connection) = self.connections.find_mut(token) else { return };
        let waits = |blocked: &Blocked| {
            use BlockReason::{Free, Save, Shutdown, Transfer};
            matches!(blocked.reason, Save | Free | Shutdown | Transfer { .. })
        };
        let Some(blocked) = connection.client.session.blocked.take_if(|blocked| waits(blocked)) else {
            return;
        };
        // The thread that replies may have logged, too.
        connection.client.logged = logging::last_line().map(|line| Logged { line, until: None });
        let ended = self.leave_queues(token);
        let Some(connection) = self.connections.find_mut(token) else { return };
        // A transfer is counted when the request has run again.
        if matches!(blocked.reason, BlockReason::Save | BlockReason::Free) {
            self.executor.count_waited(&mut connection.client, &ended, None);
        }
        if !ended.is_muted {
            connection.client.replies.bytes.extend_from_slice(reply);
        }
        let Some(held) = ended.held_latches else { return self.continue_requests(token) };
        self.executor.latching.restore(held);
        self.continue_requests(token);
        // A connection that is being closed runs nothing any more.
        self.executor.latching.release();
    }

    /// Refuses the parked requests whose latch is held by a script that runs too long, as newcomers are: they run again from
    /// the beginning, and hold nothing meanwhile.
    pub(super) fn refuse_parked(&mut self) {
        let running = &self.shared.scripts.running;
        if running.is_empty() {
            return;
        }
        let threshold_ms = self.executor.settings.config.busy_reply_threshold;
        let is_refused = |connection: &&Connection| {
            let slot = connection.client.wait.parked().map(|parked| parked.busy.0);
            slot.is_some_and(|slot| running.busy_in(slot, threshold_ms).is_some())
        };
        let tokens: Vec<Token> =
            self.connections.iter().filter(is_refused).map(|connection| connection.client.token).collect();
        for token in tokens {
            let Some(connection) = self.connections.find_mut(token) else { continue };
            let Some(parked) = connection.client.wait.take_parked() else { continue };
            let parts_ns = connection.client.attempt.parts_ns;
            connection.client.attempt = Attempt { parts_ns, ..Attempt::default() };
            self.executor.latching.cancel(parked.busy, token.0);
            self.executor.latching.restore(parked.held);
            self.executor.latching.release();
            self.continue_requests(token);
            // A connection that is being closed runs no further request.
            self.executor.latching.release();
        }
    }

    /// Answers the requests that have waited for the end of this turn: the first ones of each kind, by their numbers.
    pub(super) fn answer_barriers(&mut self, (barrier_count, pause_count): (usize, usize)) {
        let has_begun = !self.ending.is_stopping && self.executor.has_begun_writing_scripts();
        let pause_count = if has_begun { 0 } else { pause_count };
        for request in self.waits.take_barriers(barrier_count, pause_count) {
            match request.connection {
                Token::FAILOVER => self.shared.note_turn_for_failover(request.number, self.index),
                Token::SHUTDOWN => self.shared.note_turn_for_shutdown(request.number, self.index),
                Token::ROLE => self.shared.replication.role.note_turn(request.number, self.index),
                connection => {
                    let answer = Mail::BarrierAck { request, thread: self.index };
                    self.shared.workers.post(connection.thread(), answer);
                }
            }
        }
    }

    fn continue_requests(&mut self, token: Token) {
        self.output.dirty.push(token);
        self.update_record(token);
        self.run_query(token);
    }

    /// Ends the wait of a connection that is being closed.
    pub(super) fn cancel_wait(&mut self, token: Token) {
        if let Some(waiter) =
            self.connections.find(token).and_then(|connection| connection.client.wait.waiter())
        {
            // A thread that is serving it finds the wait ended.
            let _ = waiter.wait.end_or_request();
        }
        self.leave_queues(token);
        if let Some(connection) = self.connections.find_mut(token) {
            connection.client.session.blocked = None;
            if connection.client.session.unfinished.is_some() {
                self.executor.abandon_script(&mut connection.client.session);
            }
        }
    }

    /// Removes a connection whose wait has ended from the deadlines and the queues of its keys. Returns what has waited.
    fn leave_queues(&mut self, token: Token) -> BlockedRequest {
        let Some(connection) = self.connections.find_mut(token) else { return BlockedRequest::default() };
        self.waits.leave_deadlines(&connection.client);
        let ended = connection.client.wait.take_blocked().unwrap_or_default();
        if let Some(waiter) = &ended.waiter {
            connection.record.set_waiter(None);
            // The writer that served it removed it from the queue of that key.
            if !self.executor.latching.leave(waiter) {
                self.waits.lingering.push(Arc::clone(waiter));
            }
        }
        ended
    }

    /// Handles a change of `CLIENT PAUSE`: requests that wait for its end try again, and wait again if they must.
    pub(super) fn end_pause(&mut self) {
        for token in std::mem::take(&mut self.waits.paused) {
            let is_paused =
                |connection: &&mut Connection| connection.client.block_reason() == Some(&BlockReason::Pause);
            if self.connections.find_mut(token).filter(is_paused).is_some() {
                self.end_wait(token, UnblockReply::Timeout);
            }
        }
        self.shared.end_pause_if_over(self.clock.uptime);
        for deferred in std::mem::take(&mut self.waits.paused_serves) {
            let number = self.waits.deferred_serves.insert(deferred);
            self.resume_deferred(number);
        }
    }

    /// Handles mail about the end of a wait, which follows a moved connection.
    pub(super) fn handle_end_of_wait(&mut self, mail: Mail) {
        let (Mail::Served(token, id, ..)
        | Mail::Missed(token, id)
        | Mail::Unblock(token, id, _)
        | Mail::Answered(token, id, _)) = &mail
        else {
            return;
        };
        let (token, id) = (*token, *id);
        if self.connections.find_mut(token).is_some_and(|connection| connection.client.session.id == id) {
            return self.end_by_mail(token, mail);
        }
        // The connection is closed, is being moved, or was moved.
        let Some(place) = self.shared.clients.find(id).map(|record| record.place()) else { return };
        if place.thread() != self.index {
            self.shared.workers.post(place.thread(), mail);
        } else if self
            .connections
            .find_mut(place)
            .is_some_and(|connection| connection.client.session.id == id)
        {
            self.end_by_mail(place, mail);
        } else if place == Token::underway(self.index) {
            self.waits.early.push(mail);
        }
    }

    fn end_by_mail(&mut self, token: Token, mail: Mail) {
        if let Mail::Answered(_, _, reply) = mail {
            return self.finish_answered(token, reply);
        }
        // A connection that is being closed has no wait any more.
        let Some(connection) =
            self.connections.find_mut(token).filter(|connection| connection.client.wait.waiter().is_some())
        else {
            return;
        };
        match mail {
            Mail::Served(_, _, reply, lsn) => self.finish_served(token, &reply, lsn),
            Mail::Unblock(_, _, how) => self.finish_wait(token, how),
            _ => {
                if let Some(how) = connection.client.wait.blocked().and_then(|wait| wait.end_requested) {
                    self.finish_wait(token, how);
                }
            }
        }
    }

    /// Handles mail that arrived before its connection did.
    pub(super) fn read_early_mail(&mut self) {
        for mail in std::mem::take(&mut self.waits.early) {
            self.handle_end_of_wait(mail);
        }
    }

    /// Runs the deferred serves.
    pub(super) fn run_deferred(&mut self) {
        for deferred in self.executor.take_deferred() {
            // One that has not run yet will find this change.
            if !self.waits.deferred_aims.insert(deferred.aim()) {
                continue;
            }
            let number = self.waits.deferred_serves.insert(deferred);
            self.resume_deferred(number);
        }
    }

    /// Begins a deferred serve, or continues it when the latch it waits for may be claimed.
    pub(super) fn resume_deferred(&mut self, number: usize) {
        let token = Token::deferred(self.index, number);
        let Some(deferred) = self.waits.deferred_serves.get_mut(number) else { return };
        match self.executor.run_deferred(deferred, token, &self.host) {
            DeferredStep::Done => {
                let deferred = self.waits.deferred_serves.remove(number);
                self.waits.deferred_aims.remove(&deferred.aim());
            }
            DeferredStep::Parked => {}
            DeferredStep::Paused => {
                let deferred = self.waits.deferred_serves.remove(number);
                self.waits.paused_serves.push(deferred);
            }
        }
    }
}

/// Removes doubles: a connection may begin a further wait in the turn in which another one has ended.
fn forget_doubles(tokens: &mut Vec<Token>) {
    tokens.sort_unstable();
    tokens.dedup();
}
