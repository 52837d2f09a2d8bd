//! Broadloom as the server of a dialogue: looks up a request in the table, finds its keys, acquires its latches and runs it,
//! like the server. Single-threaded, with its own keyspace, and with a clock that only `@wait` advances.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{LazyLock, Mutex};

use base::{Lsn, Millis, Slot};
use commands::acl::Users;
use commands::command::{Access, Flags, find_keys};
use commands::context::{CommandReport, Ctx, PlannedKey};
use commands::error::CommandError;
use commands::reply::Reply as ReplyRight;
use commands::session::{Endpoints, Session, SessionFlags};
use commands::table::{CATALOGUE, Index, NUMBERED, ResolvedCommand};
use config::{Config, SetCaller};
use keyspace::{Key, Keyspace, Latching, slot_of_hash};
use sync::Mode;
use sync::write_log::{Audience, LogReader};
use wire::reply::{Protocol, ReplyBuffer};
use wire::request::{Args, ArgsBuf, Batch, Parser, RequestLimits};
use wire::response::Reply;

use crate::check::Server;
use crate::host::TestHost;

/// The start time of every dialogue: 2030-01-01.
const START_MS: i64 = 1_893_456_000_000;

const DB_COUNT: usize = 16;
const ANY_SEED: [u64; 4] = [1, 2, 3, 4];

static INDEX: LazyLock<Index> = LazyLock::new(Index::new);

/// Emptied keyspaces of completed dialogues. They are never freed, like those of the server.
static FREE: Mutex<Vec<&'static Keyspace>> = Mutex::new(Vec::new());

fn new_keyspace() -> &'static Keyspace {
    Box::leak(Box::new(Keyspace::new(DB_COUNT, ANY_SEED, |_| ())))
}

/// A server that consists of the commands, a keyspace and one connection.
pub struct Ours {
    latching: Latching<'static>,
    session: Session,
    config: Rc<RefCell<Config>>,
    clock: Rc<Cell<i64>>,
    host: TestHost,
    /// Reads the log; `None`: the log is off.
    log: Option<LogReader>,
    /// Whether it replays a log: then only logged deletions remove keys and fields.
    is_replaying: bool,
}

impl Ours {
    pub fn new() -> Self {
        let free = FREE.lock().expect("no panic occurs under the lock").pop();
        let keyspace = free.unwrap_or_else(new_keyspace);
        let mut latching = Latching::new(keyspace, 0, 1);
        assert!(latching.join_log());
        let clock = Rc::new(Cell::new(START_MS));
        let config = Rc::new(RefCell::new(Config::default()));
        let users = Users::new(&CATALOGUE);
        Self {
            latching,
            session: Session::new(1, Endpoints::none("127.0.0.1:1000"), &users),
            host: TestHost::new(Rc::clone(&clock), Rc::clone(&config), users),
            config,
            clock,
            log: keyspace.log.attach(0, Audience::File),
            is_replaying: false,
        }
    }

    /// Replays the log of this dialogue into an empty keyspace, an hour later and with other random numbers, and compares
    /// the digests of all data.
    pub fn check_replay(&mut self) {
        let mut other = Self::new();
        other.log = None;
        let keyspace = other.latching.keyspace();
        other.latching = Latching::new(keyspace, 0, 77);
        other.clock.set(self.clock.get() + 3_600_000);
        other.is_replaying = true;
        *other.config.borrow_mut() = self.config.borrow().clone();
        // Expiries in the past are kept, as logged deletions follow.
        other.config.borrow_mut().import_mode = true;
        let requests = self.logged();
        let mut rest = &requests[..];
        while !rest.is_empty() {
            let mut batch = Batch::new();
            let parsed = Parser::default().parse(rest, &RequestLimits::default(), &mut batch, 1);
            assert!(parsed.error.is_none() && batch.len() == 1, "a request: {}", rest.escape_ascii());
            let request: Vec<Vec<u8>> = batch.requests(rest).flatten().map(<[u8]>::to_vec).collect();
            let reply = other.request(&request);
            let text =
                request.iter().map(|word| word.escape_ascii().to_string()).collect::<Vec<_>>().join(" ");
            assert!(!matches!(reply, Some(Reply::Error(_))), "{text}: {reply:?}");
            rest = &rest[parsed.consumed..];
        }
        let digest = |server: &mut Self| {
            server.is_replaying = true;
            server.session = Session::new(1, Endpoints::none(""), &Users::new(&CATALOGUE));
            server.config.borrow_mut().enable_debug_command = config::ProtectedAction::Yes;
            server.request(&[b"DEBUG".to_vec(), b"DIGEST".to_vec()])
        };
        let (before, after) = (digest(self), digest(&mut other));
        assert_eq!(before, after, "the log repeats all changes: {}", requests.escape_ascii());
    }

