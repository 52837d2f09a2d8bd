//! `PFDEBUG`

use collections::{ExpiryChange, NewValue};
use wire::request::Args;

use super::sketch::{self, Sketch};
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::{CommandError, up_to_nul};
use crate::reply::{Replied, Reply};
use crate::word::Word;

/// `PFDEBUG subcommand key`
pub const COMMAND: Command = Command {
    name: "pfdebug",
    arity: 3,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM).union(Flags::DENYOOM).union(Flags::ADMIN),
    categories: Categories::HYPERLOGLOG,
    access: Access::Write,
    keys: &[KeySpec::at(2, KeyFlags::RW.union(KeyFlags::ACCESS))],
    tips: &[],
    doc: Doc::new(Group::Hyperloglog, "2.8.9", "Returns internal data of a HyperLogLog, for debugging.")
        .internal()
        .complexity("N/A")
        .args(&[Arg::string("subcommand"), Arg::key("key", 0)]),
    subcommands: &[],
    run,
};

const NO_SUCH_KEY: CommandError = CommandError::new("ERR The specified key does not exist");
const NOT_SPARSE: CommandError = CommandError::new("ERR HLL encoding is not sparse");
const NEITHER_ON_NOR_OFF: CommandError = CommandError::new("ERR Argument must be ON or OFF");

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let word = up_to_nul(args.at(1)).to_ascii_lowercase();
    if word == b"simd" {
        return switch(args.at(2), reply);
    }
    let key = ctx.key(0);
    let value = ctx.find_string_for_write(key)?.ok_or(NO_SUCH_KEY)?;
    let bytes = sketch::bytes_of(value)?;
    match &word[..] {
        b"getreg" => {
            let mut sketch = Sketch::of(bytes);
            make_dense(ctx, &mut sketch)?;
            let registers: Vec<u8> = sketch::registers(sketch.bytes()).collect();
            let mut out = reply.array(registers.len());
            registers.iter().for_each(|value| out.integer(i64::from(*value)));
            Ok(out.done())
        }
        b"decode" => Ok(reply.bulk(sketch::decode(bytes).ok_or(NOT_SPARSE)?.as_bytes())),
        b"encoding" => Ok(reply.simple(if sketch::is_dense(bytes)? { "dense" } else { "sparse" })),
        b"todense" => {
            let mut sketch = Sketch::of(bytes);
            let has_changed = make_dense(ctx, &mut sketch)?;
            Ok(reply.flag(has_changed))
        }
        _ => {
            let text = [b"ERR Unknown PFDEBUG subcommand '", up_to_nul(args.at(1)), b"'"].concat();
            Err(CommandError::quoting(text))
        }
    }
}

/// Makes the key's value dense. Returns whether it was sparse.
fn make_dense(ctx: &mut Ctx<'_>, sketch: &mut Sketch) -> Result<bool, CommandError> {
    let has_changed = sketch.make_dense()?;
    if has_changed {
        ctx.data.set(ctx.key(0), NewValue::Raw(sketch.bytes()), ExpiryChange::Keep);
        ctx.report.dirty += 1;
    }
    Ok(has_changed)
}

/// There is only one implementation; the replies are as if there were two.
fn switch(word: &[u8], reply: Reply<'_>) -> Result<Replied, CommandError> {
    match word {
        _ if word.eq_token("on") => Ok(reply.simple("enabled")),
        _ if word.eq_token("off") => Ok(reply.simple("disabled")),
        _ => Err(NEITHER_ON_NOR_OFF),
    }
}
