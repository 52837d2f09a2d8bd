//! Popping elements from an end of a list, shared by several commands.

use collections::{DecimalBuffer, End, Item, List};
use keyspace::Key;
use wire::reply::ReplyBuffer;

use super::limits::limits;
use crate::context::{Ctx, EventClass};
use crate::error::CommandError;

/// Writes an element as a bulk string.
#[inline]
pub(super) fn write_item(item: Item<'_>, out: &mut ReplyBuffer<'_>) {
    match item {
        Item::Bytes(bytes) => out.bulk(bytes),
        Item::Int(value) => out.bulk_int(value),
    }
}

/// Writes `count` elements from an end and removes them. The list must have at least `count` elements.
pub(super) fn pop_into(list: &mut List, end: End, count: usize, out: &mut ReplyBuffer<'_>) {
    let mut left = count;
    let mut write = |_: usize, item: Item<'_>| {
        write_item(item, out);
        left -= 1;
        left > 0
    };
    if count > 0 && end == End::Left {
        list.walk(0, &mut write);
    } else if count > 0 {
        list.walk_back(list.len() - 1, &mut write);
    }
    let start = if end == End::Left { 0 } else { list.len() - count };
    list.remove_range(start, count);
}

/// Returns the keyspace event of popping at an end.
pub(super) const fn pop_event(end: End) -> &'static str {
    match end {
        End::Left => "lpop",
        End::Right => "rpop",
    }
}

/// Returns the command that pops at an end.
pub(super) const fn pop_name(end: End) -> &'static str {
    match end {
        End::Left => "LPOP",
        End::Right => "RPOP",
    }
}

/// Returns the keyspace event of pushing at an end.
pub(super) const fn push_event(end: End) -> &'static str {
    match end {
        End::Left => "lpush",
        End::Right => "rpush",
    }
}

/// Reports that `count` elements were popped.
#[inline]
pub(super) fn report_popped(ctx: &mut Ctx<'_>, end: End, count: usize, key: Key<'_>) {
    ctx.changed(EventClass::List, pop_event(end), key);
    ctx.report.dirty += count as u64 - 1;
    ctx.report_if_emptied(key);
}

/// Writes the output of `before`, then pops one element from an end and writes it as a bulk string. Returns `false`
/// and writes nothing if there is no such key.
pub(super) fn pop_one(
    ctx: &mut Ctx<'_>,
    key: Key<'_>,
    end: End,
    out: &mut ReplyBuffer<'_>,
    before: impl FnOnce(&mut ReplyBuffer<'_>),
) -> Result<bool, CommandError> {
    let limits = limits(ctx.config);
    let popped = ctx.edit(key, |list: &mut List, _| {
        before(out);
        let index = list.index_of_end(end);
        list.take(index, |item| write_item(item, out));
        list.shrunk(limits);
    })?;
    if popped.is_none() {
        return Ok(false);
    }
    report_popped(ctx, end, 1, key);
    Ok(true)
}

/// Pops up to `count` elements from an end of the request's first non-empty list, and writes an array of the key and
/// its elements. Returns `false` and writes nothing if there is none.
pub(super) fn pop_from_first(
    ctx: &mut Ctx<'_>,
    end: End,
    count: usize,
    out: &mut ReplyBuffer<'_>,
) -> Result<bool, CommandError> {
    let limits = limits(ctx.config);
    let mut keys = ctx.walk();
    while let Some(key) = keys.next(ctx.data) {
        let popped = ctx.edit(key, |list: &mut List, _| {
            let count = count.min(list.len());
            out.array(2);
            out.bulk(key.bytes);
            out.array(count);
            pop_into(list, end, count, out);
            list.shrunk(limits);
            count
        })?;
        if let Some(count) = popped {
            report_popped(ctx, end, count, key);
            ctx.record_effect(&[pop_name(end).into(), key.bytes.into(), (count as i64).into()]);
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns a copy of the element at an end, to be stored under another key.
pub(super) fn text_at(list: &List, end: End) -> Vec<u8> {
    list.at(list.index_of_end(end)).text(&mut DecimalBuffer::default()).to_vec()
}