    /// The log so far.
    fn logged(&mut self) -> Vec<u8> {
        let mut requests = Vec::new();
        while let Some(log) = &mut self.log {
            let chunk = log.bytes(Lsn(u64::MAX));
            if chunk.is_empty() {
                break;
            }
            let size = chunk.len();
            requests.extend(chunk.pieces.concat());
            log.advance(size);
        }
        requests
    }

    /// Runs a request under its latches, and writes the reply to `out`.
    fn run(&mut self, args: Args<'_>, out: &mut Vec<u8>) -> Result<(), CommandError> {
        let row = find(args)?;
        let command = row.command;
        if !command.accepts(args.len()) {
            return Err(CommandError::wrong_arity(full_name(row)));
        }
        let mut found = Vec::new();
        if !find_keys(command, args, &mut found) {
            found.clear();
        }
        let hasher = self.latching.keyspace().hasher();
        let planned: Vec<PlannedKey> =
            found.iter().map(|arg| PlannedKey::new(hasher.hash(args.at(*arg as usize)), *arg)).collect();
        if self.session.in_multi() && !command.flags.contains(Flags::NO_QUEUE) {
            if command.flags.contains(Flags::NO_MULTI) {
                let name = full_name(row);
                return Err(CommandError::owned(format!(
                    "ERR Command '{name}' not allowed inside a transaction"
                )));
            }
            self.session.multi.as_mut().expect("in a transaction").push(row, args, &planned);
            ReplyBuffer::new(out, self.session.protocol).simple("QUEUED");
            return Ok(());
        }
        self.latch(command.access.of_request(args), &planned);
        self.latching.mode.now = Millis(self.clock.get());
        self.latching.mode.sees_expired = self.is_replaying;
        let config = self.config.borrow().clone();
        let (db, dirty_before) = (self.session.db, 0);
        let mut report = CommandReport::default();
        report.shared_replies.accept(true);
        let mut ctx = Ctx {
            data: &mut self.latching,
            session: &mut self.session,
            config: &config,
            host: &self.host,
            command,
            id: row.id,
            planned: &planned,
            args,
            report: &mut report,
            hasher,
        };
        let protocol = ctx.session.protocol;
        let result = (command.run)(&mut ctx, args, ReplyRight::new(ReplyBuffer::new(out, protocol)));
        report.log_request(&mut self.latching, (command, None), args, db, dirty_before);
        self.latching.release();
        self.delete_expired();
        let _ = result?;
        for part in std::mem::take(report.shared_replies.parts()).into_iter_from_end() {
            out.splice(part.at..part.at, part.text.iter().copied());
        }
        // No other connection can end the wait before its timeout.
        if let Some(blocked) = self.session.blocked.take() {
            let timeout = blocked.timeout.expect("a wait in a dialogue has an end");
            self.clock.set(self.clock.get() + timeout.as_millis() as i64);
            blocked.write_timeout(&mut ReplyBuffer::new(out, protocol));
        }
        Ok(())
    }

    /// Deletes expired keys that a read found.
    fn delete_expired(&mut self) {
        self.latching.remove_ended_watches();
        if !self.latching.deferred.saw_expired.replace(false) || self.config.borrow().import_mode {
            return;
        }
        self.latching.delete_found_expired();
    }

