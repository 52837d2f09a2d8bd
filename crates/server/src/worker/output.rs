//! Output of a worker's connections: sent once a turn, limited in size; a closing connection is closed after it.

use std::sync::Arc;
use std::time::Duration;

use commands::reply_buffers::PartKind;
use commands::session::SessionFlags;
use config::ClientClass;
use os::clock::{Ticks, Uptime};
use reactor::CloseMode;
use sync::atomic::Ordering;
use sync::simulation;

use super::Worker;
use super::connection_table::ConnectionTable;
use crate::connection::Connection;
use crate::connection::client::SPARE_BUFFER_SIZE_MAX;
use crate::connection::large_argument::LargeArgument;
use crate::connection::query_buffer::QueryBuffer;
use crate::connection::token::Token;
use crate::executor::WorkerSettings;
use crate::faults;
use crate::logging;
use crate::mail::invalidation::Invalidation;
use crate::mail::message::Message;
use crate::shared::Shared;
use crate::shared::memory::Memory;

/// Buffers kept for reuse.
const SPARE_BUFFER_COUNT_MAX: usize = 64;

/// The pending output of a slow reader from which no more of its requests are read, in bytes. Large, because
/// a client may write a whole pipeline before it reads the first reply. It is less where all connections
/// together use more than a part of the memory.
const OUTPUT_PAUSE_SIZE: usize = 256 << 20;
const OUTPUT_PAUSE_SIZE_MIN: usize = 1 << 20;

/// The denominator of that part.
const CLIENT_MEMORY_SHARE: u64 = 8;

/// How long messages wait to be sent together, in nanoseconds, and the bytes of output from which they do not wait.
const DELIVERY_WAIT_NS_MAX: u64 = 500_000;
const DELIVERY_SIZE_MAX: usize = 1 << 20;

/// The minimum number of connections with messages for which messages wait.
const DELIVERY_RECEIVER_COUNT_MIN: usize = 8;

/// The maximum unused part of a buffer that waits for others to be sent before it, and the size from which on
/// it waits for its own beginning, in bytes.
const UNUSED_SIZE_MAX: usize = 4 << 10;
const PASSING_SIZE_MAX: usize = 256 << 10;

/// The maximum pending output of an unauthenticated client, in bytes: the size of Valkey's first reply buffer.
/// Valkey closes a client that needs a second one.
const UNAUTHENTICATED_OUTPUT_SIZE_MAX: usize = 16 << 10;

/// The output of a connection that waits for the disk, from which its requests wait, too, in bytes.
const HELD_OUTPUT_SIZE_MAX: usize = 1 << 20;

/// How long the output of a connection may take whose permissions were revoked.
const REVOKED_CLOSE_MS: i64 = 1000;

/// How long a reply waits for the lines of the log that its request has logged: the disk may be stuck.
const LOG_TIME_MAX: Duration = Duration::from_secs(1);

/// Messages in connections' output that are not passed to the reactor yet.
#[derive(Default)]
pub(super) struct MessageDelivery {
    /// The connections that had no output before.
    receivers: Vec<Token>,
    /// Bytes of all of these messages.
    size: usize,
    /// The bytes at the end of the last turn.
    size_before: usize,
    /// When its first turn ended.
    since: Option<Ticks>,
    /// Bytes of all output sent at the end of the last turn, as far as they were counted as unsent.
    flushed_bytes: u64,
}

/// The output of a worker's connections.
#[derive(Default)]
pub(super) struct WorkerOutput {
    /// Connections with output from this turn.
    pub(super) dirty: Vec<Token>,
    /// Messages that are to be sent.
    pub(super) delivery: MessageDelivery,
    /// Invalidations for connections that are being served, to be sent after their replies.
    pub(super) after_reply: Vec<Invalidation>,
    /// Connections whose output waits until the write log is durable, or lines of the server's log are written.
    pub(super) held: Vec<Token>,
    /// Closing connections that left the registry before their last output was passed on, in this turn.
    pub(super) hidden: Vec<Token>,
    /// Buffers kept for later replies.
    spare_buffers: Vec<Vec<u8>>,
}

impl MessageDelivery {
    /// Whether there are messages.
    pub(super) fn is_due(&self) -> bool {
        !self.receivers.is_empty()
    }

