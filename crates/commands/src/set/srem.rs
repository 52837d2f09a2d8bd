//! `SREM`

use collections::Set;
use wire::request::Args;

use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `SREM key member [member ...]`
pub const COMMAND: Command = Command {
    name: "srem",
    arity: -3,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM).union(Flags::FAST),
    categories: Categories::SET,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::RW.union(KeyFlags::DELETE))],
    tips: &[],
    doc: Doc::new(
        Group::Set,
        "1.0.0",
        "Removes members from a set. The set is deleted with its last member.",
    )
    .complexity("O(N) where N is the number of members to remove.")
    .history(&[("2.4.0", "Accepts multiple `member` arguments.")])
    .args(&[Arg::key("key", 0), Arg::string("member").multiple()]),
    subcommands: &[],
    run,
};

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let (key, members) = (ctx.key(0), args.tail(2));
    let removed = ctx.edit(key, |set: &mut Set, alloc| {
        members.iter().filter(|member| set.remove(alloc, member)).count()
    })?;
    let removed = removed.unwrap_or(0);
    if removed > 0 {
        ctx.changed(EventClass::Set, "srem", key);
        ctx.report.dirty += removed as u64 - 1;
        ctx.report_if_emptied(key);
    }
    Ok(reply.integer(removed as i64))
}
