//! `SORT` and `SORT_RO`
//!
//! Elements are not moved: rows of references are sorted. Weights (`BY`) and results (`GET`) may be values of
//! keys that are not among the arguments; a request with such patterns runs under all latches.

mod options;
mod rows;

use collections::{Collection, DecimalBuffer, End, Hash, Item, Kind, List, ValueRef};
use keyspace::Key;
use wire::request::Args;

use crate::command::{Access, Begin, Categories, Command, Find, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EffectArg, EventClass};
use crate::doc::{Arg, ArgType, Doc, Group};
use crate::error::CommandError;
use crate::list::limits::limits;
use crate::reply::{Replied, Reply};
use crate::session::SessionFlags;
use crate::word::Word;
use options::{Pattern, SortOptions};
use rows::{Row, SortOrder};

/// `SORT key [BY pattern] [LIMIT offset count] [GET pattern ...] [ASC | DESC] [ALPHA] [STORE destination]`
pub const SORT: Command = Command {
    name: "sort",
    arity: -2,
    flags: Flags::WRITE.union(Flags::LOG_INSTEAD).union(Flags::DENYOOM).union(Flags::MOVABLEKEYS),
    categories: CATEGORIES,
    access: Access::WriteAllIf(|args| reaches(args, true)),
    keys: &[
        KeySpec::first(KeyFlags::RO.union(KeyFlags::ACCESS)),
        PATTERN_KEYS,
        KeySpec {
            flags: KeyFlags::OW.union(KeyFlags::UPDATE),
            begin: Begin::Unknown,
            find: Find::Unknown,
            notes: Some(
                "For the optional STORE keyword. It is marked 'unknown' because the keyword can appear anywhere in the \
                 argument array",
            ),
            custom: Some(find_destination),
            flags_of_request: None,
        },
    ],
    tips: &[],
    doc: Doc::new(
        Group::Generic,
        "1.0.0",
        "Sorts the elements of a list, set or sorted set, and returns or stores them.",
    )
    .complexity(COMPLEXITY)
    .args(&[KEY, BY, LIMIT, GET, ORDER, ALPHA, Arg::key("destination", 2).token("STORE").optional()]),
    subcommands: &[],
    run: |ctx, args, reply| run(ctx, args, true, reply),
};

/// `SORT_RO key [BY pattern] [LIMIT offset count] [GET pattern ...] [ASC | DESC] [ALPHA]`
pub const SORT_RO: Command = Command {
    name: "sort_ro",
    arity: -2,
    flags: Flags::READONLY.union(Flags::MOVABLEKEYS),
    categories: CATEGORIES,
    access: Access::ReadAllIf(|args| reaches(args, false)),
    keys: &[KeySpec::first(KeyFlags::RO.union(KeyFlags::ACCESS)), PATTERN_KEYS],
    tips: &[],
    doc: Doc::new(Group::Generic, "7.0.0", "Returns the sorted elements of a list, set or sorted set.")
        .complexity(COMPLEXITY)
        .args(&[KEY, BY, LIMIT, GET, ORDER, ALPHA]),
    subcommands: &[],
    run: |ctx, args, reply| run(ctx, args, false, reply),
};

const CATEGORIES: Categories =
    Categories::SET.union(Categories::SORTEDSET).union(Categories::LIST).union(Categories::DANGEROUS);
const COMPLEXITY: &str = "O(N+M*log(M)) where N is the number of elements and M the number of those returned; O(N) without sorting.";
const PATTERN_KEYS: KeySpec = KeySpec {
    flags: KeyFlags::RO.union(KeyFlags::ACCESS),
    begin: Begin::Unknown,
    find: Find::Unknown,
    notes: Some(
        "For the optional BY/GET keyword. It is marked 'unknown' because the key names derive from the content of the key \
         we sort",
    ),
    custom: None,
    flags_of_request: None,
};
const KEY: Arg = Arg::key("key", 0);
const BY: Arg = Arg {
    key_spec: Some(1),
    ..Arg::new("by-pattern", ArgType::Pattern).shown("pattern").token("BY").optional()
};
const GET: Arg = Arg {
    key_spec: Some(1),
    ..Arg::new("get-pattern", ArgType::Pattern).shown("pattern").token("GET").optional().multiple_token()
};
const LIMIT: Arg =
    Arg::block("limit", &[Arg::integer("offset"), Arg::integer("count")]).token("LIMIT").optional();
