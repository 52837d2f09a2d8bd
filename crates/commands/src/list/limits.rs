//! Shared arguments and settings of list commands.

use collections::{End, ListLimits};
use config::Config;

use crate::error::CommandError;
use crate::word::Word;

/// Returns the limits of the `listpack` encoding.
pub(crate) fn limits(config: &Config) -> ListLimits {
    ListLimits::of_directive(i64::from(config.list_max_listpack_size))
}

/// Parses `LEFT` or `RIGHT`.
pub(super) fn parse_end(text: &[u8]) -> Result<End, CommandError> {
    if text.eq_token("left") {
        Ok(End::Left)
    } else if text.eq_token("right") {
        Ok(End::Right)
    } else {
        Err(CommandError::SYNTAX)
    }
}

/// Resolves a signed index in a list of `len` elements; `None`: out of range.
pub(super) fn resolve(index: i64, len: usize) -> Option<usize> {
    let index = if index < 0 { index.checked_add(len as i64)? } else { index };
    usize::try_from(index).ok().filter(|index| *index < len)
}

/// Returns the first index and the number of elements between two signed indices, inclusive, in a list of
/// `len` elements.
pub(super) fn resolve_range(start: i64, stop: i64, len: usize) -> (usize, usize) {
    let len = len as i64;
    let start = if start < 0 { start.saturating_add(len).max(0) } else { start };
    let stop = if stop < 0 { stop.saturating_add(len) } else { stop.min(len - 1) };
    if start > stop || start >= len { (0, 0) } else { (start as usize, (stop - start + 1) as usize) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signed_indices() {
        assert_eq!(resolve(0, 3), Some(0));
        assert_eq!(resolve(-3, 3), Some(0));
        assert_eq!(resolve(-4, 3), None);
        assert_eq!(resolve(3, 3), None);
        assert_eq!(resolve(i64::MIN, 3), None);
        assert_eq!(resolve_range(0, -1, 3), (0, 3));
        assert_eq!(resolve_range(-2, 100, 3), (1, 2));
        assert_eq!(resolve_range(2, 1, 3), (0, 0));
        assert_eq!(resolve_range(3, 5, 3), (0, 0));
        assert_eq!(resolve_range(i64::MIN, i64::MAX, 3), (0, 3));
        assert_eq!(resolve_range(0, i64::MIN, 3), (0, 0));
    }
}
