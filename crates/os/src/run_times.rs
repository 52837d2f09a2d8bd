//! The time for which a thread has run, and for which it was ready and waited for a CPU.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::process::{self, UsageOf};

/// The times of a thread since its start, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunTime {
    /// It ran.
    pub running_ns: u64,
    /// It was ready to run and waited for a CPU; 0 if the kernel does not count that.
    pub waiting_ns: u64,
}

/// Repeated readings of the times of one thread.
#[derive(Debug)]
pub struct RunTimes(Option<File>);

impl RunTimes {
    /// Returns the readings of the calling thread, which must make all of them. The file stays open, as opening it costs more
    /// than reading it.
    #[must_use]
    pub fn of_this_thread() -> Self {
        Self(File::open("/proc/thread-self/schedstat").ok())
    }

    /// The times until now; one system call. Their format: the kernel's `Documentation/scheduler/sched-stats.rst`.
    #[must_use]
    pub fn read(&self) -> RunTime {
        self.counted().unwrap_or_else(|| RunTime {
            running_ns: process::usage(UsageOf::Thread).total().as_nanos() as u64,
            waiting_ns: 0,
        })
    }

    fn counted(&self) -> Option<RunTime> {
        let mut text = [0; 96];
        let size = self.0.as_ref()?.read_at(&mut text, 0).ok()?;
        let mut numbers = std::str::from_utf8(&text[..size]).ok()?.split_ascii_whitespace();
        let mut next = || numbers.next()?.parse().ok();
        let counted = RunTime { running_ns: next()?, waiting_ns: next()? };
        // A kernel without these statistics shows zeros.
        (counted.running_ns > 0).then_some(counted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_counted() {
        let times = RunTimes::of_this_thread();
        let before = times.read();
        let mut sum = 0_u64;
        while process::usage(UsageOf::Thread).total().as_nanos() as u64 <= before.running_ns + 20_000_000 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        let after = times.read();
        assert!(after.running_ns >= before.running_ns + 10_000_000, "{before:?} {after:?}");
        assert!(after.waiting_ns >= before.waiting_ns, "{before:?} {after:?}");
    }

    #[test]
    fn without_the_statistics_of_the_kernel_the_time_on_a_cpu_is_counted() {
        let times = RunTimes(None);
        // A thread that has just begun may have run for less than a microsecond.
        let time = loop {
            let time = times.read();
            if time.running_ns > 0 {
                break time;
            }
        };
        assert_eq!(time.waiting_ns, 0, "{time:?}");
    }
}
