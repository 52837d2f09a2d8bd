//! Each thread's counters of connections and commands; summed for `INFO` without stopping any thread.

use base::limits::{REPLAY_THREAD, THREAD_COUNT_MAX};
use commands::table::{CommandId, NUMBERED};
use os::clock::Uptime;
use sync::OnceLock;
use sync::atomic::{AtomicUsize, Ordering};
use sync::{Padded, ThreadCounter};

/// Sub-buckets of a doubling in a latency histogram: quantiles are within 1/16.
const SUB_BITS: u32 = 4;
/// Buckets of a latency histogram: up to 2^40 nanoseconds.
pub const BUCKET_COUNT: usize = ((40 - SUB_BITS as usize) + 2) << SUB_BITS;

/// A worker that has been in one turn for so long is late, in milliseconds: new connections and periodic work go to others.
const LATE_MS: u64 = 20;

/// One thread's counters.
#[derive(Default)]
pub struct WorkerStatistics {
    /// Sockets and what passed through them.
    pub sockets: SocketCounters,
    /// Memory of connections.
    pub memory: ConnectionMemory,
    /// Turns of the event loop.
    pub turn: TurnCounters,
    /// The expiry cycle.
    pub expiry: ExpiryCounters,
    /// Defragmentation.
    pub defrag: DefragmentationCounters,
    /// The command that runs or ran last.
    pub current: CurrentCommand,
    /// CPU time of the thread.
    pub cpu: CpuTime,
    /// The recent maximum of waiting input of one connection, in bytes.
    pub input_buffer_max: RecentMax,
    /// The recent maximum of output of one connection, in bytes.
    pub output_buffer_max: RecentMax,
    /// Commands executed.
    pub commands_processed: ThreadCounter,
    /// Error replies.
    pub errors: ThreadCounter,
    /// Sessions that were parked.
    pub parked: ThreadCounter,
    /// Whether durations are recorded; 0: they are not.
    pub tracks_latency: ThreadCounter,
    /// The I/O backend.
    pub backend: OnceLock<&'static str>,
    commands: CommandTable,
}

/// The sockets of one thread.
#[derive(Default)]
pub struct SocketCounters {
    /// Connections accepted here.
    pub accepted: ThreadCounter,
    /// Number of receive operations.
    pub reads: ThreadCounter,
    /// Buffers sent.
    pub writes: ThreadCounter,
    /// Bytes received.
    pub received_bytes: ThreadCounter,
    /// Bytes sent.
    pub sent_bytes: ThreadCounter,
}

/// The memory of connections, in bytes. Of `clients` and `closing` only the sum over all threads is meaningful; it wraps.
#[derive(Default)]
pub struct ConnectionMemory {
    /// All that they use, as counted here.
    pub clients: ThreadCounter,
    /// That of connections that are being closed.
    pub closing: ThreadCounter,
    /// The buffers that hold the output of this turn.
    pub unsent: ThreadCounter,
    /// The buffer for the replies of the current connection, if memory is limited and the buffer is not kept.
    pub current_reply: ThreadCounter,
    /// The buffers of input that is executed in this turn or the next one, up to a maximum.
    pub passing_input: ThreadCounter,
}

/// The turns of one thread's event loop.
#[derive(Default)]
pub struct TurnCounters {
    /// Their number.
    pub count: ThreadCounter,
    /// The longest one, in nanoseconds.
    pub ns_max: ThreadCounter,
    /// The most commands of one.
    pub commands_max: ThreadCounter,
    /// The millisecond of the monotonic clock at which the current one began; 0: the thread waits.
    pub since_ms: ThreadCounter,
    /// Time spent outside of waiting, in nanoseconds.
    pub busy_ns: ThreadCounter,
    /// The value of `busy_ns` when the statistics were reset.
    pub busy_ns_at_reset: ThreadCounter,
    /// Time spent on periodic work, in nanoseconds.
    pub cron_ns: ThreadCounter,
}

