//! Subscriptions, messages and invalidations.

use commands::host::{CacheInvalidation, PubSub};
use commands::session::Session;
use commands::subscriptions::{Name, SubscriptionKind};
use commands::tracking::Redirection;
use wire::reply::ReplyBuffer;

use super::WorkerHost;

impl PubSub for WorkerHost {
    fn subscribe(&self, session: &mut Session, kind: SubscriptionKind, name: &[u8]) {
        self.subscriptions.begin(session, kind, name);
        if kind == SubscriptionKind::Prefix {
            self.shared.update_workers();
        }
    }

    fn unsubscribe(
        &self,
        session: &mut Session,
        kind: SubscriptionKind,
        name: &[u8],
        out: &mut ReplyBuffer<'_>,
    ) {
        self.subscriptions.end(session, kind, name, out);
        if kind == SubscriptionKind::Prefix {
            self.shared.update_workers();
        }
    }

    fn catch_up(&self, session: &mut Session, out: &mut ReplyBuffer<'_>) {
        self.subscriptions.catch_up(session, out);
    }

    fn publish_message(&self, kind: SubscriptionKind, channel: &[u8], message: &[u8]) -> u64 {
        self.shared.hub.publish(self.thread, kind, channel, message)
    }

    fn names(&self, kind: SubscriptionKind) -> Vec<Name> {
        self.shared.hub.names(kind)
    }

    fn name_count(&self, kind: SubscriptionKind) -> usize {
        self.shared.hub.name_count(kind)
    }

    fn subscriber_count(&self, kind: SubscriptionKind, name: &[u8]) -> u64 {
        self.shared.hub.subscriber_count(kind, name)
    }
}

impl CacheInvalidation for WorkerHost {
    fn redirect(&self, session: &Session, redirection: Option<Redirection>) {
        self.shared.hub.set_redirection(session.id, redirection);
    }

    fn invalidate_all(&self) {
        self.shared.hub.invalidate_all();
    }
}
