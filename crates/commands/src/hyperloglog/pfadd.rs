//! `PFADD`

use collections::{ExpiryChange, NewValue};
use wire::request::Args;

use super::sketch::{self, Sketch};
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `PFADD key [element [element ...]]`
pub const COMMAND: Command = Command {
    name: "pfadd",
    arity: -2,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM).union(Flags::DENYOOM).union(Flags::FAST),
    categories: Categories::HYPERLOGLOG,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::RW.union(KeyFlags::INSERT))],
    tips: &[],
    doc: Doc::new(Group::Hyperloglog, "2.8.9", "Adds elements to a HyperLogLog. A missing key is created.")
        .complexity("O(1) for each element.")
        .args(&[Arg::key("key", 0), Arg::string("element").optional().multiple()]),
    subcommands: &[],
    run,
};

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let key = ctx.key(0);
    let elements = args.tail(2);
    let size_max = ctx.config.hll_sparse_max_bytes;
    let value = ctx.find_string_for_write(key)?;
    let mut changes = u64::from(value.is_none());
    let mut sketch = match value.map(sketch::bytes_of).transpose()? {
        None => Sketch::new(),
        Some(bytes) if sketch::is_dense(bytes)? => {
            changes += ctx.data.edit(key, |entry| add_in_place(entry.bytes_mut(), elements)).unwrap_or(0);
            return Ok(answer(ctx, changes, reply));
        }
        Some(bytes) => Sketch::of(bytes),
    };
    for element in elements.iter() {
        changes += u64::from(sketch.add(element, size_max)?);
    }
    if changes > 0 {
        sketch::invalidate(sketch.bytes_mut());
        ctx.data.set(key, NewValue::Raw(sketch.bytes()), ExpiryChange::Keep);
    }
    Ok(answer(ctx, changes, reply))
}

fn add_in_place(bytes: Option<&mut [u8]>, elements: Args<'_>) -> u64 {
    let Some(bytes) = bytes else { return 0 };
    let changes = elements.iter().filter(|element| sketch::add_dense(bytes, element)).count();
    if changes > 0 {
        sketch::invalidate(bytes);
    }
    changes as u64
}

fn answer(ctx: &mut Ctx<'_>, changes: u64, reply: Reply<'_>) -> Replied {
    if changes > 0 {
        ctx.changed(EventClass::String, "pfadd", ctx.key(0));
        ctx.report.dirty += changes - 1;
    }
    reply.flag(changes > 0)
}
