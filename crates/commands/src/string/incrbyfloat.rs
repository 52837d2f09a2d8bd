//! `INCRBYFLOAT`

use collections::{DecimalBuffer, ExpiryChange, NewValue};
use wire::extended::Extended;
use wire::request::Args;

use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, ArgType, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `INCRBYFLOAT key increment`
pub const COMMAND: Command = Command {
    name: "incrbyfloat",
    arity: 3,
    flags: Flags::WRITE.union(Flags::LOG_INSTEAD).union(Flags::DENYOOM).union(Flags::FAST),
    categories: Categories::STRING,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::UPDATE))],
    tips: &[],
    doc: Doc::new(
        Group::String,
        "2.6.0",
        "Adds a floating-point number to the value of a key. A missing key counts as 0.",
    )
    .args(&[Arg::key("key", 0), Arg::new("increment", ArgType::Double)]),
    subcommands: &[],
    run,
};

const NOT_FINITE: CommandError = CommandError::new("ERR increment would produce NaN or Infinity");

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let key = ctx.key(0);
    let old = match ctx.find_string_for_write(key)? {
        None => Extended::ZERO,
        Some(value) => {
            let mut decimal = DecimalBuffer::new();
            let text = value.text(&mut decimal).ok_or(CommandError::WRONG_TYPE)?;
            Extended::parse(text).ok_or(CommandError::NOT_A_FLOAT)?
        }
    };
    let increment = Extended::parse(args.at(2)).ok_or(CommandError::NOT_A_FLOAT)?;
    let sum = old.checked_add(increment).filter(|sum| sum.is_finite()).ok_or(NOT_FINITE)?;
    let mut text = Vec::new();
    sum.write(&mut text);
    // Stored as text even if it is an integer: `OBJECT ENCODING` shows the difference.
    ctx.data.set(key, NewValue::Bytes(&text), ExpiryChange::Keep);
    ctx.changed(EventClass::String, "incrbyfloat", key);
    ctx.record_effect(&["SET".into(), key.bytes.into(), text[..].into(), "KEEPTTL".into()]);
    Ok(reply.bulk(&text))
}
