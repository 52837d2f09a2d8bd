//! `maxmemory-clients`: bytes, or a share of `maxmemory`.

use crate::rule::{Reason, Rule, format_memory, parse_integer, parse_memory, wrapped};
use crate::setting::{Before, FileLines, Setting};

/// Minimum limit in bytes; a lower value counts as this one. With less, no client could connect to correct the
/// value.
const SIZE_MIN: u64 = 128 << 10;

/// The limit of all clients' buffers together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientMemoryLimit {
    /// A number of bytes; 0 is no limit.
    Bytes(u64),
    /// Hundredths of `maxmemory`.
    Percent(u8),
}

impl ClientMemoryLimit {
    /// The limit in bytes under this `maxmemory`; `None` without a limit.
    #[must_use]
    pub fn size(self, maxmemory: u64) -> Option<u64> {
        match self {
            Self::Bytes(0) | Self::Percent(0) => None,
            Self::Bytes(size) => Some(size.max(SIZE_MIN)),
            Self::Percent(_) if maxmemory == 0 => None,
            // Divides first if the product would overflow. The error is below 100 bytes of at least 2^57.
            Self::Percent(percent) => Some(match maxmemory.checked_mul(u64::from(percent)) {
                Some(product) => (product / 100).max(SIZE_MIN),
                None => maxmemory / 100 * u64::from(percent),
            }),
        }
    }
}

impl Setting for ClientMemoryLimit {
    fn parse(_: &Rule, args: &[&[u8]], _: Before<'_, Self>) -> Result<Self, Reason> {
        if let Some(size) = parse_memory(args[0]).map(wrapped) {
            // Redis stores percentages as negative numbers.
            return u64::try_from(size).map_or_else(|_| share(-size), |size| Ok(Self::Bytes(size)));
        }
        match args[0].strip_suffix(b"%").and_then(parse_integer) {
            // As in Redis, 0 % is no limit.
            Some(0) => Ok(Self::Bytes(0)),
            Some(percent @ 1..) => share(percent),
            _ => Err("argument must be a memory or percent value".into()),
        }
    }

    fn print(&self, _: &Rule) -> Vec<u8> {
        match self {
            Self::Bytes(size) => size.to_string(),
            Self::Percent(percent) => format!("{percent}%"),
        }
        .into_bytes()
    }

    fn file_lines(&self, rule: &Rule, default: &Self) -> FileLines {
        let value = match *self {
            Self::Bytes(size) => format_memory(i128::from(size)).into_bytes(),
            Self::Percent(_) => self.print(rule),
        };
        FileLines::one(value, self != default)
    }

    fn describe(_: &Rule) -> String {
        "a number of bytes such as 1gb, or a share of maxmemory such as 5%".into()
    }
}

fn share(percent: i128) -> Result<ClientMemoryLimit, Reason> {
    match u8::try_from(percent) {
        Ok(percent @ ..=100) => Ok(ClientMemoryLimit::Percent(percent)),
        _ => Err("percentage argument must be less or equal to 100".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_of_a_share() {
        assert_eq!(ClientMemoryLimit::Bytes(0).size(1000), None);
        assert_eq!(ClientMemoryLimit::Bytes(7).size(0), Some(SIZE_MIN));
        assert_eq!(ClientMemoryLimit::Bytes(SIZE_MIN + 1).size(0), Some(SIZE_MIN + 1));
        assert_eq!(ClientMemoryLimit::Percent(5).size(0), None);
        assert_eq!(ClientMemoryLimit::Percent(5).size(1010), Some(SIZE_MIN));
        assert_eq!(ClientMemoryLimit::Percent(5).size(101_000_000), Some(5_050_000));
        assert_eq!(ClientMemoryLimit::Percent(100).size(u64::MAX), Some(u64::MAX / 100 * 100));
    }
}
