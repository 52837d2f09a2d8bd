//! The 24-bit access field of an entry: LRU or LRM clock or LFU counter, with Redis's arithmetic.
//!
//! LRU, LRM: seconds, modulo 2^24. LFU: 16 bits of minutes since the last decrement and an 8-bit logarithmic counter.

/// Counter of a new key under LFU: above 0, so that a new key is not evicted at once.
pub const LFU_INITIAL: u32 = 5;

const MASK_24: u32 = 0xFF_FFFF;

/// How an access is recorded, for one turn of a worker.
#[derive(Clone, Copy, Debug)]
pub enum Aging {
    /// Least recently used: the clock in seconds.
    Lru {
        /// The current time, in seconds modulo 2^24.
        clock: u32,
    },
    /// Least recently modified: the clock in seconds of the last change. Reads leave it.
    Lrm {
        /// The current time, in seconds modulo 2^24.
        clock: u32,
    },
    /// Least frequently used.
    Lfu {
        /// The current time, in minutes modulo 2^16.
        minutes: u32,
        /// `lfu-log-factor`
        log_factor: u32,
        /// `lfu-decay-time`, in minutes; 0: never.
        decay_minutes: u32,
    },
}

impl Aging {
    /// LRU at a Unix time in milliseconds.
    #[must_use]
    pub fn lru(now_ms: i64) -> Self {
        Self::Lru { clock: (now_ms / 1000) as u32 & MASK_24 }
    }

    /// LRM at a Unix time in milliseconds.
    #[must_use]
    pub fn lrm(now_ms: i64) -> Self {
        Self::Lrm { clock: (now_ms / 1000) as u32 & MASK_24 }
    }

    /// LFU at a Unix time in milliseconds.
    #[must_use]
    pub fn lfu(now_ms: i64, log_factor: u32, decay_minutes: u32) -> Self {
        Self::Lfu { minutes: (now_ms / 60_000) as u32 & 0xFFFF, log_factor, decay_minutes }
    }

    /// The field of a new entry.
    #[must_use]
    #[inline]
    pub fn initial(self) -> u32 {
        match self {
            Self::Lru { clock } | Self::Lrm { clock } => clock,
            Self::Lfu { minutes, .. } => minutes << 8 | LFU_INITIAL,
        }
    }

    /// The field after one more access; `random` decides whether the logarithmic counter is incremented.
    #[must_use]
    #[inline]
    pub fn accessed(self, field: u32, random: impl FnOnce() -> u32) -> u32 {
        match self {
            Self::Lru { clock } => clock,
            Self::Lrm { .. } => field,
            Self::Lfu { minutes, log_factor, .. } => {
                let counter = self.lfu_counter(field);
                minutes << 8 | lfu_increment(counter, log_factor, random)
            }
        }
    }

    /// Whether [`Self::accessed`] uses a random number.
    #[must_use]
    #[inline]
    pub fn draws(self) -> bool {
        matches!(self, Self::Lfu { .. })
    }

    /// The decayed LFU counter, 0 to 255; meaningless under LRU.
    #[must_use]
    pub fn lfu_counter(self, field: u32) -> u32 {
        let Self::Lfu { minutes, decay_minutes, .. } = self else { return field & 0xFF };
        let elapsed = minutes.wrapping_sub(field >> 8) & 0xFFFF;
        let periods = elapsed.checked_div(decay_minutes).unwrap_or(0);
        (field & 0xFF).saturating_sub(periods)
    }

    /// Seconds since the last access, or under LRM the last change; meaningless under LFU.
    #[must_use]
    pub fn idle_seconds(self, field: u32) -> u32 {
        let (Self::Lru { clock } | Self::Lrm { clock }) = self else { return 0 };
        clock.wrapping_sub(field) & MASK_24
    }

    /// The field of an entry that has been idle for this many seconds; `None` under LFU.
    #[must_use]
    pub fn of_idle_seconds(self, seconds: u64) -> Option<u32> {
        match self {
            Self::Lru { clock } | Self::Lrm { clock } => {
                Some(clock.wrapping_sub(seconds.min(MASK_24.into()) as u32) & MASK_24)
            }
            Self::Lfu { .. } => None,
        }
    }

    /// The field of an entry with this LFU counter; `None` under LRU and LRM.
    #[must_use]
    pub fn of_frequency(self, counter: u8) -> Option<u32> {
        match self {
            Self::Lru { .. } | Self::Lrm { .. } => None,
            Self::Lfu { minutes, .. } => Some(minutes << 8 | u32::from(counter)),
        }
    }

    /// An entry's eviction score, 0 to 2^24; the largest is evicted first.
    #[must_use]
    pub fn victim_score(self, field: u32) -> u64 {
        match self {
            Self::Lru { .. } | Self::Lrm { .. } => u64::from(self.idle_seconds(field)),
            Self::Lfu { .. } => u64::from(255 - self.lfu_counter(field)),
        }
    }
}

/// One step of the logarithmic counter: with probability 1 / ((counter - initial) * factor + 1).
fn lfu_increment(counter: u32, log_factor: u32, random: impl FnOnce() -> u32) -> u32 {
    if counter >= 255 {
        return 255;
    }
    let above = counter.saturating_sub(LFU_INITIAL);
    let odds = u64::from(above) * u64::from(log_factor) + 1;
    counter + u32::from(u64::from(random()) * odds < 1 << 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lru_wraps_around() {
        let late = Aging::Lru { clock: 3 };
        assert_eq!(late.idle_seconds(MASK_24), 4);
        assert_eq!(late.of_idle_seconds(1000).map(|field| late.idle_seconds(field)), Some(1000));
    }

    #[test]
    fn lfu_decays_by_periods_and_saturates() {
        let aging = Aging::Lfu { minutes: 10, log_factor: 10, decay_minutes: 2 };
        assert_eq!(aging.lfu_counter(4 << 8 | 7), 4);
        assert_eq!(aging.lfu_counter(4 << 8 | 2), 0);
        let never = Aging::Lfu { minutes: 10, log_factor: 10, decay_minutes: 0 };
        assert_eq!(never.lfu_counter(4 << 8 | 7), 7);
    }

    #[test]
    fn lfu_increments_with_the_odds() {
        assert_eq!(lfu_increment(5, 10, || u32::MAX), 6);
        assert_eq!(lfu_increment(15, 10, || u32::MAX), 15);
        assert_eq!(lfu_increment(15, 10, || 0), 16);
        assert_eq!(lfu_increment(255, 0, || 0), 255);
    }
}
