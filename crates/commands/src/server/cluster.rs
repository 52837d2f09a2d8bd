//! `CLUSTER`, `CLUSTERSCAN`, `ASKING`, `READONLY`, `READWRITE`: cluster mode is not supported yet, so they reply like a
//! server with cluster mode disabled. `CLUSTER KEYSLOT` needs no cluster.

use wire::request::Args;

use crate::command::{Categories, Command, Flags, Handler, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, ArgType, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `CLUSTER subcommand ...`
pub const COMMAND: Command = Command::container(
    "cluster",
    Doc::new(Group::Cluster, "3.0.0", "Subcommands for the nodes and slots of the cluster.")
        .complexity("Depends on subcommand."),
    &[
        changing("addslots", -3, "3.0.0", "Assigns slots to this node.", &[SLOT.multiple()]),
        changing("addslotsrange", -4, "7.0.0", "Assigns ranges of slots to this node.", SLOT_RANGES),
        changing("bumpepoch", 2, "3.0.0", "Advances the configuration epoch of the cluster.", &[])
            .tips(UNORDERED),
        changing("cancelslotmigrations", 2, "9.0.0", "Cancels all running migrations of slots.", &[]),
        disabled(
            "count-failure-reports",
            3,
            "3.0.0",
            "Returns the number of failure reports of a node.",
            &[NODE],
        )
        .flags(NODE_FLAGS)
        .tips(UNORDERED),
        disabled("countkeysinslot", 3, "3.0.0", "Returns the number of keys in a slot.", &[SLOT])
            .flags(Flags::STALE),
        changing("delslots", -3, "3.0.0", "Removes slots from this node.", &[SLOT.multiple()]),
        changing("delslotsrange", -4, "7.0.0", "Removes ranges of slots from this node.", SLOT_RANGES),
        changing("failover", -2, "3.0.0", "Makes this replica the primary.", &[FAILOVER_KIND]),
        disabled("flushslot", -3, "9.0.0", "Deletes the keys in a slot.", &[SLOT, FLUSH_KIND])
            .flags(Flags::ADMIN.union(Flags::NO_ASYNC_LOADING))
            .add_categories(Categories::KEYSPACE.union(Categories::WRITE)),
        changing("flushslots", 2, "3.0.0", "Removes all slots from this node.", &[]),
        changing("forget", 3, "3.0.0", "Removes a node from the table of nodes.", &[NODE]),
        disabled("getkeysinslot", 4, "3.0.0", "Returns keys in a slot.", &[SLOT, Arg::integer("count")])
            .flags(Flags::STALE)
            .tips(UNORDERED),
        changing("getslotmigrations", 2, "9.0.0", "Returns the migrations of slots.", &[]),
        disabled("help", 2, "5.0.0", "Returns the help text of the subcommands.", &[]),
        disabled("info", 2, "3.0.0", "Returns the state of the cluster.", &[]).tips(UNORDERED),
        KEYSLOT,
        disabled("links", 2, "7.0.0", "Returns the connections to other nodes.", &[])
            .flags(Flags::STALE)
            .tips(UNORDERED),
        changing("meet", -4, "3.0.0", "Joins this node with another one.", MEET),
        changing("migrateslots", -4, "9.0.0", "Migrates slots to other nodes.", MIGRATE),
        disabled("myid", 2, "3.0.0", "Returns the ID of this node.", &[]),
        disabled("myshardid", 2, "7.2.0", "Returns the ID of the shard of this node.", &[]).tips(UNORDERED),
        disabled("nodes", 2, "3.0.0", "Returns the nodes of the cluster.", &[]).tips(UNORDERED),
        disabled("replicas", 3, "5.0.0", "Returns the replicas of a primary.", &[NODE])
            .flags(NODE_FLAGS)
            .tips(UNORDERED),
        changing(
            "replicate",
            -3,
            "3.0.0",
            "Makes this node a replica of a primary, or a primary.",
            REPLICATE,
        ),
        disabled("reset", -2, "3.0.0", "Resets this node.", &[RESET_KIND])
            .flags(Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::STALE)),
        changing("saveconfig", 2, "3.0.0", "Writes the configuration of the cluster to disk.", &[]),
        changing("set-config-epoch", 3, "3.0.0", "Sets the configuration epoch of a new node.", &[EPOCH]),
        changing("setslot", -4, "3.0.0", "Assigns a slot to a node.", SETSLOT),
        disabled(
            "shards",
            2,
            "7.0.0",
            "Returns the shards of the cluster, each with its slots and nodes.",
            &[],
        )
        .tips(UNORDERED),
        Command {
            doc: Doc::new(Group::Cluster, "3.0.0", "Returns the replicas of a primary.")
                .deprecated("5.0.0", "`CLUSTER REPLICAS`")
                .args(&[NODE]),
            ..disabled("slaves", 3, "3.0.0", "Returns the replicas of a primary.", &[NODE])
                .flags(NODE_FLAGS)
                .tips(UNORDERED)
        },
        disabled("slot-stats", -4, "8.0.0", "Returns the usage of the slots of this node.", SLOT_STATS)
            .tips(&["nondeterministic_output", "request_policy:all_shards"]),
        disabled(
            "slots",
            2,
            "3.0.0",
            "Returns the slot ranges of the cluster and the nodes that serve them.",
            &[],
        )
        .tips(UNORDERED),
    ],
);

