//! `LMPOP` and `BLMPOP`

use collections::{End, Kind};
use wire::number::parse_i64_strict;
use wire::request::Args;

use super::limits::parse_end;
use super::pops::pop_from_first;
use crate::command::{Access, Begin, Categories, Command, Find, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, ArgType, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};
use crate::session::{BlockReason, KeyWait};
use crate::timeout::parse_seconds;
use crate::word::Word;

const NUMKEYS: Arg = Arg::integer("numkeys");
const KEY: Arg = Arg::key("key", 0).multiple();
const WHERE: Arg = Arg::one_of("where", &[Arg::word("left", "LEFT"), Arg::word("right", "RIGHT")]);
const COUNT: Arg = Arg::integer("count").token("COUNT").optional();

/// `LMPOP numkeys key [key ...] <LEFT | RIGHT> [COUNT count]`
pub const LMPOP: Command = Command {
    name: "lmpop",
    arity: -4,
    flags: Flags::WRITE.union(Flags::LOG_INSTEAD).union(Flags::MOVABLEKEYS),
    categories: Categories::LIST,
    access: Access::Write,
    keys: &[keys_after_count(1, |args, found| push_keys(args, 1, found))],
    tips: &[],
    doc: Doc::new(
        Group::List,
        "7.0.0",
        "Removes and returns elements from an end of the first non-empty list.",
    )
    .complexity("O(N+M) where N is the number of keys and M is the number of elements returned.")
    .args(&[NUMKEYS, KEY, WHERE, COUNT]),
    subcommands: &[],
    run: lmpop,
};

/// `BLMPOP timeout numkeys key [key ...] <LEFT | RIGHT> [COUNT count]`
pub const BLMPOP: Command = Command {
    name: "blmpop",
    arity: -5,
    flags: LMPOP.flags.union(Flags::BLOCKING),
    keys: &[keys_after_count(2, |args, found| push_keys(args, 2, found))],
    doc: Doc::new(
        Group::List,
        "7.0.0",
        "Removes and returns elements from an end of the first non-empty list, or blocks until one is available.",
    )
    .complexity("O(N+M) where N is the number of keys and M is the number of elements returned.")
    .args(&[Arg::new("timeout", ArgType::Double), NUMKEYS, KEY, WHERE, COUNT]),
    run: blmpop,
    ..LMPOP
};

const BAD_NUMKEYS: CommandError = CommandError::new("ERR numkeys should be greater than 0");
const BAD_COUNT: CommandError = CommandError::new("ERR count should be greater than 0");

const fn keys_after_count(count_at: u32, find: fn(Args<'_>, &mut Vec<u32>)) -> KeySpec {
    KeySpec {
        flags: KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::DELETE),
        begin: Begin::Index(count_at),
        find: Find::KeyNum { count_at: 0, first: 1, step: 1 },
        notes: None,
        custom: Some(find),
        flags_of_request: None,
    }
}

/// Pushes the keys after the count at this index; none if the count is invalid.
fn push_keys(args: Args<'_>, count_at: usize, found: &mut Vec<u32>) {
    let count = args.get(count_at).and_then(parse_i64_strict).and_then(|count| usize::try_from(count).ok());
    // The keys are followed at least by the end to pop from.
    let Some(count) = count.filter(|count| *count < args.len() - count_at - 1) else { return };
    found.extend((count_at + 1..count_at + 1 + count).map(|index| index as u32));
}

/// Parses the end and the number of elements to pop, from the arguments after a count of keys.
fn parse(args: Args<'_>, count_at: usize) -> Result<(End, usize), CommandError> {
    let key_count = parse_i64_strict(args.at(count_at)).filter(|count| *count > 0).ok_or(BAD_NUMKEYS)?;
    let end_at = usize::try_from(key_count).ok().and_then(|count| count.checked_add(count_at + 1));
    let end_at = end_at.filter(|index| *index < args.len()).ok_or(CommandError::SYNTAX)?;
    let end = parse_end(args.at(end_at))?;
    match (args.get(end_at + 1), args.get(end_at + 2)) {
        (None, _) => Ok((end, 1)),
        (Some(word), Some(count)) if word.eq_token("count") => {
            let count = parse_i64_strict(count).filter(|count| *count > 0).ok_or(BAD_COUNT)?;
            let is_last = args.len() == end_at + 3;
            if is_last { Ok((end, count as usize)) } else { Err(CommandError::SYNTAX) }
        }
        _ => Err(CommandError::SYNTAX),
    }
}

fn lmpop(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let (end, count) = parse(args, 1)?;
    let mut out = reply.parts();
    if !pop_from_first(ctx, end, count, &mut out)? {
        out.null_array();
    }
    Ok(out.done())
}

fn blmpop(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let (end, count) = parse(args, 2)?;
    let timeout = parse_seconds(ctx, args.at(1))?;
    let mut out = reply.parts();
    if !pop_from_first(ctx, end, count, &mut out)? {
        if ctx.may_block() {
            ctx.block(timeout, BlockReason::Keys(KeyWait::for_kind(Kind::List, 0..ctx.planned.len())));
        } else {
            out.null_array();
        }
    }
    Ok(out.done())
}
