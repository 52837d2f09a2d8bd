//! Accepting on io_uring.

use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

use super::request::{Completion, Operation, Request};
use super::{KIND_ACCEPT, Uring};
use crate::accept_error::{ACCEPT_BACKOFF, is_transient};
use crate::{Event, Listener, ListenerToken, PeerAddress, ReactorError, Socket};
use os::clock::Ticks;

#[derive(Default)]
pub(super) struct Listeners {
    entries: Vec<Entry>,
    /// Whether any listener may need a request made or cancelled, or is in a back-off.
    needs_update: bool,
}

struct Entry {
    token: ListenerToken,
    /// Distinguishes requests of a listener from those of an earlier one with the same token.
    serial: u32,
    /// `None` once accepting has stopped; the entry remains until its request ends.
    listener: Option<Listener>,
    is_armed: bool,
    is_cancelled: bool,
    is_paused: bool,
    backoff_end: Option<Ticks>,
    /// Connections accepted while paused.
    held: Vec<Socket>,
}

impl Entry {
    fn user_data(&self) -> u64 {
        KIND_ACCEPT | u64::from(self.serial)
    }
}

impl Listeners {
    fn lookup_mut(&mut self, token: ListenerToken) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.token == token && entry.listener.is_some())
    }

    /// Handles a failed cancellation of a request.
    pub(super) fn cancel_again(&mut self, user_data: u64) {
        for entry in self.entries.iter_mut().filter(|entry| entry.user_data() == user_data) {
            entry.is_cancelled = false;
        }
        self.needs_update = true;
    }

    /// Ends all back-offs, because a descriptor is free again.
    pub(super) fn end_backoffs(&mut self) {
        if self.needs_update {
            let now = Ticks::now();
            for entry in &mut self.entries {
                entry.backoff_end = entry.backoff_end.map(|_| now);
            }
        }
    }
}

impl Uring {
    pub(crate) fn listen(&mut self, listener: Listener, token: ListenerToken) -> Result<(), ReactorError> {
        let serial = self.listeners.entries.iter().map(|entry| entry.serial + 1).max().unwrap_or(0);
        self.listeners.entries.push(Entry {
            token,
            serial,
            listener: Some(listener),
            is_armed: false,
            is_cancelled: false,
            is_paused: false,
            backoff_end: None,
            held: Vec::new(),
        });
        self.listeners.needs_update = true;
        Ok(())
    }

    pub(crate) fn pause_accept(&mut self, token: ListenerToken) {
        if let Some(entry) = self.listeners.lookup_mut(token) {
            entry.is_paused = true;
            self.listeners.needs_update = true;
        }
    }

    pub(crate) fn resume_accept(&mut self, token: ListenerToken) {
        let Some(entry) = self.listeners.lookup_mut(token) else { return };
        entry.is_paused = false;
        entry.backoff_end = None;
        for socket in std::mem::take(&mut entry.held) {
            self.events.extend(accepted(token, socket));
        }
        self.listeners.needs_update = true;
    }

    pub(crate) fn stop_listening(&mut self, token: ListenerToken) {
        if let Some(entry) = self.listeners.lookup_mut(token) {
            entry.listener = None;
            self.listeners.needs_update = true;
        }
    }

    /// Arms and cancels accept requests and removes entries as needed. Returns `timeout`, shortened to the end
    /// of the next back-off.
    pub(super) fn update_listeners(&mut self, timeout: Option<Duration>) -> io::Result<Option<Duration>> {
        if !self.listeners.needs_update {
            return Ok(timeout);
        }
        self.listeners.needs_update = false;
        let mut timeout = timeout;
        let now = Ticks::now();
        self.listeners.entries.retain(|entry| entry.listener.is_some() || entry.is_armed);
        for index in 0..self.listeners.entries.len() {
            let entry = &mut self.listeners.entries[index];
            entry.backoff_end = entry.backoff_end.filter(|&until| until > now);
            if let Some(until) = entry.backoff_end {
                self.listeners.needs_update = true;
                let left = Duration::from_nanos(until.ns_since(now));
                timeout = Some(timeout.map_or(left, |timeout| timeout.min(left)));
            }
            let user_data = entry.user_data();
            let is_wanted = !entry.is_paused && entry.backoff_end.is_none();
            match (&entry.listener, entry.is_armed) {
                (Some(listener), false) if is_wanted => {
                    entry.is_armed = true;
                    entry.is_cancelled = false;
                    let accept = Request::new(user_data, Operation::Accept { fd: listener.as_raw_fd() });
                    // SAFETY: (1) it contains no pointers.
                    unsafe { self.push(&accept)? };
                }
                (listener, true) if (!is_wanted || listener.is_none()) && !entry.is_cancelled => {
                    entry.is_cancelled = true;
                    self.push_cancel(user_data)?;
                }
                _ => {}
            }
        }
        Ok(timeout)
    }

    pub(super) fn complete_accept(&mut self, user_data: u64, completion: &Completion) -> Option<Event> {
        // SAFETY: (1) an accept has just completed with it, and each completion is handled once.
        let result = unsafe { self.ring.own_result(completion.result) };
        let entry = self.listeners.entries.iter_mut().find(|entry| entry.user_data() == user_data)?;
        let token = entry.token;
        if !completion.has_more() {
            entry.is_armed = false;
            self.in_flight_count -= 1;
            self.listeners.needs_update = true;
        }
        match result {
            Ok(fd) if entry.is_paused => {
                entry.held.push(Socket::new(fd));
                None
            }
            Ok(fd) => accepted(token, Socket::new(fd)),
            Err(error) if error.raw_os_error() == Some(libc::ECANCELED) || is_transient(&error) => None,
            Err(error) => {
                entry.backoff_end = Some(Ticks::now().plus_ns(ACCEPT_BACKOFF.as_nanos() as u64));
                Some(Event::AcceptError { listener: token, error })
            }
        }
    }
}

/// Returns the event; `None` if the peer has already disconnected.
fn accepted(listener: ListenerToken, socket: Socket) -> Option<Event> {
    let peer: PeerAddress = socket.peer_address().ok()?;
    Some(Event::Accepted { listener, socket, peer })
}
