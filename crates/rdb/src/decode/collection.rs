//! Lists, sets, sorted sets and hashes.

use collections::{
    Collection, DecimalBuffer, ExpiryChange, FieldWas, Hash, Item, List, ListBuilder, Set, SortedSet,
};

use super::DecodeContext;
use crate::error::{Error, Fault};
use crate::input::Input;
use crate::listpack::{self, Listpack};
use crate::value_type::ValueType;
use crate::{intset, ziplist, zipmap};

/// A node of a list that is one long element.
const NODE_PLAIN: u64 = 1;
/// A node of a list that is a listpack.
const NODE_PACKED: u64 = 2;

pub(super) fn list(
    value_type: ValueType,
    input: &mut Input<'_>,
    context: DecodeContext<'_>,
) -> Result<List, Error> {
    let mut list = ListBuilder::new();
    // As in Redis: a list of several nodes, or one in a ziplist, is not reported as a listpack.
    let mut is_quicklist = value_type == ValueType::ListZiplist;
    match value_type {
        ValueType::List => {
            for _ in 0..input.len()? {
                list.push(input.text()?.item());
            }
        }
        ValueType::ListZiplist => read_blob(input, |blob| {
            let items = ziplist::read(blob)?;
            items.into_iter().for_each(|item| list.push(item));
            Ok(())
        })?,
        ValueType::ListOfZiplists => {
            let node_count = input.len()?;
            is_quicklist = node_count > 1;
            for _ in 0..node_count {
                read_blob(input, |blob| {
                    let items = ziplist::read(blob)?;
                    items.into_iter().for_each(|item| list.push(item));
                    Ok(())
                })?;
            }
        }
        _ => {
            let node_count = input.len()?;
            is_quicklist = node_count > 1;
            for _ in 0..node_count {
                let before = *input;
                match input.len()? {
                    NODE_PLAIN => {
                        is_quicklist = true;
                        let text = input.text()?;
                        // Only elements that are too long for a packed node have one of their own.
                        if text.item().len() == 0 {
                            return Err(before.error(Fault::ListNode));
                        }
                        list.push(text.item());
                    }
                    NODE_PACKED => read_blob(input, |blob| listpack::visit(blob, |item| list.push(item)))?,
                    _ => return Err(before.error(Fault::ListNode)),
                }
            }
        }
    }
    let mut list = list.finish(context.alloc.heap);
    if is_quicklist {
        list.report_as_quicklist();
    } else {
        list.rebalance(context.limits.list);
    }
    Ok(list)
}

pub(super) fn set(
    value_type: ValueType,
    input: &mut Input<'_>,
    context: DecodeContext<'_>,
) -> Result<Set, Error> {
    let (alloc, limits) = (context.alloc, context.limits.set);
    let mut set = Set::new();
    match value_type {
        ValueType::Set => {
            let len = input.len()?;
            for index in 0..len {
                let before = *input;
                let text = input.text()?;
                let mut buffer = DecimalBuffer::new();
                let member = text.item().text(&mut buffer);
                if index == 0 {
                    set = Set::suiting(member, usize::try_from(len).unwrap_or(usize::MAX), limits);
                }
                if !set.add(alloc, member, limits) {
                    return Err(before.error(Fault::Duplicate));
                }
            }
        }
        ValueType::SetIntset => read_blob(input, |blob| {
            let ints = intset::read(blob)?;
            let len = ints.len();
            for (index, value) in ints.enumerate() {
                let mut buffer = DecimalBuffer::new();
                let member = buffer.format(value);
                if index == 0 {
                    set = Set::suiting(member, len, limits);
                }
                set.add(alloc, member, limits);
            }
            Ok(())
        })?,
        _ => read_blob(input, |blob| {
            let items = Listpack::open(blob)?;
            set = if items.len() <= limits.listpack_len_max {
                Set::new_listpack()
            } else {
                Set::new_hashtable()
            };
            for item in items {
                if !set.add_item(alloc, item, limits) {
                    return Err(Fault::Duplicate);
                }
            }
            Ok(())
        })?,
    }
    Ok(set)
}

pub(super) fn sorted_set(
    value_type: ValueType,
    input: &mut Input<'_>,
    context: DecodeContext<'_>,
) -> Result<SortedSet, Error> {
    let (alloc, limits) = (context.alloc, context.limits.sorted_set);
    let mut set = SortedSet::new();
    let mut add = |member: Item<'_>, score: f64| {
        let mut buffer = DecimalBuffer::new();
        match set.insert(alloc, limits, member.text(&mut buffer), score) {
            None => Ok(()),
            Some(_) => Err(Fault::Duplicate),
        }
    };
    match value_type {
        ValueType::SortedSetText | ValueType::SortedSet => {
            for _ in 0..input.len()? {
                let before = *input;
                let member = input.text()?;
                let score = match value_type {
                    ValueType::SortedSet => f64::from_le_bytes(input.array()?),
                    _ => text_score(input)?,
                };
                if score.is_nan() {
                    return Err(before.error(Fault::Score));
                }
                add(member.item(), score).map_err(|fault| before.error(fault))?;
            }
        }
        ValueType::SortedSetZiplist => read_blob(input, |blob| {
            let items = ziplist::read(blob)?;
            let (pairs, []) = items.as_chunks() else { return Err(Fault::Ziplist) };
            pairs.iter().try_for_each(|[member, score]| add(*member, score_of(*score)?))
        })?,
        _ => read_blob(input, |blob| {
            let mut items = Listpack::open(blob)?;
            while let Some(member) = items.next() {
                let score = items.next().ok_or(Fault::Listpack)?;
                add(member, score_of(score)?)?;
            }
            Ok(())
        })?,
    }
    Ok(set)
}

