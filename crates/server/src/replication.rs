//! Both roles: the link of a replica to its primary, up to the stream, which a worker applies (`worker/primary.rs`), and the
//! snapshots that a primary sends to its replicas.
//!
//! | file | contents |
//! |---|---|
//! | `change.rs` | becoming a replica or a primary |
//! | `failover.rs` | `FAILOVER`: a planned change of roles |
//! | `link.rs` | the thread `broadloom-replica`: attempts to connect, one after another |
//! | `attempt.rs` | one attempt: connection, handshake, snapshot, hand-over to a worker |
//! | `attempt/snapshot.rs` | the snapshot of an attempt, loaded from a file or while it is received |
//! | `attempt/channel.rs` | a snapshot that comes on a connection of its own, while the stream is kept |
//! | `wire.rs` | the connection of an attempt, on a reactor of the thread |
//! | `full_sync.rs` | snapshots for replicas of this server |
//! | `outputs.rs` | where these snapshots go: to the worker of a replica, or first to a file |
//! | `replica_channels.rs` | replicas of this server whose snapshot is sent on a connection of its own |
//! | `install.rs` | the data of a snapshot replace those of the server |
//!
//! The state is in `shared/role.rs`; the protocol is in the crate `replication`. Start reading at `link.rs`.

mod attempt;
pub mod change;
pub mod failover;
mod full_sync;
mod install;
mod link;
mod outputs;
mod replica_channels;
mod wire;
