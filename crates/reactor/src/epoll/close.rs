//! Closing and detaching on epoll. No request is ever in flight, so both are immediate except for queued sends.

use std::io;
use std::os::fd::AsRawFd;

use super::{Connection, Ending, Epoll};
use crate::{CloseMode, CloseReason, ConnectionId, Event, sys};

impl Epoll {
    pub(crate) fn close(&mut self, id: ConnectionId, mode: CloseMode) {
        let Some(connection) = self.connections.lookup_mut(id) else { return };
        if mode == CloseMode::Now || connection.sends.is_empty() {
            self.remove(id, CloseReason::Requested);
        } else {
            connection.ending = Ending::Close;
        }
    }

    pub(crate) fn detach(&mut self, id: ConnectionId) {
        let stays = |connection: &Connection| connection.is_connecting || connection.ending == Ending::Close;
        if self.connections.lookup(id).is_none_or(stays) {
            return;
        }
        let Some(mut connection) = self.connections.remove(id) else { return };
        // Fails only for a descriptor that is not watched.
        let fd = connection.socket.as_raw_fd();
        let _ = sys::epoll_control(&self.epoll, libc::EPOLL_CTL_DEL, fd, 0, 0);
        self.events.push_back(Event::Detached {
            connection: id,
            token: connection.token,
            socket: connection.socket,
            unsent: connection.sends.take_unsent(),
            unread: Vec::new(),
        });
    }

    /// Ends a connection because of an error.
    pub(super) fn fail(&mut self, id: ConnectionId, error: io::Error) {
        self.remove(id, CloseReason::Failed(error));
    }

    /// Closing the descriptor, of which there is no duplicate, also ends its watch.
    pub(super) fn remove(&mut self, id: ConnectionId, reason: CloseReason) {
        if let Some(connection) = self.connections.remove(id) {
            // `Closed` must be the last event, so deferred events precede it.
            self.events.append(&mut self.quiet_events);
            self.events.push_back(Event::Closed { connection: id, token: connection.token, reason });
            drop(connection.socket);
            self.end_backoffs();
        }
    }
}
