//! How threads share: latches, mailboxes, epochs, counters.
//!
//! | module | what for |
//! |---|---|
//! | [`table`] | [`LatchTable`]: slots, each behind a reader/writer latch that nobody ever blocks on |
//! | [`mailbox`] | [`Mailbox`]: messages to one thread, and a wake-up only if it sleeps |
//! | [`epoch`] | [`Domain`](epoch::Domain): memory read without a latch is freed when no thread can still see it |
//! | [`Wait`] | who ends a blocked client's wait: exactly one of all who may |
//! | [`counter`] | [`ThreadCounter`]: statistics written by one thread, read by all |
//! | [`Weight`] | what a connection counts for in a sum, until anybody takes it out |
//! | [`allocator`] | how many bytes are allocated, counted without one counter for all |
//!
//! Owns every atomic of the server; other crates meet threads only through these types.
//! Never does I/O, starts no thread, reads no clock. The only lock is the parking lot's (and the epochs'
//! garbage list's): held for a few dozen instructions, and taken only by who could not have a latch, or
//! who has to call such a waiter.
//!
//! All atomics but the allocator's come from `shim.rs`, so that `RUSTFLAGS="--cfg loom" cargo test -p sync --release --test loom`
//! runs the same code under loom. Miri runs the rest: `cargo +nightly miri test -p sync`.
//! Start reading at `latch.rs`, then `lot.rs`, then `table.rs`.
#![allow(unsafe_code)]

pub mod allocator;
pub mod counter;
pub mod epoch;
pub mod mailbox;
pub mod table;

mod guard;
mod latch;
mod lot;
mod mark;
mod shim;
mod wait;
mod weight;

pub use counter::{Padded, ThreadCounter};
pub use guard::{Guard, ReadGuard, WriteGuard};
pub use latch::Mode;
pub use mailbox::Mailbox;
pub use mark::Mark;
pub use table::{Claim, LatchTable, Parked};
pub use wait::{End, PutBack, TryServe, Wait};
pub use weight::Weight;
