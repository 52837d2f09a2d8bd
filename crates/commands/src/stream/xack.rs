//! `XACK`

use collections::stream::{Stream, StreamId};
use wire::request::Args;

use super::ids::parse_id;
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `XACK key group id ...`
pub const COMMAND: Command = Command {
    name: "xack",
    arity: -4,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM).union(Flags::FAST),
    categories: Categories::STREAM,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::RW.union(KeyFlags::UPDATE))],
    tips: &[],
    doc: Doc::new(
        Group::Stream,
        "5.0.0",
        "Acknowledges pending entries of a consumer group and returns their number.",
    )
    .complexity("O(1) for each id.")
    .args(&[Arg::key("key", 0), Arg::string("group"), Arg::string("id").multiple()]),
    subcommands: &[],
    run,
};

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let (key, group) = (ctx.key(0), args.at(2));
    if ctx.find::<Stream>(key)?.and_then(|stream| stream.group(group)).is_none() {
        return Ok(reply.integer(0));
    }
    let ids: Vec<StreamId> = args.tail(3).iter().map(|text| parse_id(text, 0)).collect::<Result<_, _>>()?;
    let acknowledged = ctx.edit(key, |stream: &mut Stream, _| {
        let Some(group) = stream.group_mut(group) else { return 0 };
        ids.iter().filter(|id| group.acknowledge(**id)).count() as u64
    })?;
    let acknowledged = acknowledged.unwrap_or(0);
    ctx.report.dirty += acknowledged;
    Ok(reply.integer(acknowledged as i64))
}
