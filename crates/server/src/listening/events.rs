//! Keyspace events, published as they happen: on a channel named after the key, on one named after the event, or both.

use base::DbIndex;
use commands::listening::Topic;
use keyspace::{Observer, WantedEvents};

use super::hub::Hub;

/// Publishes what the keyspace tells it.
pub struct EventPublisher {
    hub: &'static Hub,
}

impl EventPublisher {
    /// One that publishes by this hub.
    #[must_use]
    pub fn new(hub: &'static Hub) -> Self {
        Self { hub }
    }
}

impl Observer for EventPublisher {
    fn event(&self, wanted: WantedEvents, event: &str, db: DbIndex, key: &[u8]) {
        let channel = |kind: &str, name: &[u8]| {
            let mut channel = format!("__{kind}@{}__:", db.0).into_bytes();
            channel.extend_from_slice(name);
            channel
        };
        if wanted.by_key() {
            self.hub.publish(Topic::Channel, &channel("keyspace", key), event.as_bytes());
        }
        if wanted.by_event() {
            self.hub.publish(Topic::Channel, &channel("keyevent", event.as_bytes()), key);
        }
    }
}
