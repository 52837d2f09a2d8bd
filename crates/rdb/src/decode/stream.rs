//! Streams: nodes of entries, each a listpack, then the groups with their pending entries.
//!
//! A node's listpack begins with the number of live and of deleted entries, and the names of its first entry's fields.
//! An entry has flags, its id relative to the node's, names if they differ from the node's, values, and its number of
//! elements, so that it can be read backwards.

use std::borrow::Cow;
use std::collections::BTreeMap;

use collections::Item;
use collections::stream::{AppendError, Delivery, Group, NodeLimits, Stream, StreamId};

use crate::error::{Error, Fault};
use crate::input::Input;
use crate::listpack::Listpack;
use crate::value_type::StreamForm;

/// The entry is deleted.
const DELETED: i64 = 1;
/// The entry has the names of the node.
const SAME_NAMES: i64 = 2;
/// Elements of an entry beside names and values: flags and id.
const ENTRY_HEAD_LEN: i64 = 3;

/// The time of a consumer that was never delivered an entry.
const NEVER: i64 = -1;
/// The count of a group whose count is unknown.
const UNKNOWN: u64 = u64::MAX;

/// Pending entries of a group that no consumer has claimed yet.
type Unowned = BTreeMap<StreamId, (i64, u64)>;

pub(super) fn decode(form: StreamForm, input: &mut Input<'_>, limits: NodeLimits) -> Result<Stream, Error> {
    let mut stream = Stream::new();
    for _ in 0..input.len()? {
        let before = *input;
        let (first, node) = (input.text()?, input.text()?);
        let fault = match <[u8; 16]>::try_from(first.blob()) {
            Ok(first) => read_node(id_of(first), node.blob(), limits, &mut stream).err(),
            Err(_) => Some(Fault::StreamEntries),
        };
        if let Some(fault) = fault {
            return Err(before.error(fault));
        }
    }
    let before = *input;
    let len = input.len()?;
    let last_id = read_id(input)?;
    let is_right = len == stream.len() && stream.last_id <= last_id;
    if !is_right {
        return Err(before.error(Fault::StreamEntries));
    }
    stream.last_id = last_id;
    if form >= StreamForm::V2 {
        // The first id follows from the entries.
        read_id(input)?;
        stream.max_deleted_id = read_id(input)?;
        stream.entries_added = input.len()?;
    }
    for _ in 0..input.len()? {
        read_group(form, input, &mut stream)?;
    }
    if form >= StreamForm::V4 {
        skip_producers(input)?;
    }
    Ok(stream)
}

fn read_id(input: &mut Input<'_>) -> Result<StreamId, Error> {
    Ok(StreamId::new(input.len()?, input.len()?))
}

fn read_raw_id(input: &mut Input<'_>) -> Result<StreamId, Error> {
    input.array().map(id_of)
}

fn id_of(bytes: [u8; 16]) -> StreamId {
    let value = u128::from_be_bytes(bytes);
    StreamId::new((value >> 64) as u64, value as u64)
}

/// Appends the live entries of a node.
fn read_node(first: StreamId, bytes: &[u8], limits: NodeLimits, stream: &mut Stream) -> Result<(), Fault> {
    let mut items = Listpack::open(bytes)?;
    let (mut live, mut deleted) = (count(&mut items)?, count(&mut items)?);
    let names_len = count(&mut items)?;
    let names = take_texts(&mut items, names_len)?;
    if int(&mut items)? != 0 {
        return Err(Fault::StreamEntries);
    }
    let mut texts = Vec::new();
    while live + deleted > 0 {
        let flags = int(&mut items)?;
        // As in Redis, differences wrap around.
        let ms = first.ms.wrapping_add(int(&mut items)? as u64);
        let seq = first.seq.wrapping_add(int(&mut items)? as u64);
        texts.clear();
        let mut element_count = ENTRY_HEAD_LEN;
        if flags & SAME_NAMES == 0 {
            let len = 2 * count(&mut items)?;
            texts.extend(take_texts(&mut items, len)?);
            element_count += 1 + len as i64;
        } else {
            for name in &names {
                texts.push(name.clone());
                texts.push(items.next().map(text_of).ok_or(Fault::StreamEntries)?);
            }
            element_count += names.len() as i64;
        }
        if int(&mut items)? != element_count {
            return Err(Fault::StreamEntries);
        }
        let counter = if flags & DELETED != 0 { &mut deleted } else { &mut live };
        *counter = counter.checked_sub(1).ok_or(Fault::StreamEntries)?;
        if flags & DELETED == 0 {
            let pairs = texts.as_chunks().0.iter().map(|[name, value]| (&**name, &**value));
            match stream.append(StreamId::new(ms, seq), pairs, limits) {
                Ok(()) => {}
                Err(AppendError::NotAboveLast | AppendError::TooLarge) => return Err(Fault::StreamEntries),
            }
        }
    }
    match items.next() {
        None => Ok(()),
        Some(_) => Err(Fault::StreamEntries),
    }
}

