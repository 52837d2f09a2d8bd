//! Our side of a dialogue: looks up a request in the table, finds its keys, acquires its latches and runs it,
//! like the server, but single-threaded, on its own keyspace and with a clock that only `@wait` advances.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{LazyLock, Mutex};

use base::{Millis, Slot};
use commands::command::{Access, Flags, find_keys};
use commands::context::{Ctx, Effects, PlannedKey};
use commands::error::CommandError;
use commands::reply::Reply as ReplyRight;
use commands::session::{Session, SessionFlags};
use commands::table::{Found, Index, NUMBERED};
use config::{Config, SetCaller};
use keyspace::{Key, Keyspace, View, slot_of_hash};
use sync::Mode;
use wire::reply::{Protocol, ReplyBuffer};
use wire::request::{Args, ArgsBuf};
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

/// A server that consists of the commands, a keyspace and one connection.
pub struct Ours {
    view: View<'static>,
    session: Session,
    config: Rc<RefCell<Config>>,
    clock: Rc<Cell<i64>>,
    host: TestHost,
}

impl Ours {
    pub fn new() -> Self {
        let free = FREE.lock().expect("nobody panics with it").pop();
        let keyspace = free.unwrap_or_else(|| Box::leak(Box::new(Keyspace::new(DB_COUNT, ANY_SEED, |_| ()))));
        let clock = Rc::new(Cell::new(START_MS));
        let config = Rc::new(RefCell::new(Config::default()));
        let address = || "127.0.0.1:1000".to_owned();
        Self {
            view: View::new(keyspace, 0, 1),
            session: Session::new(1, address(), address(), Millis(START_MS), false),
            host: TestHost { clock: Rc::clone(&clock), config: Rc::clone(&config) },
            config,
            clock,
        }
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
        let hasher = self.view.keyspace().hasher();
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
        self.view.now = Millis(self.clock.get());
        let config = self.config.borrow().clone();
        let mut effects = Effects::default();
        effects.lending.accept(true);
        let mut ctx = Ctx {
            data: &mut self.view,
            session: &mut self.session,
            config: &config,
            host: &self.host,
            command,
            planned: &planned,
            args,
            effects: &mut effects,
            hasher,
        };
        let protocol = ctx.session.protocol;
        let result = (command.run)(&mut ctx, args, ReplyRight::new(ReplyBuffer::new(out, protocol)));
        self.view.release();
        self.delete_expired(args, &planned);
        let _ = result?;
        for lent in std::mem::take(effects.lending.lent()).into_iter_from_end() {
            out.splice(lent.at..lent.at, lent.text.iter().copied());
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
    fn delete_expired(&mut self, args: Args<'_>, planned: &[PlannedKey]) {
        if !self.view.saw_expired.replace(false) || self.config.borrow().import_mode {
            return;
        }
        for planned in planned {
            let key = Key::new(self.view.keyspace().hasher(), args.at(planned.arg as usize), self.session.db);
            self.view.latch(key.slot, Mode::Write).expect("nobody else is there");
            self.view.expire_if_due(key);
            self.view.release();
        }
        self.view.expire_walked();
    }

    fn latch(&mut self, access: Access, planned: &[PlannedKey]) {
        let mut slots: Vec<Slot> = planned.iter().map(|key| slot_of_hash(key.hash)).collect();
        slots.sort_unstable();
        slots.dedup();
        let mode = match access {
            Access::None | Access::Connections => return,
            Access::Read | Access::ReadAll => Mode::Read,
            Access::Write | Access::WriteAll => Mode::Write,
            // More than needed, which no other connection can observe.
            Access::Queued => Mode::Write,
            Access::ReadAllIf(_) | Access::WriteAllIf(_) => unreachable!("settled for the request"),
        };
        let latched = match (access, &slots[..]) {
            (Access::ReadAll | Access::WriteAll | Access::Queued, _) => self.view.latch_all(mode),
            (_, []) => Ok(()),
            (_, [slot]) => self.view.latch(*slot, mode),
            (_, slots) => self.view.latch_several(slots.iter().copied(), mode),
        };
        latched.expect("nobody else is there");
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.view.release();
        self.view.latch_all(Mode::Write).expect("nobody else is there");
        self.view.clear(None).free();
        self.view.release();
        let keyspace = self.view.keyspace();
        keyspace.counters.reset(|counters| &counters.hits);
        keyspace.counters.reset(|counters| &counters.misses);
        FREE.lock().expect("nobody panics with it").push(keyspace);
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
        assert_eq!(size, out.len(), "one reply and nothing behind it: {}", out.escape_ascii());
        Some(reply)
    }

    fn set_protocol(&mut self, protocol: Protocol) {
        self.session.protocol = protocol;
    }

    fn wait(&mut self, ms: u64) {
        self.clock.set(self.clock.get() + ms as i64);
    }

    fn inspect(&mut self, key: &[u8]) -> Option<(String, Option<i64>)> {
        let key = Key::new(self.view.keyspace().hasher(), key, self.session.db);
        self.view.now = Millis(self.clock.get());
        self.view.latch(key.slot, Mode::Read).expect("nobody else is there");
        let found = self.view.peek(key).map(|entry| {
            let encoding = entry.encoding_name().to_owned();
            (encoding, entry.expiry().map(|at| at - self.clock.get()))
        });
        self.view.release();
        found
    }

    fn configure(&mut self, name: &str, value: &str) {
        let caller = SetCaller { is_local: true, is_loading: false };
        let change = self.config.borrow().with_changes(&[name.as_bytes(), value.as_bytes()], caller);
        *self.config.borrow_mut() = change.expect("a directive that can be set").config;
    }
}

/// Returns the full name of a command or subcommand.
fn full_name(found: Found) -> &'static str {
    &NUMBERED[found.id.0 as usize].0
}

fn find(args: Args<'_>) -> Result<Found, CommandError> {
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
