//! The subscriptions as all workers see them: for each name the workers with subscribers, and how many each has.
//!
//! Owns these numbers and no state of a connection. Touches other workers by mail only.
//! Invariants:
//! 1. A worker's number for a name is that of the connections in its
//!    [`LocalSubscriptions`](super::LocalSubscriptions), except for connections that are being moved there.
//! 2. A message carries the stamp of each audience that it is counted for. A subscription has the stamp of the
//!    first audience that counts it: it gets the messages with that stamp or a later one.
//! 3. Mail is posted inside the passage, where the audiences are read. An unsubscription changes the audience
//!    and then waits until all publishers inside have left: then all mail that it is counted for has arrived.
//! 4. No message or invalidation is sent while a connection that may get some changes its worker: the passage is closed.
//!    That holds for connections with subscriptions or tracking, and for those to which others redirect.
//! 5. Prefixes have a table of their own, behind a lock, under which their mail is posted; so have
//!    redirections. Locks are acquired in this order: one of `orders`, that of the prefixes, those within names.
//!
//! Cost: a publisher writes to a cache line of its own worker, and shares the lock of the channel's shard while it reads the
//! audience. A client's `PUBLISH` also acquires one lock of [`ORDER_COUNT`], so that all subscribers get the messages of
//! a channel in one order. The latch of a key's slot orders its events.

use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::sync::Arc;

use base::limits::{REPLAY_THREAD, THREAD_COUNT_MAX};
use commands::session::Session;
use commands::subscriptions::{Name, SubscriptionKind};
use commands::table::ResolvedCommand;
use commands::tracking::Redirection;
use config::Config;
use os::clock;
use sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use sync::{HashMap, Inside, Mutex, MutexGuard, OnceLock, Padded, Passage, RandomState};
use wire::request::Args;

use super::channels::Channels;
use super::names::{Audience, NamedAudience, Patterns};
use crate::connection::registry::Registry;
use crate::mail::message::{Heading, Message, SHARED_TEXT_SIZE_MIN};
use crate::mail::{Mail, Workers};
use crate::monitoring::monitor;

/// Locks for the order of messages, to which channels are assigned by hash.
const ORDER_COUNT: usize = 256;

/// Bytes of unread mail of a worker from which publishers must wait.
const BACKLOG_SIZE_MAX: u64 = 1 << 20;

/// The state of publishing and invalidation shared by all workers.
pub struct Hub {
    workers: &'static Workers,
    hasher: RandomState,
    channels: Channels,
    shard_channels: Channels,
    patterns: Patterns,
    caching: Mutex<Caching>,
    /// Number of prefixes.
    prefix_count: AtomicU32,
    /// Counts changes of audiences; the source of stamps.
    changes: Padded<AtomicU64>,
    /// Counts the publishers that may be reading audiences.
    passage: Passage,
    /// Held while a client's message is published.
    orders: Box<[Padded<Mutex<()>>]>,
    /// The registry of connections, once it is set.
    clients: OnceLock<&'static Registry>,
    backlogs: Box<[Padded<Backlog>]>,
    /// One more than the highest index of a worker that has received mail: the bound of sums.
    seen_backlogs: AtomicUsize,
    senders: Box<[Padded<Sender>]>,
    /// Number of congested workers.
    congested_count: AtomicU32,
    /// The size from which on receivers share the text of a message, in bytes.
    shared_size_min: AtomicUsize,
}

/// Receivers of changes besides the readers of a key.
#[derive(Default)]
pub(super) struct Caching {
    /// The audiences of broadcast mode, by prefix.
    pub prefixes: HashMap<Name, Audience>,
    /// The targets of connections that redirect their invalidations, by client id.
    pub redirections: BTreeMap<u64, Redirection>,
}

/// The bytes of unread mail of a worker.
#[derive(Default)]
struct Backlog {
    size: AtomicU64,
    is_congested: AtomicBool,
}

