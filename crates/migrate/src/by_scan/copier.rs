//! Copies keys by `DUMP` and `RESTORE`, and makes both servers' sets of keys equal.
//!
//! Memory, here and in the source's output buffer: payloads of [`BATCH_SIZE_MAX`], or one larger payload.

use std::collections::{BTreeMap, BTreeSet};

use tool::interrupt;
use wire::response::{Reply, encode_command};

use crate::error::MigrateError;
use crate::info::Keyspace;
use crate::progress::{Phase, Progress};
use crate::server::Server;
use crate::servers::{DatabaseKey, Servers, clock_ms, integer};

/// Keys in one `SCAN`, and at most in one pipeline.
const SCAN_LEN: usize = 200;

/// Size of the values in one pipeline.
const BATCH_SIZE_MAX: u64 = 8 * 1024 * 1024;

/// What a value counts for whose size the source refuses to tell.
const UNKNOWN_SIZE: u64 = 1024 * 1024;

/// Parts of the errors with which servers refuse a payload that they can't read.
const PAYLOAD_ERRORS: [&str; 3] = ["payload", "Bad data format", "foreign data type"];

/// Copies keys.
pub struct Copier {
    has_absolute_expiries: bool,
    /// The streams of the source, as far as it was read.
    pub streams: BTreeSet<DatabaseKey>,
    /// Keys that the target refuses, with its error about their payload: it has their former values, or none.
    pub refused: BTreeMap<DatabaseKey, String>,
}

impl Copier {
    pub fn new(source: &mut Server) -> Result<Self, MigrateError> {
        let has_absolute_expiries = source.has_command("pexpiretime")?;
        Ok(Self { has_absolute_expiries, streams: BTreeSet::new(), refused: BTreeMap::new() })
    }

    /// Copies all keys of the source.
    pub fn copy_all(&mut self, servers: &mut Servers, progress: &mut Progress) -> Result<(), MigrateError> {
        let keyspace = servers.source.keyspace()?;
        let total = keyspace.values().map(|counts| counts.keys).sum();
        let mut count = 0;
        progress.show(&Phase::Copying { keys: 0, total });
        for &database in keyspace.keys() {
            let mut scan = Scan::default();
            while let Some(keys) = scan.next(&mut servers.source, database)? {
                self.copy(servers, database, &keys)?;
                count += keys.len() as u64;
                progress.show(&Phase::Copying { keys: count, total });
            }
        }
        Ok(())
    }

    /// Copies the present state of keys: a key that the source does not have is deleted in the target.
    pub fn copy(
        &mut self,
        servers: &mut Servers,
        database: u32,
        keys: &[Vec<u8>],
    ) -> Result<(), MigrateError> {
        for mut keys in keys.chunks(SCAN_LEN) {
            let sizes = self.survey(&mut servers.source, database, keys)?;
            let mut sizes = sizes.as_slice();
            while !keys.is_empty() {
                interrupt::check()?;
                let (batch, rest) = keys.split_at(batch_len(sizes));
                self.copy_batch(servers, database, batch)?;
                (keys, sizes) = (rest, &sizes[batch.len()..]);
            }
        }
        Ok(())
    }

    /// Copies keys of several databases, in the order of these.
    pub fn copy_across(&mut self, servers: &mut Servers, keys: &[DatabaseKey]) -> Result<(), MigrateError> {
        for same in keys.chunk_by(|one, other| one.0 == other.0) {
            let keys: Vec<Vec<u8>> = same.iter().map(|(_, key)| key.clone()).collect();
            self.copy(servers, same[0].0, &keys)?;
        }
        Ok(())
    }

    /// Finds the streams among keys, and returns the approximate sizes of all values in bytes.
    fn survey(
        &mut self,
        source: &mut Server,
        database: u32,
        keys: &[Vec<u8>],
    ) -> Result<Vec<u64>, MigrateError> {
        source.select(database)?;
        let mut requests = Vec::new();
        for key in keys {
            encode_command(&[b"TYPE", key.as_slice()], &mut requests);
            encode_command(&[b"MEMORY".as_slice(), b"USAGE", key], &mut requests);
        }
        let mut replies = source.pipeline(&requests, 2 * keys.len())?.into_iter();
        let mut sizes = Vec::with_capacity(keys.len());
        for key in keys {
            let type_name = accepted(source, "TYPE", replies.next())?;
            let key = (database, key.clone());
            if type_name.text() == Some(b"stream") {
                self.streams.insert(key);
            } else {
                self.streams.remove(&key);
            }
            sizes.push(match replies.next() {
                Some(Reply::Integer(size)) => size.unsigned_abs(),
                Some(Reply::Error(_)) => UNKNOWN_SIZE,
                // The key does not exist.
                _ => 0,
            });
        }
        Ok(sizes)
    }

