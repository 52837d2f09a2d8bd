//! Latching every slot from a thread that is not a worker.

use std::sync::PoisonError;
use std::time::Duration;

use keyspace::Waiting;
use sync::Mutex;

use crate::connection::token::Token;
use crate::shared::Shared;

/// The time between two attempts at a busy latch. Its wake-up goes to a worker, where the token has no connection.
const BUSY_WAIT: Duration = Duration::from_micros(50);

/// Only one thread waits at a time, because all threads use one token.
static LOCK: Mutex<()> = Mutex::new(());

/// Runs `body` while all latches are held for writing. It must be brief: all clients wait.
pub fn with_all_latches<R>(shared: &Shared, body: impl FnOnce() -> R) -> R {
    let _guard = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    let waiting = Waiting { token: Token::underway(0).0, wait: &|| sync::thread::sleep(BUSY_WAIT) };
    let all = shared.keyspace.latch_all_slots(&waiting);
    let result = body();
    drop(all);
    result
}
