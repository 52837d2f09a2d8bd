//! `INFO`

use wire::request::Args;

use crate::command::{Categories, Command, Flags};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `INFO [section ...]`
pub const COMMAND: Command = Command::keyless(
    "info",
    -1,
    Flags::LOADING.union(Flags::STALE),
    Doc::new(Group::Server, "1.0.0", "Returns information and statistics of the server, by section.")
        .history(&[("7.0.0", "Takes several sections.")])
        .args(&[Arg::string("section").optional().multiple()]),
    run,
)
.add_categories(Categories::DANGEROUS)
.tips(&["nondeterministic_output", "request_policy:all_shards", "response_policy:special"]);

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let sections: Vec<&[u8]> = args.tail(1).iter().collect();
    Ok(reply.verbatim(b"txt", ctx.host.info(&sections).as_bytes()))
}
