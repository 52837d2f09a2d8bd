//! `EXISTS` and `TOUCH`

use wire::request::Args;

use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `EXISTS key [key ...]`
pub const EXISTS: Command = Command {
    name: "exists",
    arity: -2,
    flags: Flags::READONLY.union(Flags::FAST),
    categories: Categories::KEYSPACE,
    access: Access::Read,
    keys: &[KeySpec::range(1, -1, 1, KeyFlags::RO)],
    tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
    doc: Doc::new(Group::Generic, "1.0.0", "Counts how many of the given keys exist.")
        .complexity("O(N) where N is the number of keys.")
        .history(&[("3.0.3", "Accepts several keys.")])
        .args(&[Arg::key("key", 0).multiple()]),
    subcommands: &[],
    run: exists,
};

/// `TOUCH key [key ...]`
pub const TOUCH: Command = Command {
    name: "touch",
    arity: -2,
    flags: Flags::READONLY.union(Flags::FAST),
    categories: Categories::KEYSPACE,
    access: Access::Read,
    keys: &[KeySpec::range(1, -1, 1, KeyFlags::RO)],
    tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
    doc: Doc::new(
        Group::Generic,
        "3.2.1",
        "Updates the last access time of keys and returns how many exist.",
    )
    .complexity("O(N) where N is the number of keys.")
    .args(&[Arg::key("key", 0).multiple()]),
    subcommands: &[],
    run: touch,
};

fn exists(ctx: &mut Ctx<'_>, _args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let count = ctx.keys_for_reading(0).filter(|key| ctx.data.inspect(*key).is_some()).count();
    Ok(reply.integer(count as i64))
}

fn touch(ctx: &mut Ctx<'_>, _args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let touch = std::mem::replace(&mut ctx.data.mode.touch, true);
    let count = ctx.keys_for_reading(0).filter(|key| ctx.data.touch_key(*key)).count();
    ctx.data.mode.touch = touch;
    Ok(reply.integer(count as i64))
}
