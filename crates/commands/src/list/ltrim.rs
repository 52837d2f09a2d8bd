//! `LTRIM`

use collections::{Collection, List, NewValue, OwnedEntry};
use wire::number::parse_i64_strict;
use wire::request::Args;

use super::limits::{limits, resolve_range};
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `LTRIM key start stop`
pub const COMMAND: Command = Command {
    name: "ltrim",
    arity: 4,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM),
    categories: Categories::LIST,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::RW.union(KeyFlags::DELETE))],
    tips: &[],
    doc: Doc::new(Group::List, "1.0.0", "Removes all list elements outside a range of indices.")
        .complexity("O(N) where N is the number of elements to be removed by the operation.")
        .args(&[Arg::key("key", 0), Arg::integer("start"), Arg::integer("stop")]),
    subcommands: &[],
    run,
};

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let start = parse_i64_strict(args.at(2)).ok_or(CommandError::NOT_AN_INTEGER)?;
    let stop = parse_i64_strict(args.at(3)).ok_or(CommandError::NOT_AN_INTEGER)?;
    let (key, limits) = (ctx.key(0), limits(ctx.config));
    let mut cut_off = [None, None];
    let removed = ctx.edit(key, |list: &mut List, alloc| {
        let len = list.len();
        let (from, count) = resolve_range(start, stop, len);
        cut_off = [list.cut(from + count, len - from - count), list.cut(0, from)].map(|cut| {
            cut.map(|cut| {
                OwnedEntry::new(alloc.heap, b"", NewValue::Object(Box::new(cut.into_object())), None)
            })
        });
        list.shrunk(limits);
        len - count
    })?;
    cut_off.into_iter().flatten().for_each(|cut_off| ctx.data.discard(cut_off));
    match removed {
        None => {}
        Some(0) => ctx.announce(EventClass::List, "ltrim", key),
        Some(removed) => {
            ctx.changed(EventClass::List, "ltrim", key);
            ctx.report.dirty += removed as u64 - 1;
            ctx.report_if_emptied(key);
        }
    }
    Ok(reply.ok())
}
