//! The replicas of this server (`PSYNC`, `REPLCONF`, `WAIT`).

use base::Lsn;

use crate::declared_replica::ChannelForm;
use crate::session::Session;

/// The replicas, and the stream that they receive.
pub trait Replicas {
    /// Makes the session's connection a replica's. `from`: the id and the offset with which it asks to continue.
    fn synchronise(&self, session: &Session, from: Option<(&[u8], u64)>) -> SyncAnswer;
    /// A replica has applied the stream up to an offset, and has it on disk up to another one.
    fn acknowledged(&self, session: &Session, applied: u64, durable: Option<u64>);
    /// The number of replicas that have applied everything up to an LSN, and of those that have it on disk.
    fn replicas_at(&self, lsn: Lsn) -> AcknowledgedCounts;
    /// Whether this server is a replica.
    fn is_replica(&self) -> bool;
    /// The offset of the end of the stream.
    fn stream_offset(&self) -> u64;
    /// Whether a client is a replica that awaits a connection for its snapshot.
    fn awaits_channel(&self, client: u64) -> bool;
    /// Whether a client has asked for a snapshot whose stream another connection of the replica is going to ask for.
    fn is_stream_expected(&self, client: u64) -> bool;
    /// The replicas, for `ROLE`.
    fn replica_facts(&self) -> Vec<ReplicaFacts>;
}

/// What a replica gets that asks for the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyncAnswer {
    /// The stream from where it is; the id of the data.
    Continue(String),
    /// A snapshot first. The answer follows when it begins.
    Snapshot,
    /// A snapshot, if it asks for it on a connection of its own.
    Channel(ChannelForm),
    /// Neither: this server is a replica that has no data to give.
    NoData,
    /// Neither: a failover is under way.
    FailingOver,
}

/// Numbers of replicas that have acknowledged an LSN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AcknowledgedCounts {
    /// They have applied it.
    pub applied: i64,
    /// They have it on disk.
    pub durable: i64,
}

/// A replica, for `ROLE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaFacts {
    /// Its address.
    pub address: String,
    /// The port on which it listens.
    pub port: u16,
    /// The offset that it has acknowledged.
    pub offset: u64,
}
