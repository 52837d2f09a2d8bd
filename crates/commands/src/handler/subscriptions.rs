//! The subscriptions of a connection: the names given to `SUBSCRIBE` and similar commands.
//!
//! Plain data of one connection. The server keeps the subscribers of each name: see
//! [`PubSub::subscribe`](crate::host::PubSub::subscribe).

use std::collections::BTreeSet;
use std::sync::Arc;

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

/// The names that a connection is subscribed to.
#[derive(Default)]
pub struct Subscriptions {
    names: [BTreeSet<Arc<[u8]>>; SUBSCRIPTION_KIND_COUNT],
}

/// Bytes of memory per name in a connection's set: the reference and its share of a node. The text is shared
/// between all subscribers.
const NAME_SIZE: usize = 24;

impl Subscriptions {
    /// Returns the names of a kind, in order.
    #[must_use]
    pub fn names(&self, kind: SubscriptionKind) -> &BTreeSet<Arc<[u8]>> {
        &self.names[kind as usize]
    }

    /// Whether there are no subscriptions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.iter().all(BTreeSet::is_empty)
    }

    /// Returns the bytes of memory used.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let count: usize = self.names.iter().map(BTreeSet::len).sum();
        size_of::<Self>() + count * NAME_SIZE
    }
}

impl Session {
    /// Whether it is subscribed to this name.
    #[must_use]
    pub fn is_subscribed_to(&self, kind: SubscriptionKind, name: &[u8]) -> bool {
        self.subscriptions.as_ref().is_some_and(|names| names.names(kind).contains(name))
    }

    /// Returns the names of a kind that it is subscribed to.
    #[must_use]
    pub fn names_of(&self, kind: SubscriptionKind) -> Vec<Arc<[u8]>> {
        self.subscriptions.as_ref().map_or_else(Vec::new, |all| all.names(kind).iter().cloned().collect())
    }

    /// Returns the number of names of a kind that it is subscribed to.
    #[must_use]
    pub fn name_count(&self, kind: SubscriptionKind) -> usize {
        self.subscriptions.as_ref().map_or(0, |names| names.names(kind).len())
    }

    /// Adds a subscription.
    pub fn add_subscription(&mut self, kind: SubscriptionKind, name: Arc<[u8]>) {
        let subscriptions = self.subscriptions.get_or_insert_default();
        subscriptions.names[kind as usize].insert(name);
    }

    /// Removes a subscription. Returns whether it existed.
    pub fn remove_subscription(&mut self, kind: SubscriptionKind, name: &[u8]) -> bool {
        let Some(subscriptions) = &mut self.subscriptions else { return false };
        let existed = subscriptions.names[kind as usize].remove(name);
        if subscriptions.is_empty() {
            self.subscriptions = None;
        }
        existed
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
        session.add_subscription(SubscriptionKind::Channel, (*b"news").into());
        session.add_subscription(SubscriptionKind::Channel, (*b"news").into());
        session.add_subscription(SubscriptionKind::Pattern, (*b"n*").into());
        assert!(
            session.is_subscribed_to(SubscriptionKind::Channel, b"news")
                && !session.is_subscribed_to(SubscriptionKind::Pattern, b"news")
        );
        assert_eq!(session.name_count(SubscriptionKind::Channel), 1);
        assert!(
            session.remove_subscription(SubscriptionKind::Channel, b"news")
                && !session.remove_subscription(SubscriptionKind::Channel, b"news")
        );
        assert_eq!(session.names_of(SubscriptionKind::Pattern), [(*b"n*").into()]);
        assert!(session.remove_subscription(SubscriptionKind::Pattern, b"n*"));
        assert!(session.subscriptions.is_none());
    }
}
