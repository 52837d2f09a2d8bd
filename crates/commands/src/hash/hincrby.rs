//! `HINCRBY`

use collections::{DecimalBuffer, ExpiryChange, FieldWas, Hash, Item};
use wire::number::parse_i64_strict;
use wire::request::Args;

use super::{limits, log_set, note_expired};
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `HINCRBY key field increment`
pub const COMMAND: Command = Command {
    name: "hincrby",
    arity: 4,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM).union(Flags::DENYOOM).union(Flags::FAST),
    categories: Categories::HASH,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::UPDATE))],
    tips: &[],
    doc: Doc::new(
        Group::Hash,
        "2.0.0",
        "Increments the integer value of a hash field. A missing field counts as 0.",
    )
    .args(&[Arg::key("key", 0), Arg::string("field"), Arg::integer("increment")]),
    subcommands: &[],
    run,
};

const NOT_AN_INTEGER: CommandError = CommandError::new("ERR hash value is not an integer");
const OVERFLOW: CommandError = CommandError::new("ERR increment or decrement would overflow");

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let key = ctx.key(0);
    let field = args.at(2);
    let increment = parse_i64_strict(args.at(3)).ok_or(CommandError::NOT_AN_INTEGER)?;
    let (limits, due) = (limits(ctx.config), ctx.data.due());
    let (sum, was) = ctx.edit_or_new(key, |hash: &mut Hash, alloc| {
        let old = match hash.find(alloc, field, due).map(|field| field.value) {
            None => 0,
            Some(Item::Int(value)) => value,
            Some(Item::Bytes(text)) => parse_i64_strict(text).ok_or(NOT_AN_INTEGER)?,
        };
        let sum = old.checked_add(increment).ok_or(OVERFLOW)?;
        let mut decimal = DecimalBuffer::new();
        let was = hash.set(alloc, limits, field, decimal.format(sum), ExpiryChange::Keep, due);
        Ok::<_, CommandError>((sum, was))
    })??;
    note_expired(ctx, usize::from(was == FieldWas::Expired), key);
    ctx.changed(EventClass::Hash, "hincrby", key);
    if was == FieldWas::Expired {
        log_set(ctx, key, field, DecimalBuffer::new().format(sum));
    }
    Ok(reply.integer(sum))
}