    /// Decides at the end of a turn whether the messages wait for the next one. A send to a connection costs
    /// much more than its contents. So while messages keep arriving, the messages of several turns are sent together.
    /// Replies to publishers are sent at once, and if they lead to more messages, these are sent with the rest.
    fn waits(&mut self) -> bool {
        let has_grown = self.size > self.size_before;
        self.size_before = self.size;
        let now = Ticks::now();
        has_grown
            && self.receivers.len() >= DELIVERY_RECEIVER_COUNT_MIN
            && self.size < DELIVERY_SIZE_MAX
            && now.ns_since(*self.since.get_or_insert(now)) < DELIVERY_WAIT_NS_MAX
    }
}

impl WorkerOutput {
    /// Returns an empty buffer.
    pub(super) fn take_spare_buffer(&mut self) -> Vec<u8> {
        self.spare_buffers.pop().unwrap_or_default()
    }

    /// Keeps an empty buffer for later output, if it is of use.
    pub(super) fn keep_spare_buffer(&mut self, buffer: Vec<u8>, memory: &Memory) {
        if (1..=SPARE_BUFFER_SIZE_MAX).contains(&buffer.capacity())
            && self.spare_buffers.len() < SPARE_BUFFER_COUNT_MAX
            && !memory.is_over_limit.load(Ordering::Relaxed)
        {
            self.spare_buffers.push(buffer);
        }
    }

    /// Frees the buffers that are kept for later replies.
    pub(super) fn drop_spare_buffers(&mut self, connections: &mut ConnectionTable) {
        self.spare_buffers = Vec::new();
        for connection in connections.iter_mut() {
            let replies = &mut connection.client.replies.bytes;
            if replies.is_empty() {
                *replies = Vec::new();
            }
        }
    }
}

impl Worker {
    /// Sends the output of every connection that has some: replies first, so that their clients can continue meanwhile.
    pub(super) fn flush_dirty(&mut self) {
        let dirty = std::mem::take(&mut self.output.dirty);
        self.output.dirty = self.flush_each(dirty);
        if !self.output.held.is_empty() {
            self.release_held();
        }
        if self.output.delivery.is_due() {
            if self.output.delivery.waits() {
                return;
            }
            let flushed_bytes = self.output.delivery.flushed_bytes;
            let receivers = std::mem::take(&mut self.output.delivery).receivers;
            let receivers = self.flush_each(receivers);
            self.output.delivery = MessageDelivery { receivers, flushed_bytes, ..MessageDelivery::default() };
        }
        // Output just sent may remain in the reactor until the next turn's events arrive.
        let unsent = &self.statistics.memory.unsent;
        unsent.subtract(std::mem::take(&mut self.output.delivery.flushed_bytes));
        self.output.delivery.flushed_bytes = unsent.value();
    }

    /// Requests a wake-up when more of the write log is durable or more lines are written, and sends the output that need
    /// not wait any more.
    fn release_held(&mut self) {
        let _ = self.shared.persistence.append_only.released.request_wake(self.index);
        logging::request_wake(self.index);
        let Self { connections, executor, shared, clock, .. } = self;
        let is_ready = |token: &mut Token| {
            let connection = connections.find_mut(*token);
            connection.is_none_or(|one| !must_wait(one, shared, &executor.settings, clock.uptime))
        };
        let ready: Vec<Token> = self.output.held.extract_if(.., is_ready).collect();
        self.flush_each(ready);
    }

    /// Sends the output of these connections. Returns the list, empty.
    fn flush_each(&mut self, mut tokens: Vec<Token>) -> Vec<Token> {
        for token in tokens.drain(..) {
            self.flush(token);
            self.leave_dormant(token);
        }
        tokens
    }

