//! The sample: keys chosen at random, and what is read of each.

use std::collections::BTreeSet;

use tool::interrupt;
use wire::response::{Reply, encode_command};

use crate::compare::reader::ValueReader;
use crate::error::MigrateError;
use crate::info::Keyspace;
use crate::server::Server;
use crate::servers::{DatabaseKey, integer};

/// Requests in one pipeline.
const PIPELINE_LEN: usize = 100;

/// Keys that a `SCAN` visits.
const SCAN_COUNT: &str = "1000";

/// What was read of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    pub type_name: String,
    /// The remaining time; -1 without an expiry.
    pub pttl_ms: i64,
    /// Absent for a type of a module.
    pub digest: Option<u64>,
}

/// Chooses about `count` keys of a server at random, from each database according to its size; all, if it has no more.
pub fn choose(
    server: &mut Server,
    keyspace: &Keyspace,
    count: u64,
) -> Result<BTreeSet<DatabaseKey>, MigrateError> {
    let total: u64 = keyspace.values().map(|counts| counts.keys).sum();
    let mut chosen = BTreeSet::new();
    for (&database, counts) in keyspace {
        server.select(database)?;
        if count >= total {
            add_all(server, database, &mut chosen)?;
            continue;
        }
        let mut left = (count * counts.keys).div_ceil(total.max(1)).min(2 * counts.keys) as usize;
        while left > 0 {
            let request_count = left.min(PIPELINE_LEN);
            left -= request_count;
            let mut requests = Vec::new();
            for _ in 0..request_count {
                encode_command(&["RANDOMKEY"], &mut requests);
            }
            for reply in server.pipeline(&requests, request_count)? {
                match reply {
                    Reply::Bulk(key) => {
                        chosen.insert((database, key));
                    }
                    Reply::Error(text) => {
                        let text = String::from_utf8_lossy(&text);
                        return Err(MigrateError::server(server.name(), format!("RANDOMKEY: {text}")));
                    }
                    _ => {}
                }
            }
        }
    }
    Ok(chosen)
}

/// Adds all keys of the selected database.
fn add_all(
    server: &mut Server,
    database: u32,
    chosen: &mut BTreeSet<DatabaseKey>,
) -> Result<(), MigrateError> {
    let mut cursor = "0".to_owned();
    loop {
        interrupt::check()?;
        let reply = server.call(&["SCAN", &cursor, "COUNT", SCAN_COUNT])?;
        let (Some(next), Some(keys)) = (
            reply.elements().and_then(|parts| parts.first()?.text()),
            reply.elements().and_then(|parts| parts.get(1)?.elements()),
        ) else {
            return Err(MigrateError::server(server.name(), "SCAN has an unexpected reply"));
        };
        chosen.extend(keys.iter().filter_map(|key| Some((database, key.text()?.to_vec()))));
        cursor = String::from_utf8_lossy(next).into_owned();
        if cursor == "0" {
            return Ok(());
        }
    }
}

/// Reads these keys; `None` for one that does not exist.
pub fn read(
    server: &mut Server,
    keys: &[&DatabaseKey],
    has_field_expiries: bool,
) -> Result<Vec<Option<Fingerprint>>, MigrateError> {
    let mut read = Vec::with_capacity(keys.len());
    // Pipelines do not cross databases.
    for same in keys.chunk_by(|one, other| one.0 == other.0) {
        server.select(same[0].0)?;
        for keys in same.chunks(PIPELINE_LEN) {
            read.extend(read_batch(server, keys, has_field_expiries)?);
        }
    }
    Ok(read)
}

fn read_batch(
    server: &mut Server,
    keys: &[&DatabaseKey],
    has_field_expiries: bool,
) -> Result<Vec<Option<Fingerprint>>, MigrateError> {
    let mut requests = Vec::new();
    for (_, key) in keys {
        encode_command(&[b"TYPE", key.as_slice()], &mut requests);
        encode_command(&[b"PTTL", key.as_slice()], &mut requests);
    }
    let replies = server.pipeline(&requests, 2 * keys.len())?;
    let mut found: Vec<Option<(String, i64, Option<ValueReader>)>> = Vec::with_capacity(keys.len());
    for ((_, key), pair) in keys.iter().zip(replies.chunks_exact(2)) {
        if let Some(Reply::Error(text)) = pair.iter().find(|reply| reply.is_error()) {
            return Err(MigrateError::server(server.name(), String::from_utf8_lossy(text)));
        }
        let type_name = pair[0].text().unwrap_or_default();
        let exists = type_name != b"none";
        let reader = ValueReader::new(key, type_name, has_field_expiries);
        let type_name = String::from_utf8_lossy(type_name).into_owned();
        found.push(exists.then(|| (type_name, integer(&pair[1]).unwrap_or(-1), reader)));
    }
    // Each round sends the next request of every value that is not complete.
    loop {
        let mut requests = Vec::new();
        let readers = found.iter_mut().flatten().filter_map(|(_, _, reader)| reader.as_mut());
        let mut unfinished: Vec<&mut ValueReader> = Vec::new();
        for reader in readers {
            if let Some(request) = reader.request() {
                encode_command(&request, &mut requests);
                unfinished.push(reader);
            }
        }
        if unfinished.is_empty() {
            break;
        }
        let replies = server.pipeline(&requests, unfinished.len())?;
        for (reader, reply) in unfinished.into_iter().zip(&replies) {
            if let Reply::Error(text) = reply
                && !is_of_changed_key(text)
            {
                return Err(MigrateError::server(server.name(), String::from_utf8_lossy(text)));
            }
            reader.accept(reply);
        }
    }
    let fingerprint = |(type_name, pttl_ms, reader): (String, i64, Option<ValueReader>)| Fingerprint {
        type_name,
        pttl_ms,
        digest: reader.as_ref().map(ValueReader::digest),
    };
    Ok(found.into_iter().map(|found| found.map(fingerprint)).collect())
}

/// Whether an error is that of a key, or of a group of a stream, that was deleted or replaced meanwhile.
fn is_of_changed_key(error: &[u8]) -> bool {
    [&b"WRONGTYPE"[..], b"NOGROUP", b"ERR no such key"].iter().any(|words| error.starts_with(words))
}
