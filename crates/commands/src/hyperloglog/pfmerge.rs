//! `PFMERGE`

use collections::{ExpiryChange, NewValue};
use wire::request::Args;

use super::sketch::{self, Sketch, Union};
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `PFMERGE destkey [sourcekey [sourcekey ...]]`
pub const COMMAND: Command = Command {
    name: "pfmerge",
    arity: -2,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM).union(Flags::DENYOOM),
    categories: Categories::HYPERLOGLOG,
    access: Access::Write,
    keys: &[
        KeySpec::first(KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::INSERT)),
        KeySpec::range(2, -1, 1, KeyFlags::RO.union(KeyFlags::ACCESS)),
    ],
    tips: &[],
    doc: Doc::new(Group::Hyperloglog, "2.8.9", "Merges HyperLogLogs into a destination key.")
        .complexity("O(N) with a large constant for N keys.")
        .args(&[Arg::key("destkey", 0), Arg::key("sourcekey", 1).optional().multiple()]),
    subcommands: &[],
    run,
};

fn run(ctx: &mut Ctx<'_>, _args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let key = ctx.key(0);
    let mut union = Union::new();
    let mut is_dense = false;
    let mut keys = ctx.walk();
    while let Some(key) = keys.next(ctx.data) {
        ctx.data.expire_if_due(key);
        if let Some(bytes) = sketch::find(ctx, key)? {
            is_dense |= sketch::is_dense(bytes)?;
            union.add(bytes)?;
        }
    }
    let value = ctx.find_string_for_write(key)?;
    let mut merged = value.map(sketch::bytes_of).transpose()?.map_or_else(Sketch::new, Sketch::of);
    if is_dense {
        merged.make_dense()?;
    }
    merged.take(&union, ctx.config.hll_sparse_max_bytes);
    ctx.data.set(key, NewValue::Raw(merged.bytes()), ExpiryChange::Keep);
    ctx.changed(EventClass::String, "pfadd", key);
    Ok(reply.ok())
}
