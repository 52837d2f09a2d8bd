//! What each thread counts of connections and commands; summed for `INFO`, never by stopping anyone.

use base::limits::THREAD_COUNT_MAX;
use commands::table::{CommandId, NUMBERED};
use sync::OnceLock;
use sync::atomic::{AtomicUsize, Ordering};
use sync::{Padded, ThreadCounter};

/// Sub-buckets of a doubling in a latency histogram: quantiles are within 1/16.
const SUB_BITS: u32 = 4;
/// Buckets of a latency histogram: up to 2^40 nanoseconds.
pub const BUCKET_COUNT: usize = ((40 - SUB_BITS as usize) + 2) << SUB_BITS;

/// One thread's counters.
pub struct ThreadStatistics {
    /// Connections accepted here.
    pub connections_received: ThreadCounter,
    /// Commands executed.
    pub commands_processed: ThreadCounter,
    /// Times that something was received.
    pub reads: ThreadCounter,
    /// Buffers sent.
    pub writes: ThreadCounter,
    /// Bytes received.
    pub received_bytes: ThreadCounter,
    /// Bytes sent.
    pub sent_bytes: ThreadCounter,
    /// Bytes of the buffers that hold the output of this turn.
    pub unsent_bytes: ThreadCounter,
    /// Bytes of the buffer for the replies of the connection in hand, if memory is limited and the buffer is not kept.
    pub in_hand_bytes: ThreadCounter,
    /// Bytes of memory of connections that are being closed: the sum over all threads is right, and wraps.
    pub leaving_bytes: ThreadCounter,
    /// The most bytes of input that waited, and of output, of one connection of late.
    pub input_buffer_max: RecentMax,
    /// See above.
    pub output_buffer_max: RecentMax,
    /// Turns of the event loop.
    pub turns: ThreadCounter,
    /// Bytes of memory of connections, as counted here: the sum over all threads is right, and wraps.
    pub client_memory: ThreadCounter,
    /// Time spent on periodic work, in nanoseconds.
    pub cron_ns: ThreadCounter,
    /// Time spent outside of waiting, in nanoseconds.
    pub busy_ns: ThreadCounter,
    /// Time spent looking for expired keys, in nanoseconds.
    pub expire_ns: ThreadCounter,
    /// How often its time was over before all was seen.
    pub expire_cut_short: ThreadCounter,
    /// Entries that defragmentation moved, and those that it looked at.
    pub defrag_moved: ThreadCounter,
    /// See above.
    pub defrag_seen: ThreadCounter,
    /// Time spent on it, in nanoseconds.
    pub defrag_ns: ThreadCounter,
    /// How much of the thread's time it may take at present, in percent.
    pub defrag_percent: ThreadCounter,
    /// The millisecond of the monotonic clock since when it runs; 0: it does not.
    pub defrag_since_ms: ThreadCounter,
    /// Errors answered.
    pub errors: ThreadCounter,
    /// Number of the command that ran last, or runs, plus one; 0: none yet.
    pub current_command: ThreadCounter,
    /// The connection that it runs or ran for, by its number.
    pub current_client: ThreadCounter,
    /// The millisecond of the monotonic clock since when the thread is busy; 0: it waits.
    pub turn_since_ms: ThreadCounter,
    /// The I/O backend.
    pub backend: OnceLock<&'static str>,
    /// Sessions that had to wait for a latch.
    pub parked: ThreadCounter,
    /// CPU time of the thread, in microseconds, as of its last cron: user.
    pub cpu_user_us: ThreadCounter,
    /// The same: system.
    pub cpu_system_us: ThreadCounter,
    /// Whether durations are noted; 0: they are not.
    pub tracks_latency: ThreadCounter,
    commands: Box<[OnceLock<Box<CommandStatistics>>]>,
}

/// The largest of the numbers that a thread has noted of late: since the last period began. Written by that thread only.
#[derive(Default)]
pub struct RecentMax {
    now: ThreadCounter,
    before: ThreadCounter,
}

impl RecentMax {
    /// Takes a number into account.
    #[inline]
    pub fn note(&self, number: u64) {
        if number > self.now.value() {
            self.now.set(number);
        }
    }

