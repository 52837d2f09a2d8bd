//! Whether an entry's key, or members of its value, have an expiry.

/// Two flags, which a table keeps in the lowest bits of an entry's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Volatility(u64);

impl Volatility {
    const KEY: u64 = 1;
    const MEMBERS: u64 = 2;
    pub(crate) const MASK: u64 = Self::KEY | Self::MEMBERS;

    #[inline]
    pub(crate) fn from_bits(bits: u64) -> Self {
        Self(bits & Self::MASK)
    }

    #[inline]
    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    #[inline]
    pub(crate) fn new(has_expiry: bool, has_volatile_members: bool) -> Self {
        let members = if has_volatile_members { Self::MEMBERS } else { 0 };
        Self(u64::from(has_expiry) | members)
    }

    /// Whether the key has an expiry.
    #[inline]
    pub(crate) fn is_volatile(self) -> bool {
        self.0 & Self::KEY != 0
    }

    /// Whether members of the value have an expiry.
    #[inline]
    pub(crate) fn has_volatile_members(self) -> bool {
        self.0 & Self::MEMBERS != 0
    }
}
