//! Events are taken some ahead of the one being handled: their requests are planned, and the memory for them is
//! prefetched meanwhile.
//!
//! An earlier event may close, pause or move the connection of a later one: no handler relies on the state at
//! the time when the event was taken.

use std::collections::VecDeque;

use reactor::Event;

use super::Thread;
use crate::connection::Token;
use crate::executor::Planned;

/// Events that are taken ahead, and the bytes in them from which on no more are.
const PLANNED_COUNT_MAX: usize = 16;
const PLANNED_SIZE_MAX: usize = 2048;

/// The next events of this turn, with the plans of their requests.
#[derive(Default)]
pub(super) struct PlannedEvents {
    events: VecDeque<(Event, Option<Box<Planned>>)>,
    /// The bytes received in them.
    size: usize,
}

impl Thread {
    /// Returns the next event of this turn. More are taken ahead, and their requests planned.
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

    /// Takes an event from the reactor, if there is one, and plans its requests.
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
