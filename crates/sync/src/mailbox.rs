//! Messages from all threads to one, with a wake-up only if it sleeps.
//!
//! The queue is one pointer to the newest message, each linked to the previous one. The owner takes the whole
//! chain in one swap and reverses it. "The owner sleeps" is a state of the same word, so that checking for mail
//! and for sleep is one atomic step:
//!
//! | FROM | TO | step | by |
//! |---|---|---|---|
//! | empty | a message | [`Mailbox::post`], no wake-up | any thread |
//! | messages | one more | [`Mailbox::post`], no wake-up | any thread |
//! | `SLEEPING` | a message | [`Mailbox::post`], wake-up: at most one per sleep | any thread |
//! | empty | `SLEEPING` | [`Mailbox::prepare_sleep`] | owner |
//! | messages | unchanged | [`Mailbox::prepare_sleep`], refused | owner |
//! | `SLEEPING` | empty | [`Mailbox::awake`] | owner |
//! | any but `CLOSED` | empty | [`Mailbox::drain`] | owner |
//! | empty | `CLOSED` | [`Mailbox::close`] | owner, its last step |
//! | messages | unchanged | [`Mailbox::close`], refused | owner |
//! | `CLOSED` | unchanged | [`Mailbox::post`], refused: the message is returned | any thread |
//! | `CLOSED` | empty | [`Mailbox::open`] | the next owner, its first step |
//!
//! Invariant: an accepted message is drained, provided that the owner ends with `close`. A later message is
//! returned to its sender.
//!
//! Messages of one producer arrive in posting order. An open mailbox never refuses a message, as most must not
//! be lost (a wake-up, for example). A sender of messages that may accumulate checks [`Mailbox::unread_count`]
//! first.
//!
//! Cost: one allocation per message, and two read-modify-writes on one line: the chain and the count.

use crate::counter::Padded;
use crate::shim::{AtomicPtr, AtomicUsize, Ordering, fence};
use std::marker::PhantomData;
use std::{fmt, ptr};

/// A queue of messages to the thread that owns it. All other threads post.
pub struct Mailbox<M> {
    inbox: Padded<Inbox<M>>,
}

struct Inbox<M> {
    /// The newest message, or null, or [`sleeping`], or [`closed`].
    newest: AtomicPtr<Node<M>>,
    unread_count: AtomicUsize,
    /// The mailbox owns the nodes.
    nodes: PhantomData<Node<M>>,
}

struct Node<M> {
    message: M,
    older: *mut Node<M>,
}

// SAFETY: messages only move from the posting thread to the draining one, for which M: Send suffices.
unsafe impl<M: Send> Sync for Mailbox<M> {}
// SAFETY: as above; the mailbox owns the nodes.
unsafe impl<M: Send> Send for Mailbox<M> {}

impl<M: Send> Mailbox<M> {
    /// Creates an empty mailbox, whose owner is awake.
    #[must_use]
    pub fn new() -> Self {
        Mailbox {
            inbox: Padded(Inbox {
                newest: AtomicPtr::new(ptr::null_mut()),
                unread_count: AtomicUsize::new(0),
                nodes: PhantomData,
            }),
        }
    }

    /// Posts a message. If this returns `Ok(true)`, the owner sleeps, and the caller must wake it.
    ///
    /// # Errors
    /// The mailbox is closed; the message is returned.
    pub fn post(&self, message: M) -> Result<bool, M> {
        let node = Box::into_raw(Box::new(Node { message, older: ptr::null_mut() }));
        self.inbox.unread_count.fetch_add(1, Ordering::Relaxed);
        let mut newest = self.inbox.newest.load(Ordering::Relaxed);
        loop {
            if newest == closed() {
                // Pairs with the Release in `close`: the sender sees the owner's earlier writes, e.g. the new
                // destination.
                fence(Ordering::Acquire);
                self.inbox.unread_count.fetch_sub(1, Ordering::Relaxed);
                // SAFETY: from `Box::into_raw` above, and never linked.
                let node = unsafe { Box::from_raw(node) };
                return Err(node.message);
            }
            let older = if newest == sleeping() { ptr::null_mut() } else { newest };
            // SAFETY: the node was made above and is not shared yet.
            unsafe { (*node).older = older };
            // Release pairs with the Acquire in `drain`, also through later posts, which continue the release
            // sequence.
            match self.inbox.newest.compare_exchange_weak(newest, node, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return Ok(newest == sleeping()),
                Err(seen) => newest = seen,
            }
        }
    }

    /// The number of messages not drained yet; approximate while other threads post or the owner drains.
    #[must_use]
    pub fn unread_count(&self) -> usize {
        self.inbox.unread_count.load(Ordering::Relaxed)
    }

    /// Appends all messages to `messages`, oldest first. For the owner only. Nearly free if there are none.
    pub fn drain(&self, messages: &mut Vec<M>) {
        let newest = self.inbox.newest.load(Ordering::Relaxed);
        if newest.is_null() || newest == closed() {
            return;
        }
        let already = messages.len();
        messages.extend(self.inbox.take());
        self.inbox.unread_count.fetch_sub(messages.len() - already, Ordering::Relaxed);
    }

    /// Refuses all messages from now on and returns true. If there are messages, returns false, and the owner
    /// must drain them. For the owner only.
    #[must_use = "false: there is mail"]
    pub fn close(&self) -> bool {
        // Release pairs with the fence in `post`.
        self.inbox
            .newest
            .compare_exchange(ptr::null_mut(), closed(), Ordering::Release, Ordering::Relaxed)
            .is_ok()
    }

