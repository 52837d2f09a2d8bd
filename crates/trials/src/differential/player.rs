//! Plays a sequence to one server and records its replies and its final data.

use std::io::{self, ErrorKind};
use std::time::Duration;

use super::sequence::{Form, Sequence, Step};
use super::stage::{self, Waiting};
use crate::connection::{Connection, RawReply};
use crate::random::Random;
use crate::reply::Reply;
use crate::server::Server;

/// Number of databases that sequences use.
const DATABASE_COUNT: usize = 4;
/// Wait after which an expiry of one millisecond has passed on every server's clock.
pub const EXPIRY_WAIT: Duration = Duration::from_millis(5);
const SCAN_CALLS_MAX: usize = 10_000;

/// The response to one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A reply.
    Reply(RawReply),
    /// No reply, because of CLIENT REPLY, or because it is recorded with another step of the batch.
    Silence,
    /// The replies and pushes that each connection of an ensemble received during the batch that ends here.
    Received(Vec<Vec<RawReply>>),
    /// The server closed the connection. No request was sent after that.
    Closed,
    /// The server ended, or no valid reply arrived in time. No request was sent after that.
    Broken(String),
}

/// A key with its final value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyState {
    pub database: usize,
    pub key: Vec<u8>,
    pub kind: Vec<u8>,
    pub value: Vec<u8>,
    /// The reply of PEXPIRETIME: -1 for no expiry.
    pub expires_at_ms: i64,
    /// Of a hash: the reply of HPEXPIRETIME for each field, in the order of the fields.
    pub fields_expire_at_ms: Vec<i64>,
}

/// A server's replies and final data.
pub struct Played {
    /// One answer per step, up to the first broken one.
    pub answers: Vec<Answer>,
    /// In the order of database and key.
    pub state: Vec<KeyState>,
    /// The blocked connections after each batch of an ensemble.
    pub waiting: Waiting,
}