    /// A period ends: what lasts has been noted in it, and is noted in the next one again.
    pub fn end_period(&self) {
        self.before.set(self.now.value());
        self.now.set(0);
    }

    /// The largest of this period and the last one.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.now.value().max(self.before.value())
    }
}

/// One thread's counters of one command.
pub struct CommandStatistics {
    /// Executions.
    pub calls: ThreadCounter,
    /// Time of all executions, in nanoseconds.
    pub ns: ThreadCounter,
    /// Refused before execution.
    pub rejected: ThreadCounter,
    /// Failed in execution.
    pub failed: ThreadCounter,
    /// Executions by duration while that was asked for (`latency-tracking`); see [`bucket_of`].
    pub histogram: OnceLock<Box<[ThreadCounter]>>,
}

impl CommandStatistics {
    fn new() -> Self {
        Self {
            calls: ThreadCounter::new(),
            ns: ThreadCounter::new(),
            rejected: ThreadCounter::new(),
            failed: ThreadCounter::new(),
            histogram: OnceLock::new(),
        }
    }

    fn reset(&self) {
        let counters = [&self.calls, &self.ns, &self.rejected, &self.failed];
        counters
            .into_iter()
            .chain(self.histogram.get().into_iter().flatten())
            .for_each(|counter| counter.set(0));
    }

    #[inline]
    fn note_durations(&self, calls: u64, ns: u64) {
        let buckets =
            self.histogram.get_or_init(|| (0..BUCKET_COUNT).map(|_| ThreadCounter::new()).collect());
        buckets[bucket_of(ns / calls.max(1))].add(calls);
    }
}

/// The bucket of a duration: exact below 2^SUB_BITS ns, then 16 buckets a doubling.
#[must_use]
#[inline]
pub fn bucket_of(ns: u64) -> usize {
    if ns < 1 << SUB_BITS {
        return ns as usize;
    }
    let exponent = 63 - ns.leading_zeros();
    let sub = (ns >> (exponent - SUB_BITS)) as usize & ((1 << SUB_BITS) - 1);
    ((((exponent - SUB_BITS + 1) as usize) << SUB_BITS) + sub).min(BUCKET_COUNT - 1)
}

/// The largest duration of a bucket, in nanoseconds.
#[must_use]
pub fn bucket_max_ns(bucket: usize) -> u64 {
    if bucket < 1 << SUB_BITS {
        return bucket as u64;
    }
    let exponent = (bucket >> SUB_BITS) as u32 + SUB_BITS - 1;
    let sub = (bucket & ((1 << SUB_BITS) - 1)) as u64;
    (((1 << SUB_BITS) + sub + 1) << (exponent - SUB_BITS)) - 1
}

impl ThreadStatistics {
    fn new() -> Self {
        Self {
            connections_received: ThreadCounter::new(),
            commands_processed: ThreadCounter::new(),
            reads: ThreadCounter::new(),
            writes: ThreadCounter::new(),
            received_bytes: ThreadCounter::new(),
            sent_bytes: ThreadCounter::new(),
            unsent_bytes: ThreadCounter::new(),
            in_hand_bytes: ThreadCounter::new(),
            leaving_bytes: ThreadCounter::new(),
            input_buffer_max: RecentMax::default(),
            output_buffer_max: RecentMax::default(),
            turns: ThreadCounter::new(),
            client_memory: ThreadCounter::new(),
            cron_ns: ThreadCounter::new(),
            busy_ns: ThreadCounter::new(),
            expire_ns: ThreadCounter::new(),
            expire_cut_short: ThreadCounter::new(),
            defrag_moved: ThreadCounter::new(),
            defrag_seen: ThreadCounter::new(),
            defrag_ns: ThreadCounter::new(),
            defrag_percent: ThreadCounter::new(),
            defrag_since_ms: ThreadCounter::new(),
            errors: ThreadCounter::new(),
            current_command: ThreadCounter::new(),
            current_client: ThreadCounter::new(),
            turn_since_ms: ThreadCounter::new(),
            backend: OnceLock::new(),
            parked: ThreadCounter::new(),
            cpu_user_us: ThreadCounter::new(),
            cpu_system_us: ThreadCounter::new(),
            tracks_latency: ThreadCounter::new(),
            commands: NUMBERED.iter().map(|_| OnceLock::new()).collect(),
        }
    }

