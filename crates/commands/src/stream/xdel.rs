//! `XDEL`

use collections::stream::{Stream, StreamId};
use wire::request::Args;

use super::ids::parse_id;
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `XDEL key id ...`
pub const COMMAND: Command = Command {
    name: "xdel",
    arity: -3,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM).union(Flags::FAST),
    categories: Categories::STREAM,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::RW.union(KeyFlags::DELETE))],
    tips: &[],
    doc: Doc::new(Group::Stream, "5.0.0", "Deletes entries of a stream and returns the number deleted.")
        .complexity("O(1) for each entry.")
        .args(&[Arg::key("key", 0), Arg::string("id").multiple()]),
    subcommands: &[],
    run,
};

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let key = ctx.key(0);
    if ctx.find_for_write::<Stream>(key)?.is_none() {
        return Ok(reply.integer(0));
    }
    let ids: Vec<StreamId> = args.tail(2).iter().map(|text| parse_id(text, 0)).collect::<Result<_, _>>()?;
    let delete = |stream: &mut Stream| ids.iter().filter(|id| stream.delete(**id)).count() as u64;
    let deleted = ctx.edit(key, |stream, _| delete(stream))?.unwrap_or(0);
    if deleted > 0 {
        ctx.changed(EventClass::Stream, "xdel", key);
        ctx.report.dirty += deleted - 1;
    }
    Ok(reply.integer(deleted as i64))
}
