//! `MGET`

use wire::request::Args;

use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `MGET key [key ...]`
pub const COMMAND: Command = Command {
    name: "mget",
    arity: -2,
    flags: Flags::READONLY.union(Flags::FAST),
    categories: Categories::STRING,
    access: Access::Read,
    keys: &[KeySpec::range(1, -1, 1, KeyFlags::RO.union(KeyFlags::ACCESS))],
    tips: &["request_policy:multi_shard"],
    doc: Doc::new(Group::String, "1.0.0", "Returns the string values of several keys, atomically.")
        .complexity("O(N) where N is the number of keys.")
        .args(&[Arg::key("key", 0).multiple()]),
    subcommands: &[],
    run,
};

fn run(ctx: &mut Ctx<'_>, _args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let mut out = reply.array(ctx.planned.len());
    for key in ctx.keys_for_reading(0) {
        if ctx.write_string(key, &mut out).is_err() {
            out.null();
        }
    }
    Ok(out.done())
}
