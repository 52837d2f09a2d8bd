//! The size of buffer that the replies of a connection need, as `CLIENT LIST` shows it (`rbs`, `rbp`).
//!
//! Buffers are taken from the worker's pool and returned when they are sent, so that a connection has one of
//! its own only briefly. The size shown is that connection's share of the pool.
//!
//! Invariant: the size lies between [`SIZE_MIN`] and [`SIZE_MAX`].

use sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};

/// The size shown for an idle connection, and the maximum shown, in bytes: longer replies are sent in pieces.
const SIZE_MIN: usize = 1 << 10;
const SIZE_MAX: usize = 16 << 10;

/// How long the largest reply is considered, in milliseconds.
const PEAK_RESET_MS: i64 = 5000;

/// The settings that `DEBUG` changes.
#[derive(Debug)]
pub struct ReplyBufferRules {
    peak_reset_ms: AtomicI64,
    keeps_size: AtomicBool,
    counts_blocks: AtomicBool,
}

impl Default for ReplyBufferRules {
    fn default() -> Self {
        Self {
            peak_reset_ms: AtomicI64::new(PEAK_RESET_MS),
            keeps_size: AtomicBool::new(false),
            counts_blocks: AtomicBool::new(false),
        }
    }
}

impl ReplyBufferRules {
    /// Sets how long the largest reply is considered; `None`: the default.
    pub fn set_peak_reset_ms(&self, milliseconds: Option<i64>) {
        self.peak_reset_ms.store(milliseconds.unwrap_or(PEAK_RESET_MS), Relaxed);
    }

    /// Sets whether sizes follow the replies.
    pub fn set_resizing(&self, enabled: bool) {
        self.keeps_size.store(!enabled, Relaxed);
    }

    /// Sets whether each reply counts as a whole block of output, however short it is.
    pub fn set_counts_blocks(&self, enabled: bool) {
        self.counts_blocks.store(enabled, Relaxed);
    }

    /// See [`Self::set_counts_blocks`].
    pub fn counts_blocks(&self) -> bool {
        self.counts_blocks.load(Relaxed)
    }
}

/// The buffer size of one connection.
#[derive(Debug)]
pub struct ReplyBufferSize {
    size: usize,
    peak: usize,
    peak_since: i64,
}

impl ReplyBufferSize {
    /// Returns the size for a new connection.
    pub fn new(now: i64) -> Self {
        Self { size: SIZE_MAX, peak: 0, peak_since: now }
    }

    /// Records bytes of replies that are sent together.
    #[inline]
    pub fn note(&mut self, size: usize) {
        self.peak = self.peak.max(size);
    }

    /// The size in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The recent maximum of bytes sent together, limited by the buffer's size.
    pub fn peak(&self) -> usize {
        self.peak.min(self.size)
    }

    /// Adapts the size to the recorded replies: grows to the peak, shrinks where less than half is needed, and
    /// resets the peak after its time.
    pub fn adapt(&mut self, now: i64, rules: &ReplyBufferRules) {
        if !rules.keeps_size.load(Relaxed) && (self.peak >= self.size || self.peak < self.size / 2) {
            self.size = (self.peak + 1).clamp(SIZE_MIN, SIZE_MAX);
        }
        let reset_ms = rules.peak_reset_ms.load(Relaxed);
        if reset_ms >= 0 && now - self.peak_since > reset_ms {
            self.peak = 0;
            self.peak_since = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_follows_the_replies() {
        let rules = ReplyBufferRules::default();
        let mut buffer = ReplyBufferSize::new(0);
        assert_eq!((buffer.size(), buffer.peak()), (SIZE_MAX, 0));
        buffer.adapt(1, &rules);
        assert_eq!(buffer.size(), SIZE_MIN);
        buffer.note(3000);
        buffer.adapt(2, &rules);
        assert_eq!((buffer.size(), buffer.peak()), (3001, 3000));
        buffer.note(100_000);
        buffer.adapt(3, &rules);
        assert_eq!((buffer.size(), buffer.peak()), (SIZE_MAX, SIZE_MAX));
        rules.set_peak_reset_ms(Some(-1));
        buffer.adapt(1_000_000, &rules);
        buffer.adapt(2_000_000, &rules);
        assert_eq!(buffer.size(), SIZE_MAX, "the usage history is kept");
        rules.set_peak_reset_ms(Some(100));
        buffer.adapt(2_000_200, &rules);
        rules.set_resizing(false);
        buffer.adapt(2_000_201, &rules);
        assert_eq!((buffer.size(), buffer.peak()), (SIZE_MAX, 0));
        rules.set_resizing(true);
        buffer.adapt(2_000_202, &rules);
        assert_eq!(buffer.size(), SIZE_MIN);
    }
}