/// Plays a sequence on a server after flushing it. With expected waits, expects the reference's connections to be
/// blocked.
pub fn play(
    server: &mut Server,
    sequence: &Sequence,
    expected_waits: Option<&Waiting>,
) -> io::Result<Played> {
    let mut connection = server.connect()?;
    connection.call(&["FLUSHALL"])?;
    connection.call(&["FUNCTION", "FLUSH"])?;
    connection.call(&["SCRIPT", "FLUSH"])?;
    if let Some(ensemble) = sequence.ensemble {
        let (answers, waiting) = stage::play(server, ensemble, sequence, expected_waits)?;
        let state = read_state(&mut server.connect()?)?;
        return Ok(Played { answers, state, waiting });
    }
    if sequence.is_resp3[0] {
        connection.call(&["HELLO", "3"])?;
    }
    let mut answers = Vec::with_capacity(sequence.steps.len());
    let mut cuts = Random::new(sequence.seed);
    let mut mode = ReplyMode::default();
    for batch in sequence.batches() {
        if let Err(error) = play_batch(&mut connection, batch, &mut cuts, &mut mode, &mut answers) {
            answers.push(match (server.revive()?, error.kind()) {
                (Some(ending), _) => Answer::Broken(format!("the server ended: {ending}")),
                (None, ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => {
                    Answer::Closed
                }
                (None, _) => Answer::Broken(error.to_string()),
            });
            break;
        }
    }
    let state = read_state(&mut server.connect()?)?;
    Ok(Played { answers, state, waiting: Waiting::new() })
}

fn play_batch(
    connection: &mut Connection,
    batch: &[Step],
    cuts: &mut Random,
    mode: &mut ReplyMode,
    answers: &mut Vec<Answer>,
) -> io::Result<()> {
    if let [step] = batch
        && step.form == Form::WholeScan
        && mode.answers(step)
    {
        answers.push(Answer::Reply(scan_whole(connection, step)?));
        return Ok(());
    }
    let bytes: Vec<u8> = batch.iter().flat_map(Step::bytes).collect();
    send_in_pieces(connection, &bytes, cuts)?;
    for step in batch {
        let answer = if mode.observe(step) { Answer::Reply(connection.receive()?) } else { Answer::Silence };
        answers.push(answer);
    }
    if batch.iter().any(|step| step.expires_soon) {
        std::thread::sleep(EXPIRY_WAIT);
    }
    Ok(())
}

/// Sends bytes in up to three pieces, cut at random.
fn send_in_pieces(connection: &mut Connection, bytes: &[u8], cuts: &mut Random) -> io::Result<()> {
    let mut rest = bytes;
    for _ in 0..cuts.below(3) {
        let (piece, after) = rest.split_at(cuts.below(rest.len() + 1));
        connection.send(piece)?;
        rest = after;
    }
    connection.send(rest)
}

/// Returns all results of a scan with these options as one sorted list.
fn scan_whole(connection: &mut Connection, step: &Step) -> io::Result<RawReply> {
    let mut request = step.arguments.clone();
    let mut found = Vec::new();
    for _ in 0..SCAN_CALLS_MAX {
        let raw = connection.call(&request)?;
        let Reply::List(_, parts) = &raw.reply else { return Ok(raw) };
        let [Reply::Bulk(cursor), Reply::List(_, keys)] = parts.as_slice() else { return Ok(raw) };
        found.extend(keys.iter().cloned());
        if cursor == b"0" {
            found.sort();
            found.dedup();
            return Ok(RawReply { bytes: Vec::new(), reply: Reply::List(b'*', found) });
        }
        request[1] = cursor.clone();
    }
    Err(io::Error::other("a scan that does not end"))
}

fn read_state(connection: &mut Connection) -> io::Result<Vec<KeyState>> {
    let mut states = Vec::new();
    for database in 0..DATABASE_COUNT {
        connection.call(&["SELECT", &database.to_string()])?;
        let Reply::List(_, keys) = connection.call(&["KEYS", "*"])?.reply else {
            return Err(io::Error::other("KEYS returned no list"));
        };
        let mut keys: Vec<Vec<u8>> = keys.into_iter().filter_map(blob).collect();
        keys.sort();
        for key in keys {
            let kind = blob(connection.call(&[b"TYPE", key.as_slice()])?.reply).unwrap_or_default();
            let value = read_value(connection, &kind, &key)?;
            let Reply::Integer(expires_at_ms) = connection.call(&[b"PEXPIRETIME", key.as_slice()])?.reply
            else {
                return Err(io::Error::other("PEXPIRETIME returned no integer"));
            };
            let fields_expire_at_ms = match kind.as_slice() {
                b"hash" => read_field_expiries(connection, &key)?,
                _ => Vec::new(),
            };
            states.push(KeyState { database, key, kind, value, expires_at_ms, fields_expire_at_ms });
        }
    }
    Ok(states)
}

/// Returns a whole value, with unordered elements sorted.
fn read_value(connection: &mut Connection, kind: &[u8], key: &[u8]) -> io::Result<Vec<u8>> {
    let request: &[&[u8]] = match kind {
        b"list" => &[b"LRANGE", key, b"0", b"-1"],
        b"set" => &[b"SMEMBERS", key],
        b"zset" => &[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"],
        b"hash" => &[b"HGETALL", key],
        b"stream" => return read_stream(connection, key),
        _ => &[b"GET", key],
    };
    let answer = connection.call(request)?;
    let elements_of_one = match kind {
        b"set" => 1,
        b"hash" => 2,
        _ => return Ok(answer.bytes),
    };
    let elements: Vec<Reply> = match answer.reply {
        Reply::List(_, elements) => elements,
        _ => return Ok(answer.bytes),
    };
    let mut elements: Vec<&[Reply]> = elements.chunks(elements_of_one).collect();
    elements.sort();
    Ok(format!("{elements:?}").into_bytes())
}

/// Returns the expiry of each field of a hash, in the order of the fields.
fn read_field_expiries(connection: &mut Connection, key: &[u8]) -> io::Result<Vec<i64>> {
    const FIELDS_A_CALL: usize = 500;
    let Reply::List(_, fields) = connection.call(&[b"HKEYS".as_slice(), key])?.reply else {
        return Err(io::Error::other("HKEYS returned no list"));
    };
    let mut fields: Vec<Vec<u8>> = fields.into_iter().filter_map(blob).collect();
    fields.sort();
    let mut expiries = Vec::with_capacity(fields.len());
    for fields in fields.chunks(FIELDS_A_CALL) {
        let count = fields.len().to_string();
        let mut request: Vec<&[u8]> = vec![b"HPEXPIRETIME", key, b"FIELDS", count.as_bytes()];
        request.extend(fields.iter().map(Vec::as_slice));
        let Reply::List(_, times) = connection.call(&request)?.reply else {
            return Err(io::Error::other("HPEXPIRETIME returned no list"));
        };
        expiries.extend(times.into_iter().filter_map(|time| match time {
            Reply::Integer(ms) => Some(ms),
            _ => None,
        }));
    }
    Ok(expiries)
}

/// Returns the entries of a stream, and its groups with their deliveries, without times and estimates.
fn read_stream(connection: &mut Connection, key: &[u8]) -> io::Result<Vec<u8>> {
    let entries = connection.call(&[b"XRANGE".as_slice(), key, b"-", b"+"])?.reply;
    let mut text = format!("{:?}", without_made_ids(&entries));
    let Reply::List(_, groups) = connection.call(&[b"XINFO".as_slice(), b"GROUPS", key])?.reply else {
        return Err(io::Error::other("XINFO GROUPS returned no list"));
    };
    for group in &groups {
        let Reply::List(_, parts) = group else { return Err(io::Error::other("a group is not a list")) };
        // Name, consumers, pending and last-delivered-id, each after its title.
        let shown: Vec<Reply> = parts.iter().take(8).map(without_made_ids).collect();
        let Some(Reply::Bulk(name)) = parts.get(1) else {
            return Err(io::Error::other("a group has no name"));
        };
        let pending = connection.call(&[b"XPENDING".as_slice(), key, name])?.reply;
        text.push_str(&format!(" {shown:?} {:?}", without_made_ids(&pending)));
    }
    Ok(text.into_bytes())
}

/// Replaces the ids that servers derive from their clocks.
pub fn without_made_ids(reply: &Reply) -> Reply {
    const MADE_DIGITS_MIN: usize = 13;
    let is_made = |text: &[u8]| {
        let mut halves = text.splitn(2, |byte| *byte == b'-');
        let (first, second) = (halves.next().unwrap_or_default(), halves.next().unwrap_or_default());
        let is_number = |half: &[u8]| !half.is_empty() && half.iter().all(u8::is_ascii_digit);
        // The ids of sequences are far below the clock or, with 20 digits, far above it.
        first.len() == MADE_DIGITS_MIN && is_number(first) && is_number(second)
    };
    match reply {
        Reply::Bulk(text) if is_made(text) => Reply::Bulk(b"(made)".to_vec()),
        Reply::List(kind, items) => Reply::List(*kind, items.iter().map(without_made_ids).collect()),
        Reply::Map(pairs) => Reply::Map(
            pairs.iter().map(|(name, value)| (without_made_ids(name), without_made_ids(value))).collect(),
        ),
        other => other.clone(),
    }
}

fn blob(reply: Reply) -> Option<Vec<u8>> {
    match reply {
        Reply::Bulk(bytes) | Reply::Simple(bytes) => Some(bytes),
        _ => None,
    }
}

/// Predicts which requests have replies, by the CLIENT REPLY commands so far.
#[derive(Default)]
struct ReplyMode {
    is_off: bool,
    skips_this: bool,
}

impl ReplyMode {
    /// Whether this step has a reply. Applies its effect on later steps.
    fn observe(&mut self, step: &Step) -> bool {
        let mut skips_next = false;
        let mut answers = self.answers(step);
        if step.arguments.len() == 3 && step.is(&["CLIENT", "REPLY"]) {
            match step.arguments[2].to_ascii_uppercase().as_slice() {
                b"ON" => {
                    self.is_off = false;
                    answers = true;
                }
                b"OFF" => {
                    self.is_off = true;
                    answers = false;
                }
                b"SKIP" => {
                    skips_next = !self.is_off;
                    answers = false;
                }
                _ => {}
            }
        } else if step.arguments.len() == 1 && step.is(&["RESET"]) {
            self.is_off = false;
            answers = !self.skips_this;
        }
        self.skips_this = skips_next;
        answers
    }

    /// Whether an ordinary request has a reply now.
    fn answers(&self, _step: &Step) -> bool {
        !self.is_off && !self.skips_this
    }
}
