//! Short byte strings, compared and copied without a call.

/// Longest string that is copied without a call.
const SHORT_LEN_MAX: usize = 32;

/// Whether two strings are equal. Most that are as long differ in their last bytes.
#[inline]
pub(crate) fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    match (one.last_chunk::<8>(), other.last_chunk::<8>()) {
        (Some(one_end), Some(other_end)) => {
            u64::from_ne_bytes(*one_end) == u64::from_ne_bytes(*other_end) && one == other
        }
        _ => one == other,
    }
}

/// Copies a string to a place of its size: a short one as two blocks, which may overlap.
///
/// # Panics
/// If the sizes differ.
#[inline]
pub fn copy_short(source: &[u8], target: &mut [u8]) {
    fn copy<const SIZE: usize>(source: &[u8], target: &mut [u8]) {
        if let (Some(first), Some(last)) = (source.first_chunk::<SIZE>(), source.last_chunk::<SIZE>()) {
            let last_at = target.len() - SIZE;
            target[..SIZE].copy_from_slice(first);
            target[last_at..].copy_from_slice(last);
        }
    }
    assert_eq!(source.len(), target.len(), "the place has the size of the string");
    match source.len() {
        0..4 => target.iter_mut().zip(source).for_each(|(to, from)| *to = *from),
        4..8 => copy::<4>(source, target),
        8..16 => copy::<8>(source, target),
        16..=SHORT_LEN_MAX => copy::<16>(source, target),
        _ => target.copy_from_slice(source),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(len: usize) -> Vec<u8> {
        (0..len).map(|at| at as u8).collect()
    }

    #[test]
    fn strings_are_copied_and_equal_to_no_other() {
        for len in 0..SHORT_LEN_MAX + 3 {
            let (source, mut target) = (text(len), vec![0xFF; len]);
            copy_short(&source, &mut target);
            assert!(target == source && is_same(&source, &target));
            assert!(!is_same(&source, &text(len + 1)));
            for at in 0..len {
                target[at] ^= 0x80;
                assert!(!is_same(&source, &target), "{len} bytes, {at}");
                target[at] ^= 0x80;
            }
        }
    }
}
