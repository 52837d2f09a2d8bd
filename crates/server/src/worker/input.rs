//! Input that waits: its amount is bounded by pausing receiving, and its execution by yielding to other connections.
//!
//! A connection's input waits while the connection has yielded, is parked or blocked, or is paused for its output. If
//! more than [`WAITING_INPUT_MAX`] bytes wait (of a blocked client [`BLOCKED_INPUT_MAX`]) at the end of a turn, receiving is paused until most are executed: the
//! rest stays with the kernel and the client. A client that keeps up is never paused. Input that belongs to one
//! incomplete request does not wait, and is bounded by `client-query-buffer-limit`.
//!
//! The input of connections that yielded is executed in this turn or the next one. Its buffers are about to be freed, so
//! they do not evict keys, up to [`PASSING_INPUT_SIZE_MAX`] bytes in each worker. All other input counts for `maxmemory`.
//!
//! In a turn a connection executes at most [`LARGE_INPUT_SIZE_MAX`] bytes of large input as it arrives, and all
//! connections do so for [`LARGE_INPUT_NS_MAX`] at most. The rest is kept, and executed in the order of the
//! connections that yielded.

use os::clock::Ticks;

use super::waits::Waits;
use super::{Clock, Worker};
use crate::connection::Connection;
use crate::connection::token::Token;
use crate::executor::Processed;

/// Waiting input from which on no more is received, and down to which it is executed before more is, in bytes.
const WAITING_INPUT_MAX: usize = 64 << 10;
const WAITING_INPUT_MIN: usize = 32 << 10;

/// The waiting input of a blocked client from which on no more is received, in bytes. Larger, because its wait may be long:
/// a disconnection behind more bytes than the kernel's buffer takes is noticed only when they are received, or by
/// `tcp-keepalive`.
const BLOCKED_INPUT_MAX: usize = 1 << 20;

/// Input is large from this size, in bytes: its client sends long pipelines or large values.
pub(super) const LARGE_INPUT_SIZE: usize = 8 << 10;

/// The maximum of large input that a connection executes before it yields, in bytes.
const LARGE_INPUT_SIZE_MAX: usize = 64 << 10;

/// The buffers of input that is about to be executed and evicts no keys: the maximum of a worker, in bytes. Memory use may
/// exceed `maxmemory` by so much for a turn.
const PASSING_INPUT_SIZE_MAX: usize = 1 << 20;

/// The time in a turn after which large input is kept, in nanoseconds.
const LARGE_INPUT_NS_MAX: u64 = 1_000_000;

impl Connection {
    /// Whether so much input waits that no more is to be received.
    fn has_much_waiting_input(&self) -> bool {
        let size_max =
            if self.client.session.blocked.is_some() { BLOCKED_INPUT_MAX } else { WAITING_INPUT_MAX };
        (self.input.has_more || self.is_waiting()) && self.input.query.len() > size_max
    }

    /// Updates the bytes of its query buffer that count as about to be freed. Returns by how much they have grown, wrapping.
    fn update_passing_input(&mut self) -> usize {
        let passes = self.input.has_more && self.may_continue() && !self.is_waiting();
        let size = if passes { self.input.query.capacity() } else { 0 };
        size.wrapping_sub(std::mem::replace(&mut self.input.passing_size, size))
    }
}

/// Whether large input that has just arrived must wait until others have had a turn. Then its connection has yielded.
pub(super) fn must_yield(connection: &mut Connection, size: usize, waits: &mut Waits, clock: &Clock) -> bool {
    connection.input.large_size += size;
    let is_late = || clock.turn_began.is_some_and(|began| Ticks::now().ns_since(began) > LARGE_INPUT_NS_MAX);
    if connection.input.large_size <= LARGE_INPUT_SIZE_MAX && !is_late() {
        return false;
    }
    connection.input.large_size = 0;
    connection.input.has_more = true;
    waits.ready.push(connection.client.token);
    true
}

impl Worker {
    /// Keeps input that can't be executed now. That of a connection that is being closed is dropped.
    pub(super) fn keep_waiting_input(&mut self, token: Token, data: &[u8]) {
        let Some(connection) = self.connections.find_mut(token) else { return };
        if connection.is_closing() {
            return;
        }
        connection.keep_input(data);
        // A wait is continued by its end.
        connection.input.has_more |= connection.sending.pauses_requests && !connection.is_waiting();
        if connection.has_much_waiting_input() {
            self.waits.with_much_input.push(token);
        }
        self.note_passing_input(token);
    }

    /// Records how much memory of a connection's input is about to be freed. To be called when its input or its wait has
    /// changed, and before the connection leaves this worker.
    pub(super) fn note_passing_input(&mut self, token: Token) {
        let Some(connection) = self.connections.find_mut(token) else { return };
        let grown = connection.update_passing_input();
        if grown != 0 {
            let total = self.waits.passing_input_size.wrapping_add(grown);
            self.waits.passing_input_size = total;
            self.statistics.memory.passing_input.set(total.min(PASSING_INPUT_SIZE_MAX) as u64);
        }
    }

    /// Pauses receiving for the connections that have much waiting input at the end of a turn.
    pub(super) fn pause_waiting_input(&mut self) {
        let Self { waits, connections, events, .. } = self;
        for token in waits.with_much_input.drain(..) {
            let Some(connection) = connections.find_mut(token) else { continue };
            let is_leaving = connection.is_closing() || connection.is_moving();
            if connection.has_much_waiting_input() && !is_leaving && !connection.input.is_paused {
                connection.input.is_paused = true;
                events.reactor.pause_receive(connection.id);
            }
        }
    }

    /// Receives again once most of the waiting input is executed, or more is needed to complete a request.
    pub(super) fn resume_input(&mut self, token: Token, processed: Processed) {
        let Some(connection) =
            self.connections.find_mut(token).filter(|connection| connection.input.is_paused)
        else {
            return;
        };
        if processed == Processed::Everything || connection.input.query.len() <= WAITING_INPUT_MIN {
            connection.input.is_paused = false;
            if !connection.sending.pauses_requests {
                self.events.reactor.resume_receive(connection.id);
            }
        }
    }

    /// Handles the disconnection of a peer whose input is not received now. A blocked connection is closed, as after the
    /// end of its input; others continue with the input that waits.
    pub(super) fn hung_up(&mut self, token: Token) {
        let Some(connection) = self.connections.find_mut(token) else { return };
        connection.input.has_hung_up = true;
        let ends_soon = connection.client.waits_briefly() || connection.input.has_more;
        if connection.client.session.blocked.is_some() && !ends_soon {
            self.reached_end(token);
        }
    }
}
