//! Latency of a reader on a separate connection during a large operation of the server.

use crate::suite::{Disturbance, Part, Section, StallCase};

const READ: StallCase = StallCase {
    name: "",
    directives: "",
    setup: &[],
    key_count: 500_000,
    write_rate: None,
    flood: None,
    disturbance: None,
    length_ms: 5_000,
};

const fn once(command: &'static str) -> Option<Disturbance> {
    Some(Disturbance { command, count: 1, rate: 1.0 })
}

/// The section.
#[rustfmt::skip]
pub(super) const STALLS: Section = Section {
    name: "stalls",
    title: "Stalls",
    about: "GET at 1,000 requests/s (open loop) on a separate connection, during a large operation. A new server is started \
            for each case and round, with one thread. Latency counts from the intended time of each read. Late: sent more \
            than 3 ms late, a delay of the load generator and not of the server.",
    length_ms: None,
    part: Part::Stalls {
        servers: &["broadloom", "valkey"],
        read_rate: 1_000.0,
        round_count: 3,
        cases: &[
            StallCase { name: "just loaded 500k keys",   length_ms: 15_000, ..READ },
            StallCase { name: "growing at 200k SET/s",   write_rate: Some(200_000.0), length_ms: 10_000, ..READ },
            StallCase { name: "growing at 400k SET/s",   write_rate: Some(400_000.0), length_ms: 10_000, ..READ },
            StallCase { name: "DEBUG POPULATE of 2M",    disturbance: once("DEBUG POPULATE 2000000 populated 64"), directives: "--enable-debug-command yes", ..READ },
            StallCase { name: "FLUSHALL of 2M keys",     disturbance: once("FLUSHALL"), key_count: 2_000_000, ..READ },
            StallCase { name: "KEYS * of 500k keys",     disturbance: Some(Disturbance { command: "KEYS *", count: 5, rate: 1.0 }), ..READ },
            StallCase { name: "EXEC of 20,000 SET",      disturbance: Some(Disturbance { command: "MULTI ; {times:20000 SET {key} {value} ; } EXEC", count: 5, rate: 1.0 }), ..READ },
            StallCase { name: "MSET of 100,000 keys",    disturbance: Some(Disturbance { command: "MSET {pair*100000}", count: 5, rate: 1.0 }), ..READ },
            StallCase { name: "DEL of a set of 1M",      disturbance: once("DEL big"), setup: &[(1_000_000, "SADD big m:{key}")], ..READ },
            StallCase { name: "DEL of a list of 1M",     disturbance: once("DEL big"), setup: &[(1_000_000, "RPUSH big m:{key}")], ..READ },
            StallCase { name: "DEL of a zset of 1M",     disturbance: once("DEL big"), setup: &[(1_000_000, "ZADD big {int} m:{key}")], ..READ },
            StallCase { name: "a flood of BITCOUNT",     flood: Some("BITCOUNT big"), setup: &[(1, "SETRANGE big 100000 x")], ..READ },
            StallCase { name: "maxmemory lowered to 30mb", disturbance: once("CONFIG SET maxmemory 30mb"), directives: "--maxmemory 1gb --maxmemory-policy allkeys-lru", key_count: 1_000_000, ..READ },
        ],
    },
};
