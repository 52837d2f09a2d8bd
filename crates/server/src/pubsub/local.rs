//! The subscriptions of a worker: its mail, numbered in the order of arrival, and for each name its subscribed
//! connections (`subscribers.rs`).
//!
//! Touched by its own worker only: by the worker itself between commands, and by handlers through the host.
//! Invariants:
//! 1. Mail is handled in the order of its numbers.
//! 2. A connection gets a message if it was counted for it: the stamp of the message for the name is that of
//!    the subscription, or a later one, and before that of its end. For prefixes the number of the mail is used instead of
//!    stamps; a broadcast that is posted while the subscription ends may still arrive before the reply.
//! 3. A connection may get messages from the mail ahead of the others; `delivered_seq` in its session is the
//!    number of the last mail so delivered.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use commands::session::{Session, SessionFlags};
use commands::subscriptions::{Name, SUBSCRIPTION_KINDS, SubscriptionKind, Subscriptions};
use wire::reply::ReplyBuffer;

use super::hub::Hub;
use super::invalidation::write_invalidation_of_all;
use super::subscribers::{Receivers, SubscribersByName};
use crate::connection::Connection;
use crate::connection::token::Token;
use crate::mail::invalidation::{Broadcast, Invalidation};
use crate::mail::message::{Heading, Message, MessageForm};
use crate::mail::{Mail, WorkerHandle};

/// The local subscriptions of a worker.
pub struct LocalSubscriptions {
    thread: usize,
    hub: &'static Hub,
    handle: &'static WorkerHandle,
    inbox: RefCell<Inbox>,
    subscribers: RefCell<SubscribersByName>,
    /// The number of the oldest joins that are settled once the mail up to a number is handled.
    settling: Cell<Option<(usize, u64)>>,
    /// The connection whose requests are being executed.
    current_client: Cell<Token>,
    /// Messages for a connection that unsubscribed within a transaction, to be sent after the transaction.
    late: RefCell<Vec<u8>>,
}

/// Mail that was fetched and not handled yet.
#[derive(Default)]
struct Inbox {
    queue: VecDeque<(u64, Mail)>,
    /// Number of the last mail.
    last: u64,
    scratch: Vec<Mail>,
}

/// A subscription that has ended, and the stamp from which on it gets no messages.
type Ended<'a> = (SubscriptionKind, &'a Name, u64);

/// Number of recent subscriptions from which on the worker finds out which messages may still arrive for them.
const JOIN_COUNT_MAX: usize = 1024;

impl LocalSubscriptions {
    /// Returns the local subscriptions of a worker with this handle.
    #[must_use]
    pub fn new(thread: usize, hub: &'static Hub, handle: &'static WorkerHandle) -> Self {
        Self {
            thread,
            hub,
            handle,
            inbox: RefCell::default(),
            subscribers: RefCell::default(),
            settling: Cell::new(None),
            current_client: Cell::new(Token(0)),
            late: RefCell::default(),
        }
    }

    /// Sets the connection whose requests are executed from now on.
    #[inline]
    pub fn set_current_client(&self, token: Token) {
        self.current_client.set(token);
    }

    /// Fetches all mail that has arrived.
    pub fn fetch(&self) {
        if self.handle.mailbox().unread_count() == 0 {
            return;
        }
        let inbox = &mut *self.inbox.borrow_mut();
        self.handle.mailbox().drain(&mut inbox.scratch);
        for mail in inbox.scratch.drain(..) {
            inbox.last += 1;
            inbox.queue.push_back((inbox.last, mail));
        }
    }

    /// Takes the oldest fetched mail.
    pub fn next(&self) -> Option<(u64, Mail)> {
        let next = self.inbox.borrow_mut().queue.pop_front();
        if let Some((count, last)) = self.settling.get()
            && next.as_ref().is_none_or(|(number, _)| *number > last)
        {
            self.settling.set(None);
            self.subscribers.borrow_mut().settle(count);
        }
        next
    }

    /// Forgets recent subscriptions, which keep names. To be called now and then.
    pub fn forget_joins(&self) {
        self.settle_joins(1);
    }

