//! Commands with arbitrary arguments, on keys with values of every type: each reply is exactly one
//! well-formed reply.
//!
//! The input is a list of requests: two bytes for the command, one for the number of words, and for each word
//! a byte that selects a dictionary word or the number of input bytes to use.

#![no_main]

#[path = "../../crates/commands/tests/dialogue/host.rs"]
mod host;
#[path = "../../crates/commands/tests/dialogue/ours.rs"]
mod ours;

/// The trait that `ours` implements: the server of a dialogue.
mod check {
    use wire::reply::Protocol;
    use wire::response::Reply;

    pub trait Server {
        fn request(&mut self, args: &[Vec<u8>]) -> Option<Reply>;
        fn set_protocol(&mut self, protocol: Protocol);
        fn wait(&mut self, ms: u64);
        fn inspect(&mut self, key: &[u8]) -> Option<(String, Option<i64>)>;
        fn configure(&mut self, name: &str, value: &str);
    }
}

use check::Server;
use commands::command::Flags;
use commands::table::NUMBERED;
use libfuzzer_sys::fuzz_target;
use ours::Ours;
use wire::reply::Protocol;

const REQUEST_COUNT_MAX: usize = 100;

/// Words with a meaning in commands, keys, and numbers at limits.
const WORDS: &[&str] = &[
    "str", "int", "list", "set", "ints", "hash", "zset", "stream", "none", "other", "0", "1", "2", "3", "-1", "-2", "10",
    "100", "1.5", "inf", "-inf", "nan", "(1", "[a", "-", "+", "$", "*", ">", "1-1", "5-*", "a", "b", "c", "EX", "PX", "NX",
    "XX", "GT", "LT", "CH", "INCR", "GET", "KEEPTTL", "WITHSCORES", "LIMIT", "COUNT", "MATCH", "TYPE", "BYSCORE", "BYLEX",
    "REV", "FIELDS", "STREAMS", "GROUP", "BLOCK", "MAXLEN", "MINID", "~", "=", "LEFT", "RIGHT", "BEFORE", "AFTER", "ASC",
    "DESC", "ALPHA", "BY", "STORE", "WEIGHTS", "AGGREGATE", "SUM", "MIN", "MAX", "FROMMEMBER", "FROMLONLAT", "BYRADIUS",
    "BYBOX", "km", "u8", "i64", "#1", "SET", "INCRBY", "OVERFLOW", "SAT", "AND", "DIFF", "9223372036854775807",
    "-9223372036854775808", "18446744073709551616", "", "RANK", "g", "KEEPREF", "IDS", "IFEQ", "PERSIST", "EXAT", "REPLACE",
];

const SETUP: &[&str] = &[
    "SET str hello", "SET int 12", "RPUSH list a b c 1 2 3", "SADD set a b c x", "SADD ints 1 2 3", "HSET hash a 1 b 2 c x",
    "ZADD zset 1 a 2 b 2 c 3 d", "XADD stream 1-1 a 1", "XADD stream 2-1 b 2", "XGROUP CREATE stream g 0",
];

fuzz_target!(|data: &[u8]| {
    let mut server = Ours::new();
    server.configure("proto-max-bulk-len", "1mb");
    for line in SETUP {
        let words: Vec<Vec<u8>> = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        server.request(&words);
    }
    let mut rest = data;
    for _ in 0..REQUEST_COUNT_MAX {
        let [high, low, count, after @ ..] = rest else { break };
        rest = after;
        let (name, row) = &NUMBERED[(usize::from(*high) << 8 | usize::from(*low)) % NUMBERED.len()];
        server.set_protocol(if count & 128 == 0 { Protocol::Resp2 } else { Protocol::Resp3 });
        let mut args: Vec<Vec<u8>> = name.split('|').map(|word| word.as_bytes().to_vec()).collect();
        for _ in 0..count % 16 {
            args.push(word(&mut rest));
        }
        // A blocking command would wait forever, and no command may end the process.
        let waits = row.flags.contains(Flags::BLOCKING) || name.starts_with("wait");
        let ends = name.starts_with("shutdown") || name.starts_with("debug");
        // Replies with one message for each channel.
        let has_messages = row.flags.contains(Flags::PUSH_REPLY);
        if !waits && !ends && !has_messages && !asks_for_very_much(&args) {
            server.request(&args);
        }
    }
});

fn word(rest: &mut &[u8]) -> Vec<u8> {
    let Some((choice, after)) = rest.split_first() else { return Vec::new() };
    *rest = after;
    let own_len = usize::from(*choice).saturating_sub(240);
    if own_len == 0 {
        return WORDS[usize::from(*choice) % WORDS.len()].as_bytes().to_vec();
    }
    let (own, after) = rest.split_at(own_len.min(rest.len()));
    *rest = after;
    own.to_vec()
}

/// A negative count requests that many picks, without an upper limit.
fn asks_for_very_much(args: &[Vec<u8>]) -> bool {
    const PICK_COUNT_MAX: i64 = 10_000;
    let is_pick = args[0].ends_with(b"randmember") || args[0].ends_with(b"randfield");
    let number = |word: &Vec<u8>| std::str::from_utf8(word).ok()?.parse::<i64>().ok();
    is_pick && args.iter().filter_map(number).any(|number| number < -PICK_COUNT_MAX)
}