const ORDER: Arg = Arg::one_of("order", &[Arg::word("asc", "ASC"), Arg::word("desc", "DESC")]).optional();
const ALPHA: Arg = Arg::word("sorting", "ALPHA").optional();

fn reaches(args: Args<'_>, stores: bool) -> bool {
    SortOptions::parse(args, stores, true).is_ok_and(|options| options.accesses_other_keys())
}

/// Finds the destination of `STORE`, even in a request with other errors, which the handler rejects.
fn find_destination(args: Args<'_>, found: &mut Vec<u32>) {
    let destination = match SortOptions::parse(args, true, true) {
        Ok(options) => options.store,
        Err(_) => likely_destination(args),
    };
    found.extend(destination.map(|index| index as u32));
}

/// Returns the argument after the last `STORE` of an invalid request. As in Valkey, this `STORE` may itself follow one.
fn likely_destination(args: Args<'_>) -> Option<usize> {
    let mut destination = None;
    let mut index = 2;
    while index < args.len() {
        let is = |name: &[u8]| args.at(index).eq_token(name);
        let operand_count = match () {
            () if is(b"limit") => 2,
            () if is(b"get") || is(b"by") => 1,
            () => 0,
        };
        if is(b"store") && index + 1 < args.len() {
            destination = Some(index + 1);
        }
        index += 1 + operand_count;
    }
    destination
}

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, stores: bool, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let options = SortOptions::parse(args, stores, ctx.may_read_all_keys())?;
    if options.store.is_some() {
        ctx.data.expire_if_due(ctx.key(0));
    }
    let rows = sorted_rows(ctx, &options)?;
    if options.store.is_some() {
        let list = list_of(ctx, &rows, &options);
        return Ok(store(ctx, list, reply));
    }
    let mut out = reply.array(rows.len() * options.get.len().max(1));
    let chunks = ctx.chunks(&out);
    for row in &rows {
        if options.get.is_empty() {
            out.item(row.item);
        }
        for pattern in &options.get {
            match look_up(ctx, *pattern, row.item) {
                Some(value) => out.item(value),
                None => out.null(),
            }
        }
        chunks.cut(&mut out);
    }
    Ok(out.done())
}

/// Returns the list of results for the rows.
fn list_of(ctx: &Ctx<'_>, rows: &[Row<'_>], options: &SortOptions<'_>) -> List {
    let mut list = List::new();
    let mut buffer = DecimalBuffer::new();
    for row in rows {
        if options.get.is_empty() {
            list.push(End::Right, row.item.text(&mut buffer));
        }
        for pattern in &options.get {
            let value = look_up(ctx, *pattern, row.item).unwrap_or(Item::Bytes(b""));
            list.push(End::Right, value.text(&mut buffer));
        }
    }
    list.rebalance(limits(ctx.config));
    list
}

/// Stores the list in the destination, replaces any value, and replies with its length.
fn store(ctx: &mut Ctx<'_>, list: List, reply: Reply<'_>) -> Replied {
    let (destination, len) = (ctx.key(1), list.len());
    if len > 0 {
        log_list(ctx, destination, &list);
        ctx.put_object(destination, list.into_object());
        ctx.changed(EventClass::List, "sortstore", destination);
        ctx.report.dirty += len as u64 - 1;
    } else if ctx.remove(destination) {
        ctx.changed(EventClass::Generic, "del", destination);
        ctx.record_deletion(destination);
    }
    reply.integer(len as i64)
}

