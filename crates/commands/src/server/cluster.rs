//! `CLUSTER`, `ASKING`, `READONLY`, `READWRITE`: cluster mode is not supported yet, so they reply like a server
//! with cluster mode disabled.

use wire::request::Args;

use crate::command::{Categories, Command, Flags};
use crate::context::Ctx;
use crate::doc::{Doc, Group};
use crate::error::CommandError;
use crate::help;
use crate::reply::{Replied, Reply};

/// `CLUSTER subcommand ...`
pub const COMMAND: Command = Command::container(
    "cluster",
    Doc::new(Group::Cluster, "3.0.0", "Subcommands for the nodes and slots of the cluster.")
        .complexity("Depends on subcommand."),
    &[
        help::command(Group::Cluster, "5.0.0", |_, _, reply| help::answer(&COMMAND, reply)),
        disabled("info", 2, "Returns the state of the cluster.").tips(UNORDERED),
        disabled("myid", 2, "Returns the ID of this node."),
        disabled("nodes", 2, "Returns the nodes of the cluster.").tips(UNORDERED),
        disabled("shards", 2, "Returns the shards of the cluster, each with its slots and nodes.")
            .tips(UNORDERED),
        disabled("slots", 2, "Returns the slot ranges of the cluster and the nodes that serve them.")
            .tips(UNORDERED),
    ],
);

/// `ASKING`
pub const ASKING: Command = Command::keyless(
    "asking",
    1,
    Flags::FAST,
    Doc::new(Group::Cluster, "3.0.0", "Signals that the next command follows an -ASK redirection."),
    refuse,
)
.add_categories(Categories::CONNECTION);

/// `READONLY`. Without a cluster every key is readable anyway; accepted for clients that always send it.
pub const READONLY: Command = mode("readonly", "Enables read-only queries on a replica of the cluster.");

/// `READWRITE`
pub const READWRITE: Command = mode("readwrite", "Disables the read-only queries that READONLY enabled.");

const fn mode(name: &'static str, summary: &'static str) -> Command {
    let flags = Flags::LOADING.union(Flags::STALE).union(Flags::FAST);
    Command::keyless(name, 1, flags, Doc::new(Group::Cluster, "3.0.0", summary), |_, _, reply| Ok(reply.ok()))
        .add_categories(Categories::CONNECTION)
}

const UNORDERED: &[&str] = &["nondeterministic_output"];

const fn disabled(name: &'static str, arity: i32, summary: &'static str) -> Command {
    let flags = Flags::LOADING.union(Flags::STALE);
    Command::keyless(name, arity, flags, Doc::new(Group::Cluster, "3.0.0", summary), refuse)
}

fn refuse(_: &mut Ctx<'_>, _: Args<'_>, _: Reply<'_>) -> Result<Replied, CommandError> {
    Err(CommandError::new("ERR This instance has cluster support disabled"))
}
