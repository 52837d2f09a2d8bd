//! Sending on epoll: at the end of the turn, one call per connection.

use std::io::{self, IoSlice};
use std::os::fd::AsRawFd;

use super::{Connection, Ending, Epoll, INPUT};
use crate::send_queue::{Buffer, OFFER_SIZE_MAX, SLICE_COUNT_MAX};
use crate::{CloseReason, ConnectionId, Event, sys};

impl Epoll {
    pub(crate) fn send(&mut self, id: ConnectionId, bytes: Buffer) {
        let Some(connection) = self.connections.lookup_mut(id) else { return };
        if connection.ending != Ending::None {
            return;
        }
        if bytes.is_empty() {
            let buffer = bytes.emptied();
            self.events.push_back(Event::Sent { connection: id, token: connection.token, buffer });
            return;
        }
        connection.sends.push(bytes);
        self.queue_flush(id);
    }

    pub(crate) fn pending_send_bytes(&self, id: ConnectionId) -> usize {
        self.connections.lookup(id).map_or(0, |connection| connection.sends.held_size())
    }

    pub(crate) fn message_bytes(&self, id: ConnectionId) -> usize {
        self.connections.lookup(id).map_or(0, |connection| connection.sends.message_size())
    }

    pub(crate) fn unsent_bytes(&self, id: ConnectionId) -> usize {
        self.connections.lookup(id).map_or(0, |connection| connection.sends.pending_size())
    }

    pub(crate) fn shutdown_write(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.lookup_mut(id) else { return };
        if connection.ending == Ending::None {
            connection.ending = Ending::Shutdown;
            self.queue_flush(id);
        }
    }

    /// Schedules the connection for the next flush, unless it waits for room.
    pub(super) fn queue_flush(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.lookup_mut(id) else { return };
        if !connection.is_in_flush && !connection.is_full {
            connection.is_in_flush = true;
            self.flush.push(id);
        }
    }

    /// Resumes sending after the socket has room again.
    pub(super) fn resume_sends(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.lookup_mut(id) else { return };
        connection.is_full = false;
        self.queue_flush(id);
        // Written at once: the wait that reported the room has already flushed.
        self.flush_sends();
    }

    pub(super) fn flush_sends(&mut self) {
        let mut flush = std::mem::take(&mut self.flush);
        for id in flush.drain(..) {
            self.flush_connection(id);
        }
        // Connections with more data than one call offers continue next turn.
        flush.append(&mut self.flush);
        self.flush = flush;
    }

    fn flush_connection(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.lookup_mut(id) else { return };
        connection.is_in_flush = false;
        let is_quiet =
            connection.sends.is_small() && !connection.is_paused && connection.ending == Ending::None;
        while !connection.sends.is_empty() {
            match write(connection) {
                Ok(written) => {
                    let token = connection.token;
                    let events = if is_quiet { &mut self.quiet_events } else { &mut self.events };
                    connection.sends.advance(written.size, |buffer| {
                        events.push_back(Event::Sent { connection: id, token, buffer });
                    });
                    if written.size < written.offered_size {
                        return self.wait_for_room(id);
                    }
                    if written.offered_size == OFFER_SIZE_MAX && !connection.sends.is_empty() {
                        return self.queue_flush(id);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return self.wait_for_room(id),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return self.fail(id, error),
            }
        }
        self.end_after_sends(id);
    }

    /// Performs the action after the last send.
    fn end_after_sends(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.lookup_mut(id) else { return };
        match connection.ending {
            Ending::None | Ending::IsShut => {}
            Ending::Shutdown => {
                connection.ending = Ending::IsShut;
                if let Err(error) = connection.socket.shut_down_write() {
                    self.fail(id, error);
                }
            }
            Ending::Close => self.remove(id, CloseReason::Requested),
        }
        self.forget_room(id);
    }

    fn wait_for_room(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.lookup_mut(id) else { return };
        connection.is_full = true;
        connection.watches_room = true;
        // Also if it was registered already: then the kernel checks again, so that no edge is missed.
        self.modify(id, INPUT | libc::EPOLLOUT);
    }

    fn forget_room(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.lookup_mut(id) else { return };
        if std::mem::take(&mut connection.watches_room) {
            self.modify(id, INPUT);
        }
    }

    fn modify(&mut self, id: ConnectionId, events: i32) {
        let Some(connection) = self.connections.lookup_mut(id) else { return };
        let fd = connection.socket.as_raw_fd();
        if let Err(error) = sys::epoll_control(&self.epoll, libc::EPOLL_CTL_MOD, fd, events, id.to_bits()) {
            self.fail(id, error);
        }
    }
}

struct Written {
    size: usize,
    offered_size: usize,
}

fn write(connection: &Connection) -> io::Result<Written> {
    let fd = connection.socket.as_raw_fd();
    if connection.sends.buffer_count() == 1 {
        let bytes = connection.sends.first();
        return Ok(Written { size: sys::send(fd, bytes)?, offered_size: bytes.len() });
    }
    let mut slices = [IoSlice::new(&[]); SLICE_COUNT_MAX];
    let (count, offered_size) = connection.sends.fill(&mut slices);
    Ok(Written { size: sys::send_slices(fd, &slices[..count])?, offered_size })
}
