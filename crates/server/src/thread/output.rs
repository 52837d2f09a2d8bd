//! Output of a thread's connections: sent once a turn, within its limits, and closed when it is out.

use base::Millis;
use commands::session::SessionFlags;
use config::ClientClass;
use reactor::CloseMode;

use super::Thread;
use crate::connection::{Connection, Token};
use crate::listening::Message;

/// Buffers kept for reuse, and the largest that is.
const SPARE_BUFFER_COUNT_MAX: usize = 64;
const SPARE_BUFFER_SIZE_MAX: usize = 64 * 1024;

/// Output waiting for a slow reader from which on no more of its requests are read, in bytes. Large: a client may
/// well write a whole pipeline before it reads the first reply.
const OUTPUT_PAUSE_SIZE: usize = 256 << 20;

/// Output waiting that no limit of a class counts, in bytes; what is beyond counts in steps of as much. Redis has it so, where
/// each client has a first buffer of its own, and small limits cut off no small replies.
const UNCOUNTED_OUTPUT_SIZE: usize = 16 << 10;

/// Output that may wait for a client that has not authenticated, in bytes.
const STRANGER_OUTPUT_SIZE_MAX: usize = 1024;

impl Thread {
    /// Sends the output of every connection that has some.
    pub(super) fn flush_dirty(&mut self) {
        let mut dirty = std::mem::take(&mut self.dirty);
        for token in dirty.drain(..) {
            self.flush(token);
        }
        self.dirty = dirty;
        self.statistics.unsent_bytes.set(0);
    }

    fn flush(&mut self, token: Token) {
        let spare = self.spare_buffers.pop();
        let Some(connection) = self.connections.get_mut(token.place()).filter(|c| c.token == token) else {
            self.spare_buffers.extend(spare);
            return;
        };
        if connection.moving_to.is_some() {
            // Its output goes along.
            self.spare_buffers.extend(spare);
            return;
        }
        let id = connection.id;
        if connection.closing {
            // Before its last reply leaves: whoever has read that finds nothing of it any more.
            self.take_leave(token);
        }
        let Some(connection) = self.connections.get_mut(token.place()) else { return };
        if connection.out.is_empty() {
            self.spare_buffers.extend(spare);
        } else {
            let out = std::mem::replace(&mut connection.out, spare.unwrap_or_default());
            self.statistics.writes.add(1);
            self.statistics.sent_bytes.add(out.len() as u64);
            connection.record.sent_bytes.add(out.len() as u64);
            self.reactor.send(id, out);
        }
        if connection.closing {
            self.statistics.client_memory.subtract(connection.give_up());
            self.reactor.close(id, CloseMode::AfterSends);
            return;
        }
        let pending = self.reactor.pending_send_bytes(id);
        // A connection that goes because of its own output must not take others with it for their memory.
        if pending > 0 && !self.check_output_size(token, pending) {
            return;
        }
        self.note_output(token, pending);
    }

    /// A buffer is out.
    pub(super) fn sent(&mut self, token: Token, buffer: Vec<u8>) {
        if buffer.capacity() <= SPARE_BUFFER_SIZE_MAX && self.spare_buffers.len() < SPARE_BUFFER_COUNT_MAX {
            self.spare_buffers.push(buffer);
        }
        let Some(connection) = self.connections.get_mut(token.place()).filter(|c| c.token == token) else {
            return;
        };
        let pending = self.reactor.pending_send_bytes(connection.id);
        if pending == 0 {
            connection.soft_limit_since = None;
        }
        if connection.receive_paused && pending <= OUTPUT_PAUSE_SIZE / 2 {
            connection.receive_paused = false;
            self.reactor.resume_receive(connection.id);
            if connection.has_more {
                self.ready.push(token);
            }
        }
        self.note_output(token, pending);
    }

    /// Ends a connection whose output is over its class's limits; stops reading from one that is far behind. Whether it
    /// stays.
    pub(super) fn check_output_size(&mut self, token: Token, pending: usize) -> bool {
        let now = self.now;
        let config = std::sync::Arc::clone(&self.executor.config);
        let Some(connection) = self.connection(token) else { return false };
        let class = if connection.session.is_listener() { ClientClass::Pubsub } else { ClientClass::Normal };
        let limit = config.client_output_buffer_limit.of(class);
        let is_stranger = !connection.session.authenticated && config.requirepass.reveal().is_some();
        let counted =
            pending.saturating_sub(UNCOUNTED_OUTPUT_SIZE).next_multiple_of(UNCOUNTED_OUTPUT_SIZE) as u64;
        let hard = (is_stranger && pending > STRANGER_OUTPUT_SIZE_MAX)
            || limit.hard_size > 0 && counted >= limit.hard_size;
        if hard || is_over_soft_limit(connection, counted, limit.soft_size, limit.soft_seconds, now) {
            let session = &connection.session;
            log::warn!(
                "Client id={} addr={} closed for overcoming of output buffer limits.",
                session.id,
                session.peer
            );
            self.shared.output_limit_disconnections.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            self.abandon(token);
            return false;
        }
        if pending > OUTPUT_PAUSE_SIZE && !connection.receive_paused {
            connection.receive_paused = true;
            let id = connection.id;
            self.reactor.pause_receive(id);
        }
        true
    }

    /// Ends a connection that has sent more than `client-query-buffer-limit` without a complete request.
    pub(super) fn check_query_size(&mut self, token: Token) {
        let limit = self.executor.config.client_query_buffer_limit as usize;
        let Some(connection) = self.connection(token) else { return };
        if connection.query.len() <= limit {
            return;
        }
        log::warn!(
            "Closing client that reached max query buffer length: id={} addr={} qbuf={}",
            connection.session.id,
            connection.session.peer,
            connection.query.len()
        );
        self.shared.query_limit_disconnections.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.abandon(token);
    }

    /// Gives a message to the connections here that listen to it.
    pub(super) fn deliver(&mut self, number: u64, message: &Message) {
        let Self { ears, connections, dirty, statistics, .. } = self;
        ears.deliver(number, message, |token, form| {
            let Some(connection) = connections.get_mut(token.place()).filter(|c| c.token == token) else {
                return;
            };
            let session = &connection.session;
            if session.heard >= number || connection.closing {
                return;
            }
            if connection.out.is_empty() {
                dirty.push(token);
            }
            let before = connection.out.capacity();
            form.write(&mut connection.out, session.protocol);
            statistics.unsent_bytes.add((connection.out.capacity() - before) as u64);
        });
    }

    /// Gives a line to the connections in `MONITOR` mode.
    pub(super) fn send_to_monitors(&mut self, line: &[u8]) {
        for (_, connection) in &mut self.connections {
            if connection.session.flags.contains(SessionFlags::MONITOR) {
                connection.out.extend_from_slice(line);
                self.dirty.push(connection.token);
            }
        }
    }
}

fn is_over_soft_limit(
    connection: &mut Connection,
    pending: u64,
    soft: u64,
    seconds: u64,
    now: Millis,
) -> bool {
    if soft == 0 || pending < soft {
        connection.soft_limit_since = None;
        return false;
    }
    let since = *connection.soft_limit_since.get_or_insert(now.0);
    now.0 - since > seconds as i64 * 1000
}
