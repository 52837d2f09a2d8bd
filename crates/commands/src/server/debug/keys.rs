//! `DEBUG` subcommands that inspect or create keys.

use collections::{DecimalBuffer, Entry, ExpiryChange, NewValue, Object, ValueRef};
use keyspace::Key;
use wire::number::parse_i64_strict;
use wire::request::Args;

use crate::context::Ctx;
use crate::error::CommandError;
use crate::reply::{Replied, Reply};
use crate::session::SessionFlags;
use crate::word::Word;

/// `DEBUG OBJECT key`
pub(super) fn object(ctx: &mut Ctx<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    // Shows expired keys that are not deleted yet.
    let sees_expired = std::mem::replace(&mut ctx.data.mode.sees_expired, true);
    let replied = describe(ctx, reply);
    ctx.data.mode.sees_expired = sees_expired;
    replied
}

fn describe(ctx: &mut Ctx<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let entry = ctx.data.peek(ctx.key(0)).ok_or(CommandError::NO_SUCH_KEY)?;
    let encoding = entry.encoding_name();
    let mut text = format!(
        "Value at:{:p} refcount:1 encoding:{encoding} serializedlength:{} lru:{} lru_seconds_idle:{}",
        entry.key().as_ptr(),
        serialized_len(entry),
        entry.access(),
        ctx.data.mode.aging.idle_seconds(entry.access()),
    );
    // The nodes of the list, and the directives that apply to them.
    if let ValueRef::Object(Object::List(list)) = entry.value()
        && encoding == "quicklist"
    {
        let nodes = list.node_count();
        text.push_str(&format!(
            " ql_nodes:{nodes} ql_avg_node:{:.2} ql_listpack_max:{} ql_compressed:{} ql_uncompressed_size:{}",
            list.len() as f64 / nodes as f64,
            ctx.config.list_max_listpack_size,
            u8::from(ctx.config.list_compress_depth != 0),
            list.memory_bytes(),
        ));
    }
    Ok(reply.simple(&text))
}

/// `DEBUG SDSLEN key`
pub(super) fn lengths(ctx: &mut Ctx<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let entry = ctx.data.peek(ctx.key(0)).ok_or(CommandError::NO_SUCH_KEY)?;
    let size = match entry.value() {
        ValueRef::Bytes(bytes) => bytes.len(),
        ValueRef::Int(_) | ValueRef::Object(_) => {
            return Err(CommandError::new("ERR Not an sds encoded string."));
        }
    };
    let allocated = entry.allocated_bytes();
    let text = format!(
        "key_sds_len:{} key_sds_avail:0 obj_alloc:{allocated} val_sds_len:{size} val_sds_avail:0 val_alloc:{allocated}",
        entry.key().len(),
    );
    Ok(reply.simple(&text))
}

/// Keys, and bytes of values, after which `DEBUG POPULATE` releases its latches for a turn: 1 to 2 ms.
const PART_KEY_COUNT: u64 = 2048;
const PART_SIZE: u64 = 4 << 20;

