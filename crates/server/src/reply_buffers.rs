//! How large a buffer the replies of a connection want, as `CLIENT LIST` shows it (`rbs`, `rbp`).
//!
//! Buffers come from their thread's common stock and go back to it when they are sent, so that a connection has one of its
//! own for a moment only. What is shown is the share of the stock that is there for it.
//!
//! Invariant: the size lies between [`SIZE_MIN`] and [`SIZE_MAX`].

use sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};

/// What an idle connection is shown to have, and the most that any is, in bytes: longer replies leave in pieces.
const SIZE_MIN: usize = 1 << 10;
const SIZE_MAX: usize = 16 << 10;

/// How long the largest reply is remembered, in milliseconds.
const PEAK_RESET_MS: i64 = 5000;

/// What `DEBUG` changes of it.
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
    /// The largest reply is remembered for so long; `None`: as long as if nobody had said anything.
    pub fn set_peak_reset_ms(&self, milliseconds: Option<i64>) {
        self.peak_reset_ms.store(milliseconds.unwrap_or(PEAK_RESET_MS), Relaxed);
    }

    /// Whether sizes follow the replies.
    pub fn set_resizing(&self, enabled: bool) {
        self.keeps_size.store(!enabled, Relaxed);
    }

    /// Whether each reply counts as a whole block of output, however short it is.
    pub fn set_counts_blocks(&self, enabled: bool) {
        self.counts_blocks.store(enabled, Relaxed);
    }

    /// See [`Self::set_counts_blocks`].
    pub fn counts_blocks(&self) -> bool {
        self.counts_blocks.load(Relaxed)
    }
}

/// What one connection's replies want.
#[derive(Debug)]
pub struct ReplyBufferSize {
    size: usize,
    peak: usize,
    peak_since: i64,
}

impl ReplyBufferSize {
    /// That of a new connection.
    pub fn new(now: i64) -> Self {
        Self { size: SIZE_MAX, peak: 0, peak_since: now }
    }

    /// So many bytes of replies leave together.
    #[inline]
    pub fn note(&mut self, size: usize) {
        self.peak = self.peak.max(size);
    }

    /// In bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The most bytes that left together of late, as far as the buffer would have held them.
    pub fn peak(&self) -> usize {
        self.peak.min(self.size)
    }

    /// Follows what was noted: grows to it, shrinks where less than half is needed, and forgets it in time.
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
        assert_eq!(buffer.size(), SIZE_MAX, "nothing is forgotten");
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
