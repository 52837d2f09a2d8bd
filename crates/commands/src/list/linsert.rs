//! `LINSERT`

use collections::List;
use wire::request::Args;

use super::limits::limits;
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};
use crate::word::Word;

/// `LINSERT key <BEFORE | AFTER> pivot element`
pub const COMMAND: Command = Command {
    name: "linsert",
    arity: 5,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM).union(Flags::DENYOOM),
    categories: Categories::LIST,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::RW.union(KeyFlags::INSERT))],
    tips: &[],
    doc: Doc::new(Group::List, "2.2.0", "Inserts an element into a list before or after a given one.")
        .complexity("O(N) where N is the number of elements up to the pivot.")
        .args(&[
            Arg::key("key", 0),
            Arg::one_of("where", &[Arg::word("before", "BEFORE"), Arg::word("after", "AFTER")]),
            Arg::string("pivot"),
            Arg::string("element"),
        ]),
    subcommands: &[],
    run,
};

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let distance = match args.at(2) {
        word if word.eq_token("before") => 0,
        word if word.eq_token("after") => 1,
        _ => return Err(CommandError::SYNTAX),
    };
    let (key, pivot, element) = (ctx.key(0), args.at(3), args.at(4));
    let limits = limits(ctx.config);
    let inserted = ctx.edit(key, |list: &mut List, _| {
        // Called even if there is no pivot, so that the reported encoding is as in Redis.
        list.expect(1, element.len(), limits);
        let mut found = None;
        list.walk(0, |index, item| {
            found = item.is(pivot).then_some(index);
            found.is_none()
        });
        found.map(|index| {
            list.insert(index + distance, element);
            list.len()
        })
    })?;
    match inserted {
        None => Ok(reply.integer(0)),
        Some(None) => Ok(reply.integer(-1)),
        Some(Some(len)) => {
            ctx.changed(EventClass::List, "linsert", key);
            Ok(reply.integer(len as i64))
        }
    }
}
