//! `SADD`

use collections::Set;
use wire::request::Args;

use super::limits;
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `SADD key member [member ...]`
pub const COMMAND: Command = Command {
    name: "sadd",
    arity: -3,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM).union(Flags::DENYOOM).union(Flags::FAST),
    categories: Categories::SET,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::RW.union(KeyFlags::INSERT))],
    tips: &[],
    doc: Doc::new(Group::Set, "1.0.0", "Adds members to a set. A missing key is created.")
        .complexity("O(N) where N is the number of members to add.")
        .history(&[("2.4.0", "Accepts multiple `member` arguments.")])
        .args(&[Arg::key("key", 0), Arg::string("member").multiple()]),
    subcommands: &[],
    run,
};

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let (key, members, limits) = (ctx.key(0), args.tail(2), limits(ctx.config));
    let added = ctx.edit_or_new(key, |set: &mut Set, alloc| {
        let is_reserving = set.is_empty() && members.len() > 1;
        if set.is_empty() {
            *set = Set::suiting(members.at(0), members.len(), limits);
            if is_reserving {
                set.reserve(alloc, members.iter());
            }
        } else {
            set.expect_len(alloc, members.len(), limits);
        }
        let added = members.iter().filter(|member| set.add(alloc, member, limits)).count();
        if is_reserving && added < members.len() {
            set.shrink_if_roomy(alloc);
        }
        added
    })?;
    if added > 0 {
        ctx.changed(EventClass::Set, "sadd", key);
        ctx.report.dirty += added as u64 - 1;
    }
    Ok(reply.integer(added as i64))
}
