//! Collections and channels: CPU time per request and memory against the better of Valkey and Redis, and
//! thread scaling.

use crate::suite::{MemoryCase, Part, Section, SuiteCase, Variant};

/// Length of a window: short, because there are many cases.
const LENGTH_MS: Option<u64> = Some(1_000);

/// CPU time per request.
#[rustfmt::skip]
pub(super) const REQUESTS: Section = Section {
    name: "types",
    title: "Collections and channels",
    about: "Every server runs with one thread and without persistence. Ratios are relative to Valkey or Redis, whichever takes less CPU \
            time in the case. For PUBLISH, a request is a message delivered to one subscriber.",
    length_ms: LENGTH_MS,
    part: Part::AgainstTheBetter {
        of: &["valkey", "redis"],
        cases: &[
            SuiteCase { name: "HGETALL 50 x 70 bytes p4", workload: "hgetall", pipeline: 4 },
            SuiteCase { name: "HSET 50 x 70 bytes p16", workload: "hset", pipeline: 16 },
            SuiteCase { name: "ZRANK 50 x 70 bytes p16", workload: "zrank", pipeline: 16 },
            SuiteCase { name: "ZADD 50 x 70 bytes p16", workload: "zadd", pipeline: 16 },
            SuiteCase { name: "LINDEX 50 x 70 bytes p16", workload: "lindex", pipeline: 16 },
            SuiteCase { name: "LSET 50 x 70 bytes p16", workload: "lset", pipeline: 16 },
            SuiteCase { name: "ZADD 1M members p16", workload: "zadd-big", pipeline: 16 },
            SuiteCase { name: "ZRANK 1M members p16", workload: "zrank-big", pipeline: 16 },
            SuiteCase { name: "ZRANGE 100 of 1M members p16", workload: "zrange-big", pipeline: 16 },
            SuiteCase { name: "LPUSH p16", workload: "lpush", pipeline: 16 },
            SuiteCase { name: "LPUSH one list p16", workload: "lpush-one", pipeline: 16 },
            SuiteCase { name: "RPOP p16", workload: "rpop", pipeline: 16 },
            SuiteCase { name: "RPOP one list p16", workload: "rpop-one", pipeline: 16 },
            SuiteCase { name: "SADD p16", workload: "sadd", pipeline: 16 },
            SuiteCase { name: "SADD one set p16", workload: "sadd-one", pipeline: 16 },
            SuiteCase { name: "SPOP p16", workload: "spop", pipeline: 16 },
            SuiteCase { name: "SPOP one set p16", workload: "spop-one", pipeline: 16 },
            SuiteCase { name: "XADD p16", workload: "xadd", pipeline: 16 },
            SuiteCase { name: "XADD one stream p16", workload: "xadd-one", pipeline: 16 },
            SuiteCase { name: "XREAD 10 entries p16", workload: "xread", pipeline: 16 },
            SuiteCase { name: "INCR p16", workload: "incr-small", pipeline: 16 },
            SuiteCase { name: "queue, 150 BRPOP p1", workload: "queue", pipeline: 1 },
            SuiteCase { name: "queue, 150 BZPOPMIN p1", workload: "queue-zset", pipeline: 1 },
            SuiteCase { name: "PUBLISH to 100 p1", workload: "publish", pipeline: 1 },
            SuiteCase { name: "PUBLISH to 100 p16", workload: "publish", pipeline: 16 },
        ],
    },
};

/// Memory.
#[rustfmt::skip]
pub(super) const MEMORY: Section = Section {
    name: "types-memory",
    title: "Memory of collections",
    about: "A fresh server is filled; no other load runs.",
    length_ms: None,
    part: Part::Collections {
        cases: &[
            MemoryCase { name: "hashes of 10 fields", workload: "fill-hashes", key_count: 1_000_000 },
            MemoryCase { name: "one set", workload: "fill-set", key_count: 5_000_000 },
            MemoryCase { name: "one sorted set", workload: "fill-zset", key_count: 5_000_000 },
            MemoryCase { name: "one hash", workload: "fill-hash", key_count: 5_000_000 },
            MemoryCase { name: "lists of 20 elements", workload: "fill-lists", key_count: 1_000_000 },
            MemoryCase { name: "one stream", workload: "fill-stream", key_count: 1 },
        ],
    },
};

/// Thread scaling.
#[rustfmt::skip]
pub(super) const THREADS: Section = Section {
    name: "types-threads",
    title: "Collections and more threads",
    about: "80 % reads and 20 % writes. Ratios are relative to one thread. The load generator runs on the same CPUs.",
    length_ms: LENGTH_MS,
    part: Part::Variants {
        server: "broadloom",
        variants: &[
            Variant { name: "1 thread",  thread_count: 1, io_backend: "auto" },
            Variant { name: "2 threads", thread_count: 2, io_backend: "auto" },
            Variant { name: "4 threads", thread_count: 4, io_backend: "auto" },
        ],
        cases: &[
            SuiteCase { name: "strings p16", workload: "mixed", pipeline: 16 },
            SuiteCase { name: "hashes p16", workload: "hmixed", pipeline: 16 },
            SuiteCase { name: "sorted sets p16", workload: "zmixed", pipeline: 16 },
            SuiteCase { name: "lists p16", workload: "lmixed", pipeline: 16 },
            SuiteCase { name: "sets p16", workload: "smixed", pipeline: 16 },
            SuiteCase { name: "streams p16", workload: "xmixed", pipeline: 16 },
            SuiteCase { name: "one hot hash p16", workload: "hmixed-hot", pipeline: 16 },
            SuiteCase { name: "one hot sorted set p16", workload: "zmixed-hot", pipeline: 16 },
            SuiteCase { name: "one hot list p16", workload: "lmixed-hot", pipeline: 16 },
        ],
    },
};
