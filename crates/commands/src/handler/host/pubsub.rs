//! Subscriptions, messages and invalidations between connections.

use wire::reply::ReplyBuffer;

use crate::session::Session;
use crate::subscriptions::{Name, SubscriptionKind};
use crate::tracking::Redirection;

/// Subscriptions and messages.
pub trait PubSub {
    /// Subscribes the session to a name, unless it is subscribed to it.
    fn subscribe(&self, session: &mut Session, kind: SubscriptionKind, name: &[u8]);
    /// Unsubscribes the session from a name, if it is subscribed to it. First writes the messages that were published before
    /// and are not delivered yet to `out`.
    fn unsubscribe(
        &self,
        session: &mut Session,
        kind: SubscriptionKind,
        name: &[u8],
        out: &mut ReplyBuffer<'_>,
    );
    /// Writes to `out` the messages and invalidations that are published but not yet delivered to the session.
    fn catch_up(&self, session: &mut Session, out: &mut ReplyBuffer<'_>);
    /// Publishes a message to the subscribers of a channel and, unless it is a shard channel, of matching
    /// patterns. Returns the number of deliveries: a session with several matching subscriptions counts for
    /// each.
    fn publish_message(&self, kind: SubscriptionKind, channel: &[u8], message: &[u8]) -> u64;
    /// Returns the names that have subscribers.
    fn names(&self, kind: SubscriptionKind) -> Vec<Name>;
    /// Returns the number of names that have subscribers.
    fn name_count(&self, kind: SubscriptionKind) -> usize;
    /// Returns the number of connections subscribed to this name.
    fn subscriber_count(&self, kind: SubscriptionKind, name: &[u8]) -> u64;
}

/// Client-side caching.
pub trait CacheInvalidation {
    /// Sets or clears the redirection of a connection's invalidations. To lose none, set it before pending
    /// invalidations are delivered, and clear it after the session has changed.
    fn redirect(&self, session: &Session, redirection: Option<Redirection>);
    /// Invalidates the client-side caches of all tracking connections.
    fn invalidate_all(&self);
}
