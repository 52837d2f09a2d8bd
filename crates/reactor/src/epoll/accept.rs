//! Accepting on epoll.

use std::io;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use super::{DATA_LISTENER, Epoll, Ready};
use crate::accept_error::{ACCEPT_BACKOFF, is_transient};
use crate::descriptor::Descriptor;
use crate::{Event, Listener, ListenerToken, ReactorError, Socket, sys};

#[derive(Default)]
pub(super) struct Listeners {
    entries: Vec<Entry>,
    /// Whether any entry is in a back-off.
    has_backoff: bool,
}

struct Entry {
    token: ListenerToken,
    listener: Listener,
    is_paused: bool,
    backoff_end: Option<Instant>,
    /// Connections that may still be accepted in this turn.
    quota: u32,
    /// Whether the listener is in the reactor's `ready`.
    is_listed: bool,
}

impl Listeners {
    fn lookup_mut(&mut self, token: ListenerToken) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.token == token)
    }
}

impl Epoll {
    pub(crate) fn listen(&mut self, listener: Listener, token: ListenerToken) -> Result<(), ReactorError> {
        self.watch(&listener, token).map_err(ReactorError::system("epoll_ctl"))?;
        let quota = self.options.accept_count_max;
        self.listeners.entries.push(Entry {
            token,
            listener,
            is_paused: false,
            backoff_end: None,
            quota,
            is_listed: false,
        });
        Ok(())
    }

    pub(crate) fn pause_accept(&mut self, token: ListenerToken) {
        let Some(entry) = self.listeners.lookup_mut(token) else { return };
        if !entry.is_paused {
            entry.is_paused = true;
            unwatch(&self.epoll, &entry.listener);
        }
    }

    pub(crate) fn resume_accept(&mut self, token: ListenerToken) {
        let Some(entry) = self.listeners.lookup_mut(token) else { return };
        if std::mem::take(&mut entry.is_paused) || entry.backoff_end.take().is_some() {
            entry.backoff_end = None;
            self.watch_again(token);
        }
    }

    pub(crate) fn stop_listening(&mut self, token: ListenerToken) {
        if let Some(index) = self.listeners.entries.iter().position(|entry| entry.token == token) {
            let entry = self.listeners.entries.remove(index);
            // Another reactor may hold this socket open, so closing it would not deregister it.
            unwatch(&self.epoll, &entry.listener);
        }
    }

    /// Handles readiness of a listener.
    pub(super) fn list_listener(&mut self, token: ListenerToken) {
        let Some(entry) = self.listeners.lookup_mut(token) else { return };
        if !std::mem::replace(&mut entry.is_listed, true) {
            self.ready.push_back(Ready::Listener(token));
        }
    }

    /// Accepts one connection from a listener in `ready`.
    pub(super) fn accept(&mut self, token: ListenerToken) -> Option<Event> {
        let quota_full = self.options.accept_count_max;
        let entry = self.listeners.lookup_mut(token)?;
        entry.is_listed = false;
        if entry.is_paused || entry.backoff_end.is_some() {
            return None;
        }
        if entry.quota == 0 {
            // Level-triggered: the next wait reports the listener again.
            entry.quota = quota_full;
            return None;
        }
        match sys::accept(entry.listener.as_raw_fd()) {
            Ok((fd, peer)) => {
                entry.quota -= 1;
                entry.is_listed = true;
                self.ready.push_front(Ready::Listener(token));
                Some(Event::Accepted { listener: token, socket: Socket::new(Descriptor::Kernel(fd)), peer })
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                entry.quota = quota_full;
                None
            }
            Err(error) if is_transient(&error) => {
                entry.is_listed = true;
                self.ready.push_front(Ready::Listener(token));
                None
            }
            Err(error) => {
                entry.quota = quota_full;
                entry.backoff_end = Some(Instant::now() + ACCEPT_BACKOFF);
                unwatch(&self.epoll, &entry.listener);
                self.listeners.has_backoff = true;
                Some(Event::AcceptError { listener: token, error })
            }
        }
    }

    /// Ends expired back-offs, and shortens `timeout` to the end of the next one.
    pub(super) fn end_expired_backoffs(&mut self, timeout: Option<Duration>) -> Option<Duration> {
        if !self.listeners.has_backoff {
            return timeout;
        }
        self.listeners.has_backoff = false;
        let now = Instant::now();
        let mut timeout = timeout;
        for index in 0..self.listeners.entries.len() {
            let entry = &mut self.listeners.entries[index];
            let Some(until) = entry.backoff_end else { continue };
            if until <= now {
                entry.backoff_end = None;
                let token = entry.token;
                self.watch_again(token);
            } else {
                self.listeners.has_backoff = true;
                let left = until - now;
                timeout = Some(timeout.map_or(left, |timeout| timeout.min(left)));
            }
        }
        timeout
    }

    /// Ends all back-offs, because a descriptor is free again.
    pub(super) fn end_backoffs(&mut self) {
        if self.listeners.has_backoff {
            let now = Instant::now();
            for entry in &mut self.listeners.entries {
                entry.backoff_end = entry.backoff_end.map(|_| now);
            }
        }
    }

    fn watch_again(&mut self, token: ListenerToken) {
        let Some(index) = self.listeners.entries.iter().position(|entry| entry.token == token) else {
            return;
        };
        if self.listeners.entries[index].is_paused {
            return;
        }
        if let Err(error) = self.watch(&self.listeners.entries[index].listener, token) {
            self.events.push_back(Event::AcceptError { listener: token, error });
        }
    }

    fn watch(&self, listener: &Listener, token: ListenerToken) -> io::Result<()> {
        let events = libc::EPOLLIN | libc::EPOLLEXCLUSIVE;
        let data = DATA_LISTENER | u64::from(token.0);
        sys::epoll_control(&self.epoll, libc::EPOLL_CTL_ADD, listener.as_raw_fd(), events, data)
    }
}

/// Fails only if the listener is not watched, which is the desired state.
fn unwatch(epoll: &std::os::fd::OwnedFd, listener: &Listener) {
    let _ = sys::epoll_control(epoll, libc::EPOLL_CTL_DEL, listener.as_raw_fd(), 0, 0);
}
