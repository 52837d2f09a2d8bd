//! Runs the requests of an append-only file, with an executor of its own.
//!
//! The requests were executed before, and their replies are discarded. No mode of the server, memory limit or
//! permission refuses them. Nothing expires between them, no events are sent, and no command statistics include them.
//! An error reply means that the file does not match the data; it is logged.
//!
//! Owns a client without a socket. Runs on a thread that is not a worker; a busy latch is polled.
//! Invariant: the thread number is [`REPLAY_THREAD`], so there is one replay at a time.

use std::rc::Rc;
use std::time::Duration;

use base::Millis;
use base::limits::{REPLAY_THREAD, THREAD_COUNT_MAX};
use commands::acl::Users;
use commands::host::Host;
use commands::session::{BlockReason, Endpoints, Session, SessionFlags};
use commands::table::CATALOGUE;
use config::PropagationErrorBehavior;
use os::clock::{self, Ticks};
use persist::reading::{Item, Reader};
use sync::atomic::Ordering;
use wire::response::Reply;

use super::{Executor, Processed};
use crate::connection::client::Client;
use crate::connection::token::Token;
use crate::pubsub::LocalSubscriptions;
use crate::script_runs::{MakeHost, WorkerScripts};
use crate::shared::Shared;
use crate::shared::loading::Replay;
use crate::shared::modes::GlobalFlags;

/// The id of the client, as in Valkey.
const CLIENT_ID: u64 = u64::MAX;

/// The time until a busy latch is tried again.
const BUSY_WAIT: Duration = Duration::from_micros(50);

/// No mode of the server applies to a replay.
static NO_MODES: sync::OnceLock<GlobalFlags> = sync::OnceLock::new();

/// See the module documentation.
pub struct LogReplay<H> {
    shared: &'static Shared,
    executor: Executor,
    host: H,
    client: Client,
    retired: Vec<collections::Retired>,
}

impl<H: Host> LogReplay<H> {
    /// A replay on the calling thread. `host` makes the host of its commands.
    pub fn new(
        shared: &'static Shared,
        make_host: impl FnOnce(Rc<LocalSubscriptions>) -> MakeHost,
        host: impl FnOnce(Rc<LocalSubscriptions>, Rc<WorkerScripts>) -> H,
    ) -> Self {
        let handle = shared.workers.handle(REPLAY_THREAD);
        let subscriptions = Rc::new(LocalSubscriptions::new(REPLAY_THREAD, shared.hub, handle));
        let seed = clock::unix_micros() as u64;
        let scripts = WorkerScripts::new(shared, REPLAY_THREAD, make_host(Rc::clone(&subscriptions)), false);
        let own = Rc::clone(&subscriptions);
        let mut executor = Executor::new(shared, REPLAY_THREAD, seed, own, Rc::clone(&scripts));
        executor.is_replay = true;
        executor.flags = NO_MODES.get_or_init(GlobalFlags::default);
        executor.apply_config();
        // Without a place among the epochs' participants it prefetches nothing.
        let _ = executor.latching.join_epochs();
        let now = Millis(clock::unix_millis());
        // The session of an unrestricted user, independent of the users of the server.
        let mut session =
            Session::new(CLIENT_ID, Endpoints::none("append-only file"), &Users::new(&CATALOGUE));
        session.login.users_version = u64::MAX;
        // An address of the last worker, where no connection has it.
        let token = Token::new(THREAD_COUNT_MAX - 1, u32::MAX, Token::PLACE_MAX);
        let client = Client::new(token, session, None);
        let mut replay =
            Self { shared, executor, host: host(subscriptions, scripts), client, retired: Vec::new() };
        replay.set_time(now.0);
        replay
    }