    /// Sends the output of a connection, and closes it after that if it is closing.
    pub(super) fn flush(&mut self, token: Token) {
        let spare = self.output.spare_buffers.pop();
        let Some(connection) = self.connections.find_mut(token) else {
            self.output.spare_buffers.extend(spare);
            return;
        };
        if connection.is_moving() || (connection.client.holds_replies() && !connection.is_closing()) {
            // Its output moves with it, or is sent when its wait ends.
            self.output.spare_buffers.extend(spare);
            return;
        }
        if must_wait(connection, self.shared, &self.executor.settings, self.clock.uptime) {
            self.output.spare_buffers.extend(spare);
            if !std::mem::replace(&mut connection.sending.awaits_disk, true) {
                self.output.held.push(token);
            }
            if connection.client.replies.size() > HELD_OUTPUT_SIZE_MAX {
                self.pause_requests(token);
            }
            return;
        }
        connection.sending.awaits_disk = false;
        let id = connection.id;
        if connection.is_closing() {
            if connection.client.session.flags.contains(SessionFlags::REVOKED) {
                connection.close().by.get_or_insert(self.clock.uptime.plus_ms(REVOKED_CLOSE_MS));
            }
            self.end_services(token);
            self.hide_before_last_send(token);
        }
        let Some(connection) = self.connections.find_mut(token) else { return };
        if connection.client.replies.bytes.is_empty() {
            self.output.spare_buffers.extend(spare);
        } else if self.shared.connections.reply_buffers.counts_blocks()
            && is_unauthenticated(connection, &self.executor.settings)
        {
            self.output.spare_buffers.extend(spare);
            self.end_for_output(token);
            return;
        } else {
            // Output that can't be sent at once counts by its length.
            let (room, len) =
                (connection.client.replies.bytes.capacity(), connection.client.replies.bytes.len());
            if room - len > UNUSED_SIZE_MAX
                && (len > PASSING_SIZE_MAX || self.events.reactor.pending_send_bytes(id) > 0)
            {
                connection.client.replies.bytes.shrink_to_fit();
            }
            let size = connection.client.replies.size() as u64;
            self.statistics.sockets.writes.add(1);
            self.statistics.sockets.sent_bytes.add(size);
            connection.record.sent_bytes.add(size);
            connection.sending.reply_buffer.note(size as usize);
            // Buffers that are kept count as memory in use, and would evict keys.
            let spare = spare.filter(|_| !self.shared.memory.is_over_limit.load(Ordering::Relaxed));
            let mut out = std::mem::replace(&mut connection.client.replies.bytes, spare.unwrap_or_default());
            let parts = std::mem::take(&mut connection.client.replies.parts);
            if connection.encryption.is_some() {
                self.send_encrypted(token, out, parts);
                return self.after_flush(token);
            }
            // From the end, so that no byte is moved twice.
            let parts: Vec<_> = parts
                .into_iter_from_end()
                .map(|part| (part.kind, part.text, out.split_off(part.at)))
                .collect();
            self.events.reactor.send(id, out);
            for (kind, text, behind) in parts.into_iter().rev() {
                match kind {
                    PartKind::Message => self.events.reactor.send_message(id, text),
                    PartKind::Value | PartKind::Chunk => self.events.reactor.send_shared(id, text),
                }
                if !behind.is_empty() {
                    self.events.reactor.send(id, behind);
                }
            }
        }
        if connection.is_closing() {
            if connection.encryption.is_some() {
                return self.after_flush(token);
            }
            self.events.reactor.close(id, CloseMode::AfterSends);
        }
        let Some(connection) = self.connections.find_mut(token) else { return };
        let pending = self.events.reactor.pending_send_bytes(id) + connection.queued_output();
        // A connection that is closed for its own output must not evict others for their memory.
        if pending > 0 && !self.check_output_size(token, pending) {
            return;
        }
        self.note_output(token, pending);
    }

    /// Handles a buffer that is completely sent.
    pub(super) fn sent(&mut self, token: Token, buffer: Vec<u8>) {
        self.output.keep_spare_buffer(buffer, &self.shared.memory);
        let Some(mut connection) = self.connections.find_mut(token) else {
            return;
        };
        if connection.queued_output() > 0 {
            self.continue_output(token);
            let Some(again) = self.connections.find_mut(token) else { return };
            connection = again;
        }
        let pending = self.events.reactor.pending_send_bytes(connection.id) + connection.queued_output();
        if pending == 0 {
            connection.sending.soft_limit_since = None;
        }
        let is_paused = connection.sending.pauses_requests;
        if is_paused && pending <= output_pause_size(self.shared, &self.executor.settings, pending) / 2 {
            let Some(connection) = self.connections.find_mut(token) else { return };
            connection.sending.pauses_requests = false;
            if !connection.input.is_paused {
                self.events.reactor.resume_receive(connection.id);
            }
            if connection.input.has_more {
                self.waits.ready.push(token);
            }
        }
        self.note_output(token, pending);
    }

