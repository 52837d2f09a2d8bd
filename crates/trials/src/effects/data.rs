//! The data of a server as clients read it, in an order that does not depend on the server.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::connection::Connection;
use crate::reply::Reply;

/// A database and a key; for the libraries of functions the number of databases.
pub type Place = (usize, Vec<u8>);

/// Keys with the replies that describe them: the type, the value, and the expiry.
pub type Data = BTreeMap<Place, Vec<Reply>>;

/// Sends a request.
///
/// # Panics
/// If the connection ends.
pub fn call(connection: &mut Connection, words: &[&[u8]]) -> Reply {
    connection.call(words).expect("the server replies").reply
}

/// Sends requests until a time has passed, after which what was to expire meanwhile is expired.
///
/// # Panics
/// If the connection ends.
pub fn let_pass(connection: &mut Connection, time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        call(connection, &[b"PING"]);
    }
}

/// Returns the bytes of a bulk string.
///
/// # Panics
/// If it is another reply.
#[must_use]
pub fn bulk(reply: Reply) -> Vec<u8> {
    let Reply::Bulk(bytes) = reply else { panic!("no bulk string: {reply:?}") };
    bytes
}

/// Reads all keys of the first `db_count` databases, and the libraries.
///
/// # Panics
/// If the connection ends or a reply is of another kind.
pub fn read(connection: &mut Connection, db_count: usize) -> Data {
    let mut data = Data::new();
    for db in 0..db_count {
        call(connection, &[b"SELECT", db.to_string().as_bytes()]);
        for key in items(call(connection, &[b"KEYS", b"*"])).into_iter().map(bulk) {
            let content = content(connection, &key);
            data.insert((db, key), content);
        }
    }
    let mut libraries = items(call(connection, &[b"FUNCTION", b"LIST", b"WITHCODE"]));
    libraries.sort();
    data.insert((db_count, b"libraries".to_vec()), libraries);
    data
}

/// Returns the places whose contents differ.
#[must_use]
pub fn differing<'a>(expected: &'a Data, found: &'a Data) -> Vec<&'a Place> {
    let places: BTreeSet<&Place> = expected.keys().chain(found.keys()).collect();
    places.into_iter().filter(|place| expected.get(*place) != found.get(*place)).collect()
}

fn content(connection: &mut Connection, key: &[u8]) -> Vec<Reply> {
    let kind = call(connection, &[b"TYPE", key]);
    let Reply::Simple(kind_name) = &kind else { panic!("{kind:?}") };
    let value = match kind_name.as_slice() {
        b"none" => vec![],
        b"string" => vec![call(connection, &[b"GET", key])],
        b"list" => vec![call(connection, &[b"LRANGE", key, b"0", b"-1"])],
        b"set" => vec![Reply::List(b'*', chunks(call(connection, &[b"SMEMBERS", key]), 1).concat())],
        b"zset" => vec![call(connection, &[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"])],
        b"hash" => {
            let pairs = chunks(call(connection, &[b"HGETALL", key]), 2);
            let fields: Vec<Vec<u8>> = pairs.iter().map(|pair| bulk(pair[0].clone())).collect();
            vec![Reply::List(b'*', pairs.concat()), field_expiries(connection, key, &fields)]
        }
        b"stream" => {
            let info = call(connection, &[b"XINFO", b"STREAM", key, b"FULL", b"COUNT", b"0"]);
            vec![call(connection, &[b"XRANGE", key, b"-", b"+"]), without_internals(info)]
        }
        other => panic!("{}", other.escape_ascii()),
    };
    let expiry = call(connection, &[b"PEXPIRETIME", key]);
    [kind].into_iter().chain(value).chain([expiry]).collect()
}

/// The expiries of fields; those of a server without such expiries are as of fields that have none.
fn field_expiries(connection: &mut Connection, key: &[u8], fields: &[Vec<u8>]) -> Reply {
    let count = fields.len().to_string();
    let head = [b"HPEXPIRETIME", key, b"FIELDS", count.as_bytes()];
    let words: Vec<&[u8]> = head.into_iter().chain(fields.iter().map(|field| &field[..])).collect();
    match call(connection, &words) {
        Reply::Error(_) => Reply::List(b'*', vec![Reply::Integer(-1); fields.len()]),
        expiries => expiries,
    }
}

fn items(reply: Reply) -> Vec<Reply> {
    let Reply::List(_, items) = reply else { panic!("no list: {reply:?}") };
    items
}

fn chunks(reply: Reply, len: usize) -> Vec<Vec<Reply>> {
    let mut chunks: Vec<Vec<Reply>> = items(reply).chunks(len).map(<[Reply]>::to_vec).collect();
    chunks.sort();
    chunks
}

/// Facts of streams that are not data: the layout, derived values, the time of the replay, and what only one server knows.
const INTERNALS: &[&str] = &[
    "radix-tree-keys",
    "radix-tree-nodes",
    "lag",
    "seen-time",
    "active-time",
    "idmp-duration",
    "idmp-maxsize",
    "pids-tracked",
    "iids-tracked",
    "iids-added",
    "iids-duplicates",
    "nacked-count",
];

/// The facts in a description of a stream, without the internal ones.
fn without_internals(reply: Reply) -> Reply {
    let Reply::List(kind, items) = reply else { return reply };
    let is_internal =
        |name: &Reply| INTERNALS.iter().any(|internal| *name == Reply::Bulk(internal.as_bytes().to_vec()));
    let mut kept = Vec::new();
    let mut items = items.into_iter();
    while let Some(item) = items.next() {
        if is_internal(&item) {
            items.next();
        } else {
            kept.push(without_internals(item));
        }
    }
    Reply::List(kind, kept)
}

/// Returns the expiries in the replies that describe a key, of itself and of its fields: Unix times in milliseconds.
pub fn expiries(content: &[Reply]) -> impl Iterator<Item = i64> {
    let fields = match (is_hash(content), content.get(2)) {
        (true, Some(Reply::List(_, expiries))) => &expiries[..],
        _ => &[],
    };
    let time = |reply: &Reply| match reply {
        Reply::Integer(time) => Some(*time).filter(|time| *time >= 0),
        _ => None,
    };
    fields.iter().chain(content.last()).filter_map(time)
}

/// Whether the key that these replies describe is a hash.
#[must_use]
pub fn is_hash(content: &[Reply]) -> bool {
    content.first() == Some(&Reply::Simple(b"hash".to_vec()))
}
