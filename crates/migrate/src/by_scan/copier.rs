//! Copies keys by `DUMP` and `RESTORE`, and makes both servers' sets of keys equal.

use tool::interrupt;
use wire::response::{Reply, encode_command};

use crate::error::MigrateError;
use crate::info::Keyspace;
use crate::progress::{Phase, Progress};
use crate::server::Server;
use crate::servers::{Servers, clock_ms, integer};

/// Keys in one `SCAN`, and at most in one pipeline.
const SCAN_LEN: usize = 200;

/// Size of payloads in a pipeline at which the next one has fewer keys.
const BATCH_SIZE_MAX: usize = 8 * 1024 * 1024;

/// Copies keys.
pub struct Copier {
    has_absolute_expiries: bool,
    /// Keys in the next pipeline.
    batch_len: usize,
    /// Keys that the target refuses, by an error about their payload.
    pub refused_count: u64,
    /// The first refused key, with the error.
    pub first_refused: Option<String>,
}

impl Copier {
    pub fn new(source: &mut Server) -> Result<Self, MigrateError> {
        let has_absolute_expiries = source.has_command("pexpiretime")?;
        Ok(Self { has_absolute_expiries, batch_len: SCAN_LEN, refused_count: 0, first_refused: None })
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
        let mut rest = keys;
        while !rest.is_empty() {
            interrupt::check()?;
            let (batch, after) = rest.split_at(rest.len().min(self.batch_len));
            rest = after;
            let size = self.copy_batch(servers, database, batch)?;
            self.batch_len = match size {
                _ if size > BATCH_SIZE_MAX => (self.batch_len / 2).max(1),
                _ if size < BATCH_SIZE_MAX / 4 => (self.batch_len * 2).min(SCAN_LEN),
                _ => self.batch_len,
            };
        }
        Ok(())
    }

    /// Returns the size of the payloads in bytes.
    fn copy_batch(
        &mut self,
        servers: &mut Servers,
        database: u32,
        keys: &[Vec<u8>],
    ) -> Result<usize, MigrateError> {
        let Servers { source, target } = servers;
        source.select(database)?;
        target.select(database)?;
        let expiry: &[u8] = if self.has_absolute_expiries { b"PEXPIRETIME" } else { b"PTTL" };
        let now_ms = if self.has_absolute_expiries { 0 } else { clock_ms(source)? };
        let mut requests = Vec::new();
        for key in keys {
            encode_command(&[expiry, key], &mut requests);
            encode_command(&[b"DUMP", key.as_slice()], &mut requests);
        }
        let replies = source.pipeline(&requests, 2 * keys.len())?;
        requests.clear();
        let mut size = 0;
        for (key, pair) in keys.iter().zip(replies.chunks_exact(2)) {
            match &pair[1] {
                Reply::Bulk(payload) => {
                    let expiry_ms =
                        integer(&pair[0]).filter(|&time| time >= 0).map_or(0, |time| now_ms + time);
                    let expiry_ms = expiry_ms.to_string();
                    let words: [&[u8]; 6] =
                        [b"RESTORE", key, expiry_ms.as_bytes(), payload, b"REPLACE", b"ABSTTL"];
                    encode_command(&words, &mut requests);
                    size += payload.len();
                }
                Reply::Error(text) => {
                    return Err(MigrateError::server(
                        source.name(),
                        format!("DUMP: {}", String::from_utf8_lossy(text)),
                    ));
                }
                _ => encode_command(&[b"DEL", key.as_slice()], &mut requests),
            }
        }
        for (key, reply) in keys.iter().zip(target.pipeline(&requests, keys.len())?) {
            let Reply::Error(text) = reply else { continue };
            let text = String::from_utf8_lossy(&text).into_owned();
            if !text.contains("payload") && !text.contains("Bad data format") {
                return Err(MigrateError::server(target.name(), format!("RESTORE: {text}")));
            }
            self.refused_count += 1;
            let name = format!("db{database} '{}': {text}", key.escape_ascii());
            self.first_refused.get_or_insert(name);
        }
        Ok(size)
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
    let is_missing = |(key, reply): (Vec<u8>, Reply)| (reply == Reply::Integer(0)).then_some(key);
    Ok(keys.into_iter().zip(replies).filter_map(is_missing).collect())
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