    /// Closes a connection whose output exceeds its class's limits; pauses receiving from one that is far
    /// behind. Returns whether the connection remains.
    pub(super) fn check_output_size(&mut self, token: Token, pending: usize) -> bool {
        let now = self.clock.uptime;
        let settings = &self.executor.settings;
        let Some(connection) = self.connections.find_mut(token) else { return false };
        // What a replica has not been sent is bounded by the memory of the stream, see `worker/replicas.rs`.
        if connection.client.forwarding.is_some() || connection.replica.is_some() {
            return true;
        }
        let class = if connection.client.session.in_subscribed_mode() {
            ClientClass::Pubsub
        } else {
            ClientClass::Normal
        };
        let limit = settings.config.client_output_buffer_limit.of(class);
        let hard = (is_unauthenticated(connection, settings) && pending > UNAUTHENTICATED_OUTPUT_SIZE_MAX)
            || limit.hard_size > 0 && pending as u64 >= limit.hard_size;
        if hard || is_over_soft_limit(connection, pending as u64, limit.soft_size, limit.soft_seconds, now) {
            self.end_for_output(token);
            return false;
        }
        if pending > output_pause_size(self.shared, settings, pending) {
            self.pause_requests(token);
        }
        true
    }

    pub(super) fn pause_requests(&mut self, token: Token) {
        let Some(connection) = self.connections.find_mut(token) else { return };
        if !connection.sending.pauses_requests {
            connection.sending.pauses_requests = true;
            let id = connection.id;
            self.events.reactor.pause_receive(id);
        }
    }

    /// Closes a connection whose output exceeds a limit, unless it is being closed at once.
    pub(super) fn end_for_output(&mut self, token: Token) {
        let Some(connection) = self.connections.find_mut(token) else { return };
        if connection.record.memory_charge.is_released() {
            return;
        }
        let session = &connection.client.session;
        log::warn!(
            "Client id={} addr={} closed for overcoming of output buffer limits.",
            session.id,
            session.endpoints.peer
        );
        self.shared.connections.over_output_limit.fetch_add(1, Ordering::Relaxed);
        self.close_now(token);
    }

    /// Closes a connection whose incomplete request exceeds `client-query-buffer-limit`. As in Valkey, this
    /// counts the queued requests of a transaction, and of an incomplete request only the incomplete argument:
    /// complete ones have left the buffer. Complete requests that wait do not count, as receiving pauses for them.
    /// Earlier requests are answered first, unless the client does not read.
    pub(super) fn check_query_size(&mut self, token: Token) {
        let (limit, shared) = (self.executor.settings.config.client_query_buffer_limit as usize, self.shared);
        // The stream of the primary is as it is.
        let is_limited = |connection: &&mut Connection| connection.client.forwarding.is_none();
        let Some(connection) = self.connections.find_mut(token).filter(is_limited) else { return };
        let queue_size = connection.client.session.multi.as_ref().map_or(0, |queue| queue.size());
        let arriving_size = connection.input.query.argument().map_or(0, LargeArgument::arriving_size);
        let input_size = match connection.input.has_more {
            true => 0,
            false => {
                connection.input.query.len().saturating_sub(connection.client.parser.read_size())
                    + arriving_size
            }
        };
        if input_size + queue_size <= limit {
            return;
        }
        log::warn!(
            "Closing client that reached max query buffer length: id={} addr={} qbuf={input_size} multi-mem={queue_size}",
            connection.client.session.id,
            connection.client.session.endpoints.peer
        );
        shared.connections.over_query_limit.fetch_add(1, Ordering::Relaxed);
        if connection.is_waiting() || connection.sending.pauses_requests {
            self.close_now(token);
            return;
        }
        // Earlier requests are answered.
        connection.input.query = QueryBuffer::default();
        connection.client.session.multi = None;
        connection.close();
        self.output.dirty.push(token);
    }

