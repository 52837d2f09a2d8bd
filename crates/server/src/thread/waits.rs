//! Connections that wait: their deadlines, and the ends of their waits.
//!
//! A wait that a write, `CLIENT UNBLOCK` or `CLIENT KILL` on any thread can end has a [`Waiter`](keyspace::Waiter), which
//! decides who ends it. Those on other threads end it there and tell this one by mail; this thread ends it when its time
//! is over or the connection goes. While somebody serves it just now, that is only asked for: either the reply comes
//! by mail, or the news that it was served in vain.
//!
//! Invariant: a connection whose `session.blocked` is set is in `deadlines` if the wait has an end, and in `paused` if
//! it waits for the end of a pause.

use commands::session::BlockReason;
use sync::End;
use wire::reply::ReplyBuffer;

use super::Thread;
use crate::connection::{Connection, Token};
use crate::executor::{DeferredStep, TURNS_TIME_MAX};
use crate::mail::{Mail, UnblockReply};

impl Thread {
    /// A connection has begun to wait.
    pub(super) fn start_waiting(&mut self, token: Token) {
        let Some(connection) = self.connection(token) else { return };
        if connection.at_eof && connection.session.blocked.is_some() && !connection.holds_output() {
            // Nobody is there to wait.
            connection.closing = true;
            self.cancel_wait(token);
        } else {
            self.wait_on(token);
        }
    }

    /// A connection that waits does so here from now on.
    pub(super) fn wait_on(&mut self, token: Token) {
        let uptime = self.uptime;
        let Some(connection) = self.connection(token) else { return };
        let Some(blocked) = &connection.session.blocked else { return };
        let (timeout, is_paused) = (blocked.timeout, blocked.reason == BlockReason::Pause);
        if connection.deadline.is_none() {
            connection.deadline = timeout.map(|timeout| uptime.plus(timeout));
        }
        let deadline = connection.deadline;
        if let Some(waiter) = &connection.waiter {
            waiter.set_address(token.0);
        }
        if is_paused {
            self.paused.push(token);
        }
        if let Some(deadline) = deadline {
            self.deadlines.insert((deadline, token));
        }
    }

    /// Takes a connection out of the deadlines of this thread.
    pub(super) fn leave_deadlines(&mut self, token: Token) {
        if let Some(deadline) = self.connection(token).and_then(|connection| connection.deadline) {
            self.deadlines.remove(&(deadline, token));
        }
    }

    fn remove_deadline(&mut self, token: Token) {
        self.leave_deadlines(token);
        if let Some(connection) = self.connection(token) {
            connection.deadline = None;
        }
    }

    /// Ends the waits whose time is over: in the millisecond behind the last one, so that none ends early.
    pub(super) fn end_waits(&mut self) {
        while let Some((deadline, token)) =
            self.deadlines.first().copied().filter(|(deadline, _)| *deadline < self.uptime)
        {
            self.deadlines.remove(&(deadline, token));
            if !self.awaits_barrier(token) {
                self.end_wait(token, UnblockReply::Timeout);
            }
        }
    }

    /// Whether a connection must go on waiting for turns of threads that are still there. Those that have ended run
    /// nothing any more, and do not answer.
    fn awaits_barrier(&mut self, token: Token) -> bool {
        let (workers, deadline) = (self.shared.workers, self.uptime.plus(TURNS_TIME_MAX));
        let Some(connection) = self.connection(token) else { return false };
        let blocked = connection.session.blocked.as_ref();
        if blocked.is_none_or(|blocked| blocked.reason != BlockReason::Barrier) {
            return false;
        }
        connection.turns.awaited.retain(|thread| workers.occupied().any(|occupied| occupied == *thread));
        if connection.turns.awaited.is_empty() {
            return false;
        }
        connection.deadline = Some(deadline);
        self.deadlines.insert((deadline, token));
        true
    }

    /// Ends a connection's wait, unless somebody else does.
    pub(super) fn end_wait(&mut self, token: Token, how: UnblockReply) {
        let Some(connection) = self.connection(token) else { return };
        match connection.waiter.as_ref().map(|waiter| waiter.wait.end_or_ask()) {
            None | Some(End::Ended) => self.finish_wait(token, how),
            Some(End::Asked) => connection.end_asked = Some(how),
            // Mail says so, and how.
            Some(End::WasOver) => {}
        }
    }

    /// A connection's wait has been ended: answers it, and goes on with what it sent meanwhile.
    fn finish_wait(&mut self, token: Token, how: UnblockReply) {
        let waiter = self.connection(token).and_then(|connection| connection.waiter.clone());
        self.leave_queues(token);
        let Some(connection) = self.connections.get_mut(token.place()).filter(|c| c.token == token) else {
            return;
        };
        let Some(blocked) = connection.session.blocked.take() else { return };
        if blocked.reason == BlockReason::Turns {
            connection.turns.are_over = true;
        }
        // Those that wait for anything else are run when their wait is over.
        if let BlockReason::Keys(_) | BlockReason::Replicas { .. } | BlockReason::Disk = blocked.reason {
            let error = (how == UnblockReply::Error).then_some("UNBLOCKED");
            self.executor.count_waited(connection, waiter.as_deref(), error);
        }
        if !std::mem::take(&mut connection.is_muted) {
            let mut reply = ReplyBuffer::new(&mut connection.out, connection.session.protocol);
            match how {
                UnblockReply::Timeout => blocked.write_timeout(&mut reply),
                UnblockReply::Error => reply.error(b"UNBLOCKED client unblocked via CLIENT UNBLOCK"),
            }
        }
        self.go_on(token);
    }

