//! `HINCRBYFLOAT`

use collections::{DecimalBuffer, ExpiryChange, FieldWas, Hash};
use wire::extended::Extended;
use wire::request::Args;

use super::{limits, log_set, note_expired};
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, ArgType, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `HINCRBYFLOAT key field increment`
pub const COMMAND: Command = Command {
    name: "hincrbyfloat",
    arity: 4,
    flags: Flags::WRITE.union(Flags::LOG_INSTEAD).union(Flags::DENYOOM).union(Flags::FAST),
    categories: Categories::HASH,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::UPDATE))],
    tips: &[],
    doc: Doc::new(
        Group::Hash,
        "2.6.0",
        "Adds a floating-point number to a hash field. A missing field counts as 0.",
    )
    .args(&[Arg::key("key", 0), Arg::string("field"), Arg::new("increment", ArgType::Double)]),
    subcommands: &[],
    run,
};

const INCREMENT_NOT_FINITE: CommandError = CommandError::new("ERR value is NaN or Infinity");
const NOT_A_FLOAT: CommandError = CommandError::new("ERR hash value is not a float");
const SUM_NOT_FINITE: CommandError = CommandError::new("ERR increment would produce NaN or Infinity");

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let key = ctx.key(0);
    let field = args.at(2);
    let increment = Extended::parse(args.at(3)).ok_or(CommandError::NOT_A_FLOAT)?;
    if !increment.is_finite() {
        return Err(INCREMENT_NOT_FINITE);
    }
    let (limits, due) = (limits(ctx.config), ctx.data.due());
    let mut text = Vec::new();
    let was = ctx.edit_or_new(key, |hash: &mut Hash, alloc| {
        let old = match hash.find(alloc, field, due) {
            None => Extended::ZERO,
            Some(field) => Extended::parse(field.value.text(&mut DecimalBuffer::new())).ok_or(NOT_A_FLOAT)?,
        };
        let sum = old.checked_add(increment).filter(|sum| sum.is_finite()).ok_or(SUM_NOT_FINITE)?;
        sum.write(&mut text);
        Ok::<_, CommandError>(hash.set(alloc, limits, field, &text, ExpiryChange::Keep, due))
    })??;
    note_expired(ctx, usize::from(was == FieldWas::Expired), key);
    ctx.changed(EventClass::Hash, "hincrbyfloat", key);
    log_set(ctx, key, field, &text);
    Ok(reply.bulk(&text))
}
