//! Who listens to what, as all threads know it: for each name the threads that have listeners, and how many each has.
//!
//! Owns these numbers and nothing of a connection. Touches other threads by mail only.
//! Invariants:
//! 1. A name is in its table exactly as long as somebody listens to it.
//! 2. A thread's number for a name is that of the connections in its [`Ears`](super::Ears), but for those on their way there.
//! 3. Mail for those who listen to a name is posted while the name's table is locked. Locks are taken in the order of
//!    [`Hub::lock_all`].
//!
//! Cost: a publisher takes one lock in [`SHARD_COUNT`], for as long as the mail takes; a second one, shared, if there are
//! patterns.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, RwLock, RwLockReadGuard, RwLockWriteGuard};

use base::limits::THREAD_COUNT_MAX;
use commands::listening::{TOPICS, Topic};
use sync::Padded;

use super::message::Message;
use crate::mail::{Mail, Seats};
use crate::registry::Registry;

/// Tables that the channels are spread over.
const SHARD_COUNT: usize = 64;

/// Bytes that may be on their way to a thread before publishers have to wait.
const BACKLOG_SIZE_MAX: u64 = 1 << 20;

/// What all threads share about listening.
pub struct Hub {
    seats: &'static Seats,
    hasher: RandomState,
    channels: Box<[Mutex<Names>]>,
    shard_channels: Box<[Mutex<Names>]>,
    patterns: RwLock<Names>,
    prefixes: Mutex<Names>,
    /// The connections, once they can be found.
    clients: OnceLock<&'static Registry>,
    /// Number of names of each topic.
    name_counts: [AtomicUsize; TOPICS.len()],
    backlogs: Box<[Padded<Backlog>]>,
    /// Threads with too much on its way to them.
    congested_count: AtomicU32,
}

pub(super) type Names = HashMap<Arc<[u8]>, Audience>;

/// The threads that listen to a name, each with its number of connections.
#[derive(Default)]
pub(super) struct Audience {
    threads: Vec<(u8, u32)>,
}

/// What is on its way to a thread.
#[derive(Default)]
struct Backlog {
    size: AtomicU64,
    is_congested: AtomicBool,
}

impl Audience {
    fn count(&self) -> u64 {
        self.threads.iter().map(|(_, count)| u64::from(*count)).sum()
    }

    fn add(&mut self, thread: usize) {
        match self.threads.iter_mut().find(|(known, _)| usize::from(*known) == thread) {
            Some((_, count)) => *count += 1,
            None => self.threads.push((thread as u8, 1)),
        }
    }

    fn remove(&mut self, thread: usize) {
        let at = self.threads.iter().position(|(known, _)| usize::from(*known) == thread);
        let Some(at) = at else { panic!("thread {thread} stops listening to what it does not listen to") };
        self.threads[at].1 -= 1;
        if self.threads[at].1 == 0 {
            self.threads.swap_remove(at);
        }
    }
}

/// A set of threads.
#[derive(Default)]
struct ThreadSet([u64; THREAD_COUNT_MAX.div_ceil(64)]);

impl ThreadSet {
    fn insert_all(&mut self, audience: &Audience) {
        for (thread, _) in &audience.threads {
            self.0[usize::from(*thread) / 64] |= 1 << (thread % 64);
        }
    }

    fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..THREAD_COUNT_MAX).filter(|thread| self.0[thread / 64] >> (thread % 64) & 1 == 1)
    }
}

/// A locked table of names.
enum Locked<'a> {
    Own(MutexGuard<'a, Names>),
    Shared(RwLockWriteGuard<'a, Names>),
}

impl Locked<'_> {
    fn names(&mut self) -> &mut Names {
        match self {
            Self::Own(names) => names,
            Self::Shared(names) => names,
        }
    }
}

