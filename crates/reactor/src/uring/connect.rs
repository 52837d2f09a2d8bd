//! Connecting on io_uring: a connecting socket is full until it is connected, so the poll for room finds the end.
//!
//! There is no connect request: older kernels would pass it to a worker thread, and an address would have to
//! outlive it.

use super::{Connection, Ending, Uring};
use crate::{CloseReason, ConnectionId, Event, Socket};

impl Uring {
    /// Takes over a socket that is connecting.
    pub(crate) fn await_connection(&mut self, socket: Socket, token: u64) -> ConnectionId {
        let connection = Connection { is_connecting: true, is_full: true, ..Connection::new(socket, token) };
        let id = self.connections.insert(connection);
        self.queue_flush(id);
        id
    }

    /// Handles the end of the poll for room of a connecting socket.
    pub(super) fn end_connecting(&mut self, id: ConnectionId, result: i32) {
        let Some(connection) = self.connections.lookup_mut(id) else { return };
        if connection.is_leaving() {
            return self.leave_if_quiet(id);
        }
        if let Some(error) = connection.socket.take_error() {
            return self.leave(id, CloseReason::NotConnected(error));
        }
        if result > 0 {
            connection.is_connecting = false;
            connection.is_full = false;
            if connection.ending != Ending::Close {
                self.events.push_back(Event::Connected { connection: id, token: connection.token });
            }
            self.note_change(id);
        }
        self.queue_flush(id);
    }
}