/// The recent sends of a worker; written by that worker only.
#[derive(Default)]
struct Sender {
    /// One more than the index of a congested worker that it has sent to since the last call of `take_congested_target`;
    /// 0: none.
    congested_target: AtomicU32,
}

/// The workers, and the replay of an append-only file.
const SENDER_COUNT: usize = REPLAY_THREAD + 1;

/// A set of workers.
#[derive(Default)]
struct ThreadSet([u64; THREAD_COUNT_MAX.div_ceil(64)]);

impl ThreadSet {
    fn insert_all(&mut self, audience: &Audience) {
        for thread in audience.threads() {
            self.0[thread / 64] |= 1 << (thread % 64);
        }
    }

    fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..THREAD_COUNT_MAX).filter(|thread| self.0[thread / 64] >> (thread % 64) & 1 == 1)
    }
}

fn lock<T>(names: &Mutex<T>) -> MutexGuard<'_, T> {
    names.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Hub {
    /// Returns a hub without subscriptions.
    #[must_use]
    pub fn new(workers: &'static Workers) -> Self {
        assert!(THREAD_COUNT_MAX <= 1 + u8::MAX as usize, "a thread's number is a byte here");
        Self {
            workers,
            hasher: RandomState::new(),
            channels: Channels::default(),
            shard_channels: Channels::default(),
            patterns: Patterns::default(),
            caching: Mutex::default(),
            prefix_count: AtomicU32::new(0),
            changes: Padded::default(),
            passage: Passage::new(SENDER_COUNT),
            orders: (0..ORDER_COUNT).map(|_| Padded::default()).collect(),
            clients: OnceLock::new(),
            backlogs: (0..THREAD_COUNT_MAX).map(|_| Padded(Backlog::default())).collect(),
            seen_backlogs: AtomicUsize::new(0),
            senders: (0..SENDER_COUNT).map(|_| Padded(Sender::default())).collect(),
            congested_count: AtomicU32::new(0),
            shared_size_min: AtomicUsize::new(SHARED_TEXT_SIZE_MIN),
        }
    }

    /// Follows `min-string-size-avoid-copy-reply-threaded`: with 0, no text is shared.
    pub fn follow_config(&self, config: &Config) {
        let shares = config.min_string_size_avoid_copy_reply_threaded > 0;
        let size_min = if shares { SHARED_TEXT_SIZE_MIN } else { usize::MAX };
        self.shared_size_min.store(size_min, Ordering::Relaxed);
    }

    pub(super) fn lock_caching(&self) -> MutexGuard<'_, Caching> {
        lock(&self.caching)
    }

    /// Sets the redirection of a connection's invalidations; `None` ends it.
    pub fn set_redirection(&self, client: u64, redirection: Option<Redirection>) {
        let redirections = &mut self.lock_caching().redirections;
        match redirection {
            Some(redirection) => redirections.insert(client, redirection),
            None => redirections.remove(&client),
        };
    }

    /// Sets the registry, by which connections are found by client id.
    pub fn set_registry(&self, clients: &'static Registry) {
        let _ = self.clients.set(clients);
    }

    /// Shows a request that runs on a worker to the monitors of all workers.
    pub fn show_to_monitors(&self, sender: usize, session: &Session, found: ResolvedCommand, args: Args<'_>) {
        let line: Arc<[u8]> = monitor::line(session, found, args, clock::unix_micros()).into();
        for thread in self.workers.occupied() {
            self.expect(Some(sender), thread, line.len() as u64);
            self.workers.post(thread, Mail::Monitor(Arc::clone(&line)));
        }
    }

    pub(super) fn clients(&self) -> Option<&'static Registry> {
        self.clients.get().copied()
    }

    pub(super) fn workers(&self) -> &'static Workers {
        self.workers
    }

    /// Returns the hash of a name, by which all tables of names find it.
    #[inline]
    pub fn hash(&self, name: &[u8]) -> u64 {
        self.hasher.hash_one(name)
    }

    /// The channels of a kind.
    fn channels_of(&self, kind: SubscriptionKind) -> &Channels {
        if kind == SubscriptionKind::ShardChannel { &self.shard_channels } else { &self.channels }
    }

    /// Changes the audience of a name of any kind but prefixes. Returns the shared name, and the audience's stamp.
    fn change(
        &self,
        kind: SubscriptionKind,
        (hash, name): (u64, &[u8]),
        change: impl Fn(&mut Audience),
    ) -> (Name, u64) {
        let mut stamp = 0;
        let mut stamped = |audience: &mut Audience| {
            change(audience);
            // Under the lock of the changing thread, so that a name's stamps grow.
            stamp = self.changes.fetch_add(1, Ordering::SeqCst) + 1;
            audience.stamp = stamp;
        };
        let shared = match kind {
            SubscriptionKind::Channel | SubscriptionKind::ShardChannel => {
                self.channels_of(kind).change(hash, name, &mut stamped)
            }
            SubscriptionKind::Pattern => self.patterns.change(hash, name, &mut stamped),
            SubscriptionKind::Prefix => unreachable!("prefixes have a table of their own"),
        };
        (shared, stamp)
    }

    /// Counts a subscription of a connection of a worker to a name, given with its hash. Returns the shared name, and the stamp from which on
    /// the connection gets messages.
    pub fn begin(&self, kind: SubscriptionKind, name: (u64, &[u8]), thread: usize) -> (Name, u64) {
        self.change(kind, name, |audience| audience.add(thread))
    }

    /// Ends a subscription of a connection of a worker. Returns the stamp from which on the connection gets no messages.
    pub fn end(&self, kind: SubscriptionKind, name: (u64, &[u8]), thread: usize) -> u64 {
        self.change(kind, name, |audience| audience.remove(thread)).1
    }

    /// Waits until all mail is posted that was counted for ended subscriptions.
    pub fn await_publishers(&self) {
        self.passage.await_inside();
    }

    /// Adds a connection of a worker in broadcast mode to a prefix; `meanwhile` runs while no broadcast is posted.
    pub fn begin_prefix(&self, prefix: &[u8], thread: usize, meanwhile: impl FnOnce()) -> Name {
        let prefixes = &mut self.lock_caching().prefixes;
        let known = prefixes.get_key_value(prefix).map(|(shared, _)| shared.clone());
        let shared = known.unwrap_or_else(|| Name::new(self.hash(prefix), prefix));
        prefixes.entry(shared.clone()).or_default().add(thread);
        self.prefix_count.store(prefixes.len() as u32, Ordering::SeqCst);
        meanwhile();
        shared
    }

    /// Removes a connection in broadcast mode from a prefix; `meanwhile` runs while no broadcast is posted.
    pub fn end_prefix(&self, prefix: &[u8], thread: usize, meanwhile: impl FnOnce()) {
        let prefixes = &mut self.lock_caching().prefixes;
        let Some(audience) = prefixes.get_mut(prefix) else {
            panic!("the prefix has no subscribers to remove")
        };
        audience.remove(thread);
        if audience.is_empty() {
            prefixes.remove(prefix);
        }
        self.prefix_count.store(prefixes.len() as u32, Ordering::SeqCst);
        meanwhile();
    }

    /// Moves a client's connection to another worker with all its subscriptions; `meanwhile` runs while nothing is published
    /// that it may get. It must send the connection to the new worker, with the stamp from which messages go to it there.
    /// `is_tracking`: it may get invalidations.
    pub fn change_thread(
        &self,
        (client, is_tracking): (u64, bool),
        names: &[(SubscriptionKind, Name)],
        (from, to): (usize, usize),
        meanwhile: impl FnOnce(u64),
    ) {
        let caching = &mut *self.lock_caching();
        let is_target = || caching.redirections.values().any(|redirection| redirection.target == client);
        let may_receive = is_tracking || !names.is_empty() || is_target();
        let prefixes = &mut caching.prefixes;
        // The lock of the prefixes ensures that no other thread closes it. Publishers need not wait for the move of a
        // connection that gets nothing.
        let _closed = may_receive.then(|| self.passage.close());
        let since = self.changes.load(Ordering::SeqCst) + 1;
        for (kind, name) in names {
            if *kind != SubscriptionKind::Prefix {
                self.change(*kind, (name.hash_value(), name), |audience| {
                    audience.remove(from);
                    audience.add(to);
                });
            } else if let Some(audience) = prefixes.get_mut(name) {
                audience.remove(from);
                audience.add(to);
            }
        }
        meanwhile(since);
    }

    /// Sends a client's message from its worker to all subscribers, one mail for each worker. Returns the
    /// number of subscribers. All subscribers get the messages of a channel in the same order.
    pub fn publish(&self, sender: usize, kind: SubscriptionKind, channel: &[u8], text: &[u8]) -> u64 {
        let hash = self.hash(channel);
        let _order = lock(&self.orders[hash as usize % ORDER_COUNT]);
        self.post_to(sender, kind, (hash, channel), text)
    }

    /// Whether any channel may be one of keyspace events.
    #[must_use]
    pub fn has_event_channels(&self) -> bool {
        self.channels.has_event_names()
    }

    /// Publishes without ordering: called under the latch that orders the events of a key.
    pub fn post(&self, sender: usize, kind: SubscriptionKind, channel: &[u8], text: &[u8]) -> u64 {
        self.post_to(sender, kind, (self.hash(channel), channel), text)
    }

    fn post_to(
        &self,
        sender: usize,
        kind: SubscriptionKind,
        (hash, channel): (u64, &[u8]),
        text: &[u8],
    ) -> u64 {
        let _inside = self.passage.enter(sender);
        let mut threads = ThreadSet::default();
        let mut count = 0;
        let mut count_audience = |audience: &Audience| {
            threads.insert_all(audience);
            count += audience.count();
            audience.stamp
        };
        let stamp = self.channels_of(kind).with_audience(hash, channel, &mut count_audience).unwrap_or(0);
        let mut matching = Vec::new();
        if kind == SubscriptionKind::Channel && self.patterns.len() > 0 {
            self.patterns.for_each(|NamedAudience { name, audience }| {
                if base::glob::matches(name, channel) {
                    matching.push((name.clone(), count_audience(audience)));
                }
            });
        }
        if count > 0 {
            let heading = Heading { kind, stamp, patterns: matching };
            let message =
                Arc::new(Message::new(heading, channel, text, self.shared_size_min.load(Ordering::Relaxed)));
            for thread in threads.iter() {
                self.expect(Some(sender), thread, message.size());
                self.workers.post(thread, Mail::Published(Arc::clone(&message)));
            }
        }
        count
    }

    /// Until the result is dropped, no connection with tracking or subscriptions changes its worker. Must not
    /// be called by a worker that is publishing.
    pub(super) fn block_moves(&self, sender: usize) -> Inside<'_> {
        self.passage.enter(sender)
    }

    /// Counts bytes about to be sent to a worker. If that worker becomes congested, this is recorded for the
    /// sender, if there is one that can wait.
    pub fn expect(&self, sender: Option<usize>, thread: usize, size: u64) {
        if thread >= self.seen_backlogs.load(Ordering::Relaxed) {
            self.seen_backlogs.fetch_max(thread + 1, Ordering::Relaxed);
        }
        let backlog = &self.backlogs[thread].0;
        let before = backlog.size.fetch_add(size, Ordering::SeqCst);
        if before + size > BACKLOG_SIZE_MAX && !backlog.is_congested.swap(true, Ordering::SeqCst) {
            self.congested_count.fetch_add(1, Ordering::SeqCst);
        }
        if let Some(sender) = sender
            && backlog.is_congested.load(Ordering::SeqCst)
        {
            self.senders[sender].0.congested_target.store(thread as u32 + 1, Ordering::Relaxed);
        }
    }

    /// Whether a worker has sent to a congested one since [`Self::take_congested_target`].
    #[inline]
    pub fn has_congested_target(&self, sender: usize) -> bool {
        self.senders[sender].0.congested_target.load(Ordering::Relaxed) != 0
    }

    /// Returns a congested worker that this one has sent to since the last call. To be called by that worker.
    pub fn take_congested_target(&self, sender: usize) -> Option<usize> {
        let congested_target = &self.senders[sender].0.congested_target;
        let thread = (congested_target.load(Ordering::Relaxed) as usize).checked_sub(1)?;
        congested_target.store(0, Ordering::Relaxed);
        Some(thread)
    }

    /// Whether a worker is congested: its unread mail exceeds the limit.
    #[must_use]
    pub fn is_thread_congested(&self, thread: usize) -> bool {
        self.backlogs[thread].0.is_congested.load(Ordering::SeqCst)
    }

    /// Whether a message to a channel would go to a congested worker.
    #[must_use]
    pub fn is_audience_congested(&self, kind: SubscriptionKind, channel: &[u8]) -> bool {
        let is_congested =
            |audience: &Audience| audience.threads().any(|thread| self.is_thread_congested(thread));
        let hash = self.hash(channel);
        let mut found = self.channels_of(kind).with_audience(hash, channel, is_congested).unwrap_or(false);
        if kind == SubscriptionKind::Channel && !found {
            self.patterns.for_each(|NamedAudience { name, audience }| {
                found = found || (is_congested(audience) && base::glob::matches(name, channel));
            });
        }
        found
    }

    /// Counts bytes as delivered by a worker.
    pub fn delivered(&self, thread: usize, size: u64) {
        let backlog = &self.backlogs[thread].0;
        let left = backlog.size.fetch_sub(size, Ordering::SeqCst) - size;
        // A sender that finds it congested has posted mail after this, which will be delivered here in turn.
        if left <= BACKLOG_SIZE_MAX / 2 && backlog.is_congested.swap(false, Ordering::SeqCst) {
            self.congested_count.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Bytes of unread mail of all workers.
    #[must_use]
    pub fn underway_bytes(&self) -> u64 {
        let seen = &self.backlogs[..self.seen_backlogs.load(Ordering::Relaxed)];
        seen.iter().map(|backlog| backlog.0.size.load(Ordering::Relaxed)).sum()
    }

    /// Whether any worker is congested: senders of more must wait.
    #[must_use]
    #[inline]
    pub fn is_congested(&self) -> bool {
        self.congested_count.load(Ordering::Relaxed) > 0
    }

    /// Number of names of a kind with subscribers.
    #[must_use]
    #[inline]
    pub fn name_count(&self, kind: SubscriptionKind) -> usize {
        match kind {
            SubscriptionKind::Channel => self.channels.len(),
            SubscriptionKind::ShardChannel => self.shard_channels.len(),
            SubscriptionKind::Pattern => self.patterns.len(),
            SubscriptionKind::Prefix => self.prefix_count.load(Ordering::SeqCst) as usize,
        }
    }

    /// The names of a kind with subscribers.
    #[must_use]
    pub fn names(&self, kind: SubscriptionKind) -> Vec<Name> {
        match kind {
            SubscriptionKind::Channel => self.channels.names(),
            SubscriptionKind::ShardChannel => self.shard_channels.names(),
            SubscriptionKind::Pattern => self.patterns.names(),
            SubscriptionKind::Prefix => self.lock_caching().prefixes.keys().cloned().collect(),
        }
    }

    /// Number of connections subscribed to a name.
    #[must_use]
    pub fn subscriber_count(&self, kind: SubscriptionKind, name: &[u8]) -> u64 {
        let count = match kind {
            SubscriptionKind::Channel | SubscriptionKind::ShardChannel => {
                self.channels_of(kind).with_audience(self.hash(name), name, Audience::count)
            }
            SubscriptionKind::Pattern => self.patterns.with_audience(name, Audience::count),
            SubscriptionKind::Prefix => self.lock_caching().prefixes.get(name).map(Audience::count),
        };
        count.unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;
