//! The replicas among a worker's connections: each is sent what follows for it when its earlier output is sent.

use std::sync::Arc;

use config::ClientClass;
use os::clock::Uptime;
use sync::atomic::Ordering;

use super::Worker;
use crate::connection::replica::{Next, Replica, ReplicaState};
use crate::connection::token::Token;

/// About how many bytes are sent to a replica at a time.
const PORTION_SIZE: usize = 256 << 10;

/// Bytes of replies that are not sent yet, beyond which the stream waits. Replies may wait for the disk.
const REPLIES_MAX: usize = 1 << 10;

/// The interval of line ends to a replica that waits for a snapshot, in milliseconds: it would give up otherwise.
const KEEP_ALIVE_MS: i64 = 1000;

/// How long a replica may take to receive the last bytes before its connection is closed, in milliseconds.
const LAST_PORTION_MS: i64 = 1000;

/// A request of a primary to its replicas, to show that it is there.
pub(super) const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

/// The replicas of a worker.
#[derive(Default)]
pub(super) struct OwnReplicas {
    tokens: Vec<Token>,
    /// When the next line ends are due.
    next_keep_alive: Uptime,
}

impl Worker {
    /// Takes over a connection of a replica: one that has just asked for the stream, or was moved here.
    fn adopt_replica(&mut self, replica: Arc<Replica>) {
        let token = replica.record.place();
        let Some(connection) = self.connections.find_mut(token) else {
            // It was closed in the turn in which it asked.
            return self.note_end_of_replica(Some(replica));
        };
        connection.replica = Some(replica);
        let id = connection.id;
        self.replicas.tokens.push(token);
        if self.executor.settings.config.repl_disable_tcp_nodelay {
            // Over a unix socket there are no segments.
            let _ = self.events.reactor.clear_nodelay(id);
        }
    }

    /// Notes that a connection was moved here, if it is that of a replica.
    pub(super) fn note_moved_replica(&mut self, token: Token) {
        if self.connections.find(token).is_some_and(|connection| connection.replica.is_some()) {
            self.replicas.tokens.push(token);
        }
    }

    /// Sends replicas what follows for them. Called at the end of each turn.
    #[inline]
    pub(super) fn send_to_replicas(&mut self) {
        for replica in self.host.take_new_replicas() {
            self.adopt_replica(replica);
        }
        if !self.replicas.tokens.is_empty() {
            self.send_to_each_replica();
        }
    }

    #[cold]
    fn send_to_each_replica(&mut self) {
        let replication = &self.shared.replication;
        let _ = replication.fed.request_wake(self.index);
        let limit = match self.executor.settings.awaits_disk {
            false => u64::MAX,
            // A crash must not leave a replica with more than its primary.
            true => {
                let _ = self.shared.persistence.append_only.released.request_wake(self.index);
                replication.feed.offset_of(self.shared.persistence.append_only.released.end())
            }
        };
        for token in std::mem::take(&mut self.replicas.tokens) {
            let Some(connection) = self.connections.find_mut(token) else { continue };
            let Some(replica) = connection.replica.clone().filter(|_| !connection.is_closing()) else {
                continue;
            };
            self.replicas.tokens.push(token);
            let pending = self.events.reactor.pending_send_bytes(connection.id) + connection.queued_output();
            // What follows a short reply, such as `+CONTINUE`, is sent with it: nothing else would wake the worker for it.
            let replies_max = if replica.receives_stream() { REPLIES_MAX } else { 0 };
            let must_wait = pending > 0 || connection.client.replies.bytes.len() > replies_max;
            if connection.is_moving() || must_wait && !replica.must_end() {
                continue;
            }
            let out = &mut connection.client.replies.bytes;
            let size = out.len();
            match replica.next(&replication.feed, limit, PORTION_SIZE, out) {
                next @ (Next::Bytes | Next::Last) => {
                    replication.replicas.sent_bytes.fetch_add((out.len() - size) as u64, Ordering::Relaxed);
                    self.output.dirty.push(token);
                    if next == Next::Last {
                        let close_by = self.clock.uptime.plus_ms(LAST_PORTION_MS);
                        connection.close().by.get_or_insert(close_by);
                        let replica = connection.replica.take();
                        self.note_end_of_replica(replica);
                    }
                }
                Next::TooFarBehind => self.end_for_output(token),
                Next::Nothing => {}
                Next::Close(reason) => {
                    log::warn!("Connection of replica {} is closed: {reason}", replica.address());
                    self.close_now(token);
                }
            }
        }
    }