    fn latch(&mut self, access: Access, planned: &[PlannedKey]) {
        let mut slots: Vec<Slot> = planned.iter().map(|key| slot_of_hash(key.hash)).collect();
        slots.sort_unstable();
        slots.dedup();
        let mode = match access {
            Access::None | Access::Connections | Access::KeyCount | Access::RandomKeys => return,
            Access::Read | Access::ReadAll => Mode::Read,
            Access::Write | Access::WriteAll => Mode::Write,
            // More latches than needed: there is no other connection to wait for them.
            Access::Queued | Access::Script { .. } | Access::Libraries => Mode::Write,
            Access::ReadAllIf(_) | Access::WriteAllIf(_) => unreachable!("settled for the request"),
        };
        let latched = match (access, &slots[..]) {
            (
                Access::ReadAll
                | Access::WriteAll
                | Access::Queued
                | Access::Script { .. }
                | Access::Libraries,
                _,
            ) => self.latching.latch_all(mode),
            (_, []) => Ok(()),
            (_, [slot]) => self.latching.latch(*slot, mode),
            (_, slots) => self.latching.latch_several(slots.iter().copied(), mode),
        };
        latched.expect("no other session holds a latch");
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.latching.release();
        self.latching.latch_all(Mode::Write).expect("no other session holds a latch");
        self.latching.clear(None).free();
        self.latching.release();
        let keyspace = self.latching.keyspace();
        keyspace.counters.reset(|counters| &counters.hits);
        keyspace.counters.reset(|counters| &counters.misses);
        // The next dialogue creates its own reader and writer of the log.
        self.log = None;
        self.latching = Latching::new(keyspace, 0, 1);
        FREE.lock().expect("no panic occurs under the lock").push(keyspace);
    }
}

impl Server for Ours {
    fn request(&mut self, args: &[Vec<u8>]) -> Option<Reply> {
        let args: ArgsBuf = args.iter().map(Vec::as_slice).collect();
        let mut out = Vec::new();
        if let Err(error) = self.run(args.args(), &mut out) {
            out.clear();
            if self.session.in_multi() {
                self.session.flags.insert(SessionFlags::DIRTY_EXEC);
            }
            ReplyBuffer::new(&mut out, self.session.protocol).error(error.text());
        }
        if out.is_empty() {
            return None;
        }
        let (reply, size) = Reply::parse(&out).expect("a well-formed reply").expect("a complete reply");
        assert_eq!(size, out.len(), "one reply and nothing after it: {}", out.escape_ascii());
        Some(reply)
    }

    fn set_protocol(&mut self, protocol: Protocol) {
        self.session.protocol = protocol;
    }

    fn wait(&mut self, ms: u64) {
        self.clock.set(self.clock.get() + ms as i64);
    }

    fn inspect(&mut self, key: &[u8]) -> Option<(String, Option<i64>)> {
        let key = Key::new(self.latching.keyspace().hasher(), key, self.session.db);
        self.latching.mode.now = Millis(self.clock.get());
        self.latching.latch(key.slot, Mode::Read).expect("no other session holds a latch");
        let found = self.latching.peek(key).map(|entry| {
            let encoding = entry.encoding_name().to_owned();
            (encoding, entry.expiry().map(|at| at - self.clock.get()))
        });
        self.latching.release();
        found
    }

    fn configure(&mut self, name: &str, value: &str) {
        let caller = SetCaller { is_local: true, is_loading: false };
        let change = self.config.borrow().with_changes(&[name.as_bytes(), value.as_bytes()], caller);
        *self.config.borrow_mut() = change.expect("a directive that can be set").config;
    }
}

/// Returns the full name of a command or subcommand.
fn full_name(found: ResolvedCommand) -> &'static str {
    &NUMBERED[found.id.0 as usize].0
}

fn find(args: Args<'_>) -> Result<ResolvedCommand, CommandError> {
    let lossy = |index: usize| String::from_utf8_lossy(args.get(index).unwrap_or_default()).into_owned();
    let Some(found) = INDEX.find(args.name()) else {
        return Err(CommandError::owned(format!("ERR unknown command '{}'", lossy(0))));
    };
    match args.get(1) {
        Some(word) if !found.command.subcommands.is_empty() => INDEX.find_sub(found, word).ok_or_else(|| {
            let (name, word) = (found.command.name.to_uppercase(), lossy(1));
            CommandError::owned(format!("ERR unknown subcommand '{word}'. Try {name} HELP."))
        }),
        _ => Ok(found),
    }
}
