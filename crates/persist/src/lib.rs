//! The data on disk: append-only files, and snapshots of the data.
//!
//! | module | contents |
//! |---|---|
//! | [`disk`] | [`Disk`](disk::Disk): a file system as this crate needs it; the real one, and one that fails and crashes |
//! | [`append_only`] | the append-only files: their directory, and the thread that writes them; reading, checking |
//! | [`snapshots`] | [`Snapshots`](snapshots::Snapshots): the data of one instant goes to one or more outputs, such as a file |
//!
//! Never runs a request. Threads, locks and clocks are those of `sync` and `os`, so that a simulation has them. What the thread that
//! writes the files asks of the server goes through a trait, [`WriterHost`](writer::WriterHost). No I/O outside `disk/system.rs` and
//! `disk/lock.rs`.
//! Start reading at `append_only/files.rs`, then `append_only/writer.rs` and `snapshots.rs`.

pub mod append_only;
pub mod disk;
pub mod faults;
pub mod snapshots;

pub use append_only::{check, files, manifest, reading, stream, writer};
