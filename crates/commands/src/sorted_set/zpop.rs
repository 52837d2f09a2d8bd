//! `ZPOPMIN`, `ZPOPMAX` and `ZMPOP`

use collections::SortedSet;
use wire::number::parse_i64_strict;
use wire::request::Args;

use super::combine::find_counted;
use super::pop::{End, PopReplyForm, first_present, pop};
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};
use crate::word::Word;

/// `ZPOPMIN key [count]`
pub const ZPOPMIN: Command = Command {
    name: "zpopmin",
    arity: -2,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM).union(Flags::FAST),
    categories: Categories::SORTEDSET,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::DELETE))],
    tips: &[],
    doc: Doc::new(
        Group::SortedSet,
        "5.0.0",
        "Removes and returns the members of a sorted set with the lowest scores.",
    )
    .complexity("O(M*log(N)) for M removed members of N.")
    .args(&[Arg::key("key", 0), Arg::integer("count").optional()]),
    subcommands: &[],
    run: |ctx, args, reply| pop_one_key(ctx, args, reply, End::Min),
};

/// `ZPOPMAX key [count]`
pub const ZPOPMAX: Command = Command {
    name: "zpopmax",
    arity: -2,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM).union(Flags::FAST),
    categories: Categories::SORTEDSET,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::DELETE))],
    tips: &[],
    doc: Doc::new(
        Group::SortedSet,
        "5.0.0",
        "Removes and returns the members of a sorted set with the highest scores.",
    )
    .complexity("O(M*log(N)) for M removed members of N.")
    .args(&[Arg::key("key", 0), Arg::integer("count").optional()]),
    subcommands: &[],
    run: |ctx, args, reply| pop_one_key(ctx, args, reply, End::Max),
};

/// `ZMPOP numkeys key [key ...] MIN|MAX [COUNT count]`
pub const ZMPOP: Command = Command {
    name: "zmpop",
    arity: -4,
    flags: Flags::WRITE.union(Flags::LOG_INSTEAD),
    categories: Categories::SORTEDSET,
    access: Access::Write,
    keys: &[KeySpec {
        custom: Some(|args, found| find_counted(args, 1, found)),
        ..KeySpec::counted(1, 1, KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::DELETE))
    }],
    tips: &[],
    doc: Doc::new(
        Group::SortedSet,
        "7.0.0",
        "Removes and returns the lowest or highest members of the first non-empty sorted set.",
    )
    .complexity("O(K)+O(M*log(N)) for K keys and M removed members of N.")
    .args(&[
        Arg::integer("numkeys"),
        Arg::key("key", 0).multiple(),
        Arg::one_of("where", &[Arg::word("min", "MIN"), Arg::word("max", "MAX")]),
        Arg::integer("count").token("COUNT").optional(),
    ]),
    subcommands: &[],
    run: run_zmpop,
};

const NEGATIVE_COUNT: CommandError = CommandError::new("ERR value is out of range, must be positive");
const NO_KEYS: CommandError = CommandError::new("ERR numkeys should be greater than 0");
const NO_COUNT: CommandError = CommandError::new("ERR count should be greater than 0");

fn pop_one_key(
    ctx: &mut Ctx<'_>,
    args: Args<'_>,
    reply: Reply<'_>,
    end: End,
) -> Result<Replied, CommandError> {
    if args.len() > 3 {
        return Err(CommandError::SYNTAX);
    }
    let count = match args.get(2) {
        None => None,
        Some(text) => {
            let count = parse_i64_strict(text).and_then(|count| usize::try_from(count).ok());
            Some(count.ok_or(NEGATIVE_COUNT)?)
        }
    };
    let key = ctx.key(0);
    if ctx.find_for_write::<SortedSet>(key)?.is_none() || count == Some(0) {
        return Ok(reply.array(0).done());
    }
    let form = if reply.is_resp3() && count.is_some() { PopReplyForm::Pairs } else { PopReplyForm::Flat };
    pop(ctx, key, end, count.unwrap_or(1), form, reply)
}

/// Parses the end and the number of elements of `ZMPOP` and `BZMPOP`, which follow the keys counted at
/// `count_at`.
pub(crate) fn parse_multi_pop(args: Args<'_>, count_at: usize) -> Result<(End, usize), CommandError> {
    let key_count = parse_i64_strict(args.at(count_at)).and_then(|count| usize::try_from(count).ok());
    let key_count = key_count.filter(|count| *count > 0).ok_or(NO_KEYS)?;
    let end_at = key_count.saturating_add(count_at + 1);
    let end = args.get(end_at).and_then(End::parse).ok_or(CommandError::SYNTAX)?;
    let mut count = None;
    let mut options = args.tail(end_at + 1);
    while let Some(word) = options.get(0) {
        if count.is_some() || !word.eq_token("count") || options.len() < 2 {
            return Err(CommandError::SYNTAX);
        }
        let number = parse_i64_strict(options.at(1)).and_then(|count| usize::try_from(count).ok());
        count = Some(number.filter(|count| *count > 0).ok_or(NO_COUNT)?);
        options = options.tail(2);
    }
    Ok((end, count.unwrap_or(1)))
}

fn run_zmpop(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let (end, count) = parse_multi_pop(args, 1)?;
    match first_present(ctx)? {
        Some(key) => pop(ctx, key, end, count, PopReplyForm::KeyAndPairs, reply),
        None => Ok(reply.null_array()),
    }
}
