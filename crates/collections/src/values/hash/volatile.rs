//! Packed fields of which some expire: groups of a field, its value and its expiry, which is an integer, or the empty
//! string if there is none.
//!
//! Invariant ([`check`]): [`Earliest`] is that of the fields, so far as it is within its range.
//!
//! The functions receive the parts of the form apart, as the hash has them side by side in two words.
//! Cost: as for [`Packed`]; a step of expiry walks all fields.

use super::{Field, FieldExpiry, FieldWas};
use crate::entry::owned_entry::ExpiryChange;
use crate::memory::heap::Heap;
use crate::number::DecimalBuffer;
use crate::packed::{Item, Packed};

/// Fields with their values and expiries.
pub(super) type VolatilePairs = Packed<3>;

/// Most bytes of an expiry in a group.
pub(super) const EXPIRY_SIZE_MAX: usize = 9;

/// Random fields tried before a sample returns that none is unexpired.
const SAMPLE_TRY_COUNT_MAX: usize = 100;

/// The earliest expiry of the fields, in 48 bits, clamped to their range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Earliest([u8; 6]);

impl Earliest {
    /// No field expires.
    pub(super) const NONE: Self = Self([0xFF; 6]);

    fn of(expiry: Option<i64>) -> Self {
        let Some(at) = expiry else { return Self::NONE };
        let [bytes @ .., _, _] = at.clamp(0, (1 << 48) - 2).to_le_bytes();
        Self(bytes)
    }

    /// The expiry; `None` if no field expires.
    #[inline]
    pub(super) fn at(self) -> Option<i64> {
        let [a, b, c, d, e, f] = self.0;
        (self != Self::NONE).then_some(i64::from_le_bytes([a, b, c, d, e, f, 0, 0]))
    }

    /// Updates it for a field whose expiry changes.
    fn note(&mut self, pairs: &VolatilePairs, old: Option<i64>, new: Option<i64>) {
        if old.is_some() && Self::of(old) == *self {
            *self = Self::of(pairs.iter().filter_map(|[_, _, expiry]| expiry_of(expiry)).min());
        } else if let Some(at) = new
            && self.at().is_none_or(|earliest| at < earliest)
        {
            *self = Self::of(new);
        }
    }
}

/// The expiry in a group.
#[inline]
fn expiry_of(item: Item<'_>) -> Option<i64> {
    if let Item::Int(at) = item { Some(at) } else { None }
}

#[inline]
fn is_live(expiry: Item<'_>, due: i64) -> bool {
    expiry_of(expiry).is_none_or(|at| at > due)
}

/// Calls `use_text` with the text of an expiry in a group.
fn with_text<R>(expiry: Option<i64>, use_text: impl FnOnce(&[u8]) -> R) -> R {
    let mut buffer = DecimalBuffer::new();
    use_text(expiry.map_or(&[], |at| buffer.format(at)))
}

/// Pairs that do not expire, as pairs that may, with space for one expiry.
pub(super) fn of_pairs(heap: &Heap, pairs: &Packed<2>) -> VolatilePairs {
    let mut volatile = VolatilePairs::new();
    volatile.reserve_bytes_in(heap, pairs.len(), pairs.size() + pairs.len() + EXPIRY_SIZE_MAX);
    let mut buffers = [DecimalBuffer::new(), DecimalBuffer::new()];
    let [field_buffer, value_buffer] = &mut buffers;
    for [field, value] in pairs {
        volatile.push_back([field.text(field_buffer), value.text(value_buffer), &[]]);
    }
    volatile
}

/// A field.
#[inline]
pub(super) fn find<'a>(pairs: &'a VolatilePairs, field: &[u8], due: i64) -> Option<Field<'a>> {
    let [_, value, expiry] = pairs.at(pairs.find(field, 0)?);
    is_live(expiry, due).then(|| Field { value, expiry: expiry_of(expiry) })
}

/// Sets a field, for which there is space.
pub(super) fn set(
    pairs: &mut VolatilePairs,
    earliest: &mut Earliest,
    [field, value]: [&[u8]; 2],
    change: ExpiryChange,
    due: i64,
) -> FieldWas {
    let Some(index) = pairs.find(field, 0) else {
        let expiry = change.apply(None);
        with_text(expiry, |text| pairs.push_back([field, value, text]));
        earliest.note(pairs, None, expiry);
        return FieldWas::Absent;
    };
    let old = expiry_of(pairs.at(index)[2]);
    let is_over = old.is_some_and(|at| at <= due);
    let expiry = change.apply(old.filter(|_| !is_over));
    pairs.replace(index, 1, value);
    set_expiry_at(pairs, earliest, index, expiry);
    if is_over { FieldWas::Expired } else { FieldWas::Present }
}

/// Sets or clears the expiry of a field that exists.
pub(super) fn set_expiry(
    pairs: &mut VolatilePairs,
    earliest: &mut Earliest,
    field: &[u8],
    expiry: Option<i64>,
) {
    if let Some(index) = pairs.find(field, 0) {
        set_expiry_at(pairs, earliest, index, expiry);
    }
}

fn set_expiry_at(pairs: &mut VolatilePairs, earliest: &mut Earliest, index: usize, expiry: Option<i64>) {
    let old = expiry_of(pairs.at(index)[2]);
    if expiry != old {
        with_text(expiry, |text| pairs.replace(index, 2, text));
        earliest.note(pairs, old, expiry);
    }
}

