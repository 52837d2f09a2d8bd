//! Connecting on epoll: a connecting socket is full until it is connected.

use super::{Connection, Ending, Epoll, INPUT};
use crate::{CloseReason, ConnectionId, Event, Socket};

impl Epoll {
    /// Takes over a socket that is connecting.
    pub(crate) fn await_connection(&mut self, socket: Socket, token: u64) -> ConnectionId {
        let id = self.connections.insert(Connection {
            is_connecting: true,
            is_full: true,
            watches_room: true,
            ..Connection::new(socket, token)
        });
        if let Err(error) = self.watch_connection(id, INPUT | libc::EPOLLOUT) {
            self.remove(id, CloseReason::NotConnected(error));
        }
        id
    }

    /// Notes the end of connecting. Returns whether the connection is established.
    pub(super) fn end_connecting(&mut self, id: ConnectionId, events: i32) -> bool {
        let Some(connection) = self.connections.lookup_mut(id) else { return false };
        if let Some(error) = connection.socket.take_error() {
            self.remove(id, CloseReason::NotConnected(error));
            return false;
        }
        if events & libc::EPOLLOUT == 0 {
            return false;
        }
        connection.is_connecting = false;
        if connection.ending != Ending::Close {
            self.events.push_back(Event::Connected { connection: id, token: connection.token });
        }
        true
    }
}
