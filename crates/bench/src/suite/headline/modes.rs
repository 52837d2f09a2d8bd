//! Modes of operation other than a fresh store, database 0 and one kind of client.
//!
//! Each mode has a goal: the highest acceptable ratio of CPU time per request to Valkey in the same mode.

use crate::distribution::Distribution;
use crate::suite::{Mode, ModeLogin, Part, Section};

/// Default values of a mode.
const PLAIN: Mode = Mode {
    name: "",
    directives: "",
    login: ModeLogin { password: None, database: 0, resp3: false },
    idle_connections: None,
    key_prefix: "key:",
    fill: None,
    commands: &[],
    connection_count: 50,
    pipeline: 16,
    key_count: 200_000,
    value_size: "64",
    distribution: Distribution::Uniform,
    goal: GOOD,
};

/// Goal of modes whose current ratio is to be kept.
const GOOD: f64 = 0.45;

const FILL: Option<&str> = Some("SET {key} {value}");
const FILL_EXPIRING: Option<&str> = Some("SET {key} {value} EX 100000");
const GET: Mode = Mode { fill: FILL, commands: &[(1, "GET {key}")], ..PLAIN };
const SET: Mode = Mode { fill: FILL, commands: &[(1, "SET {key} {value}")], ..PLAIN };

/// A cache at its limit: six of seven written keys are absent, so each write evicts another key.
const CACHE: Mode = Mode { key_count: 2_000_000, value_size: "200", goal: 0.6, ..SET };
const EXPIRING_CACHE: Mode =
    Mode { fill: FILL_EXPIRING, commands: &[(1, "SET {key} {value} EX 100000")], ..CACHE };

const SMALL: Mode = Mode { key_count: 10_000, ..PLAIN };
const TRANSACTION: Mode = Mode { fill: FILL, connection_count: 1, pipeline: 64, goal: 0.7, ..PLAIN };
const ONE: Mode = Mode { key_count: 1, ..PLAIN };

