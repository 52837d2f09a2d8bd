//! `SISMEMBER` and `SMISMEMBER`

use collections::Set;
use wire::request::Args;

use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `SISMEMBER key member`
pub const SISMEMBER: Command = Command {
    name: "sismember",
    arity: 3,
    flags: Flags::READONLY.union(Flags::FAST),
    categories: Categories::SET,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO)],
    tips: &[],
    doc: Doc::new(Group::Set, "1.0.0", "Returns whether a set contains a member.")
        .args(&[Arg::key("key", 0), Arg::string("member")]),
    subcommands: &[],
    run: |ctx, args, reply| {
        let key = ctx.key(0);
        let is_member =
            ctx.find::<Set>(key)?.is_some_and(|set| set.contains(ctx.alloc_context(key), args.at(2)));
        Ok(reply.flag(is_member))
    },
};

/// `SMISMEMBER key member [member ...]`
pub const SMISMEMBER: Command = Command {
    name: "smismember",
    arity: -3,
    flags: Flags::READONLY.union(Flags::FAST),
    categories: Categories::SET,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO.union(KeyFlags::ACCESS))],
    tips: &[],
    doc: Doc::new(Group::Set, "6.2.0", "Returns for each given member whether a set contains it.")
        .complexity("O(N) where N is the number of members given.")
        .args(&[Arg::key("key", 0), Arg::string("member").multiple()]),
    subcommands: &[],
    run: smismember,
};

fn smismember(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let (key, members) = (ctx.key(0), args.tail(2));
    let (set, alloc) = (ctx.find::<Set>(key)?, ctx.alloc_context(key));
    let mut out = reply.array(members.len());
    for member in members.iter() {
        out.integer(i64::from(set.is_some_and(|set| set.contains(alloc, member))));
    }
    Ok(out.done())
}
