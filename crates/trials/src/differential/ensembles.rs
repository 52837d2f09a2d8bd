//! Ensembles of connections: one blocks, subscribes, caches or is in a transaction while others change data.

use super::families::{FAMILIES, Family};

/// Several connections with their initial requests and their grammar.
#[derive(Debug)]
pub struct Ensemble {
    /// Name of the ensemble.
    pub name: &'static str,
    /// Value of `notify-keyspace-events` during the ensemble.
    pub events: &'static str,
    /// Number of connections.
    pub connection_count: usize,
    /// Subscribing connections, which read up to the reply to a PING. The others receive one reply per
    /// request.
    pub listeners: &'static [usize],
    /// Initial requests, with the connection that sends each.
    pub prelude: &'static [(usize, &'static str)],
    /// Percentage of requests drawn from the data families, and the connections that send them.
    pub data: (usize, &'static [usize]),
    /// Weight, connections that may send it, grammar line. `@1` is the id of that connection.
    pub lines: &'static [(usize, &'static [usize], &'static str)],
}

/// All ensembles.
pub static ENSEMBLES: &[Ensemble] = &[TRANSACTIONS, LISTENING, EVENTS, CACHING, BLOCKING];

/// Returns the families of data commands. Ensembles draw from them.
pub fn data_families() -> impl Iterator<Item = &'static Family> {
    // Notifications would contain ids that each server generates itself.
    FAMILIES.iter().filter(|family| !matches!(family.name, "connection" | "deep"))
}

const TRANSACTIONS: Ensemble = Ensemble {
    name: "transactions",
    events: "",
    connection_count: 2,
    listeners: &[],
    prelude: &[],
    data: (70, &[0, 1]),
    lines: &[
        (10, &[0, 1], "MULTI"),
        (8, &[0, 1], "EXEC"),
        (2, &[0, 1], "DISCARD"),
        (8, &[0, 1], "WATCH key+"),
        (1, &[0, 1], "UNWATCH"),
        (1, &[0], "RESET"),
        (1, &[0, 1], "CLIENT NO-TOUCH <ON|OFF>"),
        (2, &[0, 1], "SELECT database"),
        (1, &[0, 1], "PUBLISH key value"),
        (1, &[0, 1], "BLPOP key+ 1000000"),
        (1, &[0, 1], "odd odd"),
    ],
};

const LISTENING: Ensemble = Ensemble {
    name: "listening",
    events: "",
    connection_count: 3,
    listeners: &[0, 1, 2],
    prelude: &[],
    data: (0, &[]),
    lines: &[
        (8, &[0, 1, 2], "SUBSCRIBE key+"),
        (6, &[0, 1, 2], "PSUBSCRIBE pattern+"),
        (6, &[0, 1, 2], "SSUBSCRIBE key+"),
        (4, &[0, 1, 2], "UNSUBSCRIBE key+"),
        (4, &[0, 1, 2], "PUNSUBSCRIBE pattern+"),
        (4, &[0, 1, 2], "SUNSUBSCRIBE key+"),
        (1, &[0, 1, 2], "UNSUBSCRIBE"),
        (1, &[0, 1, 2], "PUNSUBSCRIBE"),
        (1, &[0, 1, 2], "SUNSUBSCRIBE"),
        (16, &[0, 1, 2], "PUBLISH key value"),
        (10, &[0, 1, 2], "SPUBLISH key value"),
        (4, &[0, 1, 2], "PUBSUB CHANNELS [pattern]"),
        (3, &[0, 1, 2], "PUBSUB SHARDCHANNELS [pattern]"),
        (4, &[0, 1, 2], "PUBSUB NUMSUB key*"),
        (4, &[0, 1, 2], "PUBSUB SHARDNUMSUB key*"),
        (3, &[0, 1, 2], "PUBSUB NUMPAT"),
        (1, &[0, 1, 2], "PUBSUB odd"),
        (3, &[0, 1, 2], "PING [value]"),
        (2, &[0, 1, 2], "GET key"),
        (1, &[0, 1, 2], "RESET"),
        (2, &[0, 1, 2], "HELLO <2|3>"),
    ],
};

const EVENTS: Ensemble = Ensemble {
    name: "events",
    events: "KEAnm",
    connection_count: 2,
    listeners: &[1],
    prelude: &[(1, "PSUBSCRIBE __key*")],
    data: (94, &[0]),
    lines: &[(4, &[0], "MULTI"), (5, &[0], "EXEC"), (1, &[0], "DISCARD")],
};

