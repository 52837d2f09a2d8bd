//! Random picks: only members, distinct where required, and each about equally often.
//!
//! Frequencies are compared by chi-square. The bound is generous: servers may be somewhat unfair by design (a
//! pick chooses a bucket, then an entry in it), but a member that is never picked, or always, is far beyond
//! it.
#![allow(clippy::unwrap_used)] // A failure here fails the test.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use trials::connection::Connection;
use trials::reply::Reply;
use trials::server::{Program, Server, programs_or_skip};

/// Picks for each member.
const PICKS_EACH: usize = 200;
const PICKS_A_CALL: usize = 1000;
/// Chi-square divided by its degrees of freedom: 1 for a uniform distribution.
const UNFAIRNESS_MAX: f64 = 20.0;

/// How a collection is filled, with one request per number, and how members are picked.
struct Collection {
    name: &'static str,
    member_count: usize,
    fill: fn(usize) -> Vec<String>,
    member: fn(usize) -> String,
    pick: &'static str,
}

const COLLECTIONS: &[Collection] = &[
    Collection {
        name: "intset",
        member_count: 100,
        fill: |n| words(&["SADD", "k", &number(n)]),
        member: number,
        pick: "SRANDMEMBER",
    },
    Collection {
        name: "small set",
        member_count: 50,
        fill: |n| words(&["SADD", "k", &short(n)]),
        member: short,
        pick: "SRANDMEMBER",
    },
    Collection {
        name: "set",
        member_count: 200,
        fill: |n| words(&["SADD", "k", &short(n)]),
        member: short,
        pick: "SRANDMEMBER",
    },
    Collection {
        name: "large set",
        member_count: 1500,
        fill: |n| words(&["SADD", "k", &short(n)]),
        member: short,
        pick: "SRANDMEMBER",
    },
    Collection {
        name: "set with long members",
        member_count: 300,
        fill: |n| words(&["SADD", "k", &mixed(n)]),
        member: mixed,
        pick: "SRANDMEMBER",
    },
    Collection {
        name: "small hash",
        member_count: 50,
        fill: |n| words(&["HSET", "k", &short(n), "v"]),
        member: short,
        pick: "HRANDFIELD",
    },
    Collection {
        name: "large hash",
        member_count: 1500,
        fill: |n| words(&["HSET", "k", &short(n), "v"]),
        member: short,
        pick: "HRANDFIELD",
    },
    Collection {
        name: "small sorted set",
        member_count: 50,
        fill: |n| words(&["ZADD", "k", &number(n), &short(n)]),
        member: short,
        pick: "ZRANDMEMBER",
    },
    Collection {
        name: "large sorted set",
        member_count: 1500,
        fill: |n| words(&["ZADD", "k", &number(n), &short(n)]),
        member: short,
        pick: "ZRANDMEMBER",
    },
];

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn number(n: usize) -> String {
    n.to_string()
}

fn short(n: usize) -> String {
    format!("m{n}")
}

fn mixed(n: usize) -> String {
    format!("{}{n}", "x".repeat(if n.is_multiple_of(5) { 300 } else { 1 }))
}

fn texts(reply: Reply) -> Vec<String> {
    let text = |reply: Reply| match reply {
        Reply::Bulk(text) => String::from_utf8(text).unwrap(),
        other => panic!("{other:?} is not a member"),
    };
    match reply {
        Reply::List(_, items) => items.into_iter().map(text).collect(),
        other => vec![text(other)],
    }
}

/// Returns the chi-square of the counts divided by its degrees of freedom.
fn unfairness(counts: impl Iterator<Item = usize> + Clone) -> f64 {
    let sum: usize = counts.clone().sum();
    let expected = sum as f64 / counts.clone().count() as f64;
    let chi_square: f64 = counts.clone().map(|count| (count as f64 - expected).powi(2) / expected).sum();
    chi_square / (counts.count() - 1) as f64
}

