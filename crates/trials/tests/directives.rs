//! The directives and the fields of `INFO` of each peer, compared with ours: each is known, and `CONFIG SET` accepts it or
//! refuses it as the peer does.
#![allow(clippy::unwrap_used)] // A failure here fails the test.

use std::collections::{BTreeMap, BTreeSet};

use trials::connection::Connection;
use trials::reply::Reply;
use trials::server::{Server, peers_or_skip};

/// Directives of peers that we do not have.
const UNKNOWN: &[&str] = &[];

/// Directives that we treat otherwise, and why.
const TREATED_OTHERWISE: &[(&str, &str)] = &[
    ("io-threads", "the number of threads can be changed while the server runs, as in Valkey"),
    ("bind", "each server has the address of its own"),
    ("port", "each server has a port of its own"),
];

/// Fields of `INFO` that we do not have, and why.
const MISSING_FIELDS: &[(&str, &str)] = &[
    ("module", "there are no modules"),
    ("engine_0", "Valkey's engines of scripts are modules"),
    ("engines_count", "Valkey's engines of scripts are modules"),
    ("engines_total_memory_overhead", "Valkey's engines of scripts are modules"),
    ("engines_total_used_memory", "Valkey's engines of scripts are modules"),
];

fn text(reply: &Reply) -> String {
    match reply {
        Reply::Bulk(text) => String::from_utf8_lossy(text).into_owned(),
        other => panic!("{other:?} is no text"),
    }
}

fn call(connection: &mut Connection, request: &[&str]) -> Reply {
    connection.call(request).unwrap().reply
}

fn directives(connection: &mut Connection) -> BTreeMap<String, String> {
    let Reply::List(_, words) = call(connection, &["CONFIG", "GET", "*"]) else { panic!("no list") };
    words.chunks(2).map(|pair| (text(&pair[0]), text(&pair[1]))).collect()
}

/// The names of the fields of `INFO everything`, without those with a number or a command in their names.
fn fields(connection: &mut Connection) -> BTreeSet<String> {
    let info = text(&call(connection, &["INFO", "everything"]));
    let names = info.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name);
    let is_of_a_thing = |name: &&str| {
        ["cmdstat_", "errorstat_", "latency_percentiles_", "io_thread_", "db0"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
    };
    names.filter(|name| !is_of_a_thing(name)).map(str::to_owned).collect()
}

#[test]
fn each_directive_of_a_peer_is_known_and_as_changeable() {
    let Some((ours, peers)) = peers_or_skip() else { return };
    let ours = Server::start(&ours).unwrap();
    let mut here = ours.connect().unwrap();
    let known = directives(&mut here);
    let mut treated_otherwise = BTreeSet::new();
    for peer in peers {
        let peer = Server::start(&peer).unwrap();
        let mut there = peer.connect().unwrap();
        for (name, value) in directives(&mut there) {
            let Some(own) = known.get(&name) else {
                assert!(UNKNOWN.contains(&&*name), "{}: {name} is not known", peer.name());
                continue;
            };
            let theirs = call(&mut there, &["CONFIG", "SET", &name, &value]);
            if theirs != call(&mut here, &["CONFIG", "SET", &name, own]) {
                let is_listed = TREATED_OTHERWISE.iter().any(|(listed, _)| *listed == name);
                assert!(is_listed, "{}: {name} is {theirs:?} there", peer.name());
                treated_otherwise.insert(name);
            }
        }
    }
    for (name, _) in TREATED_OTHERWISE {
        let is_needed = treated_otherwise.contains(*name) || ["bind", "port"].contains(name);
        assert!(is_needed, "{name} is treated as by the peers");
    }
}

#[test]
fn each_field_of_info_of_a_peer_is_there() {
    let Some((ours, peers)) = peers_or_skip() else { return };
    let known = fields(&mut Server::start(&ours).unwrap().connect().unwrap());
    let mut missing = BTreeSet::new();
    for peer in peers {
        let peer = Server::start(&peer).unwrap();
        missing.extend(fields(&mut peer.connect().unwrap()).difference(&known).cloned());
    }
    let listed: BTreeSet<String> = MISSING_FIELDS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(missing, listed);
}
