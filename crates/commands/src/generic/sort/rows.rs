//! The rows that `SORT` sorts: elements with their sort keys.

use std::cmp::Ordering;

use collections::{DecimalBuffer, Item, Object};
use wire::number::parse_f64;

use super::options::SortOptions;
use crate::error::{CommandError, up_to_nul};

/// An element and its sort key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'a> {
    /// The element.
    pub item: Item<'a>,
    /// The number to compare, for [`SortOrder::Score`].
    pub score: f64,
    /// The text to compare, from a key, for [`SortOrder::WeightText`].
    pub weight: Option<Item<'a>>,
}

/// The sort order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SortOrder {
    /// Unsorted: the existing order.
    Given,
    /// By the number of the element or of its weight.
    Score,
    /// By text of the elements.
    Text,
    /// By text of the weights.
    WeightText,
}

impl SortOrder {
    /// Returns the order that the options specify.
    pub fn of(options: &SortOptions<'_>) -> Self {
        match options.by {
            Some(pattern) if !pattern.names_keys() => Self::Given,
            Some(_) if options.is_alpha => Self::WeightText,
            None if options.is_alpha => Self::Text,
            _ => Self::Score,
        }
    }
}

/// Returns the elements of a value. With [`SortOrder::Given`], returns only the elements within the limit.
pub(super) fn of_object<'a>(
    object: &'a Object,
    order: SortOrder,
    options: &SortOptions<'_>,
) -> Result<Vec<Row<'a>>, CommandError> {
    let row = |item| Row { item, score: 0.0, weight: None };
    let is_given = order == SortOrder::Given;
    let mut rows: Vec<Row<'a>> = match object {
        Object::Set(set) => set.iter().map(row).collect(),
        Object::SortedSet(set) => {
            let (start, count) = if is_given { window(options.limit, set.len()) } else { (0, set.len()) };
            let members = match is_given && options.is_descending {
                true => set.range_backward((set.len() - start).saturating_sub(1), count),
                false => set.range(start, count),
            };
            return Ok(members.map(|(member, _)| row(Item::Bytes(member))).collect());
        }
        Object::List(list) => {
            let (start, count) = if is_given { window(options.limit, list.len()) } else { (0, list.len()) };
            let mut rows = Vec::with_capacity(count);
            let mut take = |_, element| {
                rows.push(row(element));
                rows.len() < count
            };
            match count {
                0 => {}
                _ if is_given && options.is_descending => list.walk_back(list.len() - 1 - start, &mut take),
                _ => list.walk(start, &mut take),
            }
            return Ok(rows);
        }
        _ => return Err(CommandError::WRONG_TYPE),
    };
    if is_given {
        cut(&mut rows, options.limit);
    }
    Ok(rows)
}

/// Parses the number of an element or a weight.
pub(super) fn score(item: Item<'_>) -> Option<f64> {
    match item {
        Item::Int(value) => Some(value as f64),
        // Unlike elsewhere, hexadecimal numbers are rejected.
        Item::Bytes(text) if text.iter().any(|byte| matches!(byte, b'x' | b'X')) => None,
        Item::Bytes(text) => parse_f64(up_to_nul(text)),
    }
}

/// Sorts rows. The sort is stable.
pub(super) fn sort(rows: &mut [Row<'_>], order: SortOrder, options: &SortOptions<'_>) {
    let is_stored = options.store.is_some();
    let compare = |a: &Row<'_>, b: &Row<'_>| match order {
        SortOrder::Given => Ordering::Equal,
        SortOrder::Score => {
            // Zeros of either sign are equal, and there is no NaN.
            let order = a.score.partial_cmp(&b.score).unwrap_or(Ordering::Equal);
            order.then_with(|| compare_texts(a.item, b.item, true))
        }
        SortOrder::Text => compare_texts(a.item, b.item, is_stored),
        SortOrder::WeightText => match (a.weight, b.weight) {
            (Some(a), Some(b)) => compare_texts(a, b, is_stored),
            (a, b) => a.is_some().cmp(&b.is_some()),
        },
    };
    if options.is_descending {
        rows.sort_by(|a, b| compare(b, a));
    } else {
        rows.sort_by(compare);
    }
}

/// Keeps the rows within the limit.
pub(super) fn cut(rows: &mut Vec<Row<'_>>, limit: Option<(i64, i64)>) {
    let (start, count) = window(limit, rows.len());
    rows.truncate(start + count);
    rows.drain(..start);
}

/// Returns the start and length of the part within the limit, of `len` elements.
fn window(limit: Option<(i64, i64)>, len: usize) -> (usize, usize) {
    let Some((offset, count)) = limit else { return (0, len) };
    let start = usize::try_from(offset).unwrap_or(0).min(len);
    let count = usize::try_from(count).unwrap_or(usize::MAX).min(len - start);
    (start, count)
}

/// Compares texts as bytes: up to the first NUL unless `is_whole`, as in Redis, where results that are not stored are
/// compared as C strings.
fn compare_texts(a: Item<'_>, b: Item<'_>, is_whole: bool) -> Ordering {
    let (mut a_buffer, mut b_buffer) = (DecimalBuffer::new(), DecimalBuffer::new());
    let (a, b) = (a.text(&mut a_buffer), b.text(&mut b_buffer));
    if is_whole { a.cmp(b) } else { up_to_nul(a).cmp(up_to_nul(b)) }
}