const CACHING: Ensemble = Ensemble {
    name: "caching",
    events: "",
    connection_count: 3,
    listeners: &[2],
    prelude: &[(2, "SUBSCRIBE __redis__:invalidate")],
    data: (75, &[0, 1]),
    lines: &[
        (6, &[0, 1], "CLIENT TRACKING ON [REDIRECT @2] [OPTIN|OPTOUT] [NOLOOP]"),
        (4, &[0, 1], "CLIENT TRACKING ON REDIRECT @2 [OPTIN|OPTOUT] [NOLOOP]"),
        (4, &[0, 1], "CLIENT TRACKING ON [REDIRECT @2] BCAST [PREFIX prefix] [PREFIX prefix] [NOLOOP]"),
        (1, &[0, 1], "CLIENT TRACKING ON [BCAST] [PREFIX prefix] [OPTIN] [OPTOUT] [REDIRECT <integer|@0>]"),
        (3, &[0, 1], "CLIENT TRACKING OFF"),
        (5, &[0, 1], "CLIENT CACHING <YES|NO>"),
        (2, &[0, 1], "CLIENT TRACKINGINFO"),
        (2, &[0, 1], "CLIENT GETREDIR"),
        (1, &[0, 1], "RESET"),
        (1, &[0, 1], "HELLO <2|3>"),
    ],
};

const BLOCKING: Ensemble = Ensemble {
    name: "blocking",
    events: "",
    connection_count: 4,
    listeners: &[],
    prelude: &[],
    data: (8, &[3]),
    lines: &[
        (6, &[0, 1, 2], "BLPOP key+ 0"),
        (6, &[0, 1, 2], "BRPOP key+ 0"),
        (6, &[0, 1, 2], "BLMOVE key key <LEFT|RIGHT> <LEFT|RIGHT> 0"),
        (3, &[0, 1, 2], "BRPOPLPUSH key key 0"),
        (6, &[0, 1, 2], "BLMPOP 0 <1 key|2 key key> <LEFT|RIGHT> [COUNT <1|2|10>]"),
        (6, &[0, 1, 2], "BZPOPMIN key+ 0"),
        (6, &[0, 1, 2], "BZPOPMAX key+ 0"),
        (6, &[0, 1, 2], "BZMPOP 0 <1 key|2 key key> <MIN|MAX> [COUNT <1|2|10>]"),
        (6, &[0, 1, 2], "XREAD [COUNT integer] BLOCK 0 STREAMS <key readid|key key readid readid>"),
        (
            8,
            &[0, 1, 2],
            "XREADGROUP GROUP name name [COUNT integer] BLOCK 0 [NOACK] STREAMS <key groupreadid|key key groupreadid groupreadid>",
        ),
        (16, &[0, 3], "RPUSH key name+"),
        (10, &[1, 3], "LPUSH key name+"),
        (2, &[2, 3], "RPUSHX key name+"),
        (2, &[3], "LINSERT key BEFORE name name"),
        (16, &[2, 3], "ZADD key [NX|XX] <score name>+"),
        (2, &[3], "ZINCRBY key score name"),
        (2, &[3], "ZUNIONSTORE key 2 key key"),
        (2, &[3], "ZRANGESTORE key key 0 -1"),
        (2, &[3], "GEOADD key 10 20 name"),
        (14, &[0, 3], "XADD key entryid <name value>+"),
        (10, &[1, 3], "XGROUP CREATE key name <$|0> [MKSTREAM]"),
        (2, &[3], "XGROUP DESTROY key name"),
        (10, &[0, 1, 2, 3], "DEL key+"),
        (3, &[3], "UNLINK key+"),
        (4, &[3], "RENAME key key"),
        (4, &[3], "COPY key key [DB database] [REPLACE]"),
        (3, &[3], "SET key value"),
        (3, &[3], "LMOVE key key <LEFT|RIGHT> <LEFT|RIGHT>"),
        (2, &[3], "RPOPLPUSH key key"),
        (3, &[3], "SORT key ALPHA STORE key"),
        (1, &[3], "FLUSHALL"),
        (1, &[3], "FLUSHDB"),
        (1, &[3], "SWAPDB database database"),
        (3, &[3], "MOVE key database"),
        (3, &[3], "SELECT database"),
        (6, &[3], "CLIENT UNBLOCK <@0|@1|@2> [TIMEOUT|ERROR]"),
        (4, &[3], "LLEN key"),
        (3, &[3], "LRANGE key 0 -1"),
        (3, &[3], "XPENDING key name"),
        (8, &[3], "MULTI"),
        (10, &[3], "EXEC"),
        (2, &[3], "DISCARD"),
        (2, &[0, 1], "WATCH key+"),
    ],
};