pub(super) fn hash(
    value_type: ValueType,
    input: &mut Input<'_>,
    context: DecodeContext<'_>,
) -> Result<Hash, Error> {
    let mut fields = Fields { hash: Hash::new(), context };
    match value_type {
        ValueType::HashZipmap => read_blob(input, |blob| {
            let pairs = zipmap::read(blob)?;
            let mut pairs = pairs.into_iter();
            pairs.try_for_each(|(field, value)| fields.add(Item::Bytes(field), Item::Bytes(value), None))
        })?,
        ValueType::HashZiplist => read_blob(input, |blob| {
            let items = ziplist::read(blob)?;
            let (pairs, []) = items.as_chunks() else { return Err(Fault::Ziplist) };
            pairs.iter().try_for_each(|[field, value]| fields.add(*field, *value, None))
        })?,
        ValueType::HashListpack => read_blob(input, |blob| {
            let mut items = Listpack::open(blob)?;
            while let Some(field) = items.next() {
                fields.add(field, items.next().ok_or(Fault::Listpack)?, None)?;
            }
            Ok(())
        })?,
        ValueType::HashListpackAbsolute | ValueType::HashListpackWithEarliest => {
            if value_type == ValueType::HashListpackWithEarliest {
                input.time()?;
            }
            read_blob(input, |blob| {
                let mut items = Listpack::open(blob)?;
                while let Some(field) = items.next() {
                    let value = items.next().ok_or(Fault::Listpack)?;
                    let expiry = match items.next().ok_or(Fault::Listpack)? {
                        Item::Int(0) => None,
                        Item::Int(at) => Some(at),
                        Item::Bytes(_) => return Err(Fault::Expiry),
                    };
                    fields.add(field, value, expiry)?;
                }
                Ok(())
            })?;
        }
        _ => plain_hash(value_type, input, &mut fields)?,
    }
    Ok(fields.hash)
}

/// A hash field by field.
fn plain_hash(value_type: ValueType, input: &mut Input<'_>, fields: &mut Fields<'_>) -> Result<(), Error> {
    let earliest = if value_type == ValueType::HashRelative { input.time()? } else { 1 };
    let len = input.len()?;
    if usize::try_from(len).is_ok_and(|len| len > fields.context.limits.hash.entry_count_max) {
        fields.hash.report_as_hashtable();
    }
    for _ in 0..len {
        let before = *input;
        let mut expiry = None;
        if matches!(value_type, ValueType::HashRelative | ValueType::HashAbsolute) {
            // Relative expiries are stored plus 1, because 0 means none.
            let later = input.len()?;
            if later > 0 {
                let at = i64::try_from(later).ok().and_then(|later| earliest.checked_add(later - 1));
                expiry = Some(at.ok_or_else(|| before.error(Fault::Expiry))?);
            }
        }
        let (field, value) = (input.text()?, input.text()?);
        if value_type == ValueType::HashWithTimes {
            expiry = match input.time()? {
                -1 => None,
                at => Some(at),
            };
        }
        fields.add(field.item(), value.item(), expiry).map_err(|fault| before.error(fault))?;
    }
    Ok(())
}

/// A hash that is being filled.
struct Fields<'a> {
    hash: Hash,
    context: DecodeContext<'a>,
}

impl Fields<'_> {
    fn add(&mut self, field: Item<'_>, value: Item<'_>, expiry: Option<i64>) -> Result<(), Fault> {
        let DecodeContext { alloc, limits, drop_fields_before } = self.context;
        if expiry.is_some_and(|at| at < 0) {
            return Err(Fault::Expiry);
        }
        if let (Some(at), Some(bound)) = (expiry, drop_fields_before)
            && at < bound
        {
            return Ok(());
        }
        let (mut field_buffer, mut value_buffer) = (DecimalBuffer::new(), DecimalBuffer::new());
        let (field, value) = (field.text(&mut field_buffer), value.text(&mut value_buffer));
        let expiry = expiry.map_or(ExpiryChange::Clear, ExpiryChange::At);
        // At the earliest time no field is expired, so duplicates are found whatever their expiry.
        match self.hash.set(alloc, limits.hash, field, value, expiry, i64::MIN) {
            FieldWas::Absent => Ok(()),
            FieldWas::Expired | FieldWas::Present => Err(Fault::Duplicate),
        }
    }
}

/// Reads a string that holds a packed collection, and passes it to `fill`. Faults have the string's offset.
fn read_blob(input: &mut Input<'_>, fill: impl FnOnce(&[u8]) -> Result<(), Fault>) -> Result<(), Error> {
    let before = *input;
    let text = input.text()?;
    fill(text.blob()).map_err(|fault| before.error(fault))
}

/// A score as text after its length; three values of the length mean NaN and the infinities.
fn text_score(input: &mut Input<'_>) -> Result<f64, Error> {
    let before = *input;
    match input.byte()? {
        253 => Ok(f64::NAN),
        254 => Ok(f64::INFINITY),
        255 => Ok(f64::NEG_INFINITY),
        len => {
            let text = input.take(len.into())?;
            score_of(Item::Bytes(text)).map_err(|fault| before.error(fault))
        }
    }
}

fn score_of(item: Item<'_>) -> Result<f64, Fault> {
    let score = match item {
        Item::Int(value) => value as f64,
        Item::Bytes(text) => {
            str::from_utf8(text).ok().and_then(|text| text.trim().parse().ok()).ok_or(Fault::Score)?
        }
    };
    if score.is_nan() { Err(Fault::Score) } else { Ok(score) }
}