    fn copy_batch(
        &mut self,
        servers: &mut Servers,
        database: u32,
        keys: &[Vec<u8>],
    ) -> Result<(), MigrateError> {
        let Servers { source, target } = servers;
        source.select(database)?;
        target.select(database)?;
        let expiry = if self.has_absolute_expiries { "PEXPIRETIME" } else { "PTTL" };
        let now_ms = if self.has_absolute_expiries { 0 } else { clock_ms(source)? };
        let mut requests = Vec::new();
        for key in keys {
            encode_command(&[expiry.as_bytes(), key], &mut requests);
            encode_command(&[b"DUMP", key.as_slice()], &mut requests);
        }
        let mut replies = source.pipeline(&requests, 2 * keys.len())?.into_iter();
        requests.clear();
        for key in keys {
            let time = integer(&accepted(source, expiry, replies.next())?);
            let Reply::Bulk(payload) = accepted(source, "DUMP", replies.next())? else {
                encode_command(&[b"DEL", key.as_slice()], &mut requests);
                continue;
            };
            let expiry_ms = time.filter(|&time| time >= 0).map_or(0, |time| now_ms + time).to_string();
            let words: [&[u8]; 6] = [b"RESTORE", key, expiry_ms.as_bytes(), &payload, b"REPLACE", b"ABSTTL"];
            encode_command(&words, &mut requests);
        }
        for (key, reply) in keys.iter().zip(target.pipeline(&requests, keys.len())?) {
            let key = (database, key.clone());
            let Reply::Error(text) = reply else {
                self.refused.remove(&key);
                continue;
            };
            let text = String::from_utf8_lossy(&text).into_owned();
            if !PAYLOAD_ERRORS.iter().any(|error| text.contains(error)) {
                let name = String::from_utf8_lossy(&key.1);
                let reason = format!("RESTORE of db{database} '{name}': {text}");
                return Err(MigrateError::server(target.name(), reason));
            }
            self.refused.insert(key, text);
        }
        Ok(())
    }

    /// Deletes keys of the target that the source does not have, and copies those that the target does not have: after
    /// `FLUSHALL`, `FLUSHDB` and `SWAPDB`, of which there are no events, and after an earlier copy.
    pub fn reconcile(&mut self, servers: &mut Servers) -> Result<(), MigrateError> {
        let (source, target) = (servers.source.keyspace()?, servers.target.keyspace()?);
        for &database in target.keys() {
            let mut scan = Scan::default();
            while let Some(keys) = scan.next(&mut servers.target, database)? {
                let missing = missing(&mut servers.source, database, keys)?;
                self.copy(servers, database, &missing)?;
            }
        }
        for &database in source.keys() {
            let mut scan = Scan::default();
            while let Some(keys) = scan.next(&mut servers.source, database)? {
                let missing = missing(&mut servers.target, database, keys)?;
                self.copy(servers, database, &missing)?;
            }
        }
        Ok(())
    }
}

/// Returns how many of the first values are copied together, by the sizes of all.
fn batch_len(sizes: &[u64]) -> usize {
    let mut sum = 0u64;
    let fits = |&&size: &&u64| {
        sum = sum.saturating_add(size);
        sum <= BATCH_SIZE_MAX
    };
    sizes.iter().take_while(fits).count().max(1)
}

/// Returns a reply that is not an error.
fn accepted(server: &Server, command: &str, reply: Option<Reply>) -> Result<Reply, MigrateError> {
    match reply {
        Some(Reply::Error(text)) => {
            Err(MigrateError::server(server.name(), format!("{command}: {}", String::from_utf8_lossy(&text))))
        }
        reply => Ok(reply.expect("a pipeline has a reply for each request")),
    }
}

/// Whether both have as many keys in each database.
pub fn has_equal_counts(source: &Keyspace, target: &Keyspace) -> bool {
    let counts = |keyspace: &Keyspace| -> Vec<(u32, u64)> {
        keyspace.iter().map(|(&database, counts)| (database, counts.keys)).collect()
    };
    counts(source) == counts(target)
}

/// Returns those keys that a server does not have.
fn missing(server: &mut Server, database: u32, keys: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, MigrateError> {
    server.select(database)?;
    let mut requests = Vec::new();
    for key in &keys {
        encode_command(&[b"EXISTS", key.as_slice()], &mut requests);
    }
    let replies = server.pipeline(&requests, keys.len())?;
    let mut missing = Vec::new();
    for (key, reply) in keys.into_iter().zip(replies) {
        if accepted(server, "EXISTS", Some(reply))? == Reply::Integer(0) {
            missing.push(key);
        }
    }
    Ok(missing)
}

/// A scan of a database.
#[derive(Default)]
struct Scan {
    cursor: Option<Vec<u8>>,
    is_complete: bool,
}

impl Scan {
    /// Returns the next keys; `None` at the end.
    fn next(&mut self, server: &mut Server, database: u32) -> Result<Option<Vec<Vec<u8>>>, MigrateError> {
        if self.is_complete {
            return Ok(None);
        }
        interrupt::check()?;
        server.select(database)?;
        let cursor = self.cursor.take().unwrap_or_else(|| b"0".to_vec());
        let words: [&[u8]; 4] = [b"SCAN", &cursor, b"COUNT", b"200"];
        let reply = server.call(&words)?;
        let Some([cursor, keys]) = reply.elements() else {
            return Err(MigrateError::server(server.name(), "SCAN has another reply than a cursor and keys"));
        };
        let cursor = cursor.text().unwrap_or(b"0").to_vec();
        self.is_complete = cursor == b"0";
        self.cursor = Some(cursor);
        let keys = keys.elements().unwrap_or_default();
        Ok(Some(keys.iter().filter_map(Reply::text).map(<[u8]>::to_vec).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_copied_together_up_to_a_size() {
        const MIB: u64 = 1024 * 1024;
        assert_eq!(batch_len(&[100; SCAN_LEN]), SCAN_LEN);
        assert_eq!(batch_len(&[100, 100, 8 * MIB, 100]), 2);
        assert_eq!(batch_len(&[4 * MIB; 3]), 2);
        assert_eq!(batch_len(&[u64::MAX, u64::MAX]), 1);
        assert_eq!(batch_len(&[UNKNOWN_SIZE; SCAN_LEN]), 8);
    }
}
