//! Events are taken some at a time: while the first is handled, the memory comes that the others will touch.
//!
//! An event may be handled after its connection was closed, paused or sent to another thread by one before it: nobody who
//! handles events relies on what held when they were taken.

use reactor::Event;

use super::Thread;
use crate::connection::Token;

/// Events that are taken and looked at before the first of them is handled, and bytes in them from which on no more are.
const UPCOMING_COUNT_MAX: usize = 16;
const UPCOMING_SIZE_MAX: usize = 2048;

impl Thread {
    /// Takes the next events, and has the memory prefetched that their requests will touch.
    pub(super) fn look_ahead(&mut self) {
        let mut size = 0;
        while self.upcoming.len() < UPCOMING_COUNT_MAX && size < UPCOMING_SIZE_MAX {
            let Some(event) = self.reactor.next_event() else { break };
            let mut foreseen = None;
            if let Event::Received { token, data, .. } = &event {
                size += data.len();
                let token = Token(*token);
                if let Some(connection) = self.connections.get(token.place()).filter(|c| c.token == token) {
                    foreseen = self.executor.foresee(connection, data);
                }
            }
            self.upcoming.push_back((event, foreseen));
        }
        self.executor.follow_foreseen();
    }
}
