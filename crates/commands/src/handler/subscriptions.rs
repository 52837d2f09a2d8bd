//! The subscriptions of a connection: the names given to `SUBSCRIBE` and similar commands.
//!
//! Plain data of one connection. The server keeps the subscribers of each name, and computes the hashes of names: see
//! [`PubSub::subscribe`](crate::host::PubSub::subscribe).

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

use hashbrown::HashTable;
use triomphe::ThinArc;

use crate::session::{Session, SessionFlags};

/// Kinds of subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscriptionKind {
    /// A channel (`SUBSCRIBE`).
    Channel,
    /// A glob pattern of channels (`PSUBSCRIBE`).
    Pattern,
    /// A channel that belongs to a slot (`SSUBSCRIBE`).
    ShardChannel,
    /// A prefix of key names whose changes are announced (`CLIENT TRACKING ON BCAST PREFIX`).
    Prefix,
}

/// Number of kinds.
pub const SUBSCRIPTION_KIND_COUNT: usize = 4;

/// All kinds.
pub const SUBSCRIPTION_KINDS: [SubscriptionKind; SUBSCRIPTION_KIND_COUNT] = [
    SubscriptionKind::Channel,
    SubscriptionKind::Pattern,
    SubscriptionKind::ShardChannel,
    SubscriptionKind::Prefix,
];

/// The name of a channel, pattern or prefix, shared by all its users: a reference of one word to the bytes and their hash.
/// All names of a server have hashes by one function, so tables of names need no other.
#[derive(Clone)]
pub struct Name(ThinArc<u64, u8>);

impl Name {
    /// Returns a name with these bytes, which have this hash.
    #[must_use]
    pub fn new(hash: u64, bytes: &[u8]) -> Self {
        Self(ThinArc::from_header_and_slice(hash, bytes))
    }

    /// The hash that it was made with.
    #[must_use]
    #[inline]
    pub fn hash_value(&self) -> u64 {
        self.0.header.header
    }

    /// Whether it has these bytes, which have this hash.
    #[must_use]
    #[inline]
    pub fn is(&self, hash: u64, bytes: &[u8]) -> bool {
        self.hash_value() == hash && **self == *bytes
    }
}

impl Deref for Name {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.0.slice
    }
}

impl Borrow<[u8]> for Name {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.0.ptr() == other.0.ptr() || **self == **other
    }
}

impl Eq for Name {}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (**self).cmp(&**other)
    }
}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.escape_ascii())
    }
}

/// The names that a connection is subscribed to. The text of a name is shared between all subscribers.
#[derive(Default)]
pub struct Subscriptions {
    names: [HashTable<Name>; SUBSCRIPTION_KIND_COUNT],
}

/// The places of a table from which on [`shrink_if_sparse`] makes it smaller.
pub const CAPACITY_KEPT: usize = 64;

/// Number of names up to which [`Session::names_of`] sorts them: more would take long.
const SORTED_COUNT_MAX: usize = 1000;

/// Makes a table of names smaller when less than one in eight of its places is used. Called after removals.
pub fn shrink_if_sparse<T>(table: &mut HashTable<T>, hash_of: impl Fn(&T) -> u64) {
    if table.len() < table.capacity() / 8 && table.capacity() > CAPACITY_KEPT {
        table.shrink_to(2 * table.len(), hash_of);
    }
}

impl Subscriptions {
    /// Returns the names of a kind, in no order.
    pub fn names(&self, kind: SubscriptionKind) -> impl Iterator<Item = &Name> {
        self.names[kind as usize].iter()
    }

    /// Whether there are no subscriptions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.iter().all(HashTable::is_empty)
    }

    /// Returns the bytes of memory used.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.names.iter().map(HashTable::allocation_size).sum::<usize>()
    }
}

impl Session {
    /// Returns the name with these bytes and this hash, if it is subscribed to it.
    #[must_use]
    pub fn subscribed_name(&self, kind: SubscriptionKind, hash: u64, bytes: &[u8]) -> Option<&Name> {
        self.subscriptions.as_ref()?.names[kind as usize].find(hash, |name| name.is(hash, bytes))
    }

