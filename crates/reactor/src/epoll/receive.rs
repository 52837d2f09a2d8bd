//! Receiving on epoll.

use std::io;
use std::os::fd::AsRawFd;
use std::rc::Rc;

use super::{Ending, Epoll, Ready};
use crate::receive_buffer::Pool;
use crate::{ConnectionId, Event, RecvBuffer, sys};

impl Epoll {
    pub(crate) fn pause_receive(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.lookup_mut(id) {
            connection.is_paused = true;
            self.report_hang_up(id);
        }
    }

    /// Reports the end of a paused connection, which is not read.
    pub(super) fn report_hang_up(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.lookup_mut(id) else { return };
        if !connection.is_paused || !connection.is_hung_up || connection.is_at_eof {
            return;
        }
        if let Some(error) = connection.socket.take_error() {
            return self.fail(id, error);
        }
        if connection.ending != Ending::Close
            && !std::mem::replace(&mut connection.has_reported_hang_up, true)
        {
            self.events.push_back(Event::HungUp { connection: id, token: connection.token });
        }
    }

    pub(crate) fn resume_receive(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.lookup_mut(id) {
            connection.is_paused = false;
            self.list_if_readable(id);
        }
    }

    /// Reads once from a connection in `ready`.
    pub(super) fn receive(&mut self, id: ConnectionId) -> Option<Event> {
        let connection = self.connections.lookup_mut(id)?;
        connection.is_listed = false;
        if !connection.wants_bytes() {
            return None;
        }
        let Pool::Shared(pool) = &*self.pool else { return None };
        let start = pool.take();
        // SAFETY: `take` returns this many initialised bytes, which are exclusive to this function.
        let buffer = unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), pool.buffer_size()) };
        let token = connection.token;
        let received = sys::receive(connection.socket.as_raw_fd(), buffer);
        match received {
            Ok(0) => {
                // SAFETY: (1) taken above, and not used any more.
                unsafe { pool.give_back(start) };
                connection.is_readable = false;
                connection.is_at_eof = true;
                Some(Event::Eof { connection: id, token })
            }
            Ok(size) => {
                connection.is_readable = size == buffer.len() || connection.is_hung_up;
                if connection.is_readable {
                    connection.is_listed = true;
                    self.ready_later.push_back(Ready::Connection(id));
                }
                // SAFETY: (1) the first `size` of the bytes from `take`, owned by the pool's buffers; (2) only
                // the RecvBuffer returns `start`; (3) it was taken above.
                let data = unsafe { RecvBuffer::new(Rc::clone(&self.pool), start, size as u32, 0) };
                Some(Event::Received { connection: id, token, data })
            }
            Err(error) => {
                // SAFETY: (1) taken above, and not used any more.
                unsafe { pool.give_back(start) };
                match error.kind() {
                    io::ErrorKind::WouldBlock => connection.is_readable = false,
                    io::ErrorKind::Interrupted => {
                        connection.is_listed = true;
                        self.ready_later.push_back(Ready::Connection(id));
                    }
                    _ => self.fail(id, error),
                }
                None
            }
        }
    }
}
