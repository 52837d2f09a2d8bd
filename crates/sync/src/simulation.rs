//! Deterministic simulation: the real program on real threads, of which exactly one runs at a time, as the seed
//! decides.
//!
//! With the Cargo feature `simulation` the types that this crate exports (`atomic`, [`Mutex`](crate::Mutex),
//! [`RwLock`](crate::RwLock), [`Condvar`](crate::Condvar), `mpsc`, `thread`) are wrappers whose every operation
//! is a scheduling point. For a thread outside any simulation they behave like the standard library's. Without
//! the feature they are the standard library's types, and the functions of this module are constants.
//!
//! | call | effect |
//! |---|---|
//! | `Scheduler::new(seed, SchedulerOptions)`, `run(main)` | runs `main` and all threads it spawns; the `SimulationOutcome` has digest, steps and `Failure` |
//! | `Scheduler::set_extension`, `extension::<T>()` | one shared object per type, e.g. the simulated network |
//! | `spawn(name, f)`, or [`thread`](crate::thread) | starts another simulated thread |
//! | `point()` | the scheduler may run another thread here |
//! | `pass(Gap::X)` | a point where the thread may be stalled for long, if the options select the gap |
//! | `yield_now()` | another runnable thread runs here, if any; time passes faster while all threads only yield |
//! | `wait_until(deadline_us, ready)` | blocks until `ready()` or the deadline; `true` if ready |
//! | `sleep_us(us)` | blocks for a span of virtual time |
//! | `monotonic_ns()`, `unix_micros()`, `random_u64()` | the virtual clocks and the seed's numbers; `None` outside a simulation |
//! | `step_wall_clock(delta_us)` | changes the wall clock only |
//! | `stall(thread, us)` | the thread is not scheduled for that time |
//! | `stalled_us()` | for how long threads were stalled so far |
//! | `trace(\|\| text)` | an event for the digest and the readable trace |
//! | `without_points(f)` | runs `f` without scheduling points |
//! | `planted(faults::X)` | whether the defect is enabled |
//! | `note_freed`, `note_used`, `assert_not_freed` | track memory that is read without a latch, if there is a `FreedMemory` |
//!
//! Time is virtual: it advances by `POINT_NS` per point, slightly with each switch, and to the next deadline
//! when all threads are blocked. Nothing in the digest depends on addresses, real time or the order of hash
//! maps.
//!
//! Rules for `ready` closures: another thread evaluates them, at each scheduling decision. They may read
//! atomics, the virtual clocks and data behind a `std::sync::Mutex` under which no scheduling point is ever
//! reached. They may not block. A closure becomes true only by another thread's action or by time. In the
//! latter case pass the deadline, since virtual time advances to deadlines only.
//!
//! After a failure (deadlock, step limit, panic) the unfinished threads stay parked for ever: unwinding them
//! would run the program's code in impossible states. A process that meets failures leaks their threads.

#[cfg(all(feature = "simulation", not(loom)))]
pub mod atomic;
#[cfg(all(feature = "simulation", not(loom)))]
pub mod channel;
#[cfg(all(feature = "simulation", not(loom)))]
mod core;
#[cfg(all(feature = "simulation", not(loom)))]
pub mod hashing;
#[cfg(all(feature = "simulation", not(loom)))]
pub mod locks;
#[cfg(all(feature = "simulation", not(loom)))]
mod memory;
#[cfg(all(feature = "simulation", not(loom)))]
mod policy;
#[cfg(all(feature = "simulation", not(loom)))]
mod scheduler;
#[cfg(all(test, feature = "simulation", not(loom)))]
mod tests;
#[cfg(all(feature = "simulation", not(loom)))]
pub mod thread;

#[cfg(all(feature = "simulation", not(loom)))]
pub use self::{
    core::{Failure, POINT_NS, SimulationOutcome, ThreadReport},
    memory::{FreedMemory, assert_not_freed, note_freed, note_used},
    policy::{GapStalls, Random, Schedule},
    scheduler::{
        Scheduler, SchedulerOptions, Task, TraceSink, block_on, current, extension, is_simulated,
        monotonic_ns, pass, planted, point, random_u64, sleep_us, spawn, stall, stalled_us, step_wall_clock,
        trace, unix_micros, wait_until, wake_all, wake_one, without_points, yield_now,
    },
};

