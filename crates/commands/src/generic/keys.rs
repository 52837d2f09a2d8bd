//! `KEYS`

use base::glob;
use wire::request::Args;

use crate::command::{Access, Categories, Command, Flags};
use crate::context::Ctx;
use crate::doc::{Arg, ArgType, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `KEYS pattern`
pub const COMMAND: Command = Command {
    name: "keys",
    arity: 2,
    flags: Flags::READONLY,
    categories: Categories::KEYSPACE.union(Categories::DANGEROUS),
    access: Access::ReadAll,
    keys: &[],
    tips: &["request_policy:all_shards", "nondeterministic_output_order"],
    doc: Doc::new(Group::Generic, "1.0.0", "Returns the names of all keys that match a pattern.")
        .complexity(
            "O(N) where N is the number of keys of the database, with names and pattern of limited length.",
        )
        .args(&[Arg::new("pattern", ArgType::Pattern)]),
    subcommands: &[],
    run,
};

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let pattern = args.at(1);
    let everything = pattern == b"*";
    let mut out = reply.parts();
    let start = out.deferred_array();
    let (mut count, chunks) = (0, ctx.report.shared_replies.chunks(&out));
    ctx.data.for_each(ctx.db(), |entry| {
        if everything || glob::matches(pattern, entry.key()) {
            out.bulk(entry.key());
            chunks.cut(&mut out);
            count += 1;
        }
    });
    chunks.set_len(&mut out, start, count);
    Ok(out.done())
}
