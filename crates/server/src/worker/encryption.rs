//! TLS of a worker's connections: between the reactor's events and the functions that handle plain bytes.
//!
//! Steps of handshakes wait in a queue, of which each turn handles a part: a step takes up to some milliseconds (a
//! signature), and other connections must not wait for many of them. Output is encrypted in portions, as the reactor sends
//! them.

use std::collections::VecDeque;

use commands::acl::DenialEvent;
use commands::acl::{DenialContext, MissingPermission};
use commands::reply_buffers::ReplyParts;
use config::TlsAuthClientsUser;
use os::clock::Ticks;
use reactor::CloseMode;
use sync::atomic::Ordering;
use tls::{Progress, StreamError};

use super::Worker;
use crate::connection::Connection;
use crate::connection::encryption::Encryption;
use crate::connection::listeners::Origin;
use crate::connection::token::Token;
use crate::shared::certificates::Certificates;

/// The time in a turn after which no more steps of handshakes begin, in nanoseconds.
const HANDSHAKE_NS_MAX: u64 = 1_000_000;

/// The input of a handshake that waits for its turn, from which on no more is received, in bytes.
const HANDSHAKE_INPUT_SIZE_MAX: usize = 64 << 10;

/// Output is encrypted in portions of this size while less than the other size is in the reactor, in bytes.
pub(super) const PORTION_SIZE: usize = 64 << 10;
pub(super) const ENCRYPTED_SIZE_MAX: usize = 256 << 10;

/// The largest buffer of decrypted input that is kept, in bytes.
const PLAIN_SIZE_KEPT_MAX: usize = 128 << 10;

/// Work on the encrypted connections of a worker.
#[derive(Default)]
pub(super) struct EncryptionWork {
    /// Connections with input for a step of their handshake.
    pub(super) waiting: VecDeque<Token>,
    /// Decrypted input, for the time in which it is handled.
    plain: Vec<u8>,
    /// Joins small pieces of output to a record.
    scratch: Vec<u8>,
}

impl Worker {
    /// Returns the TLS of a new connection, if its listener has TLS. `Err`: it can't be served.
    pub(super) fn new_encryption(
        &self,
        origin: &Origin,
        refusal: Option<&'static [u8]>,
    ) -> Result<Option<Box<Encryption>>, ()> {
        if !origin.is_encrypted() {
            return Ok(None);
        }
        // Accepted before the TLS port was closed.
        let context = self.shared.certificates.context().ok_or(())?;
        match tls::Stream::new(&context) {
            Ok(stream) => Ok(Some(Box::new(Encryption::new(stream, refusal, self.clock.uptime)))),
            Err(error) => {
                log::warn!("Error accepting a client connection: {error}");
                Err(())
            }
        }
    }

    /// Handles received bytes of a connection with TLS.
    pub(super) fn received_encrypted(&mut self, token: Token, data: &mut [u8]) {
        let Some(connection) = self.connections.find_mut(token).filter(|connection| !connection.is_closing())
        else {
            return;
        };
        let is_moving = connection.is_moving();
        let is_paused = connection.sending.pauses_requests;
        let Some(encryption) = &mut connection.encryption else { return };
        // A record may require a response at once, which a connection that is being moved can't send.
        if is_moving {
            encryption.stream.keep(data);
            return;
        }
        if !encryption.stream.is_handshaking() {
            return self.decrypt(token, data);
        }
        encryption.stream.keep(data);
        let is_much = encryption.stream.kept_size() > HANDSHAKE_INPUT_SIZE_MAX;
        if !std::mem::replace(&mut encryption.awaits_step, true) {
            self.encryption.waiting.push_back(token);
        }
        if is_much && !is_paused {
            self.pause_requests(token);
        }
    }

    /// Returns the TLS of a connection.
    pub(super) fn encryption_of(&mut self, token: Token) -> Option<&mut Encryption> {
        self.connections.find_mut(token)?.encryption.as_deref_mut()
    }

    /// Handles the bytes that a connection from another worker has received and not decrypted.
    pub(super) fn continue_decrypting(&mut self, token: Token, unread: &mut [u8]) {
        let Some(encryption) = self.encryption_of(token) else { return };
        encryption.awaits_step = false;
        if encryption.stream.kept_size() + unread.len() > 0 {
            self.received_encrypted(token, unread);
        }
    }

