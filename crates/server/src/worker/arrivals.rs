//! New connections: accepted by the first worker, a limited number in a turn, and given to the worker with the fewest.
//! While the first worker is in a long turn, another one accepts them, see [`Worker::do_first_workers_work`].

use std::collections::VecDeque;
use std::sync::Arc;

use commands::session::{Endpoints, Session};
use reactor::{CloseMode, ConnectionId, ListenerToken, PeerAddress, Socket};
use sync::atomic::Ordering;

use super::Worker;
use crate::connection::Connection;
use crate::connection::listeners::{Listeners, Origin};
use crate::connection::record::ClientRecord;
use crate::connection::token::Token;
use crate::mail::Mail;
use crate::shared::connections;

/// The connections that arrive.
pub(super) struct Arrivals {
    pub(super) listeners: Listeners,
    /// Connections that were accepted and wait for their turn, see `max-new-connections-per-cycle`.
    plain: VecDeque<(Socket, Origin)>,
    /// Those of the TLS port, see `max-new-tls-connections-per-cycle`.
    encrypted: VecDeque<(Socket, Origin)>,
}

impl Arrivals {
    pub(super) fn new(listeners: Listeners) -> Self {
        Self { listeners, plain: VecDeque::new(), encrypted: VecDeque::new() }
    }

    pub(super) fn are_empty(&self) -> bool {
        self.plain.is_empty() && self.encrypted.is_empty()
    }

    /// Adds a connection that a listener has accepted.
    pub(super) fn arrived(&mut self, listener: ListenerToken, socket: Socket, peer: PeerAddress) {
        let origin = self.listeners.origin(listener, peer);
        let waiting = if origin.is_encrypted() { &mut self.encrypted } else { &mut self.plain };
        waiting.push_back((socket, origin));
    }

    /// Closes the connections that wait for their turn.
    pub(super) fn clear(&mut self) {
        self.plain.clear();
        self.encrypted.clear();
    }
}

impl Worker {
    /// Accepts as many new connections as a turn may; the others are accepted in the next turns.
    pub(super) fn accept_arrivals(&mut self) {
        for _ in 0..self.executor.settings.config.max_new_connections_per_cycle {
            let Some((socket, origin)) = self.arrivals.plain.pop_front() else { break };
            // Those with TLS count when their handshake is done.
            self.statistics.sockets.accepted.add(1);
            self.accept(socket, origin);
        }
        for _ in 0..self.executor.settings.config.max_new_tls_connections_per_cycle {
            let Some((socket, origin)) = self.arrivals.encrypted.pop_front() else { break };
            self.accept(socket, origin);
        }
    }

    /// Gives a new connection to the worker with the fewest, of the active ones.
    pub(super) fn accept(&mut self, socket: Socket, origin: Origin) {
        let thread = self.receiving_worker();
        if thread == self.index {
            self.begin_serving(socket, origin);
        } else {
            let thread = self.shared.workers.expect_connection(thread);
            self.shared.workers.post(thread, Mail::Accepted(socket, origin));
        }
    }

    /// Begins to serve a new connection, or refuses it.
    pub(super) fn begin_serving(&mut self, socket: Socket, origin: Origin) {
        let config = &self.executor.settings.config;
        let is_full = self.shared.clients.len() >= config.maxclients as usize;
        let refusal = connections::refusal(config, &self.shared.users.load_full(), is_full, &origin);
        if let Some(refusal) = refusal {
            self.shared.connections.rejected.fetch_add(1, Ordering::Relaxed);
            if !origin.is_encrypted() {
                let id = self.events.reactor.adopt(socket, u64::MAX);
                self.events.reactor.send(id, refusal.to_vec());
                self.events.reactor.close(id, CloseMode::AfterSends);
                return;
            }
            // A client with TLS gets the error after the handshake, which is not worth it where there are too many.
            if is_full {
                return;
            }
        }
        if self.ending.is_stopping {
            return;
        }
        if !origin.is_unix() {
            // A socket without these options is served, too.
            let _ = socket.set_nodelay();
            let _ = socket.set_keepalive(config.tcp_keepalive);
        }
        let Ok(encryption) = self.new_encryption(&origin, refusal) else { return };
        let id = self.shared.clients.next_id();
        let (peer, local) = origin.addresses(&socket);
        let users = &self.executor.settings.users;
        let endpoints = Arc::new(Endpoints {
            peer,
            local,
            fd: socket.number(),
            is_unix: origin.is_unix(),
            is_local: origin.is_local(),
            connected_at: self.clock.now,
        });
        let session = Session::new(id, Arc::clone(&endpoints), users);
        let record = Arc::new(ClientRecord::new(id, endpoints));
        self.shared.clients.insert(&record);
        let now = self.clock.uptime.to_raw();
        self.place(socket, |token, reactor_id| {
            let mut connection = Connection::new(token, reactor_id, session, record, now);
            connection.encryption = encryption;
            connection
        });
    }

    /// Puts a connection into the table and its socket into the reactor.
    pub(super) fn place(
        &mut self,
        socket: Socket,
        make: impl FnOnce(Token, ConnectionId) -> Connection,
    ) -> Token {
        let reactor = &mut self.events.reactor;
        let token = self.connections.insert(|token| make(token, reactor.adopt(socket, token.0)));
        self.update_record(token);
        token
    }
}
