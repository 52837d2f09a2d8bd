//! `LREM`

use collections::{End, List};
use wire::number::parse_i64_strict;
use wire::request::Args;

use super::limits::limits;
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `LREM key count element`
pub const COMMAND: Command = Command {
    name: "lrem",
    arity: 4,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM),
    categories: Categories::LIST,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::RW.union(KeyFlags::DELETE))],
    tips: &[],
    doc: Doc::new(Group::List, "1.0.0", "Removes the list elements that equal a value.")
        .complexity("O(N+M) where N is the length of the list and M is the number of elements removed.")
        .args(&[Arg::key("key", 0), Arg::integer("count"), Arg::string("element")]),
    subcommands: &[],
    run,
};

const BEYOND_RANGE: CommandError = CommandError::new(
    "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
);

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let count = parse_i64_strict(args.at(2)).ok_or(CommandError::NOT_AN_INTEGER)?;
    if count == i64::MIN {
        return Err(BEYOND_RANGE);
    }
    let (key, element, limits) = (ctx.key(0), args.at(3), limits(ctx.config));
    let from = if count < 0 { End::Right } else { End::Left };
    let count_max = if count == 0 { usize::MAX } else { count.unsigned_abs() as usize };
    let removed = ctx.edit(key, |list: &mut List, _| {
        let removed = list.remove_equal(element, from, count_max);
        if removed > 0 {
            list.shrunk(limits);
        }
        removed
    })?;
    let removed = removed.unwrap_or(0);
    if removed > 0 {
        ctx.changed(EventClass::List, "lrem", key);
        ctx.report.dirty += removed as u64 - 1;
        ctx.report_if_emptied(key);
    }
    Ok(reply.integer(removed as i64))
}