    /// Continues handshakes, at least one of them, for a limited time.
    pub(super) fn continue_handshakes(&mut self) {
        let began = Ticks::now();
        while let Some(token) = self.encryption.waiting.pop_front() {
            let Some(connection) = self.connections.find_mut(token) else { continue };
            let is_paused = std::mem::take(&mut connection.sending.pauses_requests);
            let (id, is_idle) = (connection.id, connection.is_closing() || connection.is_moving());
            let Some(encryption) = &mut connection.encryption else { continue };
            if is_idle {
                // The worker that it moves to, if any, continues the handshake.
                connection.sending.pauses_requests = is_paused;
                continue;
            }
            encryption.awaits_step = false;
            if is_paused {
                self.events.reactor.resume_receive(id);
            }
            self.decrypt(token, &mut []);
            let at_eof = self.connections.find_mut(token).is_some_and(|connection| connection.input.at_eof);
            if at_eof {
                self.reached_end(token);
            }
            if Ticks::now().ns_since(began) > HANDSHAKE_NS_MAX {
                break;
            }
        }
    }

    /// Decrypts what is received, and handles the requests in it.
    fn decrypt(&mut self, token: Token, data: &mut [u8]) {
        let mut plain = std::mem::take(&mut self.encryption.plain);
        self.decrypt_to(token, data, &mut plain);
        if plain.capacity() <= PLAIN_SIZE_KEPT_MAX {
            plain.clear();
            self.encryption.plain = plain;
        }
    }

    fn decrypt_to(&mut self, token: Token, data: &mut [u8], plain: &mut Vec<u8>) {
        let Some(connection) = self.connections.find_mut(token) else { return };
        let id = connection.id;
        let Some(encryption) = &mut connection.encryption else { return };
        let was_handshaking = encryption.stream.is_handshaking();
        let mut out = Vec::new();
        let progress = encryption.stream.receive(data, plain, &mut out);
        if !out.is_empty() {
            self.events.reactor.send(id, out);
        }
        let progress = match progress {
            Ok(progress) => progress,
            Err(error) => return self.end_for_error(token, &error, was_handshaking),
        };
        if was_handshaking && progress == Progress::Traffic {
            self.handshake_done(token);
        }
        if !plain.is_empty() {
            self.received(token, plain, None);
        }
        if progress == Progress::Closed {
            self.reached_end(token);
        }
    }

    /// Closes a connection after a violation of the protocol; its alert is sent.
    fn end_for_error(&mut self, token: Token, error: &StreamError, was_handshaking: bool) {
        self.cancel_wait(token);
        let Some(connection) = self.connections.find_mut(token) else { return };
        let session = &connection.client.session;
        if was_handshaking {
            self.shared.certificates.failed_handshakes.fetch_add(1, Ordering::Relaxed);
            log::warn!(
                "Error accepting a client connection: {error} (addr={} laddr={})",
                session.endpoints.peer,
                session.endpoints.local
            );
        } else {
            log::debug!(
                "Reading from client: {error} (addr={} laddr={})",
                session.endpoints.peer,
                session.endpoints.local
            );
        }
        connection.close();
        connection.client.replies.bytes.clear();
        connection.client.replies.parts = ReplyParts::default();
        if let Some(encryption) = &mut connection.encryption {
            encryption.has_ended = true;
            encryption.stream.drop_queued();
        }
        self.output.dirty.push(token);
    }

    /// Begins to serve a connection whose handshake is done.
    fn handshake_done(&mut self, token: Token) {
        let Some(connection) = self.connections.find_mut(token) else { return };
        let Some(encryption) = &mut connection.encryption else { return };
        if let Some(refusal) = encryption.refusal {
            connection.client.replies.bytes.extend_from_slice(refusal);
            connection.close();
            self.output.dirty.push(token);
            return;
        }
        self.statistics.sockets.accepted.add(1);
        let config = self.shared.config.load();
        let names = match (config.tls_auth_clients_user, encryption.stream.peer_identity()) {
            (TlsAuthClientsUser::Off, _) | (_, None) => return,
            (TlsAuthClientsUser::CommonName, Some(identity)) => Vec::from_iter(identity.common_name),
            (TlsAuthClientsUser::Uri, Some(identity)) => identity.uris,
        };
        let users = self.shared.users.load();
        let user = names.iter().find_map(|name| users.find(name).filter(|user| user.is_on()));
        if let Some(user) = user {
            connection.client.session.log_in(user, &users);
            self.shared.publish_session(&connection.client.session);
            match config.hide_user_data_from_log {
                true => log::debug!("TLS: Auto-authenticated client as *redacted*"),
                false => {
                    log::debug!("TLS: Auto-authenticated client as {}", user.name().escape_ascii());
                }
            }
        } else if let Some(name) = names.last() {
            let (missing, context) = (Some(MissingPermission::Certificate), DenialContext::Toplevel);
            let event = DenialEvent { missing, context, object: b"", user: name };
            self.shared.record_denial(connection.client.session.id, &event);
        }
    }