    /// Returns the names of a kind that it is subscribed to; up to a thousand in order.
    #[must_use]
    pub fn names_of(&self, kind: SubscriptionKind) -> Vec<Name> {
        let mut names: Vec<Name> =
            self.subscriptions.as_ref().map_or_else(Vec::new, |all| all.names(kind).cloned().collect());
        if names.len() <= SORTED_COUNT_MAX {
            names.sort_unstable();
        }
        names
    }

    /// Returns the number of names of a kind that it is subscribed to.
    #[must_use]
    pub fn name_count(&self, kind: SubscriptionKind) -> usize {
        self.subscriptions.as_ref().map_or(0, |names| names.names[kind as usize].len())
    }

    /// Adds a subscription.
    pub fn add_subscription(&mut self, kind: SubscriptionKind, name: Name) {
        let names = &mut self.subscriptions.get_or_insert_default().names[kind as usize];
        names.entry(name.hash_value(), |known| *known == name, Name::hash_value).or_insert(name);
    }

    /// Removes a subscription. Returns its name, if it existed.
    pub fn remove_subscription(&mut self, kind: SubscriptionKind, hash: u64, bytes: &[u8]) -> Option<Name> {
        let subscriptions = self.subscriptions.as_mut()?;
        let names = &mut subscriptions.names[kind as usize];
        let name = names.find_entry(hash, |name| name.is(hash, bytes)).ok()?.remove().0;
        shrink_if_sparse(names, Name::hash_value);
        if subscriptions.is_empty() {
            self.subscriptions = None;
        }
        Some(name)
    }

    /// Number of its subscriptions of all kinds.
    #[must_use]
    pub fn subscription_count(&self) -> usize {
        SUBSCRIPTION_KINDS.iter().map(|kind| self.name_count(*kind)).sum()
    }

    /// Whether it is subscribed to any channel or pattern.
    #[must_use]
    pub fn is_subscribed(&self) -> bool {
        self.name_count(SubscriptionKind::Channel)
            + self.name_count(SubscriptionKind::Pattern)
            + self.name_count(SubscriptionKind::ShardChannel)
            > 0
    }

    /// Whether it is in subscribed mode, where RESP2 allows few commands.
    #[must_use]
    pub fn in_subscribed_mode(&self) -> bool {
        self.flags.contains(SessionFlags::SUBSCRIBED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl::Users;
    use crate::session::Endpoints;
    use crate::table::CATALOGUE;

    #[test]
    fn removed_subscriptions_leave_no_names() {
        let mut session = Session::new(1, Endpoints::none(""), &Users::new(&CATALOGUE));
        // All with one hash: the bytes decide.
        session.add_subscription(SubscriptionKind::Channel, Name::new(1, b"news"));
        session.add_subscription(SubscriptionKind::Channel, Name::new(1, b"news"));
        session.add_subscription(SubscriptionKind::Channel, Name::new(1, b"more"));
        session.add_subscription(SubscriptionKind::Pattern, Name::new(1, b"n*"));
        let is_subscribed =
            |session: &Session, kind, name: &[u8]| session.subscribed_name(kind, 1, name).is_some();
        assert!(
            is_subscribed(&session, SubscriptionKind::Channel, b"news")
                && !is_subscribed(&session, SubscriptionKind::Pattern, b"news")
        );
        assert_eq!(session.name_count(SubscriptionKind::Channel), 2);
        assert_eq!(
            session.names_of(SubscriptionKind::Channel),
            [Name::new(1, b"more"), Name::new(1, b"news")]
        );
        for name in [&b"news"[..], b"more"] {
            assert!(session.remove_subscription(SubscriptionKind::Channel, 1, name).is_some());
            assert!(session.remove_subscription(SubscriptionKind::Channel, 1, name).is_none());
        }
        assert_eq!(session.names_of(SubscriptionKind::Pattern), [Name::new(1, b"n*")]);
        assert!(session.remove_subscription(SubscriptionKind::Pattern, 1, b"n*").is_some());
        assert!(session.subscriptions.is_none());
    }
}
