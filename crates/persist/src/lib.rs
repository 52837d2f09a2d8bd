//! Files: append-only files with their directory and manifest, reading and checking; the files of snapshots.
//!
//! | module | contents |
//! |---|---|
//! | [`disk`] | [`Disk`](disk::Disk): a file system as this crate needs it; the real one, and one that fails and crashes |
//! | [`manifest`] | [`Manifest`](manifest::Manifest): which files make up the data |
//! | [`files`] | [`AppendOnlyFiles`](files::AppendOnlyFiles): appending, syncing and rewriting, recoverable at any point |
//! | [`reading`] | [`Reader`](reading::Reader): requests and annotations in the bytes of a file; where a damaged file is still valid |
//! | [`snapshots`] | [`Snapshots`](snapshots::Snapshots): the data of one instant goes to one or more outputs, such as a file |
//! | [`append_only`] | [`AppendOnly`](append_only::AppendOnly): an append-only file as all threads of a server see it |
//! | [`writer`] | [`Writer`](writer::Writer): the thread that writes it from the write log |
//! | [`check`] | `broadloom check-aof`: checks and repairs files |
//!
//! Never runs a request. Threads, locks and clocks are those of `sync` and `os`, so that a simulation has them. What a thread asks of
//! the server goes through a trait, [`WriterHost`](writer::WriterHost). No I/O outside `disk/system.rs` and `disk/lock.rs`.
//! Start reading at `files.rs`.

pub mod append_only;
pub mod check;
pub mod disk;
pub mod files;
pub mod manifest;
pub mod reading;
pub mod snapshots;
pub mod writer;
