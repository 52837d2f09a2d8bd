//! The part of `mpsc` that the server uses, built on this crate's locks.

use std::collections::VecDeque;
use std::sync::Arc;

pub use std::sync::mpsc::{RecvError, SendError, TryRecvError, TrySendError};

use super::locks::{Condvar, Mutex, MutexGuard, PoisonError};

struct Channel<T> {
    state: Mutex<ChannelState<T>>,
    changed: Condvar,
    /// The maximum number of messages.
    bound: usize,
}

struct ChannelState<T> {
    messages: VecDeque<T>,
    sender_count: usize,
    has_receiver: bool,
}

impl<T> Channel<T> {
    fn lock(&self) -> MutexGuard<'_, ChannelState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, ChannelState<T>>) -> MutexGuard<'a, ChannelState<T>> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sending half of a channel.
pub struct Sender<T>(Arc<Channel<T>>);

/// The sending half of a bounded channel.
pub type SyncSender<T> = Sender<T>;

/// The receiving half of a channel.
pub struct Receiver<T>(Arc<Channel<T>>);

/// Creates an unbounded channel.
#[must_use]
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    sync_channel(usize::MAX)
}

/// Creates a channel with room for `bound` messages, at least one.
#[must_use]
pub fn sync_channel<T>(bound: usize) -> (SyncSender<T>, Receiver<T>) {
    let state = ChannelState { messages: VecDeque::new(), sender_count: 1, has_receiver: true };
    let channel =
        Arc::new(Channel { state: Mutex::new(state), changed: Condvar::new(), bound: bound.max(1) });
    (Sender(Arc::clone(&channel)), Receiver(channel))
}

impl<T> Sender<T> {
    /// As in the standard library.
    ///
    /// # Errors
    /// The receiver was dropped.
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        let mut state = self.0.lock();
        while state.has_receiver && state.messages.len() >= self.0.bound {
            state = self.0.wait(state);
        }
        if !state.has_receiver {
            return Err(SendError(message));
        }
        state.messages.push_back(message);
        drop(state);
        self.0.changed.notify_all();
        Ok(())
    }

    /// As in the standard library.
    ///
    /// # Errors
    /// The channel is full, or the receiver was dropped.
    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        let mut state = self.0.lock();
        if !state.has_receiver {
            return Err(TrySendError::Disconnected(message));
        }
        if state.messages.len() >= self.0.bound {
            return Err(TrySendError::Full(message));
        }
        state.messages.push_back(message);
        drop(state);
        self.0.changed.notify_all();
        Ok(())
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.lock().sender_count += 1;
        Self(Arc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.lock().sender_count -= 1;
        self.0.changed.notify_all();
    }
}

impl<T> Receiver<T> {
    /// As in the standard library.
    ///
    /// # Errors
    /// All senders were dropped.
    pub fn recv(&self) -> Result<T, RecvError> {
        let mut state = self.0.lock();
        loop {
            if let Some(message) = state.messages.pop_front() {
                drop(state);
                self.0.changed.notify_all();
                return Ok(message);
            }
            if state.sender_count == 0 {
                return Err(RecvError);
            }
            state = self.0.wait(state);
        }
    }

    /// As in the standard library.
    ///
    /// # Errors
    /// The channel is empty, or all senders were dropped.
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        let mut state = self.0.lock();
        match state.messages.pop_front() {
            Some(message) => {
                drop(state);
                self.0.changed.notify_all();
                Ok(message)
            }
            None if state.sender_count == 0 => Err(TryRecvError::Disconnected),
            None => Err(TryRecvError::Empty),
        }
    }

    /// Iterates over messages until all senders are dropped.
    pub fn iter(&self) -> impl Iterator<Item = T> {
        std::iter::from_fn(|| self.recv().ok())
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let unread = {
            let mut state = self.0.lock();
            state.has_receiver = false;
            std::mem::take(&mut state.messages)
        };
        // Dropped outside the lock, as messages may have any destructor.
        drop(unread);
        self.0.changed.notify_all();
    }
}
