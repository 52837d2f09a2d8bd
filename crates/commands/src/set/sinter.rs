//! `SINTER`, `SINTERSTORE` and `SINTERCARD`

use collections::{Collection, Item, Set, parse_canonical};
use wire::number::parse_i64_strict;
use wire::request::Args;

use super::combine::{find_sets, intersect, store};
use super::limits;
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};
use crate::word::Word;

/// `SINTER key [key ...]`
pub const SINTER: Command = Command {
    name: "sinter",
    arity: -2,
    flags: Flags::READONLY,
    categories: Categories::SET,
    access: Access::Read,
    keys: &[KeySpec::range(1, -1, 1, KeyFlags::RO.union(KeyFlags::ACCESS))],
    tips: &["nondeterministic_output_order"],
    doc: Doc::new(Group::Set, "1.0.0", "Returns the intersection of sets.")
        .complexity("O(N*M) at worst, where N is the size of the smallest set and M the number of sets.")
        .args(&[Arg::key("key", 0).multiple()]),
    subcommands: &[],
    run: sinter,
};

/// `SINTERSTORE destination key [key ...]`
pub const SINTERSTORE: Command = Command {
    name: "sinterstore",
    arity: -3,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM).union(Flags::DENYOOM),
    categories: Categories::SET,
    access: Access::Write,
    keys: &[
        KeySpec::at(1, KeyFlags::OW.union(KeyFlags::UPDATE)),
        KeySpec::range(2, -1, 1, KeyFlags::RO.union(KeyFlags::ACCESS)),
    ],
    tips: &[],
    doc: Doc::new(Group::Set, "1.0.0", "Stores the intersection of sets in a key.")
        .complexity("O(N*M) at worst, where N is the size of the smallest set and M the number of sets.")
        .args(&[Arg::key("destination", 0), Arg::key("key", 1).multiple()]),
    subcommands: &[],
    run: sinterstore,
};

/// `SINTERCARD numkeys key [key ...] [LIMIT limit]`
pub const SINTERCARD: Command = Command {
    name: "sintercard",
    arity: -3,
    flags: Flags::READONLY.union(Flags::MOVABLEKEYS),
    categories: Categories::SET,
    access: Access::Read,
    keys: &[KeySpec {
        custom: Some(find_keys),
        ..KeySpec::counted(1, 1, KeyFlags::RO.union(KeyFlags::ACCESS))
    }],
    tips: &[],
    doc: Doc::new(Group::Set, "7.0.0", "Returns the size of the intersection of sets.")
        .complexity("O(N*M) at worst, where N is the size of the smallest set and M the number of sets.")
        .args(&[
            Arg::integer("numkeys"),
            Arg::key("key", 0).multiple(),
            Arg::integer("limit").token("LIMIT").optional(),
        ]),
    subcommands: &[],
    run: sintercard,
};

/// Argument index of the first key of `SINTERCARD`.
const FIRST_KEY: usize = 2;

const BAD_NUMKEYS: CommandError = CommandError::new("ERR numkeys should be greater than 0");
const TOO_MANY_KEYS: CommandError =
    CommandError::new("ERR Number of keys can't be greater than number of args");
const BAD_LIMIT: CommandError = CommandError::new("ERR LIMIT can't be negative");

fn sinter(ctx: &mut Ctx<'_>, _args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let sets = find_sets(ctx, 0)?;
    let mut out = reply.parts();
    let start = out.deferred_set();
    let (mut count, chunks) = (0, ctx.chunks(&out));
    intersect(ctx.alloc_context(ctx.key(0)), sets, |member| {
        out.item(member);
        chunks.cut(&mut out);
        count += 1;
        true
    });
    chunks.set_len(&mut out, start, count);
    Ok(out.done())
}

fn sinterstore(ctx: &mut Ctx<'_>, _args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let (destination, limits) = (ctx.key(0), limits(ctx.config));
    let alloc = ctx.alloc_context(destination);
    ctx.expire_sources(1);
    let sets = find_sets(ctx, 1)?;
    let smallest = sets.iter().flatten().min_by_key(|set| set.len());
    let mut result =
        if smallest.is_some_and(|set| set.is_intset()) { Set::new() } else { Set::new_listpack() };
    let mut only_integers = true;
    intersect(alloc, sets, |member| {
        only_integers = only_integers
            && match member {
                Item::Int(_) => true,
                Item::Bytes(text) => parse_canonical(text).is_some(),
            };
        result.add_item(alloc, member, limits);
        true
    });
    if only_integers {
        result.become_intset_if_all(alloc, limits);
    }
    Ok(store(ctx, destination, result, "sinterstore", reply))
}

fn sintercard(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let limit = parse_limit(args.tail(options_start(args)?))?;
    let sets = find_sets(ctx, 0)?;
    let mut count = 0;
    intersect(ctx.alloc_context(ctx.key(0)), sets, |_| {
        count += 1;
        Some(count) != limit
    });
    Ok(reply.integer(count as i64))
}

/// Finds no keys in a malformed request: the handler then returns the error.
fn find_keys(args: Args<'_>, found: &mut Vec<u32>) {
    if let Ok(end) = options_start(args) {
        found.extend((FIRST_KEY..end).map(|index| index as u32));
    }
}

/// Returns the argument index after the keys of `SINTERCARD`.
fn options_start(args: Args<'_>) -> Result<usize, CommandError> {
    let count = parse_i64_strict(args.at(1)).and_then(|count| usize::try_from(count).ok());
    let count = count.filter(|count| *count > 0).ok_or(BAD_NUMKEYS)?;
    if count > args.len() - FIRST_KEY { Err(TOO_MANY_KEYS) } else { Ok(FIRST_KEY + count) }
}

/// Parses the limit; 0 is none.
fn parse_limit(options: Args<'_>) -> Result<Option<usize>, CommandError> {
    let mut limit = None;
    let mut rest = options.iter();
    while let Some(word) = rest.next() {
        let operand = rest.next().filter(|_| word.eq_token("limit")).ok_or(CommandError::SYNTAX)?;
        let number = parse_i64_strict(operand).and_then(|number| usize::try_from(number).ok());
        limit = Some(number.ok_or(BAD_LIMIT)?);
    }
    Ok(limit.filter(|limit| *limit > 0))
}
