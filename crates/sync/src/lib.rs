//! How threads share: latches, mailboxes, epochs, counters.
//!
//! | module | what for |
//! |---|---|
//! | [`table`] | [`LatchTable`]: slots, each behind a reader/writer latch that nobody ever blocks on |
//! | [`mailbox`] | [`Mailbox`]: messages to one thread, and a wake-up only if it sleeps |
//! | [`epoch`] | [`Domain`](epoch::Domain): memory read without a latch is freed when no thread can still see it |
//! | [`Wait`] | who ends a blocked client's wait: exactly one of all who may |
//! | [`counter`] | [`ThreadCounter`]: statistics written by one thread, read by all |
//! | [`Passage`] | what is read without a lock: whoever changes it can wait for those who may have read it before |
//! | [`MemoryCharge`] | what a connection counts for in a sum, until anybody takes it out |
//! | [`simulation`] | all threads under one seed, for tests |
//! | [`allocator`] | how many bytes are allocated, counted without one counter for all |
//!
//! Owns the protocols between threads. Other crates use its `atomic`, `Mutex`, `mpsc`, `thread` and so on instead of the
//! standard library's: they are the standard library's, unless the feature `simulation` puts a seeded scheduler behind them.
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
pub mod simulation;
pub mod table;

mod dirty_flag;
mod guard;
mod latch;
mod lot;
mod memory_charge;
mod passage;
mod shim;
mod wait;

pub use counter::{Padded, ThreadCounter};
pub use dirty_flag::DirtyFlag;
pub use guard::{Guard, ReadGuard, WriteGuard};
pub use latch::Mode;
pub use mailbox::Mailbox;
pub use memory_charge::MemoryCharge;
pub use passage::{Closed, Inside, Passage};
pub use table::{Claim, LatchTable, Parked};
pub use wait::{End, PutBack, TryServe, Wait};

/// A hash map whose order repeats in a simulation. Made by `default()`.
pub type HashMap<K, V> = std::collections::HashMap<K, V, RandomState>;
/// A hash set whose order repeats in a simulation. Made by `default()`.
pub type HashSet<K> = std::collections::HashSet<K, RandomState>;

// What other crates use instead of `std::sync` and `std::thread`: the same, or what a simulation schedules.
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
