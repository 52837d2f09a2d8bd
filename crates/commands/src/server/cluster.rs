//! `CLUSTER`: there is no cluster mode yet, so its subcommands answer as those of a server outside of it.

use wire::request::Args;

use crate::command::{Command, Flags};
use crate::context::Ctx;
use crate::doc::{Doc, Group};
use crate::error::CommandError;
use crate::help;
use crate::reply::{Replied, Reply};

/// `CLUSTER subcommand ...`
pub const COMMAND: Command = Command::container(
    "cluster",
    Doc::new(Group::Cluster, "3.0.0", "Commands about the cluster.").complexity("Depends on subcommand."),
    &[
        help::command(Group::Cluster, "5.0.0", |_, _, reply| help::answer(&COMMAND, reply)),
        disabled("info", 2, "Returns the state of the cluster.").tips(UNORDERED),
        disabled("myid", 2, "Returns the node's name."),
        disabled("nodes", 2, "Returns the nodes of the cluster.").tips(UNORDERED),
        disabled("shards", 2, "Returns the cluster's shards and their slots.").tips(UNORDERED),
        disabled("slots", 2, "Returns the cluster's slots and who serves them.").tips(UNORDERED),
    ],
);

const UNORDERED: &[&str] = &["nondeterministic_output"];

const fn disabled(name: &'static str, arity: i32, summary: &'static str) -> Command {
    let flags = Flags::LOADING.union(Flags::STALE);
    Command::keyless(name, arity, flags, Doc::new(Group::Cluster, "3.0.0", summary), refuse)
}

fn refuse(_: &mut Ctx<'_>, _: Args<'_>, _: Reply<'_>) -> Result<Replied, CommandError> {
    Err(CommandError::new("ERR This instance has cluster support disabled"))
}