    /// The counters of a command on this thread; made at its first use here.
    #[inline]
    pub fn command(&self, id: CommandId) -> &CommandStatistics {
        self.commands[id.0 as usize].get_or_init(|| Box::new(CommandStatistics::new()))
    }

    /// The same if the command was ever used here.
    #[must_use]
    pub fn command_if_used(&self, id: CommandId) -> Option<&CommandStatistics> {
        self.commands[id.0 as usize].get().map(|statistics| &**statistics)
    }

    /// Time of all executions here, in nanoseconds.
    #[must_use]
    pub fn command_ns(&self) -> u64 {
        self.commands.iter().filter_map(|command| Some(command.get()?.ns.value())).sum()
    }

    /// So many more executions of a command that took so many nanoseconds together.
    #[inline]
    pub fn ran(&self, id: CommandId, calls: u64, ns: u64) {
        let command = self.command(id);
        command.calls.add(calls);
        command.ns.add(ns);
        if self.tracks_latency.value() != 0 {
            command.note_durations(calls, ns);
        }
    }
}

/// The counters of every thread there can be; a thread's are made when it first runs.
pub struct Statistics {
    threads: Box<[OnceLock<Padded<ThreadStatistics>>]>,
    /// One more than the highest number of a thread that ever ran: sums go no further.
    seen: AtomicUsize,
}

impl Statistics {
    /// All zero.
    #[must_use]
    pub fn new() -> Self {
        Self { threads: (0..THREAD_COUNT_MAX).map(|_| OnceLock::new()).collect(), seen: AtomicUsize::new(0) }
    }

    /// The counters of a thread.
    pub fn thread(&self, index: usize) -> &ThreadStatistics {
        let make = || {
            self.seen.fetch_max(index + 1, Ordering::Release);
            Padded(ThreadStatistics::new())
        };
        &self.threads[index].get_or_init(make).0
    }

    /// The counters of all threads that ever ran, with the number of each.
    pub fn threads(&self) -> impl Iterator<Item = (usize, &ThreadStatistics)> {
        let seen = &self.threads[..self.seen.load(Ordering::Acquire)];
        seen.iter().enumerate().filter_map(|(index, thread)| Some((index, &thread.get()?.0)))
    }

    /// Sets the counters to zero, those of the processor time apart; an increment at the same instant may survive.
    pub fn reset(&self) {
        for (_, thread) in self.threads() {
            for counter in [
                &thread.connections_received,
                &thread.commands_processed,
                &thread.reads,
                &thread.writes,
                &thread.received_bytes,
                &thread.sent_bytes,
                &thread.turns,
                &thread.errors,
                &thread.defrag_moved,
                &thread.defrag_seen,
                &thread.defrag_ns,
                &thread.expire_ns,
                &thread.expire_cut_short,
                &thread.parked,
            ] {
                counter.set(0);
            }
            for command in thread.commands.iter().filter_map(|command| command.get()) {
                command.reset();
            }
        }
    }

    /// The sum of one counter.
    #[must_use]
    pub fn sum(&self, of: impl Fn(&ThreadStatistics) -> &ThreadCounter) -> u64 {
        self.threads().map(|(_, thread)| of(thread).value()).fold(0, u64::wrapping_add)
    }
}

impl Default for Statistics {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recent_maximum_lasts_for_a_period_and_the_rest_of_its_own() {
        let recent = RecentMax::default();
        recent.note(7);
        recent.note(5);
        assert_eq!(recent.value(), 7);
        recent.end_period();
        recent.note(3);
        assert_eq!(recent.value(), 7);
        recent.end_period();
        assert_eq!(recent.value(), 3);
    }

    #[test]
    fn buckets_are_ordered_and_hold_what_they_say() {
        let mut last = 0;
        for ns in (0..200_000).chain([1 << 30, 1 << 41, u64::MAX]) {
            let bucket = bucket_of(ns);
            assert!(bucket >= last);
            last = bucket;
            if bucket < BUCKET_COUNT - 1 {
                assert!(ns <= bucket_max_ns(bucket));
                assert!(bucket == 0 || ns > bucket_max_ns(bucket - 1));
            }
        }
    }
}
