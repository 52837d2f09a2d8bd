//! `INFO keysizes`: the histograms agree with the sizes of all values, after every kind of change.

use std::collections::BTreeMap;

use crate::support::directory::Directory;
use crate::support::{Client, Server, wait_for};

/// For each type the name in the section, and the command that replies the size.
const TYPES: [(&str, &str, &str); 5] = [
    ("string", "strings_sizes", "STRLEN"),
    ("list", "lists_items", "LLEN"),
    ("set", "sets_items", "SCARD"),
    ("zset", "zsets_items", "ZCARD"),
    ("hash", "hashes_items", "HLEN"),
];

/// The lines of the section.
fn shown(client: &mut Client) -> Vec<String> {
    let text = client.text(&["INFO", "keysizes"]);
    text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).map(str::to_owned).collect()
}

/// The lines that follow from the sizes of all values.
fn computed(client: &mut Client) -> Vec<String> {
    let mut lines = Vec::new();
    for db in 0..3 {
        client.text(&["SELECT", &db.to_string()]);
        let names: Vec<String> = client.text(&["KEYS", "*"]).lines().map(str::to_owned).collect();
        for (kind, label, command) in TYPES {
            let mut bins: BTreeMap<u64, u64> = BTreeMap::new();
            for name in names.iter().filter(|name| !name.is_empty()) {
                if client.text(&["TYPE", name]) == kind {
                    let size: u64 = client.text(&[command, name]).parse().unwrap();
                    *bins.entry(size.checked_ilog2().map_or(0, |power| 1 << power)).or_default() += 1;
                }
            }
            let bins: Vec<String> = bins.iter().map(|(size, count)| format!("{size}={count}")).collect();
            if !bins.is_empty() {
                lines.push(format!("db{db}_distrib_{label}:{}", bins.join(",")));
            }
        }
    }
    client.text(&["SELECT", "0"]);
    lines.iter().map(|line| line.replace(":1024=", ":1K=").replace(",1024=", ",1K=")).collect()
}

#[test]
fn each_type_has_a_line_of_bins() {
    let server = Server::start(&[]);
    let mut client = server.client();
    assert_eq!(client.text(&["INFO", "keysizes"]).trim_end(), "# Keysizes");
    let requests: &[&[&str]] = &[
        &["SET", "empty", ""],
        &["SET", "one", "x"],
        &["SET", "number", "1234"],
        &["SETRANGE", "million", "1048575", "x"],
        &["RPUSH", "list", "a", "b", "c"],
        &["SADD", "set", "1", "2"],
        &["ZADD", "sorted", "1", "a"],
        &["HSET", "hash", "a", "1", "b", "2", "c", "3", "d", "4"],
        &["XADD", "stream", "1-1", "a", "b"],
        &["PFADD", "sketch", "a"],
        &["SELECT", "2"],
        &["SETRANGE", "kilo", "1535", "x"],
    ];
    requests.iter().for_each(|request| drop(client.text(request)));
    let expected = [
        "db0_distrib_strings_sizes:0=1,1=1,4=1,16=1,1M=1",
        "db0_distrib_lists_items:2=1",
        "db0_distrib_sets_items:2=1",
        "db0_distrib_zsets_items:1=1",
        "db0_distrib_hashes_items:4=1",
        "db2_distrib_strings_sizes:1K=1",
    ];
    assert_eq!(shown(&mut client), expected);
    for section in ["default", "all", "everything"] {
        assert!(client.text(&["INFO", section]).contains("# Keysizes"), "{section}");
    }
}

