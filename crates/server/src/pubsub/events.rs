//! Keyspace events: published as they happen, on a channel named after the key, on one named after the event, or both.

use base::DbIndex;
use commands::subscriptions::SubscriptionKind;
use keyspace::{Clients, Observer, WantedEvents};

use super::hub::Hub;

/// Publishes keyspace events.
pub struct EventPublisher {
    hub: &'static Hub,
}

impl EventPublisher {
    /// Returns a publisher that uses this hub.
    #[must_use]
    pub fn new(hub: &'static Hub) -> Self {
        Self { hub }
    }
}

impl Observer for EventPublisher {
    fn event(&self, thread: usize, wanted: WantedEvents, event: &str, db: DbIndex, key: &[u8]) {
        if !self.hub.has_event_channels() && self.hub.name_count(SubscriptionKind::Pattern) == 0 {
            return;
        }
        let channel = |kind: &str, name: &[u8]| {
            let mut channel = format!("__{kind}@{}__:", db.0).into_bytes();
            channel.extend_from_slice(name);
            channel
        };
        if wanted.by_key() {
            self.hub.post(thread, SubscriptionKind::Channel, &channel("keyspace", key), event.as_bytes());
        }
        if wanted.by_event() {
            self.hub.post(thread, SubscriptionKind::Channel, &channel("keyevent", event.as_bytes()), key);
        }
    }

    fn stale(&self, thread: usize, key: &[u8], readers: &Clients, by: u64) {
        self.hub.invalidate(thread, key, readers, by);
    }
}