    /// When the recent subscriptions are so many, finds out until which mail messages from before them may arrive.
    fn settle_joins(&self, count_min: usize) {
        let count = self.subscribers.borrow().join_count();
        if count < count_min || self.settling.get().is_some() {
            return;
        }
        // Their publishers are inside the passage, or have posted them.
        self.hub.await_publishers();
        self.fetch();
        let inbox = self.inbox.borrow();
        if inbox.queue.is_empty() {
            self.subscribers.borrow_mut().settle(count);
        } else {
            self.settling.set(Some((count, inbox.last)));
        }
    }

    /// Whether there is mail, fetched or not.
    #[must_use]
    #[inline]
    pub fn has_mail(&self) -> bool {
        self.handle.mailbox().unread_count() > 0 || !self.inbox.borrow().queue.is_empty()
    }

    /// Subscribes the current client to a name, unless it is subscribed to it.
    pub fn begin(&self, session: &mut Session, kind: SubscriptionKind, name: &[u8]) {
        let hash = self.hub.hash(name);
        if session.subscribed_name(kind, hash, name).is_some() {
            return;
        }
        let (shared, since) = if kind == SubscriptionKind::Prefix {
            let shared = self.hub.begin_prefix(name, self.thread, || self.fetch());
            (shared, self.inbox.borrow().last)
        } else {
            self.hub.begin(kind, (hash, name), self.thread)
        };
        self.subscribers.borrow_mut().insert(kind, shared.clone(), self.current_client.get(), since);
        self.settle_joins(JOIN_COUNT_MAX);
        session.add_subscription(kind, shared);
    }

    /// Unsubscribes the current client from a name, if it is subscribed to it; messages published before go to `out`.
    pub fn end(&self, session: &mut Session, kind: SubscriptionKind, name: &[u8], out: &mut ReplyBuffer<'_>) {
        let hash = self.hub.hash(name);
        let Some(name) = session.subscribed_name(kind, hash, name).cloned() else { return };
        let ended = self.leave(kind, &name);
        self.catch_up_until(ended, session, out);
        self.subscribers.borrow_mut().remove(kind, &name, self.current_client.get());
        session.remove_subscription(kind, hash, &name);
    }

