//! A bounded queue between the thread that reads a file and the threads that process its contents.
//!
//! Invariant: it holds at most `capacity` items. The sender waits when it is full; a receiver waits when it is empty.

use std::collections::VecDeque;
use std::sync::PoisonError;

use sync::{Condvar, Mutex, MutexGuard};

/// The queue.
pub(super) struct Queue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    capacity: usize,
}

struct State<T> {
    items: VecDeque<T>,
    /// Whether no item is added any more.
    is_closed: bool,
}

impl<T> Queue<T> {
    pub(super) fn new(capacity: usize) -> Self {
        let state = State { items: VecDeque::with_capacity(capacity), is_closed: false };
        Self { state: Mutex::new(state), changed: Condvar::new(), capacity }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an item; waits for room. Returns `false`, and drops the item, if the queue is closed.
    #[must_use]
    pub(super) fn push(&self, item: T) -> bool {
        let mut state = self.lock();
        while state.items.len() >= self.capacity && !state.is_closed {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.is_closed {
            return false;
        }
        state.items.push_back(item);
        self.changed.notify_all();
        true
    }

    /// The next item; waits for it. `None`: the queue is closed and empty.
    pub(super) fn pop(&self) -> Option<T> {
        let mut state = self.lock();
        loop {
            if let Some(item) = state.items.pop_front() {
                self.changed.notify_all();
                return Some(item);
            }
            if state.is_closed {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Rejects further items; queued items are still received.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// As [`Self::close`], and drops the queued items.
    pub(super) fn abandon(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        state.items.clear();
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn items_arrive_in_order_and_the_sender_waits_for_room() {
        let queue = Arc::new(Queue::new(2));
        let theirs = Arc::clone(&queue);
        let sender = std::thread::spawn(move || {
            let all_taken = (0..1000).all(|item| theirs.push(item));
            theirs.close();
            all_taken
        });
        let received: Vec<i32> = std::iter::from_fn(|| queue.pop()).collect();
        assert!(received.iter().copied().eq(0..1000));
        assert!(sender.join().unwrap());
        assert!(!queue.push(1) && queue.pop().is_none());
    }

    #[test]
    fn a_waiting_sender_is_released_by_the_end() {
        let queue = Arc::new(Queue::new(1));
        let theirs = Arc::clone(&queue);
        let sender =
            std::thread::spawn(move || std::iter::repeat(1).take_while(|item| theirs.push(*item)).count());
        assert_eq!(queue.pop(), Some(1));
        queue.abandon();
        assert!(sender.join().unwrap() >= 1);
        assert_eq!(queue.pop(), None);
    }
}