/// Requests of every kind, on few keys.
const REQUESTS: &[&str] = &[
    "SET s KEY",
    "SET s 123456",
    "SETRANGE s 40 x",
    "SETBIT s 4000 1",
    "APPEND s abcdefgh",
    "INCR n",
    "INCRBY n 987654",
    "INCRBYFLOAT n 0.5",
    "SET n 9",
    "DECRBY n 10",
    "GETSET s x",
    "GETDEL s",
    "MSET s aaa n 5 m bbbbbbbb",
    "SETEX m 1000 longer-value",
    "BITOP NOT m s",
    "PFADD p a b c",
    "PFMERGE q p",
    "RPUSH l a b c d",
    "LPUSH l KEY",
    "LPOP l 2",
    "RPOPLPUSH l k",
    "LMOVE k l LEFT RIGHT",
    "LTRIM l 0 20",
    "LREM l 1 a",
    "LINSERT l BEFORE b x",
    "SORT l ALPHA STORE k",
    "DEL k",
    "SADD t KEY",
    "SADD t a b c",
    "SPOP t",
    "SPOP t 3",
    "SMOVE t u a",
    "SUNIONSTORE u t u",
    "SINTERSTORE u t t",
    "ZADD z 1 KEY",
    "ZADD z 1 a 2 b 3 c",
    "ZPOPMIN z 2",
    "ZRANGESTORE y z 0 -1",
    "ZUNIONSTORE y 2 z y",
    "ZREMRANGEBYRANK z 0 0",
    "GEOADD z 13 38 Palermo",
    "HSET h KEY 1",
    "HSET h a 1 b 2 c 3",
    "HINCRBY h n 1",
    "HDEL h a b",
    "HPEXPIRE h 1 FIELDS 1 c",
    "HGETDEL h FIELDS 1 KEY",
    "RENAME l l2",
    "RENAME l2 l",
    "COPY h g REPLACE",
    "COPY t t2 DB 1 REPLACE",
    "MOVE z 1",
    "PEXPIRE KEY 1",
    "PEXPIRE s 1",
    "PEXPIRE t2 1",
    "SET l text",
    "DEL l",
    "SET h text",
    "RPUSH h a",
    "DEL h",
    "SWAPDB 0 1",
    "SWAPDB 1 2",
    "XADD x * a 1",
    "EVAL redis.call('rpush',KEYS[1],'a','b')redis.call('append',KEYS[2],'xyz') 2 l s",
    "EVAL local\td=redis.call('dump',KEYS[1])if\td\tthen\tredis.call('restore',KEYS[2],0,d,'replace')end 2 l r",
    "UNLINK u",
];

#[test]
fn the_histograms_follow_every_change() {
    let directory = Directory::new("key-sizes");
    let path = directory.path("");
    let server = Server::start(&["--dir", &path, "--enable-debug-command", "yes", "--io-threads", "2"]);
    let mut client = server.client();
    let mut random = 1_u64;
    let mut below = |bound: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) as usize % bound
    };
    for step in 0..3000 {
        let key = format!("key-{}", below(40));
        let request = REQUESTS[below(REQUESTS.len())].replace("KEY", &key);
        client.text(&request.split(' ').collect::<Vec<_>>());
        if step % 100 == 0 {
            check(&mut client);
        }
        match step {
            1000 => drop(client.text(&["FLUSHDB"])),
            1500 => assert_eq!(client.text(&["DEBUG", "RELOAD"]), "OK"),
            2000 => assert_eq!(client.text(&["FLUSHALL", "ASYNC"]), "OK"),
            2500 => assert_eq!(client.text(&["DEBUG", "RELOAD", "NOSAVE"]).split(' ').next(), Some("OK")),
            _ => {}
        }
    }
    check(&mut client);
    client.text(&["CONFIG", "SET", "maxmemory-policy", "allkeys-random"]);
    for number in 0..1000 {
        client.text(&["SET", &format!("many-{number}"), &"x".repeat(1500)]);
    }
    client.text(&["CONFIG", "SET", "maxmemory", "1mb"]);
    client.text(&["SET", "a", "b"]);
    check(&mut client);
}

/// Waits until no value is expired but not yet deleted, and compares.
fn check(client: &mut Client) {
    wait_for(|| {
        let (shown, computed) = (shown(client), computed(client));
        (shown == computed).then_some(())
    });
}
