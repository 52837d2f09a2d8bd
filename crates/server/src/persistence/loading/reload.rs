//! Loading while the server runs, for tests: `DEBUG RELOAD`, `DEBUG LOADAOF`.
//!
//! | step | by |
//! |---|---|
//! | the flag `LOADING` is set, and the client begins to wait | the worker of the client |
//! | the data is saved, unless the client excluded it | `broadloom-save`, for which `broadloom-load` waits |
//! | all latches are acquired, as by a command that writes all keys: earlier requests have ended, later ones are refused | `broadloom-load` |
//! | the data is deleted, the latches are released | `broadloom-load` |
//! | the file is loaded | `broadloom-load` |
//! | the flag is cleared, the client receives its reply | `broadloom-load` |

use std::path::Path;
use std::sync::Arc;

use base::limits::{REPLAY_THREAD, THREAD_COUNT_MAX};
use base::{Lsn, Millis};
use commands::host::Reload;
use keyspace::{Latching, Waiter};
use os::clock;
use persist::snapshots::SaveKind;
use sync::{Mode, TryServe, mpsc};

use super::{LoadFailed, RdbOptions, has_known_header, load_append_only, load_rdb, wait_a_moment};
use crate::connection::token::Token;
use crate::mail::Mail;
use crate::persistence::{append_only, saving};
use crate::shared::Shared;
use crate::shared::loading::Loading;

const OK: &[u8] = b"+OK\r\n";
const NO_DUMP: &[u8] = b"-ERR Error trying to load the RDB dump, check server logs.\r\n";
const NO_FILES: &[u8] = b"-ERR Error trying to load the AOF files, check server logs.\r\n";
const NO_SAVE: &[u8] = b"-ERR Error trying to save the RDB dump, check server logs.\r\n";
const NO_THREAD: &[u8] = b"-ERR Can't start a thread to load the data\r\n";

/// Begins to load the data, on a thread of its own. The waiter receives the reply.
pub fn begin(shared: &'static Shared, reload: Reload, waiter: Arc<Waiter>) {
    let theirs = Arc::clone(&waiter);
    let body = move || {
        let _handler_stack = os::fault::prepare_thread();
        let reply = load(shared, reload);
        Loading::end(&shared.modes.flags);
        answer(shared, &theirs, reply);
    };
    let started = sync::thread::Builder::new().name("broadloom-load".to_owned()).spawn(body);
    if started.is_err() {
        Loading::end(&shared.modes.flags);
        answer(shared, &waiter, NO_THREAD);
    }
}

/// Loads the data. Returns the reply.
fn load(shared: &'static Shared, reload: Reload) -> &'static [u8] {
    match reload {
        Reload::Dump { saves: true, .. } if !save(shared) => NO_SAVE,
        Reload::Dump { flushes, replaces, .. } => {
            let path = Path::new(&shared.config.load().dbfilename).to_owned();
            // A file that can't be loaded at all replaces nothing.
            if !has_known_header(shared, &path) {
                return NO_DUMP;
            }
            let options = RdbOptions { replaces, adds_libraries: !flushes, ..RdbOptions::default() };
            let loaded = unlogged(shared, flushes, || load_rdb(shared, &path, options));
            if loaded != Ok(true) {
                return NO_DUMP;
            }
            log::info!("DB reloaded by DEBUG RELOAD");
            OK
        }
        Reload::AppendOnly => {
            append_only::await_written(shared);
            if unlogged(shared, true, || load_files(shared)).is_err() {
                return NO_FILES;
            }
            log::info!("Append Only File loaded by DEBUG LOADAOF");
            OK
        }
    }
}

/// Saves the data to the dump file, after a save that is under way. Returns whether it succeeded.
fn save(shared: &'static Shared) -> bool {
    loop {
        let (sender, receiver) = mpsc::channel();
        // The receiver is waiting.
        let then = Box::new(move |is_saved| _ = sender.send(is_saved));
        match saving::begin(shared, SaveKind::Foreground, None, then) {
            Ok(()) => return receiver.recv().unwrap_or(false),
            Err(_) if shared.modes.is_stopping() => return false,
            Err(_) => wait_a_moment(),
        }
    }
}

fn load_files(shared: &'static Shared) -> Result<bool, LoadFailed> {
    let files = append_only::open(&shared.config.load());
    let mut files = files.map_err(|error| {
        log::error!("{error}");
        LoadFailed
    })?;
    load_append_only(shared, &mut files)
}

/// Runs a load, after the data are deleted if `flushes`. The load is not logged: only the latchings of workers are connected
/// to the log.
fn unlogged<T>(shared: &'static Shared, flushes: bool, load: impl FnOnce() -> T) -> T {
    let mut latching = Latching::new(&shared.keyspace, REPLAY_THREAD, clock::unix_micros() as u64);
    latching.mode.now = Millis(clock::unix_millis());
    latch_all(&mut latching);
    if flushes {
        shared.scripts.libraries.flush();
    }
    let cleared = flushes.then(|| latching.clear(None));
    latching.release();
    shared.hub.invalidate_all();
    if let Some(cleared) = cleared {
        cleared.free();
    }
    // It has the thread number that the replay uses.
    drop(latching);
    load()
}

/// Acquires all latches. Queues for each as a session does, but polls instead of being woken.
fn latch_all(latching: &mut Latching<'static>) {
    // An address of the last worker, where no connection has it.
    let token = Token::new(THREAD_COUNT_MAX - 1, u32::MAX, Token::PLACE_MAX).0;
    while let Err(busy) = latching.latch_all(Mode::Write) {
        if !latching.park(busy, Mode::Write, token) {
            while !latching.claim(busy, token) {
                wait_a_moment();
            }
        }
    }
}

/// Ends the wait of the client with a reply, unless it has ended.
fn answer(shared: &Shared, waiter: &Waiter, reply: &[u8]) {
    loop {
        match waiter.wait.try_serve() {
            TryServe::Over => return,
            TryServe::BeingServed => wait_a_moment(),
            TryServe::Claimed => {
                waiter.wait.served();
                let token = Token(waiter.address());
                shared
                    .workers
                    .post(token.thread(), Mail::Served(token, waiter.client, reply.to_vec(), Lsn(0)));
                return;
            }
        }
    }
}