    /// Reverts [`Self::close`], for a new owner.
    pub fn open(&self) {
        // Fails if the mailbox is open.
        let _ = self.inbox.newest.compare_exchange(
            closed(),
            ptr::null_mut(),
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
    }

    /// Marks the owner as asleep and returns true. If there are messages, returns false, and the owner must
    /// drain them. For the owner only.
    ///
    /// The first post after this returns `Ok(true)`. A message posted before makes this return false.
    #[must_use = "false: there is mail, and no wake-up will follow"]
    pub fn prepare_sleep(&self) -> bool {
        self.inbox
            .newest
            .compare_exchange(ptr::null_mut(), sleeping(), Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    /// Marks the owner as awake. The owner calls it after every sleep.
    pub fn awake(&self) {
        if self.inbox.newest.load(Ordering::Relaxed) == sleeping() {
            // Fails if a message has arrived since, which also ended the sleep.
            let _ = self.inbox.newest.compare_exchange(
                sleeping(),
                ptr::null_mut(),
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
        }
    }
}

/// The marker for a sleeping owner and no mail. It is not the address of a node.
fn sleeping<M>() -> *mut Node<M> {
    ptr::without_provenance_mut(1)
}

/// The marker for a closed mailbox. It is not the address of a node.
fn closed<M>() -> *mut Node<M> {
    ptr::without_provenance_mut(2)
}

impl<M> Inbox<M> {
    /// Takes all posted nodes.
    fn take(&self) -> Chain<M> {
        // Acquire pairs with the Release in `post`.
        let newest = self.newest.swap(ptr::null_mut(), Ordering::Acquire);
        let is_node = newest != sleeping() && newest != closed();
        let mut node = if is_node { newest } else { ptr::null_mut() };
        let mut newer = ptr::null_mut();
        while !node.is_null() {
            // SAFETY: the swap gave this thread exclusive ownership of all linked nodes.
            let link = unsafe { &mut (*node).older };
            let older = std::mem::replace(link, newer);
            newer = node;
            node = older;
        }
        Chain { oldest: newer }
    }
}

impl<M> Drop for Inbox<M> {
    fn drop(&mut self) {
        self.take().for_each(drop);
    }
}

/// Letters taken from the mailbox, in reverse: each is linked to the next newer one.
struct Chain<M> {
    oldest: *mut Node<M>,
}

impl<M> Iterator for Chain<M> {
    type Item = M;

    fn next(&mut self) -> Option<M> {
        if self.oldest.is_null() {
            return None;
        }
        // SAFETY: from `Box::into_raw` in `post`; the chain belongs to `self` alone and holds each node once.
        let node = *unsafe { Box::from_raw(self.oldest) };
        self.oldest = node.older;
        Some(node.message)
    }
}

impl<M: Send> Default for Mailbox<M> {
    fn default() -> Self {
        Self::new()
    }
}

impl<M> fmt::Debug for Mailbox<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mailbox")
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Mailbox;
    use std::sync::Arc;

    #[test]
    fn delivers_in_order_of_posting() {
        let mailbox = Mailbox::new();
        let mut messages = vec![0];
        mailbox.drain(&mut messages);
        assert_eq!([1, 2, 3].map(|message| mailbox.post(message)), [Ok(false); 3]);
        assert_eq!(mailbox.unread_count(), 3);
        mailbox.drain(&mut messages);
        assert_eq!((messages, mailbox.unread_count()), (vec![0, 1, 2, 3], 0));
    }

    #[test]
    fn one_wake_up_is_requested_per_sleep() {
        let mailbox = Mailbox::new();
        assert!(mailbox.prepare_sleep());
        assert_eq!(mailbox.post(1), Ok(true));
        assert_eq!(mailbox.post(2), Ok(false));
        mailbox.awake();
        assert!(!mailbox.prepare_sleep());
        let mut messages = Vec::new();
        mailbox.drain(&mut messages);
        assert!(mailbox.prepare_sleep());
        mailbox.awake();
        assert_eq!(mailbox.post(3), Ok(false));
        mailbox.drain(&mut messages);
        assert_eq!(messages, [1, 2, 3]);
    }

    #[test]
    fn drains_nothing_while_asleep() {
        let mailbox = Mailbox::<u8>::new();
        assert!(mailbox.prepare_sleep());
        mailbox.drain(&mut Vec::new());
        assert_eq!(mailbox.post(1), Ok(false));
    }

    #[test]
    fn refuses_messages_once_closed() {
        let mailbox = Mailbox::new();
        assert_eq!(mailbox.post(1), Ok(false));
        assert!(!mailbox.close(), "mail is unread");
        let mut messages = Vec::new();
        mailbox.drain(&mut messages);
        assert!(mailbox.close());
        assert_eq!((mailbox.post(2), mailbox.unread_count()), (Err(2), 0));
        mailbox.drain(&mut messages);
        assert_eq!(mailbox.post(3), Err(3), "draining does not open it");
        mailbox.open();
        assert_eq!(mailbox.post(4), Ok(false));
        mailbox.open();
        mailbox.drain(&mut messages);
        assert_eq!(messages, [1, 4]);
    }

    #[test]
    fn undrained_messages_are_dropped() {
        let witness = Arc::new(());
        let mailbox = Mailbox::new();
        let _ = mailbox.post(Arc::clone(&witness));
        let _ = mailbox.post(Arc::clone(&witness));
        drop(mailbox);
        assert_eq!(Arc::strong_count(&witness), 1);
        let asleep = Mailbox::<u8>::new();
        assert!(asleep.prepare_sleep());
    }
}