/// The section.
#[rustfmt::skip]
pub(super) const MODES: Section = Section {
    name: "modes",
    title: "Modes",
    about: "Each mode starts its own server with one thread. Ratios compare CPU time per request with Valkey in the same \
            mode; the goal is the highest acceptable ratio. A transaction's requests are its commands, MULTI and EXEC \
            included.",
    length_ms: Some(1_000),
    part: Part::Modes {
        servers: &["broadloom", "valkey"],
        baseline: "valkey",
        modes: &[
            Mode { name: "GET",                        ..GET },
            Mode { name: "SET",                        ..SET },
            Mode { name: "full cache allkeys-lru SET",     directives: "--maxmemory 100mb --maxmemory-policy allkeys-lru", ..CACHE },
            Mode { name: "full cache allkeys-lru GET",     directives: "--maxmemory 100mb --maxmemory-policy allkeys-lru", commands: &[(1, "GET {key}")], goal: GOOD, ..CACHE },
            Mode { name: "full cache allkeys-lfu SET",     directives: "--maxmemory 100mb --maxmemory-policy allkeys-lfu", ..CACHE },
            Mode { name: "full cache allkeys-random SET",  directives: "--maxmemory 100mb --maxmemory-policy allkeys-random", ..CACHE },
            Mode { name: "full cache volatile-lru SET",    directives: "--maxmemory 100mb --maxmemory-policy volatile-lru", ..EXPIRING_CACHE },
            Mode { name: "full cache volatile-lfu SET",    directives: "--maxmemory 100mb --maxmemory-policy volatile-lfu", ..EXPIRING_CACHE },
            Mode { name: "full cache volatile-random SET", directives: "--maxmemory 100mb --maxmemory-policy volatile-random", ..EXPIRING_CACHE },
            Mode { name: "full cache volatile-ttl SET",    directives: "--maxmemory 100mb --maxmemory-policy volatile-ttl", ..EXPIRING_CACHE },
            Mode { name: "database 3 GET",             login: ModeLogin { database: 3, ..PLAIN.login }, ..GET },
            Mode { name: "database 3 SET",             login: ModeLogin { database: 3, ..PLAIN.login }, ..SET },
            Mode { name: "XREVRANGE of 3, trimmed",    fill: Some("XADD {key} * f {value}"), commands: &[(1, "XADD {key} MAXLEN 1000 * f {value} ; {times:10 XREVRANGE {key} + - COUNT 3 ; }")], pipeline: 2, goal: 0.5, ..ONE },
            Mode { name: "MULTI, GET, SET, EXEC",      commands: &[(1, "MULTI ; GET {key} ; SET {key} {value} ; EXEC")], ..TRANSACTION },
            Mode { name: "WATCH, MULTI, SET, SET, EXEC", commands: &[(1, "WATCH {key} ; MULTI ; SET {key} {value} ; SET {key} {value} ; EXEC")], ..TRANSACTION },
            Mode { name: "BITFIELD",                   fill: FILL, commands: &[(1, "BITFIELD {key} GET u8 8 INCRBY u16 32 1")], goal: 0.7, ..PLAIN },
            Mode { name: "SINTER of 2 small sets",     fill: Some("SADD {key} {times:10 {int:0..99} }"), commands: &[(1, "SINTER {key} {key}")], goal: 0.7, ..SMALL },
            Mode { name: "SINTER of 2 sets of strings", fill: Some("SADD {key} {times:10 m{int:0..99} }"), commands: &[(1, "SINTER {key} {key}")], goal: 0.7, ..SMALL },
            Mode { name: "SCAN",                       fill: FILL, commands: &[(1, "SCAN 0 COUNT 10")], goal: 0.7, ..PLAIN },
            Mode { name: "INFO",                       fill: FILL, commands: &[(1, "INFO")], pipeline: 1, goal: 1.0, ..SMALL },
            Mode { name: "COMMAND",                    fill: FILL, commands: &[(1, "COMMAND")], pipeline: 1, goal: 1.0, ..SMALL },
            Mode { name: "expiries GET",               fill: FILL_EXPIRING, commands: &[(1, "GET {key}")], ..PLAIN },
            Mode { name: "expiries SET",               fill: FILL_EXPIRING, commands: &[(1, "SET {key} {value} EX 100000")], ..PLAIN },
            Mode { name: "keyspace events, no listener SET", directives: "--notify-keyspace-events KEA", ..SET },
            Mode { name: "slow log of everything GET", directives: "--slowlog-log-slower-than 0", ..GET },
            Mode { name: "slow log of everything SET", directives: "--slowlog-log-slower-than 0", ..SET },
            Mode { name: "password GET",               directives: "--requirepass secret", login: ModeLogin { password: Some("secret"), ..PLAIN.login }, ..GET },
            Mode { name: "far maxmemory GET",          directives: "--maxmemory 100gb --maxmemory-policy allkeys-lru", ..GET },
            Mode { name: "far maxmemory SET",          directives: "--maxmemory 100gb --maxmemory-policy allkeys-lru", ..SET },
            Mode { name: "RESP3 GET",                  login: ModeLogin { resp3: true, ..PLAIN.login }, ..GET },
            Mode { name: "RESP3 SET",                  login: ModeLogin { resp3: true, ..PLAIN.login }, ..SET },
            Mode { name: "500 blocked elsewhere SET",  idle_connections: Some((500, "BLPOP nothing 0")), ..SET },
            Mode { name: "500 subscribers elsewhere SET", idle_connections: Some((500, "SUBSCRIBE nothing")), ..SET },
            Mode { name: "INCR",                       fill: Some("SET {key} 1000"), commands: &[(1, "INCR {key}")], ..PLAIN },
            Mode { name: "EXPIRE",                     fill: FILL, commands: &[(1, "EXPIRE {key} 100000")], ..PLAIN },
            Mode { name: "HSET",                       fill: Some("HSET {key} f {value}"), commands: &[(1, "HSET {key} f {value}")], ..PLAIN },
            Mode { name: "GETEX",                      fill: FILL, commands: &[(1, "GETEX {key} EX 100000")], ..PLAIN },
            Mode { name: "ZADD",                       fill: Some("ZADD {key} {times:10 {nth} m{nth} }"), commands: &[(1, "ZADD {key} {int:0..99} m{num:10}")], ..SMALL },
            Mode { name: "ZRANGE of 10",               fill: Some("ZADD {key} {times:10 {nth} m{nth} }"), commands: &[(1, "ZRANGE {key} 0 -1")], ..SMALL },
        ],
    },
};
