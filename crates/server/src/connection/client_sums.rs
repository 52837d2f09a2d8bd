//! Sums over all connections, which no reader has to add up.

use commands::session::SessionFlags;
use sync::atomic::{AtomicI64, Ordering::Relaxed};

use super::wait_code;

/// Sums over all connections, updated as each publishes its [`Share`]. A sum may miss an update in progress.
#[derive(Default)]
pub struct ClientSums {
    blocked: AtomicI64,
    with_timeout: AtomicI64,
    tracking: AtomicI64,
    listening: AtomicI64,
    watching: AtomicI64,
    watched_keys: AtomicI64,
}

/// What one connection adds to the sums, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share(pub(super) u64);

impl Share {
    pub(super) const NOTHING: Self = Self(0);
    /// Adds nothing, until it is added again.
    pub(super) const REMOVED: Self = Self(u64::MAX);

    const BLOCKED: u64 = 1;
    const WITH_TIMEOUT: u64 = 2;
    const TRACKING: u64 = 4;
    const LISTENING: u64 = 8;
    /// The bits above these are the number of watched keys.
    const FLAG_BITS: u32 = 4;

    /// Returns the share of a connection that waits for this reason (0: none), as one of the numbers
    /// above, with these flags set.
    #[must_use]
    #[inline]
    pub fn new(blocked: u64, flags: SessionFlags, watched_keys: u64) -> Self {
        let bit = |is_set, bit| if is_set { bit } else { 0 };
        Self(
            bit(blocked != 0, Self::BLOCKED)
                | bit(blocked & wait_code::WITH_TIMEOUT != 0, Self::WITH_TIMEOUT)
                | bit(flags.contains(SessionFlags::TRACKING), Self::TRACKING)
                | bit(flags.contains(SessionFlags::SUBSCRIBED), Self::LISTENING)
                | watched_keys << Self::FLAG_BITS,
        )
    }

    fn has(self, bit: u64) -> i64 {
        i64::from(self.0 & bit != 0)
    }

    fn watched_keys(self) -> i64 {
        (self.0 >> Self::FLAG_BITS) as i64
    }
}

impl ClientSums {
    pub(super) fn change(&self, before: Share, after: Share) {
        let change = |sum: &AtomicI64, of: &dyn Fn(Share) -> i64| {
            let change = of(after) - of(before);
            if change != 0 {
                sum.fetch_add(change, Relaxed);
            }
        };
        change(&self.blocked, &|share| share.has(Share::BLOCKED));
        change(&self.with_timeout, &|share| share.has(Share::WITH_TIMEOUT));
        change(&self.tracking, &|share| share.has(Share::TRACKING));
        change(&self.listening, &|share| share.has(Share::LISTENING));
        change(&self.watching, &|share| i64::from(share.watched_keys() > 0));
        change(&self.watched_keys, &|share| share.watched_keys());
    }

    /// Connections that wait.
    #[must_use]
    pub fn blocked(&self) -> i64 {
        read(&self.blocked)
    }

    /// Waiting connections with a time limit.
    #[must_use]
    pub fn with_timeout(&self) -> i64 {
        read(&self.with_timeout)
    }

    /// Connections with client-side caching.
    #[must_use]
    pub fn tracking(&self) -> i64 {
        read(&self.tracking)
    }

    /// Connections with subscriptions.
    #[must_use]
    pub fn listening(&self) -> i64 {
        read(&self.listening)
    }

    /// Connections that watch keys.
    #[must_use]
    pub fn watching(&self) -> i64 {
        read(&self.watching)
    }

    /// The keys that connections watch.
    #[must_use]
    pub fn watched_keys(&self) -> i64 {
        read(&self.watched_keys)
    }
}

/// A subtraction may be counted before its addition.
fn read(sum: &AtomicI64) -> i64 {
    sum.load(Relaxed).max(0)
}
