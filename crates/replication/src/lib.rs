//! Replication: the stream that replicas receive, and the state machines of both roles.
//!
//! | module | contents |
//! |---|---|
//! | [`id`] | [`ReplicationId`]: the name of a history of the data |
//! | [`history`] | [`History`](history::History): which histories a replica may continue, and up to where |
//! | [`backlog`] | [`Backlog`](backlog::Backlog): the newest bytes of the stream |
//! | [`feed`] | [`Feed`](feed::Feed): moves the write log into the backlog, and counts offsets |
//! | [`replica`] | [`Handshake`](replica::Handshake), [`SnapshotFrame`](replica::SnapshotFrame): the replica's side, up to the stream |
//!
//! An *offset* is a position in the stream: the number of bytes before it, as replicas count them. It differs from the LSN
//! of the write log, which also has what only files receive.
//!
//! No sockets, threads, clock or randomness: events go in, bytes and actions come out. Start reading at `feed.rs`.

pub mod backlog;
pub mod faults;
pub mod feed;
pub mod history;
pub mod id;
pub mod replica;

pub use history::History;
pub use id::ReplicationId;
