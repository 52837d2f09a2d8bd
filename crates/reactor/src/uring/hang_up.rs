//! Noticing the end of a connection whose receiving is paused, on io_uring: a poll for hang-ups, which other arrivals
//! do not complete.

use std::io;
use std::os::fd::AsRawFd;

use super::request::{Operation, Request};
use super::{Connection, Ending, KIND_HANG_UP, Uring, Watching};
use crate::{ConnectionId, Event};

impl Connection {
    /// Whether the end of the connection is to be noticed although it is not read. While output is sent before a
    /// close, the sends notice it.
    fn wants_watch(&self) -> bool {
        self.is_paused
            && !self.is_connecting
            && !self.is_leaving()
            && self.ending != Ending::Close
            && !self.is_at_eof
            && !self.has_hung_up
    }
}

impl Uring {
    /// Makes or cancels the poll to match the desired state.
    pub(super) fn adjust_watch(&mut self, id: ConnectionId) -> io::Result<()> {
        let Some(connection) = self.connections.lookup_mut(id) else { return Ok(()) };
        match connection.watching {
            Watching::Idle if connection.wants_watch() => {
                connection.watching = Watching::Armed;
                let watch = Operation::AwaitHangUp { fd: connection.socket.as_raw_fd() };
                let request = Request::new(KIND_HANG_UP | id.to_bits(), watch);
                // SAFETY: (1) it contains no pointers.
                unsafe { self.push(&request) }
            }
            Watching::Armed if !connection.wants_watch() => {
                connection.watching = Watching::Cancelled;
                self.push_cancel(KIND_HANG_UP | id.to_bits())
            }
            _ => Ok(()),
        }
    }

    /// Handles the completion of the poll.
    pub(super) fn complete_hang_up(&mut self, id: ConnectionId, result: i32) -> Option<Event> {
        self.in_flight_count -= 1;
        let Some(connection) = self.connections.lookup_mut(id) else {
            debug_assert!(false, "a connection stays until its requests have completed");
            return None;
        };
        connection.watching = Watching::Idle;
        self.note_change(id);
        let connection = self.connections.lookup_mut(id)?;
        if connection.is_leaving() {
            self.leave_if_quiet(id);
            return None;
        }
        // A resumed connection reads what has happened.
        if result < 0 || !connection.wants_watch() {
            return None;
        }
        if result & i32::from(libc::POLLERR) != 0
            && let Some(error) = connection.socket.take_error()
        {
            self.leave_failed(id, error);
            return None;
        }
        connection.has_hung_up = true;
        Some(Event::HungUp { connection: id, token: connection.token })
    }
}
