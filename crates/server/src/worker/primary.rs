//! The connection to the primary, whose requests are the stream that this replica applies. It is an ordinary connection of
//! one worker, except that it acknowledges what it has applied, and that only `repl-timeout` limits it.

use std::sync::Arc;

use commands::acl::Users;
use commands::host::SyncPoint;
use commands::session::Session;
use commands::table::CATALOGUE;
use os::clock::Uptime;
use sync::atomic::Ordering;
use wire::response::encode_command;

use super::Worker;
use crate::connection::Connection;
use crate::connection::encryption::Encryption;
use crate::connection::token::Token;
use crate::mail::PrimaryStream;

/// The time between two acknowledgements, in milliseconds.
const ACKNOWLEDGE_MS: i64 = 1_000;

/// The connection to the primary, on the worker that has it.
#[derive(Default)]
pub(super) struct PrimaryConnection {
    token: Option<Token>,
    /// When the next acknowledgement is due.
    next: Uptime,
}

impl Worker {
    /// Begins to apply the stream of the primary.
    pub(super) fn begin_applying(&mut self, stream: PrimaryStream) {
        self.own_handle().connection_arrived();
        let PrimaryStream { socket, encryption, record, db, forwarding, plain, mut unread } = stream;
        if self.ending.is_stopping {
            return;
        }
        // The session of an unrestricted user, independent of the users of the server.
        let mut session = Session::new(record.id, Arc::clone(&record.endpoints), &Users::new(&CATALOGUE));
        session.login.users_version = u64::MAX;
        session.is_stream = true;
        session.db = db;
        self.shared.replication.role.select(db);
        self.shared.clients.insert(&record);
        let now = self.clock.uptime;
        let is_encrypted = encryption.is_some();
        let token = self.place(socket, |token, id| {
            let mut connection = Connection::new(token, id, session, record, now.to_raw());
            connection.encryption = encryption.map(|stream| Box::new(Encryption::new(*stream, None, now)));
            connection.client.forwarding = Some(forwarding);
            connection.keep_input(&plain);
            if !is_encrypted {
                connection.keep_input(&unread);
            }
            connection
        });
        let is_current = self
            .connections
            .find(token)
            .is_some_and(|connection| self.shared.replication.role.lock().has_stream(&connection.record));
        if !is_current {
            // The role has changed meanwhile, when the connection had no place yet.
            return self.close_now(token);
        }
        self.primary = PrimaryConnection { token: Some(token), next: now };
        self.executor.follow_config();
        self.run_query(token);
        if !plain.is_empty() {
            // The words that Redis's suite searches for, before it ends the stop.
            self.shared.modes.sync_stops.stop_after(SyncPoint::KeptStream, || {
                log::info!("Starting to stream replication buffer into the data: {} bytes", plain.len());
            });
        }
        if is_encrypted {
            self.continue_decrypting(token, &mut unread);
        }
        self.acknowledge(token);
    }

    /// Notes that the connection of the primary was moved here, if this is it.
    pub(super) fn note_moved_primary(&mut self, token: Token) {
        if self.connections.find(token).is_some_and(|connection| connection.client.forwarding.is_some()) {
            self.primary = PrimaryConnection { token: Some(token), next: self.clock.uptime };
        }
    }

    /// Notes the end of the stream, if a connection that runs no further request is that of the primary.
    pub(super) fn note_end_of_primary(&mut self, token: Token) {
        let Some(connection) = self.connections.find_mut(token) else { return };
        let Some(forwarding) = connection.client.forwarding.take() else { return };
        self.primary.token = None;
        self.shared.replication.role.note_end(&connection.record, forwarding.db, forwarding.is_out_of_step);
        self.shared.follow_role();
        if forwarding.applied.load(Ordering::Relaxed) < forwarding.kept_until {
            // The words that Redis's suite searches for.
            log::info!("Master client was freed while streaming the replication buffer: its rest is dropped");
        }
        log::info!("Connection with primary lost.");
    }

    /// Acknowledges what is applied each second, and ends a connection on which nothing arrives.
    pub(super) fn check_primary(&mut self) {
        let Some(token) = self.primary.token.filter(|_| self.clock.uptime >= self.primary.next) else {
            return;
        };
        let Some(connection) = self.connections.find(token) else {
            self.primary.token = None;
            return;
        };
        let active_at = Uptime::from_raw(connection.record.active_at.load(Ordering::Relaxed));
        let timeout_ms = i64::from(self.executor.settings.config.repl_timeout) * 1000;
        if self.clock.uptime.ms_since(active_at) > timeout_ms {
            log::warn!("PRIMARY timeout: no data nor PING received...");
            return self.close_now(token);
        }
        self.acknowledge(token);
    }

    /// Acknowledges what is applied, if the primary has asked for it.
    pub(super) fn acknowledge_if_asked(&mut self) {
        if let Some(token) = self.primary.token
            && self.shared.replication.role.is_asked.load(Ordering::Relaxed)
            && self.shared.replication.role.is_asked.swap(false, Ordering::Relaxed)
        {
            self.acknowledge(token);
        }
    }

    fn acknowledge(&mut self, token: Token) {
        self.primary.next = self.clock.uptime.plus_ms(ACKNOWLEDGE_MS);
        let Some(connection) = self.connections.find_mut(token).filter(|connection| !connection.is_closing())
        else {
            return;
        };
        let Some(forwarding) = &connection.client.forwarding else { return };
        let applied = forwarding.applied.load(Ordering::Relaxed);
        // `WAITAOF` of the primary counts what is durable here, which `applied` may not include yet.
        let durable = self.shared.durable_offset().map(|durable| durable.min(applied).to_string());
        let applied = applied.to_string();
        let mut words = vec!["REPLCONF", "ACK", &applied];
        words.extend(durable.iter().flat_map(|durable| ["FACK", durable]));
        encode_command(&words, &mut connection.client.replies.bytes);
        self.output.dirty.push(token);
    }
}
