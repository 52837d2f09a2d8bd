//! `ZREM`

use collections::SortedSet;
use wire::request::Args;

use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `ZREM key member [member ...]`
pub const COMMAND: Command = Command {
    name: "zrem",
    arity: -3,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM).union(Flags::FAST),
    categories: Categories::SORTEDSET,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::RW.union(KeyFlags::DELETE))],
    tips: &[],
    doc: Doc::new(Group::SortedSet, "1.2.0", "Removes members from a sorted set.")
        .complexity("O(M*log(N)) for M removed members of N.")
        .history(&[("2.4.0", "Takes several members.")])
        .args(&[Arg::key("key", 0), Arg::string("member").multiple()]),
    subcommands: &[],
    run,
};

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let key = ctx.key(0);
    let removed = ctx.edit(key, |set: &mut SortedSet, alloc| {
        args.tail(2).iter().filter(|member| set.remove(alloc, member).is_some()).count()
    })?;
    let count = removed.unwrap_or(0);
    if count > 0 {
        ctx.changed(EventClass::SortedSet, "zrem", key);
        ctx.report.dirty += count as u64 - 1;
        ctx.report_if_emptied(key);
    }
    Ok(reply.integer(count as i64))
}
