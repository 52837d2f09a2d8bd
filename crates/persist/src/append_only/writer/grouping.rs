//! Group commit: how long a sync with `always` waits for more changes.
//!
//! A sync releases the replies that it covers, and their clients send again. If the next sync began with the first of these
//! requests, all others would wait for two syncs. So it waits while the log grows, until a group is as large as the largest
//! recent one. A single client waits for nothing: its group is complete with its request.

use std::time::Duration;

use super::Writer;
use crate::disk::Disk;
use os::clock::Ticks;

/// The number of recent groups.
const GROUP_COUNT: usize = 8;

/// Syncs that are shorter than this are not worth a wait, in nanoseconds.
const SYNC_NS_MIN: u64 = 400_000;

/// The longest waits, in nanoseconds.
const QUIET_NS_MAX: u64 = 500_000;
const WAIT_NS_MAX: u64 = 5_000_000;

/// What recent syncs have covered.
#[derive(Default)]
pub(super) struct Grouping {
    /// Their sizes in bytes.
    sizes: [u64; GROUP_COUNT],
    next: usize,
    /// The duration of a sync, in nanoseconds: a moving average.
    sync_ns: u64,
}

impl Grouping {
    /// Records a sync.
    pub(super) fn note(&mut self, size: u64, ns: u64) {
        self.sizes[self.next] = size;
        self.next = (self.next + 1) % GROUP_COUNT;
        self.sync_ns = (self.sync_ns * 7 + ns) / 8;
    }

    /// How long a group of this size waits for more without growing; `None`: it is synchronised now.
    fn quiet(&self, size: u64, waited_ns: u64) -> Option<Duration> {
        let largest = self.sizes.iter().copied().max().unwrap_or(0);
        let waits =
            size < largest && self.sync_ns >= SYNC_NS_MIN && waited_ns < (self.sync_ns / 2).min(WAIT_NS_MAX);
        waits.then(|| Duration::from_nanos((self.sync_ns / 8).min(QUIET_NS_MAX)))
    }
}

impl<D: Disk + Clone + Send + 'static> Writer<D>
where
    D::File: Send,
{
    /// Waits until the log holds a group, if it holds anything.
    pub(super) fn gather(&mut self) {
        let began = Ticks::now();
        let Some(reader) = self.reader.as_mut().filter(|_| !self.is_stopping) else { return };
        let mut size_before = 0;
        loop {
            let size = reader.complete_end().0 - reader.lsn().0;
            if size == size_before {
                return;
            }
            let Some(quiet) = self.grouping.quiet(size, Ticks::now().ns_since(began)) else { return };
            self.host.append_only().wait_for_message(quiet);
            size_before = size;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYNC_NS: u64 = 4_000_000;

    fn after(sizes: &[u64]) -> Grouping {
        let mut grouping = Grouping { sync_ns: SYNC_NS, ..Grouping::default() };
        sizes.iter().for_each(|size| grouping.note(*size, SYNC_NS));
        grouping
    }

    #[test]
    fn a_group_waits_until_it_is_as_large_as_a_recent_one() {
        let grouping = after(&[100, 9000, 100]);
        assert!(grouping.quiet(8999, 0).is_some());
        assert_eq!(grouping.quiet(9000, 0), None);
        assert_eq!(grouping.quiet(100, SYNC_NS), None);
    }

    #[test]
    fn a_single_client_and_a_fast_disk_wait_for_nothing() {
        assert_eq!(after(&[100; 3]).quiet(100, 0), None);
        assert!(after(&[9000]).quiet(100, 0).is_some());
        assert_eq!(after(&[[9000].as_slice(), &[100; GROUP_COUNT]].concat()).quiet(99, SYNC_NS), None);
        let mut fast = Grouping::default();
        fast.note(9000, SYNC_NS_MIN);
        assert_eq!(fast.quiet(100, 0), None);
    }
}
