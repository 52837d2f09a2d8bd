//! The removal of data before a load, and their exchange for others, under all latches.

use base::Millis;
use base::limits::{REPLAY_THREAD, THREAD_COUNT_MAX};
use keyspace::{Cleared, Latching};
use os::clock;
use sync::Mode;

use super::wait_a_moment;
use crate::connection::token::Token;
use crate::shared::Shared;

/// What happens with the data before a load.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Flush {
    /// They stay.
    Not,
    /// They are deleted.
    Now,
    /// They are removed, and freed in the background.
    Later,
}

/// Runs a load, after the data are deleted as `flush` says. The load is not logged: only the latchings of workers are connected
/// to the log.
pub(super) fn unlogged<T>(shared: &'static Shared, flush: Flush, load: impl FnOnce() -> T) -> T {
    let cleared = latched(shared, |latching| {
        shared.keyspace.log.note_divergence();
        match flush {
            Flush::Not => None,
            Flush::Now | Flush::Later => {
                shared.scripts.libraries.flush();
                Some(latching.clear(None))
            }
        }
    });
    shared.hub.invalidate_all();
    match cleared {
        Some(cleared) if flush == Flush::Later => free_later(shared, cleared),
        Some(cleared) => cleared.free(),
        None => {}
    }
    load()
}

/// Runs `act` while all latches are held for writing. It must be brief.
pub(super) fn latched<T>(shared: &'static Shared, act: impl FnOnce(&mut Latching<'static>) -> T) -> T {
    // It has the thread number that the replay uses.
    let mut latching = Latching::new(&shared.keyspace, REPLAY_THREAD, clock::unix_micros() as u64);
    latching.mode.now = Millis(clock::unix_millis());
    latch_all(&mut latching);
    let result = act(&mut latching);
    latching.release();
    result
}

/// Frees removed data in the background.
pub(super) fn free_later(shared: &'static Shared, cleared: Cleared) {
    shared.memory.background.free(cleared.key_count, Box::new(move || cleared.free()));
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