    /// Ends the wait of the client.
    fn end_wait(&mut self) {
        let (client, latching) = (&mut self.client, &mut self.executor.latching);
        if let Some(parked) = client.wait.take_parked() {
            latching.restore(parked.held);
            while !latching.claim(parked.busy, client.token.0) {
                sync::thread::sleep(BUSY_WAIT);
            }
        }
        if let Some(waiter) = client.wait.take_blocked().and_then(|blocked| blocked.waiter) {
            // A request that blocks has no effect.
            while !latching.leave(&waiter) {
                sync::thread::sleep(BUSY_WAIT);
            }
        }
        let blocked = client.session.blocked.take();
        if blocked.is_some_and(|blocked| blocked.reason == BlockReason::Congestion) {
            sync::thread::sleep(BUSY_WAIT);
        }
    }

    /// Logs the errors among the replies to these requests.
    #[cold]
    fn report(&self, requests: &[u8], error_count: u64) {
        self.shared.loading.unexpected_error_count.fetch_add(error_count, Ordering::Relaxed);
        for_each_error(requests, &self.client.replies.bytes, |command, error| {
            log::warn!(
                "== CRITICAL == This server is sending an error to its AOF-loading-client: '{error}' after processing the \
                 command '{command}'"
            );
            let behaviour = self.executor.settings.config.propagation_error_behavior;
            assert!(
                behaviour != PropagationErrorBehavior::Panic,
                "This server panicked sending an error to its AOF-loading-client after processing the command '{command}'"
            );
        });
    }
}

impl<H: Host> Replay for LogReplay<H> {
    fn run(&mut self, requests: &[u8]) {
        let mut rest = requests;
        while !rest.is_empty() {
            let statistics = self.executor.statistics;
            let before = statistics.errors.value();
            let (done, processed) = self.executor.process(&mut self.client, rest, None, &self.host);
            let error_count = statistics.errors.value() - before;
            if error_count > 0 {
                self.report(&rest[..done], error_count);
            }
            self.client.replies.truncate(0);
            self.client.session.flags.remove(SessionFlags::CLOSE_AFTER_REPLY);
            rest = &rest[done..];
            if processed == Processed::Waiting {
                self.end_wait();
            } else if done == 0 && processed != Processed::Yielded {
                // The rest is invalid, which the reader of the file has reported.
                break;
            }
        }
        self.executor.latching.release();
        // Loaded data does not count as a change since the last save.
        self.executor.latching.counters.dirty.set(0);
        self.executor.planner.pipeline.clear();
        self.executor.latching.quiescent();
        self.shared.keyspace.reclaim(&mut self.retired);
    }

    fn set_time(&mut self, now: i64) {
        self.executor.set_time(Millis(now), Ticks::now());
    }
}

/// Calls `found` with the name of each command that has an error among its replies, and the error.
fn for_each_error(requests: &[u8], mut replies: &[u8], mut found: impl FnMut(&str, &str)) {
    let mut reader = Reader::new(0);
    while let Ok(Some((reply, size))) = Reply::parse(replies) {
        replies = &replies[size..];
        let rest = &requests[reader.offset() as usize..];
        let Ok(Item::Request) = reader.read(rest) else { return };
        let name = &rest[reader.arguments()[0].clone()];
        for_each_error_in(&reply, &mut |error| {
            found(&name.to_ascii_lowercase().escape_ascii().to_string(), error);
        });
    }
}

fn for_each_error_in(reply: &Reply, found: &mut impl FnMut(&str)) {
    match reply {
        Reply::Error(text) => found(&text.escape_ascii().to_string()),
        Reply::Array(items) => items.iter().for_each(|item| for_each_error_in(item, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_found_with_their_commands() {
        let requests = b"*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nIncr\r\n*1\r\n$5\r\nMULTI\r\n*1\r\n$4\r\nEXEC\r\n";
        let replies = b"+PONG\r\n-ERR no\r\n+OK\r\n*2\r\n:1\r\n-ERR neither\r\n";
        let mut errors = Vec::new();
        for_each_error(requests, replies, |command, error| errors.push(format!("{command}: {error}")));
        assert_eq!(errors, ["incr: ERR no", "exec: ERR neither"]);
    }
}