/// Removes a field. Returns whether it existed.
pub(super) fn remove(pairs: &mut VolatilePairs, earliest: &mut Earliest, field: &[u8], due: i64) -> bool {
    let Some(index) = pairs.find(field, 0) else { return false };
    let expiry = pairs.at(index)[2];
    if !is_live(expiry, due) {
        return false;
    }
    let old = expiry_of(expiry);
    pairs.remove(index);
    earliest.note(pairs, old, None);
    true
}

/// The fields that are not expired, with their values and expiries.
pub(super) fn live(
    pairs: &VolatilePairs,
    due: i64,
) -> impl Iterator<Item = (Item<'_>, Item<'_>, Option<i64>)> {
    let live = pairs.iter().filter(move |[_, _, expiry]| is_live(*expiry, due));
    live.map(|[field, value, expiry]| (field, value, expiry_of(expiry)))
}

/// A random field with its value; `None` if no unexpired one was found.
pub(super) fn sample(
    pairs: &VolatilePairs,
    due: i64,
    mut random: impl FnMut() -> u64,
) -> Option<(Item<'_>, Item<'_>)> {
    if pairs.is_empty() {
        return None;
    }
    (0..SAMPLE_TRY_COUNT_MAX).find_map(|_| {
        let index = (u128::from(random()) * pairs.len() as u128) >> 64;
        let [field, value, expiry] = pairs.at(index as usize);
        is_live(expiry, due).then_some((field, value))
    })
}

/// Deletes the fields that are expired.
pub(super) fn expire(
    pairs: &mut VolatilePairs,
    earliest: &mut Earliest,
    now: i64,
    mut expired: impl FnMut(&[u8]),
) -> FieldExpiry {
    if earliest.at().is_none_or(|at| at > now) {
        return FieldExpiry::default();
    }
    let (mut expired_count, mut next) = (0, None::<i64>);
    let mut buffer = DecimalBuffer::new();
    pairs.retain(|[field, _, expiry]| {
        let expiry = expiry_of(expiry);
        if expiry.is_some_and(|at| at <= now) {
            expired(field.text(&mut buffer));
            expired_count += 1;
            return false;
        }
        next = next.into_iter().chain(expiry).min();
        true
    });
    *earliest = Earliest::of(next);
    pairs.shrink_to_fit();
    FieldExpiry { expired_count, has_more: false }
}

/// Verifies the invariants.
#[cfg(any(test, debug_assertions))]
pub(super) fn check(pairs: &VolatilePairs, earliest: Earliest) -> Result<(), String> {
    pairs.check()?;
    let expiries = pairs.iter().filter_map(|[_, _, expiry]| expiry_of(expiry));
    if Earliest::of(expiries.min()) == earliest {
        return Ok(());
    }
    Err(format!("{earliest:?} is not the earliest expiry"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_planted_fault_is_noticed() {
        let (mut pairs, mut earliest) = (VolatilePairs::new(), Earliest::NONE);
        for (field, at) in [(&b"a"[..], 30), (b"b", 20), (b"c", 40)] {
            set(&mut pairs, &mut earliest, [field, b"value"], ExpiryChange::At(at), 0);
        }
        assert_eq!((check(&pairs, earliest), earliest.at()), (Ok(()), Some(20)));
        assert!(check(&pairs, Earliest::of(Some(21))).is_err());
        set_expiry(&mut pairs, &mut earliest, b"b", Some(50));
        assert_eq!((check(&pairs, earliest), earliest.at()), (Ok(()), Some(30)));
        assert!(remove(&mut pairs, &mut earliest, b"a", 0) && !remove(&mut pairs, &mut earliest, b"c", 40));
        assert_eq!(earliest.at(), Some(40));
        set_expiry(&mut pairs, &mut earliest, b"c", None);
        set_expiry(&mut pairs, &mut earliest, b"b", None);
        assert_eq!((check(&pairs, earliest), earliest.at()), (Ok(()), None));
    }

    #[test]
    fn an_expired_field_gives_its_memory_back() {
        let heap = Heap::new();
        let mut permanent = Packed::<2>::new();
        for [field, value] in [[b"f1", b"v1"], [b"f2", b"v2"], [b"f3", b"v3"]] {
            permanent.push_back([&field[..], value]);
        }
        let (mut pairs, mut earliest) = (of_pairs(&heap, &permanent), Earliest::NONE);
        set_expiry(&mut pairs, &mut earliest, b"f1", Some(1_796_000_000_000));
        let before = pairs.memory_bytes();
        expire(&mut pairs, &mut earliest, 1_796_000_000_000, |_| ());
        assert_eq!(check(&pairs, earliest), Ok(()));
        assert!(pairs.memory_bytes() < before, "{before}");
    }

    #[test]
    fn expiries_beyond_the_range_are_clamped() {
        for (at, expected) in [(-5, 0), (7, 7), (1 << 47, 1 << 47), (i64::MAX, (1 << 48) - 2)] {
            assert_eq!(Earliest::of(Some(at)).at(), Some(expected));
        }
        assert_eq!(Earliest::of(None).at(), None);
    }
}
