//! Takes some events ahead of the one being handled: their requests are planned, and the memory for them is
//! prefetched meanwhile.
//!
//! An earlier event may close, pause or move the connection of a later one: no handler relies on the state at
//! the time when the event was taken.

use std::collections::VecDeque;

use reactor::{Event, Reactor};

use super::Worker;
use crate::connection::token::Token;
use crate::executor::Planned;

/// The maximum number of events taken ahead, and the bytes in them from which no more are taken.
const PLANNED_COUNT_MAX: usize = 16;
const PLANNED_SIZE_MAX: usize = 2048;

/// An event that is taken.
pub(super) struct Taken {
    pub(super) event: Event,
    /// The plan of the requests in it.
    pub(super) planned: Option<Box<Planned>>,
    /// Whether it has bytes of a connection with TLS.
    pub(super) is_encrypted: bool,
}

/// The events of a worker: its reactor, and those taken ahead, with the plans of their requests.
pub(super) struct Events {
    pub(super) reactor: Reactor,
    taken: VecDeque<Taken>,
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
    pub(super) fn next_event(&mut self) -> Option<Taken> {
        if self.events.taken.is_empty() {
            self.take_event();
        }
        let next = self.events.taken.pop_front();
        match &next {
            Some(Taken { event: Event::Received { data, .. }, .. }) => self.events.size -= data.len(),
            Some(_) => {}
            None => self.executor.end_plan_ahead(),
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
        let mut is_encrypted = false;
        if let Event::Received { token, data, .. } = &event {
            self.events.size += data.len();
            let token = Token(*token);
            if let Some(connection) = self.connections.find_mut(token) {
                is_encrypted = connection.encryption.is_some();
                let begins_request = connection.input.query.is_empty() && !connection.input.is_within_request;
                if !is_encrypted && begins_request && !connection.is_waiting() {
                    planned = self.executor.plan_ahead(&connection.client, data);
                    connection.input.is_within_request =
                        planned.as_ref().is_none_or(|planned| !planned.covers(data));
                }
            }
        }
        self.events.taken.push_back(Taken { event, planned, is_encrypted });
        true
    }
}