fn lock(names: &Mutex<Names>) -> MutexGuard<'_, Names> {
    names.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Hub {
    /// A hub where nobody listens.
    #[must_use]
    pub fn new(seats: &'static Seats) -> Self {
        assert!(THREAD_COUNT_MAX <= 1 + u8::MAX as usize, "a thread's number is a byte here");
        Self {
            seats,
            hasher: RandomState::new(),
            channels: (0..SHARD_COUNT).map(|_| Mutex::default()).collect(),
            shard_channels: (0..SHARD_COUNT).map(|_| Mutex::default()).collect(),
            patterns: RwLock::default(),
            prefixes: Mutex::default(),
            clients: OnceLock::new(),
            name_counts: Default::default(),
            backlogs: (0..THREAD_COUNT_MAX).map(|_| Padded(Backlog::default())).collect(),
            congested_count: AtomicU32::new(0),
        }
    }

    fn shard<'a>(&self, shards: &'a [Mutex<Names>], name: &[u8]) -> MutexGuard<'a, Names> {
        lock(&shards[self.hasher.hash_one(name) as usize % SHARD_COUNT])
    }

    fn write_patterns(&self) -> RwLockWriteGuard<'_, Names> {
        self.patterns.write().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn read_patterns(&self) -> RwLockReadGuard<'_, Names> {
        self.patterns.read().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn lock(&self, topic: Topic, name: &[u8]) -> Locked<'_> {
        match topic {
            Topic::Channel => Locked::Own(self.shard(&self.channels, name)),
            Topic::ShardChannel => Locked::Own(self.shard(&self.shard_channels, name)),
            Topic::Pattern => Locked::Shared(self.write_patterns()),
            Topic::Prefix => Locked::Own(self.lock_prefixes()),
        }
    }

    pub(super) fn lock_prefixes(&self) -> MutexGuard<'_, Names> {
        lock(&self.prefixes)
    }

    /// The threads that listen to a name.
    pub(super) fn threads_of(names: &Names, name: &[u8]) -> Vec<usize> {
        let audience = names.get(name);
        audience.map_or_else(Vec::new, |audience| {
            audience.threads.iter().map(|(thread, _)| usize::from(*thread)).collect()
        })
    }

    /// From now on connections can be found by their number.
    pub fn introduce(&self, clients: &'static Registry) {
        let _ = self.clients.set(clients);
    }

    pub(super) fn clients(&self) -> Option<&'static Registry> {
        self.clients.get().copied()
    }

    pub(super) fn seats(&self) -> &'static Seats {
        self.seats
    }

    /// Locks everything, so that nobody publishes and nobody begins or ends to listen. For what is rare.
    fn lock_all(&self) -> Vec<Locked<'_>> {
        let shards = self.channels.iter().chain(&self.shard_channels);
        let mut all: Vec<Locked<'_>> = shards.map(|names| Locked::Own(lock(names))).collect();
        all.push(Locked::Shared(self.write_patterns()));
        all.push(Locked::Own(self.lock_prefixes()));
        all
    }

    fn name_count_of(&self, topic: Topic) -> &AtomicUsize {
        &self.name_counts[topic as usize]
    }

    /// A connection of a thread begins to listen; `meanwhile` runs while nobody publishes to the name. Returns the name as
    /// all share it.
    pub fn begin(&self, topic: Topic, name: &[u8], thread: usize, meanwhile: impl FnOnce()) -> Arc<[u8]> {
        let mut locked = self.lock(topic, name);
        let names = locked.names();
        let shared = match names.get_key_value(name) {
            Some((shared, _)) => Arc::clone(shared),
            None => {
                self.name_count_of(topic).fetch_add(1, Ordering::SeqCst);
                Arc::from(name)
            }
        };
        names.entry(Arc::clone(&shared)).or_default().add(thread);
        meanwhile();
        shared
    }

    /// A connection of a thread ends to listen; `meanwhile` runs while nobody publishes to the name.
    pub fn end(&self, topic: Topic, name: &[u8], thread: usize, meanwhile: impl FnOnce()) {
        let mut locked = self.lock(topic, name);
        let names = locked.names();
        let Some(audience) = names.get_mut(name) else { panic!("nobody listens to what somebody leaves") };
        audience.remove(thread);
        if audience.threads.is_empty() {
            names.remove(name);
            self.name_count_of(topic).fetch_sub(1, Ordering::SeqCst);
        }
        meanwhile();
    }

    /// A connection changes its thread with all that it listens to; `meanwhile` runs while nobody publishes: there it is to
    /// leave the old thread for the new one.
    pub fn change_thread(
        &self,
        names: &[(Topic, Arc<[u8]>)],
        from: usize,
        to: usize,
        meanwhile: impl FnOnce(),
    ) {
        let mut all = self.lock_all();
        for (topic, name) in names {
            let shard = || self.hasher.hash_one(&name[..]) as usize % SHARD_COUNT;
            let at = match topic {
                Topic::Channel => shard(),
                Topic::ShardChannel => SHARD_COUNT + shard(),
                Topic::Pattern => 2 * SHARD_COUNT,
                Topic::Prefix => 2 * SHARD_COUNT + 1,
            };
            if let Some(audience) = all[at].names().get_mut(name) {
                audience.remove(from);
                audience.add(to);
            }
        }
        meanwhile();
    }

    /// Sends a message to all who listen, one mail a thread. Returns how many they are.
    pub fn publish(&self, topic: Topic, channel: &[u8], text: &[u8]) -> u64 {
        let shards = if topic == Topic::ShardChannel { &self.shard_channels } else { &self.channels };
        let names = self.shard(shards, channel);
        let has_patterns = self.name_count_of(Topic::Pattern).load(Ordering::SeqCst) > 0;
        let patterns = (topic == Topic::Channel && has_patterns).then(|| self.read_patterns());
        let mut threads = ThreadSet::default();
        let mut count = 0;
        if let Some(audience) = names.get(channel) {
            threads.insert_all(audience);
            count += audience.count();
        }
        let mut matching = Vec::new();
        for (pattern, audience) in patterns.iter().flat_map(|patterns| patterns.iter()) {
            if base::glob::matches(pattern, channel) {
                threads.insert_all(audience);
                count += audience.count();
                matching.push(Arc::clone(pattern));
            }
        }
        if count > 0 {
            let message = Arc::new(Message::new(topic, channel, text, matching));
            for thread in threads.iter() {
                self.expect(thread, message.size());
                self.seats.post(thread, Mail::Published(Arc::clone(&message)));
            }
        }
        count
    }

    /// So much is about to be on its way to a thread.
    pub(super) fn expect(&self, thread: usize, size: u64) {
        let backlog = &self.backlogs[thread].0;
        let before = backlog.size.fetch_add(size, Ordering::SeqCst);
        if before + size > BACKLOG_SIZE_MAX && !backlog.is_congested.swap(true, Ordering::SeqCst) {
            self.congested_count.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// So much has been delivered by a thread.
    pub fn delivered(&self, thread: usize, size: u64) {
        let backlog = &self.backlogs[thread].0;
        let left = backlog.size.fetch_sub(size, Ordering::SeqCst) - size;
        // Whoever finds it congested posts something behind, which will be delivered here in turn.
        if left <= BACKLOG_SIZE_MAX / 2 && backlog.is_congested.swap(false, Ordering::SeqCst) {
            self.congested_count.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Bytes that are on their way to all threads.
    #[must_use]
    pub fn underway_bytes(&self) -> u64 {
        self.backlogs.iter().map(|backlog| backlog.0.size.load(Ordering::Relaxed)).sum()
    }

    /// Whether a thread has been sent more than it should have before it: who would send more must wait.
    #[must_use]
    #[inline]
    pub fn is_congested(&self) -> bool {
        self.congested_count.load(Ordering::Relaxed) > 0
    }

    /// Number of names of a topic that somebody listens to.
    #[must_use]
    pub fn name_count(&self, topic: Topic) -> usize {
        self.name_count_of(topic).load(Ordering::SeqCst)
    }

    /// The names of a topic that somebody listens to.
    #[must_use]
    pub fn names(&self, topic: Topic) -> Vec<Arc<[u8]>> {
        let shards = match topic {
            Topic::Channel => &self.channels,
            Topic::ShardChannel => &self.shard_channels,
            Topic::Pattern => return self.read_patterns().keys().cloned().collect(),
            Topic::Prefix => return self.lock_prefixes().keys().cloned().collect(),
        };
        shards.iter().flat_map(|shard| lock(shard).keys().cloned().collect::<Vec<_>>()).collect()
    }

    /// Number of connections that listen to a name.
    #[must_use]
    pub fn listener_count(&self, topic: Topic, name: &[u8]) -> u64 {
        self.lock(topic, name).names().get(name).map_or(0, Audience::count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hub() -> Hub {
        Hub::new(Box::leak(Box::default()))
    }

    #[test]
    fn names_are_there_as_long_as_somebody_listens() {
        let hub = hub();
        hub.begin(Topic::Channel, b"news", 0, || ());
        hub.begin(Topic::Channel, b"news", 3, || ());
        hub.begin(Topic::Pattern, b"n*", 3, || ());
        assert_eq!((hub.name_count(Topic::Channel), hub.listener_count(Topic::Channel, b"news")), (1, 2));
        assert_eq!(hub.publish(Topic::Channel, b"news", b""), 3);
        assert_eq!(hub.publish(Topic::Channel, b"nothing", b""), 1);
        assert_eq!(hub.publish(Topic::ShardChannel, b"news", b""), 0);
        hub.end(Topic::Channel, b"news", 0, || ());
        hub.end(Topic::Channel, b"news", 3, || ());
        hub.end(Topic::Pattern, b"n*", 3, || ());
        assert!(TOPICS.iter().all(|topic| hub.name_count(*topic) == 0 && hub.names(*topic).is_empty()));
    }

    #[test]
    fn a_thread_gets_one_mail_whatever_its_listeners() {
        let hub = hub();
        for _ in 0..5 {
            hub.begin(Topic::Channel, b"c", 1, || ());
        }
        hub.begin(Topic::Pattern, b"?", 1, || ());
        hub.begin(Topic::Channel, b"c", 2, || ());
        assert_eq!(hub.publish(Topic::Channel, b"c", b"x"), 7);
        let unread = |thread: usize| hub.seats.seat(thread).mailbox().unread_count();
        assert_eq!([0, 1, 2].map(unread), [0, 1, 1]);
    }

    #[test]
    fn a_thread_that_is_behind_makes_publishers_wait() {
        let hub = hub();
        hub.begin(Topic::Channel, b"c", 1, || ());
        let text = vec![b'x'; BACKLOG_SIZE_MAX as usize];
        let size = Message::new(Topic::Channel, b"c", &text, Vec::new()).size();
        assert!(!hub.is_congested());
        hub.publish(Topic::Channel, b"c", &text);
        hub.publish(Topic::Channel, b"c", &text);
        assert!(hub.is_congested());
        hub.delivered(1, size);
        assert!(hub.is_congested());
        hub.delivered(1, size);
        assert!(!hub.is_congested());
    }
}