/// The expiry cycle of one thread.
#[derive(Default)]
pub struct ExpiryCounters {
    /// Time spent in it, in nanoseconds.
    pub ns: ThreadCounter,
    /// How often it ran out of time.
    pub cut_short: ThreadCounter,
}

/// The defragmentation of one thread.
#[derive(Default)]
pub struct DefragmentationCounters {
    /// Entries moved.
    pub moved: ThreadCounter,
    /// Entries examined and left where they are.
    pub left: ThreadCounter,
    /// Time spent on it, in nanoseconds.
    pub ns: ThreadCounter,
    /// The same since the start, with what waste alone has caused.
    pub run_ns: ThreadCounter,
    /// The part of the thread's time that it may use at present, in percent.
    pub percent: ThreadCounter,
    /// The millisecond of the monotonic clock at which it began; 0: it does not run.
    pub since_ms: ThreadCounter,
}

/// The command that one thread runs or ran last.
#[derive(Default)]
pub struct CurrentCommand {
    /// Its number plus one; 0: none yet.
    pub command: ThreadCounter,
    /// The id of the connection for which it runs or ran.
    pub client: ThreadCounter,
}

/// The CPU time of one thread at its last tick, in microseconds.
#[derive(Default)]
pub struct CpuTime {
    /// In user mode.
    pub user_us: ThreadCounter,
    /// In the kernel.
    pub system_us: ThreadCounter,
}

/// The counters of commands, by number; made at their first use.
struct CommandTable(Box<[OnceLock<Box<CommandStatistics>>]>);

impl Default for CommandTable {
    fn default() -> Self {
        Self(NUMBERED.iter().map(|_| OnceLock::new()).collect())
    }
}

/// The maximum of the numbers that a thread has recorded since the last period began. Written by that thread only.
#[derive(Default)]
pub struct RecentMax {
    now: ThreadCounter,
    before: ThreadCounter,
}

impl RecentMax {
    /// Records a number.
    #[inline]
    pub fn note(&self, number: u64) {
        if number > self.now.value() {
            self.now.set(number);
        }
    }

    /// Ends a period. Lasting conditions were recorded in it, and are recorded again in the next one.
    pub fn end_period(&self) {
        self.before.set(self.now.value());
        self.now.set(0);
    }

    /// The maximum of this period and the last one.
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
    /// Executions by duration while `latency-tracking` is on; see [`bucket_of`].
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

impl WorkerStatistics {
    /// The counters of a command on this thread; made at its first use.
    #[inline]
    pub fn command(&self, id: CommandId) -> &CommandStatistics {
        self.commands.0[id.0 as usize].get_or_init(|| Box::new(CommandStatistics::new()))
    }

    /// The counters of a command, if it was ever used on this thread.
    #[must_use]
    pub fn command_if_used(&self, id: CommandId) -> Option<&CommandStatistics> {
        self.commands.0[id.0 as usize].get().map(|statistics| &**statistics)
    }

    /// The counters of all commands that were ever used on this thread.
    pub fn commands_used(&self) -> impl Iterator<Item = &CommandStatistics> {
        self.commands.0.iter().filter_map(|command| command.get().map(|statistics| &**statistics))
    }

    /// Time of all executions on this thread, in nanoseconds.
    #[must_use]
    pub fn command_ns(&self) -> u64 {
        self.commands.0.iter().filter_map(|command| Some(command.get()?.ns.value())).sum()
    }

