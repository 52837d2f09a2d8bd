//! What a connection listens to: the names it gave to `SUBSCRIBE` and the like.
//!
//! Plain data of one connection. Who else listens to a name is the server's business, see
//! [`Host::listen`](crate::host::Host::listen).

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::session::{Session, SessionFlags};

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// A channel (`SUBSCRIBE`).
    Channel,
    /// A glob pattern of channels (`PSUBSCRIBE`).
    Pattern,
    /// A channel that belongs to a slot (`SSUBSCRIBE`).
    ShardChannel,
    /// What the names of keys begin with whose changes are told (`CLIENT TRACKING ON BCAST PREFIX`).
    Prefix,
}

/// Number of topics.
pub const TOPIC_COUNT: usize = 4;

/// All topics.
pub const TOPICS: [Topic; TOPIC_COUNT] = [Topic::Channel, Topic::Pattern, Topic::ShardChannel, Topic::Prefix];

/// The names that a connection listens to.
#[derive(Default)]
pub struct Listening {
    names: [BTreeSet<Arc<[u8]>>; TOPIC_COUNT],
}

/// Bytes that a name takes in a connection's set: the reference and its share of a node. The text is shared with all who
/// listen to it.
const NAME_SIZE: usize = 24;

impl Listening {
    /// The names of a topic, in order.
    #[must_use]
    pub fn names(&self, topic: Topic) -> &BTreeSet<Arc<[u8]>> {
        &self.names[topic as usize]
    }

    /// Whether nothing is listened to.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.iter().all(BTreeSet::is_empty)
    }

    /// Bytes of memory that it takes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let count: usize = self.names.iter().map(BTreeSet::len).sum();
        size_of::<Self>() + count * NAME_SIZE
    }
}

impl Session {
    /// Whether it listens to this name.
    #[must_use]
    pub fn listens_to(&self, topic: Topic, name: &[u8]) -> bool {
        self.listening.as_ref().is_some_and(|listening| listening.names(topic).contains(name))
    }

    /// The names of a topic that it listens to.
    #[must_use]
    pub fn names_of(&self, topic: Topic) -> Vec<Arc<[u8]>> {
        self.listening.as_ref().map_or_else(Vec::new, |all| all.names(topic).iter().cloned().collect())
    }

    /// Number of names of a topic that it listens to.
    #[must_use]
    pub fn name_count(&self, topic: Topic) -> usize {
        self.listening.as_ref().map_or(0, |listening| listening.names(topic).len())
    }

    /// Notes that it listens to a name from now on.
    pub fn note_listening(&mut self, topic: Topic, name: Arc<[u8]>) {
        let listening = self.listening.get_or_insert_default();
        listening.names[topic as usize].insert(name);
    }

    /// Notes that it does not listen to a name any more. Whether it did.
    pub fn note_deaf(&mut self, topic: Topic, name: &[u8]) -> bool {
        let Some(listening) = &mut self.listening else { return false };
        let did = listening.names[topic as usize].remove(name);
        if listening.is_empty() {
            self.listening = None;
        }
        did
    }

    /// Whether it listens to any channel or pattern.
    #[must_use]
    pub fn listens(&self) -> bool {
        self.name_count(Topic::Channel)
            + self.name_count(Topic::Pattern)
            + self.name_count(Topic::ShardChannel)
            > 0
    }

    /// Whether it is in the mode for listening, where RESP2 knows few commands.
    #[must_use]
    pub fn is_listener(&self) -> bool {
        self.flags.contains(SessionFlags::LISTENING)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Millis;

    #[test]
    fn names_come_and_go_and_leave_nothing() {
        let mut session = Session::new(1, String::new(), String::new(), Millis(0), false);
        session.note_listening(Topic::Channel, (*b"news").into());
        session.note_listening(Topic::Channel, (*b"news").into());
        session.note_listening(Topic::Pattern, (*b"n*").into());
        assert!(session.listens_to(Topic::Channel, b"news") && !session.listens_to(Topic::Pattern, b"news"));
        assert_eq!(session.name_count(Topic::Channel), 1);
        assert!(session.note_deaf(Topic::Channel, b"news") && !session.note_deaf(Topic::Channel, b"news"));
        assert_eq!(session.names_of(Topic::Pattern), [(*b"n*").into()]);
        assert!(session.note_deaf(Topic::Pattern, b"n*"));
        assert!(session.listening.is_none());
    }
}
