//! `HLEN`

use collections::Hash;
use wire::request::Args;

use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `HLEN key`
pub const COMMAND: Command = Command {
    name: "hlen",
    arity: 2,
    flags: Flags::READONLY.union(Flags::FAST),
    categories: Categories::HASH,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO)],
    tips: &[],
    doc: Doc::new(Group::Hash, "2.0.0", "Counts the fields of a hash.").args(&[Arg::key("key", 0)]),
    subcommands: &[],
    run,
};

/// Includes expired fields that are not deleted yet.
fn run(ctx: &mut Ctx<'_>, _args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let len = ctx.find::<Hash>(ctx.key(0))?.map_or(0, Hash::len);
    Ok(reply.integer(len as i64))
}
