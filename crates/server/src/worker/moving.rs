//! Moving connections between workers: to even out load (`balancing.rs`), and when the number of workers changes. Nothing is
//! lost: unread input and unsent output move along.

use commands::session::BlockReason;
use os::clock::Uptime;
use reactor::Socket;
use sync::simulation::planted;

use super::Worker;
use crate::connection::client::UnblockReply;
use crate::connection::recent_time::RecentTime;
use crate::connection::token::Token;
use crate::connection::{Connection, Life};
use crate::faults;
use crate::mail::{Mail, MovedConnection};

/// A connection with more subscriptions leaves its worker only if that ends: publishers wait while they move.
const MOVED_SUBSCRIPTION_COUNT_MAX: usize = 10_000;

impl Worker {
    /// The active worker with the fewest connections, of those that are not in a long turn; this one if none has fewer. Where
    /// the number of active workers follows the load, one that has less work is preferred.
    pub(super) fn least_loaded(&self) -> usize {
        let (now, can_scale) = (Uptime::now(), self.shared.pool.can_scale());
        let count = |thread: usize| {
            let is_late = thread != self.index && self.shared.monitoring.statistics.is_late(thread, now);
            let handle = self.shared.workers.handle(thread);
            let tenth = if can_scale { handle.busy_permille() / 100 } else { 0 };
            (is_late, tenth, handle.load())
        };
        let threads = self.shared.pool.active();
        let least = (0..threads).min_by_key(|thread| count(*thread)).unwrap_or(0);
        if self.index < threads && count(self.index) <= count(least) { self.index } else { least }
    }

    /// Whether a connection can be moved to another worker now.
    pub(super) fn can_move(&self, connection: &Connection) -> bool {
        connection.client.wait.parked().is_none()
            && connection.client.wait.blocked().is_none_or(|blocked| blocked.held_latches.is_none())
            && connection.life == Life::Open
            && !connection.client.awaits_turns()
            && !connection.client.awaits_log()
            && !self.executor.scripts.is_paused(connection.client.session.id)
            && (self.ending.is_retiring
                || connection.client.session.subscription_count() <= MOVED_SUBSCRIPTION_COUNT_MAX)
    }

    /// Begins to move a connection to another worker, if it can be moved. The move continues when the reactor has detached
    /// the socket.
    pub(super) fn start_moving(&mut self, token: Token, to: usize) {
        let Some(connection) = self.connections.find(token).filter(|connection| self.can_move(connection))
        else {
            return;
        };
        let id = connection.id;
        self.flush_now(token);
        // From now on its output moves with it.
        let Some(connection) = self.connections.find_mut(token).filter(|connection| !connection.is_closing())
        else {
            return;
        };
        connection.life = Life::Moving(to);
        self.events.reactor.detach(id);
    }

    /// Sends the output of a connection before the end of the turn, and before it what precedes its replies.
    fn flush_now(&mut self, token: Token) {
        self.broadcast();
        self.output.dirty.retain(|dirty| *dirty != token);
        self.flush(token);
    }

    /// The reactor has detached a socket: sends its connection to the new worker.
    pub(super) fn hand_over(&mut self, token: Token, socket: Socket, unsent: Vec<Vec<u8>>, unread: Vec<u8>) {
        let Some(connection) = self.connections.find(token) else { return };
        let Life::Moving(to) = connection.life else {
            // It was closed meanwhile.
            return self.remove(token);
        };
        if self.shared.modes.is_stopping() {
            // The target worker may have ended.
            return self.remove(token);
        }
        self.note_passing_input(token);
        let Some(mut connection) = self.connections.remove(token) else { return };
        self.waits.leave_deadlines(&connection.client);
        connection.life = Life::Open;
        let to = self.shared.workers.expect_connection(to);
        // From now on its mail goes to the new worker, and waits there.
        connection.record.token.set(Token::underway(to).0);
        if let Some(waiter) = connection.client.wait.waiter() {
            waiter.set_address(Token::underway(to).0);
        }
        let workers = self.shared.workers;
        self.host.subscriptions.hand_off(connection, to, |connection| {
            workers.post(to, Mail::Moved(Box::new(MovedConnection { connection, socket, unsent, unread })));
        });
    }

    /// Adopts a connection from another worker, which continues where it was.
    pub(super) fn take_over(&mut self, moved: MovedConnection, number: u64) {
        let MovedConnection { mut connection, socket, unsent, unread } = moved;
        self.own_handle().connection_arrived();
        // Bytes to be decrypted follow those that the connection has kept.
        let mut undecrypted = Vec::new();
        match connection.encryption {
            None => connection.keep_input(&unread),
            Some(_) => undecrypted = unread,
        }
        let token = self.place(socket, |token, id| {
            connection.client.token = token;
            connection.id = id;
            connection.sending.pauses_requests = false;
            connection.input.is_paused = false;
            connection.client.recent_time = RecentTime::default();
            connection.sending.awaits_disk = false;
            *connection
        });
        self.note_moved_primary(token);
        self.note_moved_replica(token);
        let Some(connection) = self.connections.find_mut(token) else { return };
        self.host.subscriptions.register_moved(
            token,
            &mut connection.client.session,
            connection.subscribed_since,
            number,
        );
        let (id, client) = (connection.id, connection.client.session.id);
        if self.shared.clients.find(client).is_none() {
            // It was killed or evicted during the move: the mail went to its old worker.
            self.close_now(token);
            self.read_early_mail();
            return;
        }
        self.executor.follow_config();
        if self.executor.follow_users(&mut connection.client.session) {
            self.close_now(token);
            self.read_early_mail();
            return;
        }
        for buffer in unsent {
            self.events.reactor.send(id, buffer);
        }
        self.encrypt_queued(token);
        self.output.dirty.push(token);
        self.wait_on(token);
        self.read_early_mail();
        if self.ending.is_stopping {
            if let Some(connection) = self.connections.find_mut(token) {
                connection.close();
            }
        } else if self.ending.is_retiring {
            if let Some(encryption) = self.encryption_of(token) {
                encryption.stream.keep(&undecrypted);
            }
            self.start_moving(token, self.least_loaded());
        } else {
            self.resume_moved(token);
            self.continue_decrypting(token, &mut undecrypted);
        }
    }

    /// Continues with the requests of a connection that has arrived. If they wait for the end of a pause, they try again: the
    /// mail about it may have come here before the connection, and to the other worker after it.
    fn resume_moved(&mut self, token: Token) {
        let is_paused = self
            .connections
            .find_mut(token)
            .is_some_and(|connection| connection.client.block_reason() == Some(&BlockReason::Pause));
        if is_paused && !planted(faults::MISSED_UNPAUSE) {
            self.end_wait(token, UnblockReply::Timeout);
        } else {
            self.run_query(token);
        }
    }

    /// Handles a change of the number of workers. If this one is to end, its connections move to others as soon
    /// as each can.
    pub(super) fn apply_thread_count(&mut self) {
        self.shared.pool.schedule_thread();
        self.ending.is_retiring = self.index >= self.shared.pool.wanted();
        if self.ending.is_retiring {
            self.move_all_away();
        }
    }

    /// Moves every connection except those that wait for a latch; called again each tick until all are moved.
    pub(super) fn move_all_away(&mut self) {
        let tokens: Vec<Token> = self.connections.tokens();
        for token in tokens {
            let to = self.least_loaded();
            if to == self.index {
                return;
            }
            self.start_moving(token, to);
        }
    }
}