    /// Sends output of a connection with TLS: encrypts it, or queues what is more than a portion.
    pub(super) fn send_encrypted(&mut self, token: Token, mut out: Vec<u8>, parts: ReplyParts) {
        let Some(connection) = self.connections.find_mut(token) else { return };
        let id = connection.id;
        let Some(encryption) = &mut connection.encryption else { return };
        let stream = &mut encryption.stream;
        if parts.is_empty()
            && out.len() <= PORTION_SIZE
            && stream.queued_size() == 0
            && !stream.is_handshaking()
        {
            let mut encrypted = self.output.take_spare_buffer();
            let result = stream.encrypt(&out, &mut encrypted);
            out.clear();
            self.output.keep_spare_buffer(out, &self.shared.memory);
            self.events.reactor.send(id, encrypted);
            if let Err(error) = result {
                self.end_for_error(token, &error, false);
            }
            return;
        }
        // From the end, so that no byte is moved twice.
        let parts: Vec<_> =
            parts.into_iter_from_end().map(|part| (part.text, out.split_off(part.at))).collect();
        stream.queue(out);
        for (text, behind) in parts.into_iter().rev() {
            stream.queue_shared(text);
            stream.queue(behind);
        }
        self.encrypt_queued(token);
    }

    /// Encrypts queued output while there is little in the reactor. The queue of a connection that is being moved moves along: the
    /// reactor takes no more from it here.
    pub(super) fn encrypt_queued(&mut self, token: Token) {
        let Some(connection) = self.connections.find_mut(token).filter(|connection| !connection.is_moving())
        else {
            return;
        };
        let id = connection.id;
        let Some(encryption) = &mut connection.encryption else { return };
        let stream = &mut encryption.stream;
        while stream.queued_size() > 0
            && !stream.is_handshaking()
            && self.events.reactor.pending_send_bytes(id) < ENCRYPTED_SIZE_MAX
        {
            let mut encrypted = Vec::new();
            if let Err(error) =
                stream.encrypt_queued(PORTION_SIZE, &mut self.encryption.scratch, &mut encrypted)
            {
                return self.end_for_error(token, &error, false);
            }
            self.events.reactor.send(id, encrypted);
        }
    }

    /// Continues the output of a connection, some of which is sent.
    pub(super) fn continue_output(&mut self, token: Token) {
        self.encrypt_queued(token);
        if self.connections.find(token).is_some_and(|connection| connection.is_closing()) {
            self.output.dirty.push(token);
        }
    }

    /// Closes a connection with TLS if its output is passed on and it is to be closed; otherwise checks its limits.
    pub(super) fn after_flush(&mut self, token: Token) {
        let Some(connection) = self.connections.find_mut(token) else { return };
        let id = connection.id;
        let queued = connection.queued_output();
        if connection.is_closing() {
            let Some(encryption) = &mut connection.encryption else { return };
            // Queued output is sent before, with the reactor's next events.
            if queued == 0 || encryption.stream.is_handshaking() {
                if !std::mem::replace(&mut encryption.has_ended, true) {
                    let mut out = Vec::new();
                    encryption.stream.close(&mut out);
                    self.events.reactor.send(id, out);
                }
                self.events.reactor.close(id, CloseMode::AfterSends);
            }
        }
        let pending = self.events.reactor.pending_send_bytes(id) + queued;
        if pending == 0 || self.check_output_size(token, pending) {
            self.note_output(token, pending);
        }
    }
}

/// Counts a handshake that the client ends without an error of the protocol.
pub(super) fn note_abandoned_handshake(connection: &Connection, certificates: &Certificates) {
    let Some(encryption) = &connection.encryption else { return };
    if encryption.stream.is_handshaking() && !encryption.stream.has_failed() {
        certificates.failed_handshakes.fetch_add(1, Ordering::Relaxed);
        let peer = &connection.client.session.endpoints.peer;
        log::debug!("Error accepting a client connection: the handshake was not completed (addr={peer})");
    }
}
