//! `LPOP` and `RPOP`

use collections::{End, List};
use wire::number::parse_i64_strict;
use wire::request::Args;

use super::limits::limits;
use super::pops::{pop_into, pop_one, report_popped};
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

const ARGS: &[Arg] = &[Arg::key("key", 0), Arg::integer("count").optional().since("6.2.0")];

/// `LPOP key [count]`
pub const LPOP: Command = Command {
    name: "lpop",
    arity: -2,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM).union(Flags::FAST),
    categories: Categories::LIST,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::DELETE))],
    tips: &[],
    doc: Doc::new(Group::List, "1.0.0", "Pops elements from the front of a list.")
        .complexity("O(N) where N is the number of elements returned")
        .history(&[("6.2.0", "Added the `count` argument.")])
        .args(ARGS),
    subcommands: &[],
    run: lpop,
};

/// `RPOP key [count]`
pub const RPOP: Command = Command {
    name: "rpop",
    doc: Doc::new(Group::List, "1.0.0", "Pops elements from the back of a list.")
        .complexity("O(N) where N is the number of elements returned")
        .history(&[("6.2.0", "Added the `count` argument.")])
        .args(ARGS),
    run: rpop,
    ..LPOP
};

const NOT_POSITIVE: CommandError = CommandError::new("ERR value is out of range, must be positive");

fn lpop(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    pop(ctx, args, End::Left, reply)
}

fn rpop(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    pop(ctx, args, End::Right, reply)
}

fn pop(ctx: &mut Ctx<'_>, args: Args<'_>, end: End, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let key = ctx.key(0);
    let mut out = reply.parts();
    let Some(count) = args.get(2) else {
        if !pop_one(ctx, key, end, &mut out, |_| ())? {
            out.null();
        }
        return Ok(out.done());
    };
    if args.len() > 3 {
        return Err(CommandError::wrong_arity(ctx.command.name));
    }
    let count = parse_i64_strict(count).and_then(|count| usize::try_from(count).ok()).ok_or(NOT_POSITIVE)?;
    let limits = limits(ctx.config);
    let popped = ctx.edit(key, |list: &mut List, _| {
        let count = count.min(list.len());
        out.array(count);
        if count > 0 {
            pop_into(list, end, count, &mut out);
            list.shrunk(limits);
        }
        count
    })?;
    match popped {
        None => out.null_array(),
        Some(0) => {}
        Some(count) => report_popped(ctx, end, count, key),
    }
    Ok(out.done())
}
