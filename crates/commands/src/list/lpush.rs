//! `LPUSH`, `RPUSH`, `LPUSHX` and `RPUSHX`

use collections::{End, Heap, List};
use keyspace::Key;
use wire::request::Args;

use super::limits::limits;
use super::pops::push_event;
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

const COMPLEXITY: &str = "O(N) where N is the number of elements to add.";
const ARGS: &[Arg] = &[Arg::key("key", 0), Arg::string("element").multiple()];

/// `LPUSH key element [element ...]`
pub const LPUSH: Command = Command {
    name: "lpush",
    arity: -3,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM).union(Flags::DENYOOM).union(Flags::FAST),
    categories: Categories::LIST,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::RW.union(KeyFlags::INSERT))],
    tips: &[],
    doc: Doc::new(Group::List, "1.0.0", "Prepends elements to a list. A missing key is created.")
        .complexity(COMPLEXITY)
        .history(&[("2.4.0", "Accepts multiple `element` arguments.")])
        .args(ARGS),
    subcommands: &[],
    run: lpush,
};

/// `RPUSH key element [element ...]`
pub const RPUSH: Command = Command {
    name: "rpush",
    doc: Doc::new(Group::List, "1.0.0", "Appends elements to a list. A missing key is created.")
        .complexity(COMPLEXITY)
        .history(&[("2.4.0", "Accepts multiple `element` arguments.")])
        .args(ARGS),
    run: rpush,
    ..LPUSH
};

/// `LPUSHX key element [element ...]`
pub const LPUSHX: Command = Command {
    name: "lpushx",
    doc: Doc::new(Group::List, "2.2.0", "Prepends elements to an existing list.")
        .complexity(COMPLEXITY)
        .history(&[("4.0.0", "Accepts multiple `element` arguments.")])
        .args(ARGS),
    run: lpushx,
    ..LPUSH
};

/// `RPUSHX key element [element ...]`
pub const RPUSHX: Command = Command {
    name: "rpushx",
    doc: Doc::new(Group::List, "2.2.0", "Appends elements to an existing list.")
        .complexity(COMPLEXITY)
        .history(&[("4.0.0", "Accepts multiple `element` arguments.")])
        .args(ARGS),
    run: rpushx,
    ..LPUSH
};

fn lpush(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    push(ctx, args, End::Left, reply)
}

fn rpush(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    push(ctx, args, End::Right, reply)
}

fn lpushx(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    push_if_exists(ctx, args, End::Left, reply)
}

fn rpushx(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    push_if_exists(ctx, args, End::Right, reply)
}

fn push(ctx: &mut Ctx<'_>, args: Args<'_>, end: End, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let (key, add) = (ctx.key(0), adding(ctx, args, end));
    let len = ctx.edit_or_new(key, |list: &mut List, alloc| add(list, alloc.heap))?;
    report(ctx, args, end, key);
    Ok(reply.integer(len as i64))
}

fn push_if_exists(
    ctx: &mut Ctx<'_>,
    args: Args<'_>,
    end: End,
    reply: Reply<'_>,
) -> Result<Replied, CommandError> {
    let (key, add) = (ctx.key(0), adding(ctx, args, end));
    let Some(len) = ctx.edit(key, |list: &mut List, alloc| add(list, alloc.heap))? else {
        return Ok(reply.integer(0));
    };
    report(ctx, args, end, key);
    Ok(reply.integer(len as i64))
}

/// Returns a function that adds the elements of the request and returns the new length.
fn adding<'a>(ctx: &Ctx<'_>, args: Args<'a>, end: End) -> impl FnOnce(&mut List, &Heap) -> usize + use<'a> {
    let limits = limits(ctx.config);
    move |list, heap| {
        let elements = args.tail(2);
        let text_size = elements.iter().map(<[u8]>::len).sum();
        list.expect(elements.len(), text_size, limits);
        if list.len() == 0 {
            list.reserve(heap, elements.iter());
        }
        elements.iter().for_each(|element| list.push(end, element));
        list.len()
    }
}

#[inline]
fn report(ctx: &mut Ctx<'_>, args: Args<'_>, end: End, key: Key<'_>) {
    ctx.changed(EventClass::List, push_event(end), key);
    ctx.report.dirty += args.len() as u64 - 3;
}
