//! `SMOVE`

use collections::Set;
use wire::request::Args;

use super::limits;
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `SMOVE source destination member`
pub const COMMAND: Command = Command {
    name: "smove",
    arity: 4,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM).union(Flags::FAST),
    categories: Categories::SET,
    access: Access::Write,
    keys: &[
        KeySpec::at(1, KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::DELETE)),
        KeySpec::at(2, KeyFlags::RW.union(KeyFlags::INSERT)),
    ],
    tips: &[],
    doc: Doc::new(Group::Set, "1.0.0", "Moves a member of a set to another set.").args(&[
        Arg::key("source", 0),
        Arg::key("destination", 1),
        Arg::string("member"),
    ]),
    subcommands: &[],
    run,
};

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let (source, destination, member) = (ctx.key(0), ctx.key(1), args.at(3));
    let limits = limits(ctx.config);
    let alloc = ctx.alloc_context(source);
    // A missing source is reported before the type of the destination is checked.
    let Some(set) = ctx.find_for_write::<Set>(source)? else { return Ok(reply.flag(false)) };
    let is_there = set.contains(alloc, member);
    ctx.find_for_write::<Set>(destination)?;
    if !is_there || source.bytes == destination.bytes {
        return Ok(reply.flag(is_there));
    }
    ctx.edit(source, |set: &mut Set, alloc| set.remove(alloc, member))?;
    ctx.changed(EventClass::Set, "srem", source);
    ctx.report_if_emptied(source);
    let is_new = ctx.edit_or_new(destination, |set: &mut Set, alloc| {
        if set.is_empty() {
            *set = Set::suiting(member, 1, limits);
        }
        set.add(alloc, member, limits)
    })?;
    if is_new {
        ctx.changed(EventClass::Set, "sadd", destination);
    }
    Ok(reply.flag(true))
}