/// Logs the stored list element by element, because elements of equal weight have no defined order.
fn log_list(ctx: &mut Ctx<'_>, destination: Key<'_>, list: &List) {
    if !ctx.records_effects() {
        return;
    }
    ctx.record_deletion(destination);
    let mut texts: Vec<Vec<u8>> = Vec::new();
    let flush = |ctx: &mut Ctx<'_>, texts: &mut Vec<Vec<u8>>| {
        let command = [EffectArg::from("RPUSH"), destination.bytes.into()];
        let elements = texts.iter().map(|text| EffectArg::from(&text[..]));
        ctx.record_effect(&command.into_iter().chain(elements).collect::<Vec<_>>());
        texts.clear();
    };
    list.walk(0, |_, item| {
        texts.push(item.text(&mut DecimalBuffer::new()).to_vec());
        if texts.len() == LOGGED_ELEMENT_COUNT_MAX {
            flush(ctx, &mut texts);
        }
        true
    });
    if !texts.is_empty() {
        flush(ctx, &mut texts);
    }
}

/// Elements pushed by one logged request.
const LOGGED_ELEMENT_COUNT_MAX: usize = 1024;

/// Returns the rows of the result, in order.
fn sorted_rows<'c>(ctx: &'c Ctx<'_>, options: &SortOptions<'_>) -> Result<Vec<Row<'c>>, CommandError> {
    let Some(entry) = ctx.data.find(ctx.key(0)) else { return Ok(Vec::new()) };
    let ValueRef::Object(object) = entry.value() else { return Err(CommandError::WRONG_TYPE) };
    let mut order = SortOrder::of(options);
    let must_be_deterministic =
        options.store.is_some() || ctx.session.flags.contains(SessionFlags::IN_SCRIPT);
    if order == SortOrder::Given && entry.kind() == Kind::Set && must_be_deterministic {
        // The result of a script, or a stored result, must not depend on the internal order of a set.
        order = SortOrder::Text;
    }
    let mut rows = rows::of_object(object, order, options)?;
    if order == SortOrder::Given {
        return Ok(rows);
    }
    let by = options.by.filter(|_| matches!(order, SortOrder::Score | SortOrder::WeightText));
    let mut is_number_missing = false;
    for row in &mut rows {
        let weight = match by {
            Some(pattern) => look_up(ctx, pattern, row.item),
            None => Some(row.item),
        };
        match (order, weight) {
            (SortOrder::Score, Some(weight)) => match rows::score(weight) {
                Some(score) => row.score = score,
                None => is_number_missing = true,
            },
            (SortOrder::WeightText, weight) => row.weight = weight,
            _ => {}
        }
    }
    rows::sort(&mut rows, order, options);
    rows::cut(&mut rows, options.limit);
    if is_number_missing { Err(NOT_A_SCORE) } else { Ok(rows) }
}

const NOT_A_SCORE: CommandError = CommandError::new("ERR One or more scores can't be converted into double");

/// Returns the value of a pattern for an element.
fn look_up<'c>(ctx: &'c Ctx<'_>, pattern: Pattern<'_>, element: Item<'c>) -> Option<Item<'c>> {
    if pattern.is_element() {
        return Some(element);
    }
    let target = pattern.target(element.text(&mut DecimalBuffer::new()))?;
    let key = Key::new(ctx.hasher, &target.key, ctx.db());
    let value = ctx.data.find(key)?.value();
    match (target.field, value) {
        (None, ValueRef::Int(value)) => Some(Item::Int(value)),
        (None, ValueRef::Bytes(bytes)) => Some(Item::Bytes(bytes)),
        (Some(field), ValueRef::Object(object)) => {
            Hash::of(object)?.find(ctx.alloc_context(key), field, ctx.now().0).map(|field| field.value)
        }
        _ => None,
    }
}