/// `DEBUG POPULATE count [prefix] [size] [RAND]`. Outside of a transaction it runs in parts, between which
/// other connections are served. The keys are not part of the stream for replicas.
pub(super) fn populate(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let number = |text: &[u8]| parse_i64_strict(text).and_then(|number| u64::try_from(number).ok());
    const NOT_POSITIVE: CommandError = CommandError::new("ERR value is out of range, must be positive");
    let count = number(args.at(2)).ok_or(NOT_POSITIVE)?;
    let prefix = args.get(3).unwrap_or(b"key");
    let size = args.get(4).map_or(Ok(0), |text| number(text).ok_or(NOT_POSITIVE))? as usize;
    let is_random = match args.get(5) {
        None => false,
        Some(word) if word.eq_token("rand") && args.len() == 6 => true,
        Some(_) => return Err(CommandError::SYNTAX),
    };
    let first = ctx.session.unfinished.take().unwrap_or(0);
    let end = if ctx.session.flags.contains(SessionFlags::IN_EXEC) {
        count
    } else {
        let part = (PART_SIZE / (size as u64).max(1)).clamp(1, PART_KEY_COUNT);
        count.min(first.saturating_add(part))
    };
    let db = ctx.db();
    let mut name = Vec::new();
    let mut value = Vec::new();
    for index in first..end {
        name.clear();
        name.extend_from_slice(prefix);
        name.extend_from_slice(format!(":{index}").as_bytes());
        let key = Key::new(ctx.hasher, &name, db);
        ctx.data.expire_if_due(key);
        if ctx.data.peek(key).is_some() {
            continue;
        }
        value.clear();
        value.extend_from_slice(format!("value:{index}").as_bytes());
        if size > 0 {
            value.resize(size, 0);
        }
        if is_random {
            value.iter_mut().for_each(|byte| *byte = b'a' + ctx.data.random().below(26) as u8);
        }
        ctx.data.set(key, NewValue::Bytes(&value), ExpiryChange::Clear);
        ctx.report.dirty += 1;
        // Commands of administrators are skipped when a file is loaded. Replicas are populated on their own, as those of Redis
        // and Valkey are.
        if ctx.records_effects() {
            ctx.data.record_for_file(db, [&b"SET"[..], &name, &value].into_iter());
            ctx.report.is_logged = true;
        }
    }
    if end < count {
        ctx.session.unfinished = Some(end);
        return Ok(reply.nothing());
    }
    Ok(reply.ok())
}

/// Returns the length of a string in a snapshot, before compression: small numbers take 1, 2 or 4 bytes;
/// other text follows its length. 0 for other values.
fn serialized_len(entry: Entry<'_>) -> usize {
    let text = text_of(entry);
    let number = parse_i64_strict(&text).and_then(|number| i32::try_from(number).ok());
    match (number, text.len()) {
        (Some(-128..=127), _) => 2,
        (Some(-32_768..=32_767), _) => 3,
        (Some(_), _) => 5,
        (None, 0) if matches!(entry.value(), ValueRef::Object(_)) => 0,
        (None, len @ ..64) => 1 + len,
        (None, len @ ..16_384) => 2 + len,
        (None, len) => 5 + len,
    }
}

/// Returns the text of a string value.
fn text_of(entry: Entry<'_>) -> Vec<u8> {
    let mut buffer = DecimalBuffer::new();
    entry.value().text(&mut buffer).unwrap_or_default().to_vec()
}

/// `DEBUG HTSTATS db`
pub(super) fn table_stats(
    ctx: &mut Ctx<'_>,
    args: Args<'_>,
    reply: Reply<'_>,
) -> Result<Replied, CommandError> {
    let db = parse_i64_strict(args.at(2)).ok_or(CommandError::NOT_AN_INTEGER)?;
    let db = ctx.db_index(db).map_err(|_| CommandError::new("ERR Out of range database"))?;
    let population = ctx.data.population(db);
    ctx.data.note_all_changes();
    let of = |title: &str, count: u64| format!("[{title} HT]\n{}", table_text(count, "elements"));
    let text = format!("{}{}", of("Dictionary", population.keys), of("Expires", population.volatile));
    Ok(reply.verbatim(b"txt", text.as_bytes()))
}

/// `DEBUG HTSTATS-KEY key`
pub(super) fn value_table_stats(ctx: &mut Ctx<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let entry = ctx.data.peek(ctx.key(0)).ok_or(CommandError::NO_SUCH_KEY)?;
    let count = match entry.value() {
        _ if !matches!(entry.encoding_name(), "hashtable" | "skiplist") => None,
        ValueRef::Object(Object::Set(set)) => Some(set.len()),
        ValueRef::Object(Object::Hash(hash)) => Some(hash.len()),
        ValueRef::Object(Object::SortedSet(set)) => Some(set.len()),
        _ => None,
    };
    let count = count.ok_or(CommandError::new(
        "ERR The value stored at the specified key is not represented using an hash table",
    ))?;
    let text = table_text(count as u64, "entries") + " rehashing index: -1\n";
    Ok(reply.verbatim(b"txt", text.as_bytes()))
}

/// Describes a table with `count` entries. The size is an estimate, for buckets of seven entries that are three
/// quarters full.
fn table_text(count: u64, what: &str) -> String {
    let places = (count * 4 / 3).next_power_of_two();
    format!("Hash table 0 stats (main hash table):\n table size: {places}\n number of {what}: {count}\n")
}
