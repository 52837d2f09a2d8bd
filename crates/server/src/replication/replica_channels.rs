//! Replicas of this server whose snapshot is sent on a connection of its own, the *channel*, while the stream goes to their
//! first connection. The replica keeps the stream until it has loaded the snapshot, so this server need not.
//!
//! | form | who connects them | the stream begins |
//! |---|---|---|
//! | Valkey's | the first connection names the channel | when the first connection asks for it, from the offset that the channel was told at the cut (`$ENDOFF`) |
//! | Redis's | the channel names the first connection | at the cut |

use std::sync::Arc;

use os::clock::Uptime;
use sync::atomic::Ordering;

use crate::connection::replica::{Replica, ReplicaState};
use crate::shared::Shared;
use crate::shared::expected_streams::OverdueStream;
use crate::shared::loading::StreamPosition;

impl Shared {
    /// The answer to a replica whose snapshot is cut at a position; `None`: it expects none.
    pub(super) fn answer_at_cut(&self, replica: &Replica, position: &StreamPosition) -> Option<String> {
        let StreamPosition { id, offset, db } = position;
        let declared = &replica.declared;
        match (declared.is_old, declared.is_channel) {
            (false, _) => Some(format!("+FULLRESYNC {id} {offset}\r\n")),
            (true, true) => Some(format!("$ENDOFF:{offset} {id} {} {}\r\n", db.0, replica.record.id)),
            (true, false) => None,
        }
    }

    /// Begins the stream that belongs to a channel. All latches are held.
    pub(super) fn begin_stream_of(&self, channel: &Replica) {
        let replication = &self.replication;
        let replicas = &replication.replicas;
        let cursor = replication.feed.attach_at_end();
        let Some(client) = channel.declared.other_client else {
            // The words that Valkey's suite searches for.
            log::debug!("Attach replica rdb client {}: the stream is kept for it", channel.record.id);
            replicas.expected.add(channel.record.id, cursor);
            return;
        };
        match replicas.find(client).filter(|main| main.state() == ReplicaState::AwaitingChannel) {
            Some(main) => {
                main.set_cursor(cursor);
                main.set_state(ReplicaState::Buffering);
                if main.state() == ReplicaState::Gone {
                    // Its worker may have looked for its cursor before.
                    self.release_stream_of(&main);
                }
                replicas.wake(&main);
            }
            // Its connection has ended meanwhile. The replica gives up the channel, too.
            None => replication.feed.detach(&cursor),
        }
    }

    /// Releases the place of a stream that a client's replica was going to ask for. Returns whether there was one.
    pub fn release_expected_stream(&self, client: u64) -> bool {
        let cursor = self.replication.replicas.expected.take(client);
        cursor.inspect(|cursor| self.replication.feed.detach(cursor)).is_some()
    }

    /// Releases the place in the stream of a replica that is gone.
    pub(super) fn release_stream_of(&self, replica: &Replica) {
        self.release_expected_stream(replica.record.id);
        if let Some(cursor) = replica.cursor() {
            self.replication.feed.detach(&cursor);
        }
    }

    /// Ends the stream that belongs to a channel whose snapshot has failed.
    pub(super) fn end_stream_of(&self, channel: &Arc<Replica>) {
        if !channel.declared.is_channel {
            return;
        }
        let replicas = &self.replication.replicas;
        self.release_expected_stream(channel.record.id);
        let main = channel.declared.other_client.and_then(|client| replicas.find(client));
        if let Some(main) = main.filter(|main| main.state() == ReplicaState::Buffering) {
            main.end();
            replicas.wake(&main);
        }
    }

    /// Drops streams that no replica has asked for in time, or whose bytes are too many to be kept.
    pub(super) fn drop_overdue_streams(&self, now: Uptime) {
        let replicas = &self.replication.replicas;
        for OverdueStream { client, cursor, is_lost } in replicas.expected.take_overdue(now) {
            self.replication.feed.detach(&cursor);
            if is_lost {
                self.connections.over_output_limit.fetch_add(1, Ordering::Relaxed);
                log::warn!(
                    "Client id={client} closed ASAP for overcoming of output buffer limits. Its replica has not asked for the stream."
                );
            } else {
                log::info!(
                    "Replica main channel failed to establish PSYNC within the grace period. Freeing RDB client {client}."
                );
            }
            if let Some(channel) = replicas.find(client) {
                channel.end();
                replicas.wake(&channel);
            }
        }
    }
}