    /// Keeps replicas alive that wait, and ends those that are silent or too far behind. Called every tick.
    pub(super) fn check_replicas(&mut self) {
        let now = self.clock.uptime;
        let keeps_alive = now >= self.replicas.next_keep_alive;
        if keeps_alive {
            self.replicas.next_keep_alive = now.plus_ms(KEEP_ALIVE_MS);
        }
        let config = &self.executor.settings.config;
        let limit = config.client_output_buffer_limit.of(ClientClass::Replica);
        let lag_max = match limit.soft_size {
            0 => u64::MAX,
            size => size.max(config.repl_backlog_size),
        };
        let end = self.shared.replication.feed.end_offset();
        let timeout_ms = i64::from(self.executor.settings.config.repl_timeout) * 1000;
        for token in self.replicas.tokens.clone() {
            let Some(connection) = self.connections.find_mut(token) else { continue };
            let Some(replica) = connection.replica.clone() else { continue };
            if replica.awaits_snapshot() && keeps_alive && !connection.is_closing() {
                connection.client.replies.bytes.push(b'\n');
                self.output.dirty.push(token);
            }
            let pending = self.events.reactor.pending_send_bytes(connection.id) + connection.queued_output();
            let silent_ms = replica.silent_ms(now);
            let untaken_ms = now.to_raw() - replica.taken_at.load(Ordering::Relaxed);
            if replica.behind_ms(lag_max, end, now) > limit.soft_seconds as i64 * 1000 {
                self.end_for_output(token);
            } else if replica.receives_snapshot() && pending > 0 && untaken_ms > timeout_ms {
                log::warn!("Disconnecting timedout replica (full sync): {}", replica.address());
                self.close_now(token);
            } else if replica.state() == ReplicaState::AwaitingChannel
                && now.to_raw() - replica.since > timeout_ms
                && !self.shared.replication.replicas.has_channel_of(replica.record.id)
            {
                log::warn!("Disconnecting timedout replica (no RDB channel): {}", replica.address());
                self.close_now(token);
            } else if (replica.state() == ReplicaState::Online
                || replica.state() == ReplicaState::Buffering && !self.receives_on_channel(&replica))
                && !replica.declared.is_old
                && silent_ms > timeout_ms
            {
                log::warn!("Disconnecting timedout replica (streaming sync): {}", replica.address());
                self.close_now(token);
            }
        }
    }

    /// Whether a replica still receives its snapshot on another connection, and so may be silent on this one.
    fn receives_on_channel(&self, replica: &Replica) -> bool {
        let replicas = &self.shared.replication.replicas;
        replicas.has_channel_of(replica.record.id)
            || replica.declared.other_client.is_some_and(|channel| replicas.find(channel).is_some())
    }

    /// Notes the end of a connection, if it is that of a replica.
    pub(super) fn note_end_of_replica(&mut self, replica: Option<Arc<Replica>>) {
        let Some(replica) = replica else { return };
        // First, so that a snapshot that is cut now gives it no place in the stream that nobody would release.
        replica.end();
        log::info!("Connection with replica {}:{} lost.", replica.address(), replica.declared.port);
        self.shared.replication.replicas.expected.note_end(replica.record.id, Uptime::now());
        if let Some(cursor) = replica.cursor() {
            self.shared.replication.feed.detach(&cursor);
        }
        if let Some(client) = replica.declared.other_client {
            // Before it is removed, so that the other connection is not looked at in between.
            self.shared.replication.replicas.note_end_of_channel(client);
        }
        self.shared.replication.replicas.remove(&replica);
        self.shared.end_pass_without_replicas();
        self.shared.guard_replica_count(&self.executor.settings.config);
    }
}
