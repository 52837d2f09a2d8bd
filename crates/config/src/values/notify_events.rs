//! `notify-keyspace-events`: the classes of events that are published.

use crate::quote::quoted;
use crate::rule::{Reason, Rule};
use crate::setting::{Before, FileLines, Setting};

/// A set of event classes. The bits are those of Redis's module interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NotifyEvents(u32);

impl NotifyEvents {
    /// `K`: events are published by key, on `__keyspace@db__` channels.
    pub const KEYSPACE: Self = Self(1 << 0);
    /// `E`: events are published by name, on `__keyevent@db__` channels.
    pub const KEYEVENT: Self = Self(1 << 1);
    /// `g`: commands for any type, such as `DEL` and `EXPIRE`.
    pub const GENERIC: Self = Self(1 << 2);
    /// `$`: string commands.
    pub const STRING: Self = Self(1 << 3);
    /// `l`: list commands.
    pub const LIST: Self = Self(1 << 4);
    /// `s`: set commands.
    pub const SET: Self = Self(1 << 5);
    /// `h`: hash commands.
    pub const HASH: Self = Self(1 << 6);
    /// `z`: sorted set commands.
    pub const ZSET: Self = Self(1 << 7);
    /// `x`: a key expired.
    pub const EXPIRED: Self = Self(1 << 8);
    /// `e`: a key was evicted.
    pub const EVICTED: Self = Self(1 << 9);
    /// `t`: stream commands.
    pub const STREAM: Self = Self(1 << 10);
    /// `m`: a requested key does not exist; not part of `A`.
    pub const KEY_MISS: Self = Self(1 << 11);
    /// `d`: module types.
    pub const MODULE: Self = Self(1 << 13);
    /// `n`: a key was created; not part of `A`.
    pub const NEW: Self = Self(1 << 14);
    /// `A`: `g$lshzxetd`.
    pub const ALL: Self = Self(0b10_0111_1111_1100);

    /// The classes in printing order.
    const LETTERS: [(u8, Self); 14] = [
        (b'g', Self::GENERIC),
        (b'$', Self::STRING),
        (b'l', Self::LIST),
        (b's', Self::SET),
        (b'h', Self::HASH),
        (b'z', Self::ZSET),
        (b'x', Self::EXPIRED),
        (b'e', Self::EVICTED),
        (b't', Self::STREAM),
        (b'd', Self::MODULE),
        (b'n', Self::NEW),
        (b'K', Self::KEYSPACE),
        (b'E', Self::KEYEVENT),
        (b'm', Self::KEY_MISS),
    ];

    /// Whether no events are published.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether every class of `other` is in the set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The bits, as in Redis.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }
}

impl std::ops::BitOr for NotifyEvents {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl Setting for NotifyEvents {
    fn parse(_: &Rule, args: &[&[u8]], _: Before<'_, Self>) -> Result<Self, Reason> {
        let mut events = Self::default();
        for &letter in args[0] {
            let class = match letter {
                b'A' => Self::ALL,
                _ => Self::LETTERS
                    .iter()
                    .find(|(known, _)| *known == letter)
                    .map(|(_, class)| *class)
                    .ok_or("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.")?,
            };
            events = events | class;
        }
        Ok(events)
    }

    fn print(&self, _: &Rule) -> Vec<u8> {
        let mut out = Vec::new();
        let has_all = self.contains(Self::ALL);
        if has_all {
            out.push(b'A');
        }
        for (letter, class) in Self::LETTERS {
            // Redis omits `n` after `A`, so its own rewritten file loses that class.
            if self.contains(class) && !(has_all && Self::ALL.contains(class)) {
                out.push(letter);
            }
        }
        out
    }

    fn file_lines(&self, rule: &Rule, _: &Self) -> FileLines {
        FileLines::one(quoted(&self.print(rule)), !self.is_empty())
    }

    fn describe(_: &Rule) -> String {
        "letters of A g $ l s h z x e t d n K E m, or \"\" for none".into()
    }
}
