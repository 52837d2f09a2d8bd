//! Events are taken some ahead of the one that is handled: what they ask for is planned, and the memory comes meanwhile that
//! it will touch.
//!
//! An event may be handled after its connection was closed, paused or sent to another thread by one before it: nobody who
//! handles events relies on what held when they were taken.

use std::collections::VecDeque;

use reactor::Event;

use super::Thread;
use crate::connection::Token;
use crate::executor::Planned;

/// Events that are taken ahead, and bytes in them from which on no more are.
const PLANNED_COUNT_MAX: usize = 16;
const PLANNED_SIZE_MAX: usize = 2048;

/// Events of this turn that are to be handled next, with what was planned of them.
#[derive(Default)]
pub(super) struct PlannedEvents {
    events: VecDeque<(Event, Option<Box<Planned>>)>,
    /// Bytes received that are in them.
    size: usize,
}

impl Thread {
    /// The next event of this turn. Others are taken ahead, and their requests planned.
    pub(super) fn next_event(&mut self) -> Option<(Event, Option<Box<Planned>>)> {
        if self.planned_events.events.is_empty() {
            self.take_event();
        }
        let next = self.planned_events.events.pop_front();
        match &next {
            Some((Event::Received { data, .. }, _)) => self.planned_events.size -= data.len(),
            Some(_) => {}
            None => self.executor.end_foresight(),
        }
        while self.planned_events.events.len() < PLANNED_COUNT_MAX
            && self.planned_events.size < PLANNED_SIZE_MAX
            && self.take_event()
        {}
        next
    }

    /// Takes an event from the reactor, if there is one, and plans what it asks for.
    fn take_event(&mut self) -> bool {
        let Some(event) = self.reactor.next_event() else { return false };
        let mut planned = None;
        if let Event::Received { token, data, .. } = &event {
            self.planned_events.size += data.len();
            let token = Token(*token);
            if let Some(connection) = self.connections.get(token.place()).filter(|c| c.token == token) {
                planned = self.executor.plan_ahead(connection, data);
            }
        }
        self.planned_events.events.push_back((event, planned));
        true
    }
}
