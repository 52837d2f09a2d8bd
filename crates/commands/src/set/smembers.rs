//! `SMEMBERS`

use collections::Set;
use wire::request::Args;

use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `SMEMBERS key`
pub const COMMAND: Command = Command {
    name: "smembers",
    arity: 2,
    flags: Flags::READONLY,
    categories: Categories::SET,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO.union(KeyFlags::ACCESS))],
    tips: &["nondeterministic_output_order"],
    doc: Doc::new(Group::Set, "1.0.0", "Returns every member of a set.")
        .complexity("O(N) where N is the number of members.")
        .args(&[Arg::key("key", 0)]),
    subcommands: &[],
    run,
};

fn run(ctx: &mut Ctx<'_>, _args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let set = ctx.find::<Set>(ctx.key(0))?;
    let mut out = reply.parts();
    out.set(set.map_or(0, Set::len));
    let chunks = ctx.chunks(&out);
    set.into_iter().flat_map(Set::iter).for_each(|member| {
        out.item(member);
        chunks.cut(&mut out);
    });
    Ok(out.done())
}