/// `CLUSTER KEYSLOT key`
const KEYSLOT: Command = Command::keyless(
    "keyslot",
    3,
    Flags::STALE,
    Doc::new(Group::Cluster, "3.0.0", "Returns the cluster slot of a key.")
        .complexity("O(N) where N is the number of bytes in the key")
        .args(&[Arg::string("key")]),
    |_, args, reply| Ok(reply.integer(cluster_slot(args.at(2)).into())),
);

/// `CLUSTERSCAN cursor ...`
pub const CLUSTERSCAN: Command = Command::keyless(
    "clusterscan",
    -2,
    Flags::READONLY,
    Doc::new(Group::Cluster, "9.1.0", "Iterates over the keys of the cluster with a cursor.")
        .complexity("O(1) for every call.")
        .args(&[
            Arg::string("cursor"),
            Arg::new("match-pattern", ArgType::Pattern).token("MATCH").optional(),
            Arg::integer("count").token("COUNT").optional(),
            Arg::string("type").token("TYPE").optional(),
            Arg::integer("slot").token("SLOT").optional(),
        ]),
    refuse,
)
.add_categories(Categories::KEYSPACE)
.keys(&[KeySpec::first(KeyFlags::NOT_KEY)])
.tips(&["nondeterministic_output", "request_policy:special", "response_policy:special"]);

/// `ASKING`
pub const ASKING: Command = Command::keyless(
    "asking",
    1,
    Flags::FAST,
    Doc::new(Group::Cluster, "3.0.0", "Signals that the next command follows an -ASK redirection."),
    refuse,
)
.add_categories(Categories::CONNECTION);

/// `READONLY`. Without a cluster every key is readable anyway; the flag is shown only.
pub const READONLY: Command =
    mode("readonly", "Enables read-only queries on a replica of the cluster.", |ctx, _, reply| {
        ctx.session.options.is_read_only = true;
        Ok(reply.ok())
    });

/// `READWRITE`
pub const READWRITE: Command =
    mode("readwrite", "Disables the read-only queries that READONLY enabled.", |ctx, _, reply| {
        ctx.session.options.is_read_only = false;
        Ok(reply.ok())
    });

const fn mode(name: &'static str, summary: &'static str, run: Handler) -> Command {
    let flags = Flags::LOADING.union(Flags::STALE).union(Flags::FAST);
    Command::keyless(name, 1, flags, Doc::new(Group::Cluster, "3.0.0", summary), run)
        .add_categories(Categories::CONNECTION)
}

const UNORDERED: &[&str] = &["nondeterministic_output"];
const NODE_FLAGS: Flags = Flags::ADMIN.union(Flags::STALE);

const SLOT: Arg = Arg::integer("slot");
const NODE: Arg = Arg::string("node-id");
const EPOCH: Arg = Arg::integer("config-epoch");
const SLOT_RANGE: Arg = Arg::block("range", &[Arg::integer("start-slot"), Arg::integer("end-slot")]);
const SLOT_RANGES: &[Arg] = &[SLOT_RANGE.multiple()];
const FAILOVER_KIND: Arg =
    Arg::one_of("options", &[Arg::word("force", "FORCE"), Arg::word("takeover", "TAKEOVER")]).optional();
