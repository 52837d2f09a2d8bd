//! Receiving on io_uring.

use std::io;
use std::rc::Rc;

use super::request::Completion;
use super::{Connection, Receiving, Uring};
use crate::receive_buffer::Pool;
use crate::{ConnectionId, Event, RecvBuffer};

impl Uring {
    pub(crate) fn pause_receive(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.lookup_mut(id) {
            connection.is_paused = true;
            self.note_change(id);
        }
    }

    pub(crate) fn resume_receive(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.lookup_mut(id) else { return };
        if std::mem::replace(&mut connection.is_paused, false) {
            if !connection.held.is_empty() || connection.holds_eof {
                self.resumed.push_back(id);
            }
            self.note_change(id);
        }
    }

    /// Creates events from held bytes, unless the connection is paused or leaving.
    pub(super) fn deliver_held(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.lookup_mut(id) else { return };
        if !connection.wants_bytes() {
            return;
        }
        let token = connection.token;
        if !connection.held.is_empty() {
            let data = RecvBuffer::of_bytes(std::mem::take(&mut connection.held));
            self.events.push_back(Event::Received { connection: id, token, data });
            if connection.holds_eof {
                // End of file follows the bytes, if the connection is then still active.
                self.resumed.push_front(id);
            }
        } else if std::mem::take(&mut connection.holds_eof) {
            connection.is_at_eof = true;
            self.events.push_back(Event::Eof { connection: id, token });
        }
    }

    #[inline]
    pub(super) fn complete_receive(&mut self, id: ConnectionId, completion: &Completion) -> Option<Event> {
        let data = self.received(completion);
        let Some(connection) = self.connections.lookup_mut(id) else {
            debug_assert!(false, "a connection stays until its requests have completed");
            return None;
        };
        let event = match data {
            Some(data) if connection.wants_bytes() && connection.held.is_empty() => {
                Some(Event::Received { connection: id, token: connection.token, data })
            }
            Some(data) => {
                hold(connection, &data);
                None
            }
            None => None,
        };
        if completion.has_more() {
            return event;
        }
        connection.receiving = Receiving::Idle;
        self.in_flight_count -= 1;
        // A receive that ends with bytes is armed again; a later event reports its end.
        let end = self.end_of_receive(id, completion.result);
        debug_assert!(event.is_none() || end.is_none());
        event.or(end)
    }

    /// The bytes of a completion, if any.
    #[inline]
    fn received(&self, completion: &Completion) -> Option<RecvBuffer> {
        let buffer_id = completion.buffer()?;
        let Pool::Ring(buffers) = &**self.pool else { return None };
        // SAFETY: (1) the completion of a receive names it.
        let start = unsafe { buffers.take(buffer_id) };
        let size = u32::try_from(completion.result).unwrap_or(0);
        // SAFETY: (1) the kernel has written this many bytes to the buffer, which the pool owns; (2) the kernel
        // no longer has the buffer, and only this completion names it; (3) it was taken above.
        let data = unsafe { RecvBuffer::new(Rc::clone(&self.pool), start, size, buffer_id.into()) };
        (size > 0).then_some(data)
    }

    /// Handles the last completion of a receive request.
    fn end_of_receive(&mut self, id: ConnectionId, result: i32) -> Option<Event> {
        let connection = self.connections.lookup_mut(id)?;
        if connection.is_leaving() {
            if result < 0 && !matches!(-result, libc::ECANCELED | libc::ENOBUFS | libc::EINTR | libc::EAGAIN)
            {
                self.leave_failed(id, io::Error::from_raw_os_error(-result));
            }
            self.leave_if_quiet(id);
            return None;
        }
        match result {
            0 if connection.wants_bytes() && connection.held.is_empty() => {
                connection.is_at_eof = true;
                return Some(Event::Eof { connection: id, token: connection.token });
            }
            0 => connection.holds_eof = true,
            1.. => self.note_change(id),
            _ => match -result {
                libc::ENOBUFS => {
                    connection.is_starved = true;
                    self.starved.push_back(id);
                }
                libc::ECANCELED | libc::EINTR | libc::EAGAIN => self.note_change(id),
                error => self.leave_failed(id, io::Error::from_raw_os_error(error)),
            },
        }
        None
    }

    /// Resumes receiving for as many starved connections as there are free buffers, longest waiting first.
    /// Requests submitted now precede arrivals for armed requests, so they get the buffers.
    pub(super) fn resume_starved(&mut self) {
        if self.starved.is_empty() {
            return;
        }
        let Pool::Ring(buffers) = &**self.pool else { return };
        let fed_count = self.starved.len().min(buffers.free_count() as usize);
        for _ in 0..fed_count {
            let Some(id) = self.starved.pop_front() else { return };
            if let Some(connection) = self.connections.lookup_mut(id) {
                connection.is_starved = false;
                self.note_change(id);
            }
        }
    }
}

/// Stores bytes that arrive while delivery is suspended: kept if the connection is paused or detached, dropped
/// if it closes. Copied, since paused connections would withhold their buffers from all others.
fn hold(connection: &mut Connection, data: &[u8]) {
    use super::{Ending, Leaving};
    if !matches!(connection.leaving, Leaving::Closing(_)) && connection.ending != Ending::Close {
        connection.held.extend_from_slice(data);
    }
}