#[cfg(not(all(feature = "simulation", not(loom))))]
pub use absent::*;

/// A fixed defect that can be enabled again, to prove that the simulation finds it. The crate that had it declares it with
/// [`planted_faults!`](crate::planted_faults), in its `faults.rs`; the code that it changes asks [`planted`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its name, of lower-case words with dashes.
    pub name: &'static str,
    meaning: &'static str,
}

impl Fault {
    /// Declares a fault. `meaning` is the sentence that is wrong with it.
    #[must_use]
    pub const fn new(name: &'static str, meaning: &'static str) -> Self {
        Self { name, meaning }
    }

    /// What happens with it.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        self.meaning.trim_start()
    }
}

/// Declares the faults of a crate, each as a constant with its meaning and name, and `ALL`, the list of them.
#[macro_export]
macro_rules! planted_faults {
    ($(#[doc = $meaning:literal] $fault:ident = $name:literal;)+) => {
        $(
            #[doc = $meaning]
            pub const $fault: $crate::simulation::Fault = $crate::simulation::Fault::new($name, $meaning);
        )+

        /// All faults of this crate.
        pub const ALL: &[$crate::simulation::Fault] = &[$($fault),+];
    };
}

/// A gap between two steps, in which other threads either must not intervene or must be able to. A long stall
/// here leads to states that a random schedule hardly ever reaches, as they take two or three such stalls at
/// once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gap {
    /// A request was admitted but has not run: an event that begins now, e.g. a pause, does not delay it.
    Admitted,
    /// A message's receiver is chosen, but the message is not posted yet.
    ReceiverChosen,
    /// A stopping thread has checked for remaining work, but has not deregistered.
    LastCheck,
    /// A table has replaced memory, but its hint is not updated yet.
    MemoryReplaced,
    /// A hint has led to memory that is read later in the turn.
    MemoryFound,
    /// A session failed to acquire a latch, but is not queued for it yet.
    LatchRefused,
    /// A script has run for a while, and may pause next.
    ScriptHook,
    /// A latch was released, but the waiters in line are not woken yet.
    LatchReleased,
    /// Latches under which changes were appended to the log are released, but the changes are not announced to its readers.
    ChangesAppended,
}

#[cfg(not(all(feature = "simulation", not(loom))))]
mod absent {
    //! Constants in place of the module without the feature, which the optimiser removes.
    use super::{Fault, Gap};

    /// Nanoseconds of the virtual monotonic clock; `None` outside a simulation.
    #[inline(always)]
    #[must_use]
    pub fn monotonic_ns() -> Option<u64> {
        None
    }

    /// Microseconds of the virtual wall clock since the Unix epoch; `None` outside a simulation.
    #[inline(always)]
    #[must_use]
    pub fn unix_micros() -> Option<i64> {
        None
    }

    /// The next random number of the seed; `None` outside a simulation.
    #[inline(always)]
    #[must_use]
    pub fn random_u64() -> Option<u64> {
        None
    }

    /// Whether the calling thread belongs to a simulation.
    #[inline(always)]
    #[must_use]
    pub fn is_simulated() -> bool {
        false
    }

    /// Whether a defect is enabled.
    #[inline(always)]
    #[must_use]
    pub fn planted(_: Fault) -> bool {
        false
    }

    /// Adds an event to the trace of the simulation.
    #[inline(always)]
    pub fn trace(_: impl FnOnce() -> String) {}

    /// A scheduling point.
    #[inline(always)]
    pub fn point() {}

    /// A named scheduling point.
    #[inline(always)]
    pub fn pass(_: Gap) {}

    /// Records that a block is freed.
    #[inline(always)]
    pub fn note_freed(_: usize, _: usize) {}

    /// Records that a block is in use again.
    #[inline(always)]
    pub fn note_used(_: usize, _: usize) {}

    /// Asserts that an address is not in a freed block.
    #[inline(always)]
    pub fn assert_not_freed(_: usize) {}
}
