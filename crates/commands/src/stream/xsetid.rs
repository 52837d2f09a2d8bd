//! `XSETID`

use collections::stream::{Stream, StreamId};
use wire::request::Args;

use super::ids::parse_id;
use super::parse_integer;
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};
use crate::word::Word;

/// `XSETID key last-id [ENTRIESADDED entries-added] [MAXDELETEDID max-deleted-id]`
pub const COMMAND: Command = Command {
    name: "xsetid",
    arity: -3,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM).union(Flags::DENYOOM).union(Flags::FAST),
    categories: Categories::STREAM,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::RW.union(KeyFlags::UPDATE))],
    tips: &[],
    doc: Doc::new(
        Group::Stream,
        "5.0.0",
        "Sets the last generated ID of a stream and its counters. Used by replication.",
    )
    .history(&[("7.0.0", "Added `entries_added` and `max_deleted_entry_id`.")])
    .args(&[
        Arg::key("key", 0),
        Arg::string("last-id"),
        Arg::integer("entries-added").token("ENTRIESADDED").since("7.0.0").optional(),
        Arg::string("max-deleted-id").token("MAXDELETEDID").since("7.0.0").optional(),
    ]),
    subcommands: &[],
    run,
};

const NEGATIVE_ADDED: CommandError = CommandError::new("ERR entries_added must be positive");
const BELOW_GIVEN: CommandError =
    CommandError::new("ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id");
const BELOW_DELETED: CommandError =
    CommandError::new("ERR The ID specified in XSETID is smaller than current max_deleted_entry_id");
const BELOW_LAST: CommandError =
    CommandError::new("ERR The ID specified in XSETID is smaller than the target stream top item");
const FEWER_THAN_LEN: CommandError =
    CommandError::new("ERR The entries_added specified in XSETID is smaller than the target stream length");

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let last_id = parse_id(args.at(2), 0)?;
    let mut entries_added = None;
    let mut max_deleted_id = StreamId::MIN;
    let mut options = args.tail(3).iter();
    while let Some(word) = options.next() {
        let operand = options.next().ok_or(CommandError::SYNTAX)?;
        if word.eq_token("entriesadded") {
            entries_added = Some(u64::try_from(parse_integer(operand)?).map_err(|_| NEGATIVE_ADDED)?);
        } else if word.eq_token("maxdeletedid") {
            max_deleted_id = parse_id(operand, 0)?;
            if last_id < max_deleted_id {
                return Err(BELOW_GIVEN);
            }
        } else {
            return Err(CommandError::SYNTAX);
        }
    }
    let key = ctx.key(0);
    let set = ctx.edit(key, |stream: &mut Stream, _| {
        if last_id < stream.max_deleted_id {
            return Err(BELOW_DELETED);
        }
        if stream.last_entry_id().is_some_and(|last| last_id < last) {
            return Err(BELOW_LAST);
        }
        if !stream.is_empty() && entries_added.is_some_and(|added| added < stream.len()) {
            return Err(FEWER_THAN_LEN);
        }
        stream.last_id = last_id;
        stream.entries_added = entries_added.unwrap_or(stream.entries_added);
        if !max_deleted_id.is_zero() {
            stream.max_deleted_id = max_deleted_id;
        }
        Ok(())
    })?;
    set.ok_or(CommandError::NO_SUCH_KEY)??;
    ctx.report.dirty += 1;
    ctx.announce(EventClass::Stream, "xsetid", key);
    Ok(reply.ok())
}
