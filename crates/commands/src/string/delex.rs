//! `DELEX`

use collections::Kind;
use keyspace::Key;
use wire::request::Args;

use super::comparison::Comparison;
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `DELEX key [IFEQ value | IFNE value | IFDEQ digest | IFDNE digest]`
pub const COMMAND: Command = Command {
    name: "delex",
    arity: -2,
    flags: Flags::WRITE.union(Flags::LOG_INSTEAD).union(Flags::FAST),
    categories: Categories::STRING,
    access: Access::Write,
    keys: &[KeySpec {
        notes: Some("Reads the value only if a condition requires it"),
        ..KeySpec::first(KeyFlags::RW.union(KeyFlags::DELETE).union(KeyFlags::VARIABLE_FLAGS))
    }],
    tips: &[],
    doc: Doc::new(Group::String, "8.4.0", "Deletes a key if its string value or digest meets a condition.")
        .complexity("O(1) for IFEQ and IFNE, O(N) for IFDEQ and IFDNE, where N is the length of the value.")
        .args(&[Arg::key("key", 0), Arg::one_of("condition", CONDITIONS).optional()]),
    subcommands: &[],
    run,
};

const CONDITIONS: &[Arg] = &[
    Arg::string("ifeq-value").token("IFEQ"),
    Arg::string("ifne-value").token("IFNE"),
    Arg::string("ifdeq-digest").token("IFDEQ"),
    Arg::string("ifdne-digest").token("IFDNE"),
];

const BAD_CONDITION: CommandError =
    CommandError::new("ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE");
const NOT_COMPARABLE: CommandError =
    CommandError::new("ERR Key should be of string type if conditions are specified");

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let key = ctx.key(0);
    if !matches!(args.len(), 2 | 4) {
        return Err(CommandError::wrong_arity(ctx.command.name));
    }
    // A condition is examined only if it applies.
    let holds = match ctx.data.find_for_write(key) {
        None => false,
        Some(_) if args.len() == 2 => true,
        Some(entry) if entry.kind() != Kind::String => return Err(NOT_COMPARABLE),
        Some(entry) => {
            let comparison = Comparison::named(args.at(2), args.at(3)).ok_or(BAD_CONDITION)?;
            comparison.holds(entry.value())?
        }
    };
    Ok(reply.flag(holds && delete(ctx, key)))
}

/// Deletes a key. Returns whether it existed.
pub(super) fn delete(ctx: &mut Ctx<'_>, key: Key<'_>) -> bool {
    let removed = ctx.data.remove(key).is_some();
    if removed {
        ctx.changed(EventClass::Generic, "del", key);
        ctx.record_deletion(key);
    }
    removed
}
