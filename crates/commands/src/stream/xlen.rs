//! `XLEN`

use collections::stream::Stream;
use wire::request::Args;

use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `XLEN key`
pub const COMMAND: Command = Command {
    name: "xlen",
    arity: 2,
    flags: Flags::READONLY.union(Flags::FAST),
    categories: Categories::STREAM,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO)],
    tips: &[],
    doc: Doc::new(Group::Stream, "5.0.0", "Returns the number of entries of a stream.")
        .args(&[Arg::key("key", 0)]),
    subcommands: &[],
    run,
};

fn run(ctx: &mut Ctx<'_>, _: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let len = ctx.find::<Stream>(ctx.key(0))?.map_or(0, Stream::len);
    Ok(reply.integer(len as i64))
}