fn check_picks(connection: &mut Connection, of: &Collection) -> io::Result<()> {
    connection.call(&["FLUSHALL"])?;
    for n in 0..of.member_count {
        connection.call(&(of.fill)(n))?;
    }
    let mut counts: BTreeMap<String, usize> = (0..of.member_count).map(|n| ((of.member)(n), 0)).collect();
    let call_count = of.member_count * PICKS_EACH / PICKS_A_CALL;
    for _ in 0..call_count.max(1) {
        let picked = texts(connection.call(&[of.pick, "k", &format!("-{PICKS_A_CALL}")])?.reply);
        assert_eq!(picked.len(), PICKS_A_CALL, "{}", of.name);
        for member in picked {
            *counts.get_mut(&member).unwrap_or_else(|| panic!("{}: {member} is not a member", of.name)) += 1;
        }
    }
    let unfairness = unfairness(counts.values().copied());
    println!("{}: unfairness {unfairness:.2}", of.name);
    assert!(unfairness < UNFAIRNESS_MAX, "{}: {unfairness:.2}", of.name);
    assert!(counts.values().all(|count| *count > 0), "{}: a member is never picked", of.name);
    // Distinct picks are distinct, whether they are few or nearly all.
    for count in [1, 3, of.member_count / 2, of.member_count - 1, of.member_count + 10] {
        let picked = texts(connection.call(&[of.pick, "k", &count.to_string()])?.reply);
        let distinct: BTreeSet<&String> = picked.iter().collect();
        assert_eq!((picked.len(), distinct.len()), (count.min(of.member_count), picked.len()), "{}", of.name);
        assert!(picked.iter().all(|member| counts.contains_key(member)), "{}", of.name);
    }
    Ok(())
}

/// SPOP removes exactly the members that it returns; over many sets, each member is popped about equally
/// often.
fn check_pops(
    connection: &mut Connection,
    member_count: usize,
    member: fn(usize) -> String,
) -> io::Result<()> {
    const TIMES: usize = 300;
    let mut counts: BTreeMap<String, usize> = (0..member_count).map(|n| (member(n), 0)).collect();
    for _ in 0..TIMES {
        let request: Vec<String> =
            ["SADD".to_owned(), "k".to_owned()].into_iter().chain(counts.keys().cloned()).collect();
        connection.call(&request)?;
        let mut popped = texts(connection.call(&["SPOP", "k"])?.reply);
        popped.extend(texts(connection.call(&["SPOP", "k", &(member_count / 4).to_string()])?.reply));
        let left: BTreeSet<String> = texts(connection.call(&["SMEMBERS", "k"])?.reply).into_iter().collect();
        assert_eq!(popped.len() + left.len(), member_count);
        for member in popped {
            assert!(!left.contains(&member), "{member} was popped but is still present");
            *counts.get_mut(&member).unwrap_or_else(|| panic!("{member} is not a member")) += 1;
        }
    }
    let unfairness = unfairness(counts.values().copied());
    println!("SPOP of {member_count}: unfairness {unfairness:.2}");
    assert!(unfairness < UNFAIRNESS_MAX, "SPOP of {member_count}: {unfairness:.2}");
    assert!(counts.values().all(|count| *count > 0), "a member is never popped");
    Ok(())
}

fn check_random_key(connection: &mut Connection) -> io::Result<()> {
    const KEY_COUNT: usize = 300;
    connection.call(&["FLUSHALL"])?;
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for n in 0..KEY_COUNT {
        connection.call(&["SET", &short(n), "v"])?;
        counts.insert(short(n), 0);
    }
    for _ in 0..KEY_COUNT * PICKS_EACH / 4 {
        let picked = texts(connection.call(&["RANDOMKEY"])?.reply).remove(0);
        *counts.get_mut(&picked).unwrap_or_else(|| panic!("{picked} is not a key")) += 1;
    }
    let unfairness = unfairness(counts.values().copied());
    println!("RANDOMKEY: unfairness {unfairness:.2}");
    assert!(unfairness < UNFAIRNESS_MAX, "RANDOMKEY: {unfairness:.2}");
    assert!(counts.values().all(|count| *count > 0), "a key is never picked");
    Ok(())
}

fn check_server(program: &Program) -> io::Result<()> {
    let server = Server::start(program)?;
    let mut connection = server.connect()?;
    for collection in COLLECTIONS {
        check_picks(&mut connection, collection)?;
    }
    connection.call(&["DEL", "k"])?;
    check_pops(&mut connection, 40, number)?;
    connection.call(&["DEL", "k"])?;
    check_pops(&mut connection, 400, short)?;
    check_random_key(&mut connection)
}

#[test]
fn picks_are_members_and_fair() {
    let Some([broadloom]) = programs_or_skip([("broadloom", Program::broadloom())]) else { return };
    check_server(&broadloom).unwrap();
}

#[test]
fn picks_of_small_leaves_are_members_and_fair() {
    let found = [("broadloom built with the feature tiny", Program::tiny_broadloom())];
    let Some([broadloom]) = programs_or_skip(found) else { return };
    check_server(&broadloom).unwrap();
}

#[test]
fn an_unfair_pick_is_noticed() {
    assert!(unfairness([200; 50].into_iter()) < 1.0);
    assert!(unfairness([190, 210, 205, 195].into_iter().cycle().take(100)) < UNFAIRNESS_MAX);
    // One of a hundred is picked 20 times as often as the others.
    assert!(unfairness([200; 99].into_iter().chain([4_000])) > UNFAIRNESS_MAX);
}