fn text_of(item: Item<'_>) -> Cow<'_, [u8]> {
    match item {
        Item::Bytes(bytes) => bytes.into(),
        Item::Int(value) => value.to_string().into_bytes().into(),
    }
}

/// Takes `len` strings; fewer are a fault.
fn take_texts<'a>(items: &mut Listpack<'a>, len: u64) -> Result<Vec<Cow<'a, [u8]>>, Fault> {
    // Checked before memory is reserved.
    if items.len() as u64 <= len {
        return Err(Fault::StreamEntries);
    }
    Ok(items.by_ref().take(len as usize).map(text_of).collect())
}

fn count(items: &mut Listpack<'_>) -> Result<u64, Fault> {
    let count = int(items)?;
    // No listpack has as many elements. The bound keeps sums of two from overflowing.
    u64::try_from(count).ok().filter(|count| *count < 1 << 40).ok_or(Fault::StreamEntries)
}

fn int(items: &mut Listpack<'_>) -> Result<i64, Fault> {
    match items.next() {
        Some(Item::Int(value)) => Ok(value),
        // An integer may be stored as its text.
        Some(Item::Bytes(text)) => collections::parse_canonical(text).ok_or(Fault::StreamEntries),
        None => Err(Fault::StreamEntries),
    }
}

fn read_group(form: StreamForm, input: &mut Input<'_>, stream: &mut Stream) -> Result<(), Error> {
    let before = *input;
    let name = input.text()?;
    let last_id = read_id(input)?;
    let entries_read = match form {
        StreamForm::V1 => stream.entries_up_to(last_id),
        _ => Some(input.len()?).filter(|read| *read != UNKNOWN),
    };
    let mut group = Group::new(last_id, entries_read);
    let mut unowned = Unowned::new();
    for _ in 0..input.len()? {
        let before = *input;
        let pending = (read_raw_id(input)?, (input.time()?, input.len()?));
        if unowned.insert(pending.0, pending.1).is_some() {
            return Err(before.error(Fault::StreamGroup));
        }
    }
    for _ in 0..input.len()? {
        read_consumer(form, input, &mut group, &mut unowned)?;
    }
    if form >= StreamForm::V5 {
        read_given_back(input, &mut group, &mut unowned)?;
    }
    let mut buffer = collections::DecimalBuffer::new();
    if !unowned.is_empty() {
        return Err(before.error(Fault::Delivery));
    }
    let is_right = stream.add_group(name.item().text(&mut buffer), group);
    if is_right { Ok(()) } else { Err(before.error(Fault::StreamGroup)) }
}

fn read_consumer(
    form: StreamForm,
    input: &mut Input<'_>,
    group: &mut Group,
    unowned: &mut Unowned,
) -> Result<(), Error> {
    let before = *input;
    let name = input.text()?;
    let mut buffer = collections::DecimalBuffer::new();
    let name = name.item().text(&mut buffer);
    if group.find_consumer(name).is_some() {
        return Err(before.error(Fault::Consumer));
    }
    let seen_at = input.time()?;
    let active_at = if form >= StreamForm::V3 { input.time()? } else { seen_at };
    let consumer = group.add_consumer(name, seen_at);
    group.consumer_mut(consumer).active_at = Some(active_at).filter(|at| *at != NEVER);
    for _ in 0..input.len()? {
        let before = *input;
        let id = read_raw_id(input)?;
        let Some((at, count)) = unowned.remove(&id) else { return Err(before.error(Fault::Delivery)) };
        group.deliver(id, Delivery { consumer, at, count });
    }
    Ok(())
}

/// Entries that a consumer has given back: they are pending without a consumer. Here each has one, so they get a
/// consumer without a name, from which others can claim them.
fn read_given_back(input: &mut Input<'_>, group: &mut Group, unowned: &mut Unowned) -> Result<(), Error> {
    for _ in 0..input.len()? {
        let before = *input;
        let id = read_raw_id(input)?;
        let Some((at, count)) = unowned.remove(&id) else { return Err(before.error(Fault::Delivery)) };
        let consumer = group.find_consumer(b"").unwrap_or_else(|| group.add_consumer(b"", at));
        group.deliver(id, Delivery { consumer, at, count });
    }
    Ok(())
}

/// Producers with the ids of their messages, which are not supported here.
fn skip_producers(input: &mut Input<'_>) -> Result<(), Error> {
    for _ in 0..2 {
        input.len()?;
    }
    for _ in 0..input.len()? {
        input.skip_text()?;
        for _ in 0..input.len()? {
            input.skip_text()?;
            read_id(input)?;
        }
    }
    for _ in 0..2 {
        input.len()?;
    }
    Ok(())
}
