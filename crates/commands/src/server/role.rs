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

fn run(ctx: &mut Ctx<'_>, _: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    if let Some(replica) = ctx.host.replica_role() {
        let mut out = reply.array(5);
        out.bulk(b"slave");
        out.bulk(replica.host.as_bytes());
        out.integer(replica.port.into());
        out.bulk(replica.state.as_bytes());
        out.integer(replica.offset);
        return Ok(out.done());
    }
    let replicas = ctx.host.replica_facts();
    let mut out = reply.array(3);
    out.bulk(b"master");
    out.integer(ctx.host.stream_offset() as i64);
    out.array(replicas.len());
    for replica in replicas {
        out.array(3);
        out.bulk(replica.address.as_bytes());
        out.bulk(replica.port.to_string().as_bytes());
        out.bulk(replica.offset.to_string().as_bytes());
    }
    Ok(out.done())
}
