//! `ROLE`

use wire::request::Args;

use crate::command::{Categories, Command, Flags};
use crate::context::Ctx;
use crate::doc::{Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `ROLE`
pub const COMMAND: Command = Command::keyless(
    "role",
    1,
    Flags::NOSCRIPT.union(Flags::LOADING).union(Flags::STALE).union(Flags::FAST),
    Doc::new(Group::Server, "2.8.12", "Returns the replication role of the server."),
    run,
)
.add_categories(Categories::ADMIN.union(Categories::DANGEROUS));

/// Always a primary without replicas: there is no replication yet.
fn run(_: &mut Ctx<'_>, _: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let mut out = reply.array(3);
    out.bulk(b"master");
    out.integer(0);
    out.array(0);
    Ok(out.done())
}
