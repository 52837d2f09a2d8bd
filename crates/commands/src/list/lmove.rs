//! `LMOVE`, `RPOPLPUSH`, `BLMOVE` and `BRPOPLPUSH`

use std::time::Duration;

use collections::{End, Kind, List};
use wire::request::Args;

use super::limits::{limits, parse_end};
use super::pops::{pop_event, push_event, text_at};
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, ArgType, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};
use crate::session::{BlockReason, KeyWait};
use crate::timeout::parse_seconds;

const ENDS: &[Arg] = &[Arg::word("left", "LEFT"), Arg::word("right", "RIGHT")];
const SOURCE: Arg = Arg::key("source", 0);
const DESTINATION: Arg = Arg::key("destination", 1);
const FROM: Arg = Arg::one_of("wherefrom", ENDS);
const TO: Arg = Arg::one_of("whereto", ENDS);
const TIMEOUT: Arg = Arg::new("timeout", ArgType::Double);

/// `LMOVE source destination <LEFT | RIGHT> <LEFT | RIGHT>`
pub const LMOVE: Command = Command {
    name: "lmove",
    arity: 5,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM).union(Flags::DENYOOM),
    categories: Categories::LIST,
    access: Access::Write,
    keys: &[
        KeySpec::at(1, KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::DELETE)),
        KeySpec::at(2, KeyFlags::RW.union(KeyFlags::INSERT)),
    ],
    tips: &[],
    doc: Doc::new(
        Group::List,
        "6.2.0",
        "Moves the first or last element of a list to an end of another list and returns it.",
    )
    .complexity("O(1)")
    .args(&[SOURCE, DESTINATION, FROM, TO]),
    subcommands: &[],
    run: lmove,
};

/// `RPOPLPUSH source destination`
pub const RPOPLPUSH: Command = Command {
    name: "rpoplpush",
    arity: 3,
    doc: Doc::new(
        Group::List,
        "1.2.0",
        "Moves the last element of a list to the front of another list and returns it.",
    )
    .complexity("O(1)")
    .args(&[SOURCE, DESTINATION]),
    run: rpoplpush,
    ..LMOVE
};

/// `BLMOVE source destination <LEFT | RIGHT> <LEFT | RIGHT> timeout`
pub const BLMOVE: Command = Command {
    name: "blmove",
    arity: 6,
    flags: Flags::WRITE.union(Flags::LOG_INSTEAD).union(Flags::DENYOOM).union(Flags::BLOCKING),
    doc: Doc::new(
        Group::List,
        "6.2.0",
        "Moves the first or last element of a list to an end of another list, or blocks until one is available.",
    )
    .complexity("O(1)")
    .args(&[SOURCE, DESTINATION, FROM, TO, TIMEOUT]),
    run: blmove,
    ..LMOVE
};

/// `BRPOPLPUSH source destination timeout`
pub const BRPOPLPUSH: Command = Command {
    name: "brpoplpush",
    arity: 4,
    doc: Doc::new(
        Group::List,
        "2.2.0",
        "Moves the last element of a list to the front of another list, or blocks until one is available.",
    )
    .complexity("O(1)")
    .history(&[("6.0.0", "`timeout` is interpreted as a double instead of an integer.")])
    .args(&[SOURCE, DESTINATION, TIMEOUT]),
    run: brpoplpush,
    ..BLMOVE
};

fn lmove(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let (from, to) = (parse_end(args.at(3))?, parse_end(args.at(4))?);
    move_element(ctx, from, to, reply)
}

fn rpoplpush(ctx: &mut Ctx<'_>, _args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    move_element(ctx, End::Right, End::Left, reply)
}

fn blmove(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let (from, to) = (parse_end(args.at(3))?, parse_end(args.at(4))?);
    let timeout = parse_seconds(ctx, args.at(5))?;
    move_or_wait(ctx, from, to, timeout, reply)
}

fn brpoplpush(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let timeout = parse_seconds(ctx, args.at(3))?;
    move_or_wait(ctx, End::Right, End::Left, timeout, reply)
}

fn move_or_wait(
    ctx: &mut Ctx<'_>,
    from: End,
    to: End,
    timeout: Option<Duration>,
    reply: Reply<'_>,
) -> Result<Replied, CommandError> {
    if ctx.find_for_write::<List>(ctx.key(0))?.is_some() || !ctx.may_block() {
        return move_and_log(ctx, from, to, reply);
    }
    ctx.block(timeout, BlockReason::Keys(KeyWait::for_kind(Kind::List, 0..1)));
    Ok(reply.nothing())
}

/// Moves an element, and logs the non-blocking form of the command.
fn move_and_log(ctx: &mut Ctx<'_>, from: End, to: End, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let dirty_before = ctx.report.dirty;
    let replied = move_element(ctx, from, to, reply)?;
    if ctx.report.dirty != dirty_before {
        let (source, destination) = (ctx.args.at(1), ctx.args.at(2));
        if ctx.command.name == "brpoplpush" {
            ctx.record_effect(&["RPOPLPUSH".into(), source.into(), destination.into()]);
        } else {
            let (from, to) = (end_name(from).into(), end_name(to).into());
            ctx.record_effect(&["LMOVE".into(), source.into(), destination.into(), from, to]);
        }
    }
    Ok(replied)
}

const fn end_name(end: End) -> &'static str {
    match end {
        End::Left => "LEFT",
        End::Right => "RIGHT",
    }
}

/// Moves an element between ends of the request's first two keys, which may be equal, and replies with the element,
/// or with null if the source is empty.
fn move_element(ctx: &mut Ctx<'_>, from: End, to: End, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let (source, destination, limits) = (ctx.key(0), ctx.key(1), limits(ctx.config));
    let Some(list) = ctx.find_for_write::<List>(source)? else { return Ok(reply.null()) };
    let text = text_at(list, from);
    ctx.find_for_write::<List>(destination)?;
    if source.bytes == destination.bytes {
        ctx.edit(source, |list: &mut List, _| {
            list.remove_range(list.index_of_end(from), 1);
            list.expect(1, text.len(), limits);
            list.push(to, &text);
            list.shrunk(limits);
        })?;
        ctx.announce(EventClass::List, push_event(to), source);
        ctx.changed(EventClass::List, pop_event(from), source);
        return Ok(reply.bulk(&text));
    }
    ctx.edit_or_new(destination, |list: &mut List, alloc| {
        list.reserve(alloc.heap, std::iter::once(&text[..]));
        list.expect(1, text.len(), limits);
        list.push(to, &text);
    })?;
    ctx.also_changed(destination);
    ctx.announce(EventClass::List, push_event(to), destination);
    ctx.edit(source, |list: &mut List, _| {
        list.remove_range(list.index_of_end(from), 1);
        list.shrunk(limits);
    })?;
    ctx.changed(EventClass::List, pop_event(from), source);
    ctx.report_if_emptied(source);
    Ok(reply.bulk(&text))
}