    /// Counts `calls` executions of a command that took `ns` nanoseconds together.
    #[inline]
    pub fn ran(&self, id: CommandId, calls: u64, ns: u64) {
        self.commands_processed.add(calls);
        let command = self.command(id);
        command.calls.add(calls);
        command.ns.add(ns);
        if self.tracks_latency.value() != 0 {
            command.note_durations(calls, ns);
        }
    }
}

/// The counters of all possible threads; a thread's are made when it first runs.
pub struct Statistics {
    threads: Box<[OnceLock<Padded<WorkerStatistics>>]>,
    /// One more than the highest number of a thread that ever ran: the bound of all sums.
    seen: AtomicUsize,
}

impl Statistics {
    /// All zero.
    #[must_use]
    pub fn new() -> Self {
        Self { threads: (0..=REPLAY_THREAD).map(|_| OnceLock::new()).collect(), seen: AtomicUsize::new(0) }
    }

    /// The counters of a thread. Those of the replay are in no sum.
    pub fn thread(&self, index: usize) -> &WorkerStatistics {
        let make = || {
            if index < THREAD_COUNT_MAX {
                self.seen.fetch_max(index + 1, Ordering::Release);
            }
            Padded(WorkerStatistics::default())
        };
        &self.threads[index].get_or_init(make).0
    }

    /// The counters of all threads that ever ran, with each thread's number.
    pub fn threads(&self) -> impl Iterator<Item = (usize, &WorkerStatistics)> {
        let seen = &self.threads[..self.seen.load(Ordering::Acquire)];
        seen.iter().enumerate().filter_map(|(index, thread)| Some((index, &thread.get()?.0)))
    }

    /// Resets the counters, except processor times; an increment at the same instant may survive.
    pub fn reset(&self) {
        for (_, thread) in self.threads() {
            for counter in [
                &thread.sockets.accepted,
                &thread.commands_processed,
                &thread.sockets.reads,
                &thread.sockets.writes,
                &thread.sockets.received_bytes,
                &thread.sockets.sent_bytes,
                &thread.turn.count,
                &thread.turn.ns_max,
                &thread.turn.commands_max,
                &thread.turn.cron_ns,
                &thread.errors,
                &thread.defrag.moved,
                &thread.defrag.left,
                &thread.defrag.ns,
                &thread.expiry.ns,
                &thread.expiry.cut_short,
                &thread.parked,
            ] {
                counter.set(0);
            }
            thread.turn.busy_ns_at_reset.set(thread.turn.busy_ns.value());
            for command in thread.commands.0.iter().filter_map(|command| command.get()) {
                command.reset();
            }
        }
    }

    /// Whether a worker has been in one turn for long, and may be so for longer.
    #[must_use]
    pub fn is_late(&self, thread: usize, now: Uptime) -> bool {
        let since_ms = self.thread(thread).turn.since_ms.value();
        since_ms != 0 && (now.to_raw() as u64).saturating_sub(since_ms) >= LATE_MS
    }

    /// Bytes of memory that all connections use.
    #[must_use]
    pub fn client_memory(&self) -> u64 {
        self.signed_sum(|thread| &thread.memory.clients)
    }

    /// Bytes of memory of connections that are being closed.
    #[must_use]
    pub fn closing_client_memory(&self) -> u64 {
        self.signed_sum(|thread| &thread.memory.closing)
    }

    /// Sums counters of which single ones may be negative, and the sum for a moment: one thread counts a connection that another
    /// closes.
    fn signed_sum(&self, of: fn(&WorkerStatistics) -> &ThreadCounter) -> u64 {
        let sum = self.sum(of);
        if sum > i64::MAX as u64 { 0 } else { sum }
    }

    /// The sum of one counter.
    #[must_use]
    pub fn sum(&self, of: impl Fn(&WorkerStatistics) -> &ThreadCounter) -> u64 {
        self.threads().map(|(_, thread)| of(thread).value()).fold(0, u64::wrapping_add)
    }

    /// The maximum of one counter.
    #[must_use]
    pub fn max(&self, of: impl Fn(&WorkerStatistics) -> &ThreadCounter) -> u64 {
        self.threads().map(|(_, thread)| of(thread).value()).max().unwrap_or(0)
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
    fn a_recent_maximum_lasts_between_one_and_two_periods() {
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
    fn buckets_ascend_and_contain_their_range() {
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