    /// Ends a subscription for publishers, and fetches or awaits what they have counted for it.
    fn leave<'a>(&self, kind: SubscriptionKind, name: &'a Name) -> Option<Ended<'a>> {
        if kind == SubscriptionKind::Prefix {
            self.hub.end_prefix(name, self.thread, || self.fetch());
            return None;
        }
        let until = self.hub.end(kind, (name.hash_value(), name), self.thread);
        self.hub.await_publishers();
        Some((kind, name, until))
    }

    /// Delivers the mail for the current client: to `out`, or within a transaction after its end.
    pub fn catch_up(&self, session: &mut Session, out: &mut ReplyBuffer<'_>) {
        self.catch_up_until(None, session, out);
    }

    fn catch_up_until(&self, ended: Option<Ended<'_>>, session: &mut Session, out: &mut ReplyBuffer<'_>) {
        let token = self.current_client.get();
        self.fetch();
        if session.flags.contains(SessionFlags::IN_EXEC) {
            self.write_pending(token, ended, session, &mut self.late.borrow_mut());
        } else {
            let mut pending = Vec::new();
            self.write_pending(token, ended, session, &mut pending);
            out.raw(&pending);
        }
    }

    /// Delivers the mail for the current client, after a command that it ran.
    pub fn deliver_after_command(&self, session: &mut Session, out: &mut Vec<u8>) {
        if self.has_mail() {
            self.fetch();
            self.write_pending(self.current_client.get(), None, session, out);
        }
    }

    /// Delivers messages that were held back during a transaction, which is now over.
    pub fn deliver_after_transaction(&self, out: &mut Vec<u8>) {
        out.append(&mut self.late.borrow_mut());
    }

    /// Swaps the messages that are held back with `late`: a paused transaction keeps its own.
    pub fn exchange_late(&self, late: &mut Vec<u8>) {
        std::mem::swap(late, &mut self.late.borrow_mut());
    }

    /// Writes the fetched mail for a connection, and marks it as delivered. `ended`: a subscription that is still listed.
    fn write_pending(
        &self,
        token: Token,
        ended: Option<Ended<'_>>,
        session: &mut Session,
        out: &mut Vec<u8>,
    ) {
        let delivered_seq = session.delivered_seq;
        let inbox = &mut *self.inbox.borrow_mut();
        for (number, mail) in &mut inbox.queue {
            match mail {
                Mail::Invalidated(invalidation) if invalidation.client == session.id => {
                    invalidation.write_to(self.hub, session, out);
                    self.hub.delivered(self.thread, invalidation.size());
                    *mail = Mail::Nothing;
                }
                Mail::Published(message) if *number > delivered_seq => {
                    self.for_each_name(message, |(kind, name), receivers, stamp, form| {
                        let is_over = ended.is_some_and(|(of, ended, until)| {
                            of == kind && **ended == *name && until <= stamp
                        });
                        if !is_over && receivers.contains(token) {
                            form.write(out, session.protocol);
                        }
                    });
                }
                Mail::Broadcast(broadcast)
                    if *number > delivered_seq && self.is_for(broadcast, *number, token) =>
                {
                    broadcast.write_to(self.hub, session, out);
                }
                Mail::InvalidatedAll if *number > delivered_seq => {
                    write_invalidation_of_all(self.hub, session, out)
                }
                _ => {}
            }
        }
        session.delivered_seq = inbox.last;
    }

    /// Calls `visit` with the subscribers of the prefix of a broadcast that arrived by the mail with this number: those that
    /// began after earlier mail.
    fn with_receivers_of(&self, broadcast: &Broadcast, number: u64, visit: impl FnOnce(Receivers<'_>)) {
        let prefix = &broadcast.prefix;
        let all = self.subscribers.borrow();
        all.receivers(SubscriptionKind::Prefix, (prefix.hash_value(), prefix), number - 1).map(visit);
    }

    fn is_for(&self, broadcast: &Broadcast, number: u64, token: Token) -> bool {
        let mut is_for = false;
        self.with_receivers_of(broadcast, number, |receivers| is_for = receivers.contains(token));
        is_for
    }

    /// The receivers of a broadcast.
    pub fn broadcast_receivers(&self, number: u64, broadcast: &Broadcast) -> Vec<Token> {
        self.hub.delivered(self.thread, broadcast.size());
        let mut tokens = Vec::new();
        self.with_receivers_of(broadcast, number, |receivers| receivers.for_each(|token| tokens.push(token)));
        tokens
    }

    /// Returns an invalidation whose connection has moved, to be forwarded; marks it as delivered
    /// otherwise.
    pub fn receive_invalidation(&self, invalidation: Invalidation, is_here: bool) -> Option<Invalidation> {
        self.hub.delivered(self.thread, invalidation.size());
        if is_here {
            return Some(invalidation);
        }
        self.hub.forward(invalidation);
        None
    }

    /// Calls `deliver` for each receiver of a message, with the message's form for it.
    pub fn deliver(&self, message: &Message, mut deliver: impl FnMut(Token, MessageForm<'_>)) {
        self.for_each_name(message, |_, receivers, _, form| {
            receivers.for_each(|token| deliver(token, form));
        });
        self.hub.delivered(self.thread, message.size());
    }

    /// Calls `visit` with each name that a message is for, the connections that get it, and the stamp of its audience.
    fn for_each_name(
        &self,
        message: &Message,
        mut visit: impl FnMut((SubscriptionKind, &[u8]), &Receivers<'_>, u64, MessageForm<'_>),
    ) {
        let all = self.subscribers.borrow();
        let Heading { kind, stamp, patterns } = &message.heading;
        // Without a stamp it has no subscribers besides those of patterns.
        let name = message.channel();
        if *stamp > 0
            && let Some(receivers) = all.receivers(*kind, (self.hub.hash(name), name), *stamp)
        {
            visit((*kind, name), &receivers, *stamp, message.to_channel());
        }
        let mut head = Vec::new();
        for (pattern, stamp) in patterns {
            let name = (pattern.hash_value(), &**pattern);
            if let Some(receivers) = all.receivers(SubscriptionKind::Pattern, name, *stamp) {
                let form = message.to_pattern(pattern, &mut head);
                visit((SubscriptionKind::Pattern, pattern), &receivers, *stamp, form);
            }
        }
    }

    /// Removes the subscriptions of a closed connection.
    pub fn remove(&self, token: Token, subscriptions: &Subscriptions) {
        let mut subscribers = self.subscribers.borrow_mut();
        for kind in SUBSCRIPTION_KINDS {
            for name in subscriptions.names(kind) {
                if kind == SubscriptionKind::Prefix {
                    self.hub.end_prefix(name, self.thread, || ());
                } else {
                    self.hub.end(kind, (name.hash_value(), name), self.thread);
                }
                subscribers.remove(kind, name, token);
            }
        }
    }

    /// Hands a connection over to another worker. It gets the messages published until now. `leave` posts it to
    /// the new worker, and runs while nothing is published: later messages follow it. Redirected invalidations
    /// reach a connection anywhere.
    pub fn hand_off(&self, mut connection: Box<Connection>, to: usize, leave: impl FnOnce(Box<Connection>)) {
        let (session, token) = (&connection.client.session, connection.client.token);
        let names: Vec<(SubscriptionKind, Name)> = SUBSCRIPTION_KINDS
            .iter()
            .flat_map(|kind| session.names_of(*kind).into_iter().map(|name| (*kind, name)))
            .collect();
        let client = (session.id, session.tracking.is_some());
        self.hub.change_thread(client, &names, (self.thread, to), |since| {
            self.fetch();
            let client = &mut connection.client;
            self.write_pending(token, None, &mut client.session, &mut client.replies.bytes);
            connection.subscribed_since = since;
            leave(connection);
        });
        let mut subscribers = self.subscribers.borrow_mut();
        names.iter().for_each(|(kind, name)| subscribers.remove(*kind, name, token));
    }

    /// Registers a connection that has arrived from another worker by the mail with this number.
    pub fn register_moved(&self, token: Token, session: &mut Session, since: u64, number: u64) {
        // Earlier mail was for other connections, or went to its old worker.
        session.delivered_seq = number;
        let Some(subscriptions) = &session.subscriptions else { return };
        let mut subscribers = self.subscribers.borrow_mut();
        for kind in SUBSCRIPTION_KINDS {
            for name in subscriptions.names(kind) {
                let since = if kind == SubscriptionKind::Prefix { number } else { since };
                subscribers.insert(kind, name.clone(), token, since);
            }
        }
        drop(subscribers);
        self.settle_joins(JOIN_COUNT_MAX);
    }
}

#[cfg(test)]
mod tests {
    use commands::acl::Users;
    use commands::session::Endpoints;
    use commands::table::CATALOGUE;
    use wire::reply::Protocol;

    use super::*;
    use crate::mail::Workers;

    #[test]
    fn an_ending_subscription_gets_no_message_that_does_not_count_it() {
        const KIND: SubscriptionKind = SubscriptionKind::Channel;
        let workers: &'static Workers = Box::leak(Box::new(Workers::all_open()));
        let hub: &'static Hub = Box::leak(Box::new(Hub::new(workers)));
        let local = LocalSubscriptions::new(0, hub, workers.handle(0));
        let session = |id| Session::new(id, Endpoints::none(""), &Users::new(&CATALOGUE));
        let (mut staying, mut ending) = (session(1), session(2));
        local.set_current_client(Token::new(0, 0, 1));
        local.begin(&mut staying, KIND, b"c");
        local.set_current_client(Token::new(0, 0, 2));
        local.begin(&mut ending, KIND, b"c");
        assert_eq!(hub.publish(1, KIND, b"c", b"first"), 2);
        let name = Name::new(hub.hash(b"c"), b"c");
        let ended = local.leave(KIND, &name);
        assert_eq!(hub.publish(1, KIND, b"c", b"second"), 1);
        let mut out = Vec::new();
        local.catch_up_until(ended, &mut ending, &mut ReplyBuffer::new(&mut out, Protocol::Resp2));
        assert_eq!(out.escape_ascii().to_string(), r"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$5\r\nfirst\r\n");
    }
}
