//! `PFCOUNT`

use wire::request::Args;

use super::sketch::{self, Union};
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `PFCOUNT key [key ...]`
pub const COMMAND: Command = Command {
    name: "pfcount",
    arity: -2,
    flags: Flags::READONLY.union(Flags::MAY_REPLICATE).union(Flags::LOG_VERBATIM),
    categories: Categories::HYPERLOGLOG,
    access: Access::Write,
    keys: &[KeySpec {
        notes: Some("Stores the estimate of a single key in it"),
        ..KeySpec::range(1, -1, 1, KeyFlags::RW.union(KeyFlags::ACCESS))
    }],
    tips: &[],
    doc: Doc::new(
        Group::Hyperloglog,
        "2.8.9",
        "Returns the estimated number of distinct elements in one or more HyperLogLogs.",
    )
    .complexity("O(1) for one key whose estimate is stored, else O(N) with a large constant for N keys.")
    .args(&[Arg::key("key", 0).multiple()]),
    subcommands: &[],
    run,
};

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    if args.len() > 2 {
        let mut union = Union::new();
        for key in ctx.keys_for_reading(0) {
            if let Some(bytes) = sketch::find(ctx, key)? {
                union.add(bytes)?;
            }
        }
        return Ok(reply.integer(union.count() as i64));
    }
    let key = ctx.key(0);
    let Some(bytes) = sketch::find(ctx, key)? else { return Ok(reply.integer(0)) };
    if let Some(stored) = sketch::stored_estimate(bytes) {
        return Ok(reply.integer(stored as i64));
    }
    let count = sketch::count(bytes)?;
    ctx.data.edit(key, |entry| entry.bytes_mut().map(|bytes| sketch::store_estimate(bytes, count)));
    ctx.report.dirty += 1;
    ctx.also_changed(key);
    Ok(reply.integer(count as i64))
}
