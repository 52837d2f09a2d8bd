//! Synchronization between threads: latches, mailboxes, epochs, counters.
//!
//! | module | contents |
//! |---|---|
//! | [`table`] | [`LatchTable`]: slots behind reader/writer latches, on which no thread ever blocks |
//! | [`mailbox`] | [`Mailbox`]: messages to one thread, with a wake-up only if it sleeps |
//! | [`epoch`] | [`Domain`](epoch::Domain): frees memory that is read without a latch once no thread can still read it |
//! | [`write_log`] | [`WriteLog`](write_log::WriteLog): the totally ordered stream of changes, in a bounded ring |
//! | [`Wait`] | a blocked client's wait, ended by exactly one of several competing events |
//! | [`counter`] | [`ThreadCounter`]: statistics written by one thread, read by all |
//! | [`Passage`] | lock-free reads; after a change the writer can wait for readers of the previous state |
//! | [`MemoryCharge`] | a connection's share of a shared sum; any thread can remove it |
//! | [`simulation`] | deterministic scheduling of all threads from one seed, for tests |
//! | [`allocator`] | the number of allocated bytes, without a single shared counter |
//!
//! Owns the protocols between threads. Other crates use `atomic`, `Mutex`, `mpsc`, `thread` and further names
//! exported here. They are the standard library's, unless the feature `simulation` puts a seeded scheduler
//! behind them.
//! Performs no I/O, starts no thread, reads no clock. The only locks are the parking lot's, that of the
//! epochs' garbage list and that of the write log's readers. Each is held for a few dozen instructions. The lot's is taken only after a failed
//! acquisition, or to wake a waiter; the write log's by readers, by a writer that found no room, and to wake.
//!
//! All atomics but the allocator's come from `shim.rs`, so that `RUSTFLAGS="--cfg loom" cargo test -p sync --release --test loom`
//! runs the same code under loom. Miri runs the rest: `cargo +nightly miri test -p sync`.
//! Start reading at `latch.rs`, then `lot.rs`, then `table.rs`.
#![allow(unsafe_code)]

pub mod allocator;
pub mod counter;
pub mod epoch;
pub mod faults;
pub mod mailbox;
pub mod simulation;
pub mod table;
pub mod write_log;

mod combining;
mod dirty_flag;
mod durable;
mod latch;
mod lot;
mod memory_charge;
mod passage;
mod prefetch;
mod shim;
mod signal;
mod wait;

pub use combining::CombiningLock;
pub use counter::{ChangeMark, Padded, SettledNumber, ThreadCounter};
pub use dirty_flag::DirtyFlag;
pub use durable::DurableLsn;
pub use latch::Mode;
pub use mailbox::Mailbox;
pub use memory_charge::MemoryCharge;
pub use passage::{Closed, Inside, Passage};
pub use prefetch::prefetch_for_writing;
pub use signal::Signal;
pub use table::{Claim, LatchTable, Parked};
pub use table::{Guard, ReadGuard, WriteGuard};
pub use wait::{EndOrRequest, PutBack, TryServe, Wait};

/// A hash map whose iteration order is reproducible in a simulation. Made by `default()`.
pub type HashMap<K, V> = std::collections::HashMap<K, V, RandomState>;
/// A hash set whose iteration order is reproducible in a simulation. Made by `default()`.
pub type HashSet<K> = std::collections::HashSet<K, RandomState>;

// Replacements for `std::sync` and `std::thread` in other crates: the standard types, or simulated ones.
#[cfg(all(feature = "simulation", not(loom)))]
pub use simulation::{
    atomic, channel as mpsc,
    hashing::RandomState,
    locks::{
        Condvar, Mutex, MutexGuard, OnceLock, RwLock, RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult,
    },
    thread,
};
#[cfg(not(all(feature = "simulation", not(loom))))]
pub use std::{
    collections::hash_map::RandomState,
    sync::{
        Condvar, Mutex, MutexGuard, OnceLock, RwLock, RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult,
        atomic, mpsc,
    },
    thread,
};