    /// What a connection waited for has come.
    fn finish_served(&mut self, token: Token, reply: &[u8]) {
        self.leave_queues(token);
        let Some(connection) = self.connection(token) else { return };
        connection.session.blocked = None;
        connection.session.command_count += 1;
        if !std::mem::take(&mut connection.is_muted) {
            connection.out.extend_from_slice(reply);
        }
        self.go_on(token);
    }

    fn go_on(&mut self, token: Token) {
        self.dirty.push(token);
        self.take_note(token);
        self.run_query(token);
    }

    /// A connection waits no more, as it is going away.
    pub(super) fn cancel_wait(&mut self, token: Token) {
        if let Some(waiter) = self.connection(token).and_then(|connection| connection.waiter.as_ref()) {
            // Whoever serves it just now is too late or finds it ended.
            let _ = waiter.wait.end_or_ask();
        }
        self.leave_queues(token);
        if let Some(connection) = self.connection(token) {
            connection.session.blocked = None;
        }
    }

    /// Takes a connection whose wait is over out of the deadlines and out of the queues of its keys.
    fn leave_queues(&mut self, token: Token) {
        self.remove_deadline(token);
        let Some(connection) = self.connection(token) else { return };
        connection.end_asked = None;
        let Some(waiter) = connection.waiter.take() else { return };
        connection.record.set_waiter(None);
        // Whoever served it took it out of the queue of the key it was served with.
        if !self.executor.view.leave(&waiter) {
            self.lingering.push(waiter);
        }
    }

    /// Takes waits that are over out of queues whose slots were taken before.
    pub(super) fn let_lingering_go(&mut self) {
        let view = &mut self.executor.view;
        self.lingering.retain(|waiter| !view.leave(waiter));
    }

    /// `CLIENT PAUSE` changed: those that wait for its end try again, and wait again if they must.
    pub(super) fn end_pause(&mut self) {
        for token in std::mem::take(&mut self.paused) {
            let is_paused = |connection: &&mut Box<Connection>| {
                connection
                    .session
                    .blocked
                    .as_ref()
                    .is_some_and(|blocked| blocked.reason == BlockReason::Pause)
            };
            if self.connection(token).filter(is_paused).is_some() {
                self.end_wait(token, UnblockReply::Timeout);
            }
        }
        self.shared.end_pause_if_over(self.uptime);
        for deferred in std::mem::take(&mut self.paused_serves) {
            let number = self.deferred_serves.insert(deferred);
            self.resume_errand(number);
        }
    }

    /// Mail about the end of a wait, which follows its connection wherever it is.
    pub(super) fn handle_end_of_wait(&mut self, mail: Mail) {
        let (Mail::Served(token, id, _) | Mail::Missed(token, id) | Mail::Unblock(token, id, _)) = &mail
        else {
            return;
        };
        let (token, id) = (*token, *id);
        if self.connection(token).is_some_and(|connection| connection.session.id == id) {
            return self.end_as_told(token, mail);
        }
        // It is gone, or moves, or has moved.
        let Some(place) = self.shared.clients.find(id).map(|record| record.place()) else { return };
        if place.thread() != self.index {
            self.shared.workers.post(place.thread(), mail);
        } else if self.connection(place).is_some_and(|connection| connection.session.id == id) {
            self.end_as_told(place, mail);
        } else if place == Token::underway(self.index) {
            self.early.push(mail);
        }
    }

    fn end_as_told(&mut self, token: Token, mail: Mail) {
        // A connection that is being closed has left everything already.
        let Some(connection) = self.connection(token).filter(|connection| connection.waiter.is_some()) else {
            return;
        };
        match mail {
            Mail::Served(_, _, reply) => self.finish_served(token, &reply),
            Mail::Unblock(_, _, how) => self.finish_wait(token, how),
            _ => {
                if let Some(how) = connection.end_asked {
                    self.finish_wait(token, how);
                }
            }
        }
    }

    /// A connection has arrived: mail may have been waiting for it.
    pub(super) fn read_early_mail(&mut self) {
        for mail in std::mem::take(&mut self.early) {
            self.handle_end_of_wait(mail);
        }
    }

    /// Serves who could not be served at once.
    pub(super) fn run_deferred(&mut self) {
        for deferred in self.executor.take_deferred() {
            let number = self.deferred_serves.insert(deferred);
            self.resume_errand(number);
        }
    }

    /// An deferred begins, or the latch it waits for is worth a try.
    pub(super) fn resume_errand(&mut self, number: usize) {
        let token = Token::deferred(self.index, number);
        let Some(deferred) = self.deferred_serves.get_mut(number) else { return };
        match self.executor.run_deferred(deferred, token, &self.host) {
            DeferredStep::Done => drop(self.deferred_serves.remove(number)),
            DeferredStep::Parked => {}
            DeferredStep::Paused => {
                let deferred = self.deferred_serves.remove(number);
                self.paused_serves.push(deferred);
            }
        }
    }
}