const FLUSH_KIND: Arg =
    Arg::one_of("flush-type", &[Arg::word("async", "ASYNC"), Arg::word("sync", "SYNC")]).optional();
const RESET_KIND: Arg =
    Arg::one_of("reset-type", &[Arg::word("hard", "HARD"), Arg::word("soft", "SOFT")]).optional();
const MEET: &[Arg] =
    &[Arg::string("ip"), Arg::integer("port"), Arg::integer("cluster-bus-port").since("4.0.0").optional()];
const MIGRATE: &[Arg] = &[Arg::block(
    "migration-group",
    &[
        Arg::word("slotsrange-token", "SLOTSRANGE"),
        SLOT_RANGE.multiple(),
        Arg::word("node-token", "NODE"),
        NODE,
    ],
)
.multiple()];
const REPLICATE: &[Arg] = &[Arg::one_of(
    "args",
    &[NODE, Arg::block("no-one", &[Arg::word("no", "NO"), Arg::word("one", "ONE")]).since("9.0.0")],
)];
const SETSLOT: &[Arg] = &[
    SLOT,
    Arg::one_of(
        "subcommand",
        &[
            Arg::string("importing").shown("node-id").token("IMPORTING"),
            Arg::string("migrating").shown("node-id").token("MIGRATING"),
            Arg::string("node").shown("node-id").token("NODE"),
            Arg::word("stable", "STABLE"),
        ],
    ),
    Arg::integer("timeout").token("TIMEOUT").since("8.0.0").optional(),
];
const SLOT_STATS: &[Arg] = &[Arg::one_of(
    "filter",
    &[
        Arg::block("slotsrange", &[Arg::integer("start-slot"), Arg::integer("end-slot")]).token("SLOTSRANGE"),
        Arg::block(
            "orderby",
            &[
                Arg::string("metric"),
                Arg::integer("limit").token("LIMIT").optional(),
                Arg::one_of("order", &[Arg::word("asc", "ASC"), Arg::word("desc", "DESC")]).optional(),
            ],
        )
        .token("ORDERBY"),
    ],
)];

/// A subcommand that a server without cluster mode refuses.
const fn disabled(
    name: &'static str,
    arity: i32,
    since: &'static str,
    summary: &'static str,
    args: &'static [Arg],
) -> Command {
    let flags = Flags::LOADING.union(Flags::STALE);
    Command::keyless(name, arity, flags, Doc::new(Group::Cluster, since, summary).args(args), refuse)
}

/// [`disabled`], for an administrative change of the cluster.
const fn changing(
    name: &'static str,
    arity: i32,
    since: &'static str,
    summary: &'static str,
    args: &'static [Arg],
) -> Command {
    disabled(name, arity, since, summary, args)
        .flags(Flags::ADMIN.union(Flags::STALE).union(Flags::NO_ASYNC_LOADING))
}

fn refuse(_: &mut Ctx<'_>, _: Args<'_>, _: Reply<'_>) -> Result<Replied, CommandError> {
    Err(CommandError::new("ERR This instance has cluster support disabled"))
}

/// The number of slots of a cluster.
const SLOT_COUNT: u16 = 16384;

/// Returns the slot of a key in Redis Cluster: CRC16 (XMODEM) of its hash tag, if it has a nonempty one, else of the key.
fn cluster_slot(key: &[u8]) -> u16 {
    crc16(hash_tag(key).unwrap_or(key)) % SLOT_COUNT
}

/// Returns the bytes between the first `{` and the next `}`, unless there are none.
fn hash_tag(key: &[u8]) -> Option<&[u8]> {
    let open = key.iter().position(|byte| *byte == b'{')?;
    let rest = &key[open + 1..];
    let len = rest.iter().position(|byte| *byte == b'}')?;
    (len > 0).then(|| &rest[..len])
}

fn crc16(bytes: &[u8]) -> u16 {
    const POLYNOMIAL: u16 = 0x1021;
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte) << 8, |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ POLYNOMIAL }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
    }
}
