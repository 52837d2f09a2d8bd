//! Loading while the server runs, for tests: `DEBUG RELOAD`, `DEBUG LOADAOF`.
//!
//! | step | by |
//! |---|---|
//! | the flag `LOADING` is set, and the client begins to wait | the worker of the client |
//! | on a replica, the stream of the primary is interrupted: it must not be applied to data that are being loaded | `broadloom-load` |
//! | the data is saved, unless the client excluded it | `broadloom-save`, for which `broadloom-load` waits |
//! | all latches are acquired, as by a command that writes all keys: earlier requests have ended, later ones are refused | `broadloom-load` |
//! | the data is deleted, the latches are released | `broadloom-load` |
//! | the file is loaded | `broadloom-load` |
//! | the flag is cleared, the client receives its reply | `broadloom-load` |

use std::path::Path;
use std::sync::Arc;

use base::Lsn;
use commands::host::Reload;
use keyspace::Waiter;
use persist::snapshots::SaveKind;
use sync::{TryServe, mpsc};

use super::clearing::{Flush, unlogged};
use super::{LoadFailed, RdbOptions, has_known_header, load_append_only, load_rdb, wait_a_moment};
use crate::connection::token::Token;
use crate::mail::Mail;
use crate::persistence::append_only;
use crate::persistence::saving::{self, CutTime};
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
        shared.interrupt_stream();
        while shared.replication.role.lock().stream_count > 0 && !shared.modes.is_stopping() {
            wait_a_moment();
        }
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
            let flush = if flushes { Flush::Now } else { Flush::Not };
            let loaded = unlogged(shared, flush, || load_rdb(shared, &path, options));
            if loaded != Ok(true) {
                shared.replication.role.lock().may_continue = false;
                return NO_DUMP;
            }
            log::info!("DB reloaded by DEBUG RELOAD");
            OK
        }
        Reload::AppendOnly => {
            append_only::await_written(shared);
            if unlogged(shared, Flush::Now, || load_files(shared)).is_err() {
                shared.replication.role.lock().may_continue = false;
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
        let then = Box::new(move |result: Result<_, _>| _ = sender.send(result.is_ok()));
        match saving::begin(shared, SaveKind::Foreground, CutTime::BeforeLoad, then) {
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
    load_append_only(shared, &mut files).map(|stream| stream.is_some())
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