    /// Delivers a message to its subscribers in this worker.
    pub(super) fn deliver(&mut self, number: u64, message: &Message) {
        let Self { host, connections, output, statistics, .. } = self;
        let delivery = &mut output.delivery;
        host.subscriptions.deliver(message, |token, form| {
            let Some(connection) = connections.find_mut(token) else {
                return;
            };
            let session = &connection.client.session;
            if session.delivered_seq >= number || connection.is_closing() {
                return;
            }
            if connection.client.replies.bytes.is_empty() {
                delivery.receivers.push(token);
            }
            let (before, size) =
                (connection.client.replies.bytes.capacity(), connection.client.replies.bytes.len());
            match form.shared_text() {
                None => form.write(&mut connection.client.replies.bytes, session.protocol),
                Some(text) => {
                    form.write_without_text(&mut connection.client.replies.bytes, session.protocol);
                    connection
                        .client
                        .replies
                        .parts
                        .push_message(connection.client.replies.bytes.len(), Arc::clone(text));
                }
            }
            delivery.size += connection.client.replies.bytes.len() - size
                + form.shared_text().map_or(0, |text| text.len());
            statistics.memory.unsent.add((connection.client.replies.bytes.capacity() - before) as u64);
        });
    }

    /// Sends a line to the connections in `MONITOR` mode.
    pub(super) fn send_to_monitors(&mut self, line: &[u8]) {
        self.shared.hub.delivered(self.index, line.len() as u64);
        for connection in self.connections.iter_mut() {
            if connection.client.session.flags.contains(SessionFlags::MONITOR) {
                connection.client.replies.bytes.extend_from_slice(line);
                self.output.dirty.push(connection.client.token);
            }
        }
    }
}

/// The pending output from which on a connection's requests wait; `pending` bytes are pending now.
fn output_pause_size(shared: &Shared, settings: &WorkerSettings, pending: usize) -> usize {
    if pending <= OUTPUT_PAUSE_SIZE_MIN {
        return OUTPUT_PAUSE_SIZE;
    }
    let memory = match settings.config.maxmemory {
        0 => shared.identity.available_memory,
        limit => limit,
    };
    let is_much = shared.monitoring.statistics.client_memory() > memory / CLIENT_MEMORY_SHARE;
    if is_much { OUTPUT_PAUSE_SIZE_MIN } else { OUTPUT_PAUSE_SIZE }
}

/// Whether the output of a connection must wait for a disk.
#[inline]
fn must_wait(connection: &mut Connection, shared: &Shared, settings: &WorkerSettings, now: Uptime) -> bool {
    connection.client.logged.is_some() && awaits_log(connection, now)
        || connection.client.session.reply_lsn > shared.persistence.append_only.released.end()
            && settings.awaits_disk
            && !simulation::planted(faults::EARLY_REPLY)
}

/// Whether the output of a connection must wait for the lines that its requests have logged.
#[cold]
fn awaits_log(connection: &mut Connection, now: Uptime) -> bool {
    let is_closing = connection.is_closing();
    let Some(logged) = &mut connection.client.logged else { return false };
    let until = *logged.until.get_or_insert(now.plus(LOG_TIME_MAX));
    let waits = !is_closing && now < until && !logging::is_written(logged.line);
    if !waits {
        connection.client.logged = None;
    }
    waits
}

/// Whether the connection must authenticate and never has.
fn is_unauthenticated(connection: &Connection, settings: &WorkerSettings) -> bool {
    let session = &connection.client.session;
    !session.login.is_authenticated && !session.login.was_authenticated && settings.requires_authentication
}

fn is_over_soft_limit(
    connection: &mut Connection,
    pending: u64,
    soft: u64,
    seconds: u64,
    now: Uptime,
) -> bool {
    if soft == 0 || pending < soft {
        connection.sending.soft_limit_since = None;
        return false;
    }
    let since = *connection.sending.soft_limit_since.get_or_insert(now);
    now.ms_since(since) > seconds as i64 * 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivery(receiver_count: usize, size: usize) -> MessageDelivery {
        MessageDelivery { receivers: vec![Token(0); receiver_count], size, ..MessageDelivery::default() }
    }

    #[test]
    fn messages_to_many_subscribers_are_batched() {
        let mut many = delivery(DELIVERY_RECEIVER_COUNT_MIN, 1000);
        assert!(many.waits());
        many.size += 1000;
        many.since = many.since.map(|_| Ticks::now());
        assert!(many.waits());
        assert!(!many.waits(), "no message arrived");
        many.size += 1000;
        many.since = Some(Ticks::from_raw(0));
        assert!(!many.waits(), "the time limit is reached");
        assert!(!delivery(DELIVERY_RECEIVER_COUNT_MIN, DELIVERY_SIZE_MAX).waits(), "the limit is reached");
        assert!(!delivery(DELIVERY_RECEIVER_COUNT_MIN - 1, 1000).waits(), "the subscribers are few");
    }
}
