//! Events are taken some ahead of the one being handled: their requests are planned, and the memory for them is
//! prefetched meanwhile.
//!
//! An earlier event may close, pause or move the connection of a later one: no handler relies on the state at
//! the time when the event was taken.

use std::collections::VecDeque;

use reactor::{Event, Reactor};

use super::Worker;
use crate::connection::Token;
use crate::executor::Planned;

/// Events that are taken ahead, and the bytes in them from which on no more are.
const PLANNED_COUNT_MAX: usize = 16;
const PLANNED_SIZE_MAX: usize = 2048;

/// The events of a worker: its reactor, and those taken ahead, with the plans of their requests.
pub(super) struct Events {
    pub(super) reactor: Reactor,
    taken: VecDeque<(Event, Option<Box<Planned>>)>,
    /// The bytes received in them.
    size: usize,
}

impl Events {
    pub(super) fn new(reactor: Reactor) -> Self {
        Self { reactor, taken: VecDeque::new(), size: 0 }
    }
}

impl Worker {
    /// Returns the next event of this turn. More are taken ahead, and their requests planned.
    pub(super) fn next_event(&mut self) -> Option<(Event, Option<Box<Planned>>)> {
        if self.events.taken.is_empty() {
            self.take_event();
        }
        let next = self.events.taken.pop_front();
        match &next {
            Some((Event::Received { data, .. }, _)) => self.events.size -= data.len(),
            Some(_) => {}
            None => self.executor.end_foresight(),
        }
        while self.events.taken.len() < PLANNED_COUNT_MAX
            && self.events.size < PLANNED_SIZE_MAX
            && self.take_event()
        {}
        next
    }

    /// Takes an event from the reactor, if there is one, and plans its requests.
    fn take_event(&mut self) -> bool {
        let Some(event) = self.events.reactor.next_event() else { return false };
        let mut planned = None;
        if let Event::Received { token, data, .. } = &event {
            self.events.size += data.len();
            let token = Token(*token);
            if let Some(connection) =
                self.connections.find(token).filter(|connection| connection.encryption.is_none())
            {
                planned = self.executor.plan_ahead(connection, data);
            }
        }
        self.events.taken.push_back((event, planned));
        true
    }
}
