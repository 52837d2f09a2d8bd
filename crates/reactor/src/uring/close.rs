//! Closing and detaching on io_uring, once no request is in flight.

use std::io;
use std::time::Duration;

use super::request::{Operation, Request};
use super::{Ending, Leaving, Receiving, Sending, Uring, Watching};
use crate::{CloseMode, CloseReason, ConnectionId, Event};
use os::clock::Ticks;

/// Maximum time in nanoseconds that a dropped reactor waits for its requests to end.
const DROP_WAIT_NS: u64 = 2_000_000_000;

impl Uring {
    pub(crate) fn close(&mut self, id: ConnectionId, mode: CloseMode) {
        let Some(connection) = self.connections.lookup_mut(id) else { return };
        if mode == CloseMode::Now || connection.sends.is_empty() || connection.is_leaving() {
            self.leave(id, CloseReason::Requested);
        } else {
            connection.ending = Ending::Close;
            // The end of a quiet send in flight handles the connection; other sends are flushed or complete.
            self.note_change(id);
        }
    }

    pub(crate) fn detach(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.lookup_mut(id) else { return };
        if !connection.is_leaving() && !connection.is_connecting && connection.ending != Ending::Close {
            connection.leaving = Leaving::Detaching;
            self.note_change(id);
            self.leave_if_quiet(id);
        }
    }

    /// Starts closing a connection, or turns a pending detach into a close.
    pub(super) fn leave(&mut self, id: ConnectionId, reason: CloseReason) {
        let Some(connection) = self.connections.lookup_mut(id) else { return };
        if !matches!(connection.leaving, Leaving::Closing(_)) {
            connection.leaving = Leaving::Closing(reason);
            self.note_change(id);
        }
        self.leave_if_quiet(id);
    }

    /// Ends a connection because of an error.
    pub(super) fn leave_failed(&mut self, id: ConnectionId, error: io::Error) {
        self.leave(id, CloseReason::Failed(error));
    }

    /// Removes a leaving connection if it has no request in flight.
    pub(super) fn leave_if_quiet(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.lookup(id) else { return };
        let is_quiet = connection.receiving == Receiving::Idle
            && connection.sending == Sending::Idle
            && connection.watching == Watching::Idle;
        if !is_quiet || !connection.is_leaving() {
            return;
        }
        let Some(mut connection) = self.connections.remove(id) else { return };
        let token = connection.token;
        self.events.push_back(match connection.leaving {
            Leaving::Detaching | Leaving::No => Event::Detached {
                connection: id,
                token,
                socket: connection.socket,
                unsent: connection.sends.take_unsent(),
                unread: connection.held,
            },
            Leaving::Closing(reason) => {
                drop(connection.socket);
                self.listeners.end_backoffs();
                Event::Closed { connection: id, token, reason }
            }
        });
    }

    /// Cancels all requests and waits until they end. Returns `false` if some do not end in time.
    pub(super) fn cancel_everything(&mut self) -> bool {
        let cancel = Request::new(super::KIND_CANCEL, Operation::CancelAll).quiet();
        let start = Ticks::now();
        // Completions that the caller has not handled yet also count.
        loop {
            let taken = std::mem::take(&mut self.completions);
            for completion in taken.iter().skip(std::mem::take(&mut self.completion_index)) {
                let is_send = completion.user_data & super::KIND_MASK == super::KIND_SEND;
                if !is_send {
                    drop(self.complete(completion));
                }
            }
            self.events.clear();
            if self.in_flight_count == 0 && self.quiet.is_empty() {
                return true;
            }
            if Ticks::now().ns_since(start) > DROP_WAIT_NS {
                return false;
            }
            // SAFETY: (1) it contains no pointers.
            if unsafe { self.ring.push(&cancel) }.is_err() {
                return false;
            }
            if self.ring.enter(1, Some(Duration::from_millis(100))).is_err() {
                return false;
            }
            if self.take_completions().is_err() {
                return false;
            }
        }
    }
}
