//! The subscribed connections of each name on one worker.
//!
//! A subscription has a stamp, `since`: it gets messages with that stamp or a later one. Each name with one subscriber keeps
//! it. A name with several keeps only the latest, as nearly every message has a later one; messages from before it are
//! found among the *joins*, the recent subscriptions to such names, until none of them can arrive any more.
//! Invariants:
//! 1. A name is in its table exactly as long as it has subscribers here.
//! 2. A subscription that is not among the joins began before all messages that may still arrive for its name, or is the
//!    only one of its name.

use std::collections::VecDeque;

use commands::subscriptions::{Name, SUBSCRIPTION_KIND_COUNT, SubscriptionKind, shrink_if_sparse};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use sync::HashSet;

use crate::connection::token::Token;

/// Tables of a kind: each grows as a whole, so that of a million names none takes long.
const SHARD_COUNT: usize = 64;

/// Subscribers of a name up to which they are a list.
const FEW_MAX: usize = 16;

/// The subscribed connections of each name, by kind.
pub struct SubscribersByName {
    kinds: [Box<[HashTable<Named>]>; SUBSCRIPTION_KIND_COUNT],
    joins: VecDeque<Join>,
}

struct Named {
    name: Name,
    subscribers: Subscribers,
}

// One for each name: the tables must be small.
const _: () = assert!(size_of::<Named>() == 32);

/// The connections subscribed to a name.
enum Subscribers {
    /// The usual case where names are very many, with its `since`.
    One(Token, u64),
    Several(Box<Several>),
}

/// Two connections or more, or what is left of them.
struct Several {
    /// The latest `since` of any of them.
    latest: u64,
    tokens: Tokens,
}

enum Tokens {
    Few(Vec<Token>),
    Many(HashSet<Token>),
}

/// A recent subscription to a name with several subscribers.
struct Join {
    kind: SubscriptionKind,
    name: Name,
    token: Token,
    since: u64,
}

/// The subscribers of a name that get a message.
pub struct Receivers<'a> {
    subscribers: &'a Subscribers,
    /// Those of them that began after the message, ascending.
    later: Vec<Token>,
}

impl Tokens {
    fn len(&self) -> usize {
        match self {
            Self::Few(tokens) => tokens.len(),
            Self::Many(tokens) => tokens.len(),
        }
    }

    /// The only one, if there is no other.
    fn only(&self) -> Option<Token> {
        match self {
            Self::Few(tokens) => <[Token; 1]>::try_from(&tokens[..]).ok().map(|[only]| only),
            // More than half of what a list may have.
            Self::Many(_) => None,
        }
    }

    fn contains(&self, token: Token) -> bool {
        match self {
            Self::Few(tokens) => tokens.contains(&token),
            Self::Many(tokens) => tokens.contains(&token),
        }
    }

    fn insert(&mut self, token: Token) {
        match self {
            Self::Few(tokens) if tokens.contains(&token) => {}
            Self::Few(tokens) if tokens.len() < FEW_MAX => tokens.push(token),
            Self::Few(tokens) => *self = Self::Many(tokens.drain(..).chain([token]).collect()),
            Self::Many(tokens) => _ = tokens.insert(token),
        }
    }

    fn remove(&mut self, token: Token) {
        match self {
            Self::Few(tokens) => tokens.retain(|known| *known != token),
            Self::Many(tokens) => {
                tokens.remove(&token);
                if tokens.len() <= FEW_MAX / 2 {
                    *self = Self::Few(tokens.drain().collect());
                }
            }
        }
    }

    fn for_each(&self, visit: impl FnMut(Token)) {
        match self {
            Self::Few(tokens) => tokens.iter().copied().for_each(visit),
            Self::Many(tokens) => tokens.iter().copied().for_each(visit),
        }
    }
}

impl Receivers<'_> {
    /// Whether a connection is one of them.
    pub fn contains(&self, token: Token) -> bool {
        let is_subscribed = match self.subscribers {
            Subscribers::One(only, _) => *only == token,
            Subscribers::Several(several) => several.tokens.contains(token),
        };
        is_subscribed && !self.is_later(token)
    }

    fn is_later(&self, token: Token) -> bool {
        self.later.binary_search(&token).is_ok()
    }

    /// Calls `visit` with each of them.
    pub fn for_each(&self, mut visit: impl FnMut(Token)) {
        match self.subscribers {
            Subscribers::One(only, _) => visit(*only),
            Subscribers::Several(several) if self.later.is_empty() => several.tokens.for_each(visit),
            Subscribers::Several(several) => several.tokens.for_each(|token| {
                if !self.is_later(token) {
                    visit(token);
                }
            }),
        }
    }
}

impl Default for SubscribersByName {
    fn default() -> Self {
        let shards = || (0..SHARD_COUNT).map(|_| HashTable::new()).collect();
        Self { kinds: std::array::from_fn(|_| shards()), joins: VecDeque::new() }
    }
}

fn hash_of(named: &Named) -> u64 {
    named.name.hash_value()
}

fn shard(hash: u64) -> usize {
    (hash >> 48) as usize % SHARD_COUNT
}

impl SubscribersByName {
    /// Returns the connections that get a message to a name with this stamp, if the name has subscribers.
    #[inline]
    pub fn receivers(
        &self,
        kind: SubscriptionKind,
        (hash, name): (u64, &[u8]),
        stamp: u64,
    ) -> Option<Receivers<'_>> {
        let table = &self.kinds[kind as usize][shard(hash)];
        let Named { name, subscribers } = table.find(hash, |known| known.name.is(hash, name))?;
        let mut later: Vec<Token> = match subscribers {
            Subscribers::One(_, since) if *since > stamp => return None,
            Subscribers::Several(several) if several.latest > stamp => {
                let later = |join: &&Join| join.since > stamp && join.kind == kind && join.name == *name;
                self.joins.iter().filter(later).map(|join| join.token).collect()
            }
            _ => Vec::new(),
        };
        later.sort_unstable();
        Some(Receivers { subscribers, later })
    }

    /// Adds a subscription that gets messages with a stamp of at least `since`.
    pub fn insert(&mut self, kind: SubscriptionKind, name: Name, token: Token, since: u64) {
        let hash = name.hash_value();
        let table = &mut self.kinds[kind as usize][shard(hash)];
        let joins = &mut self.joins;
        let mut join = |name: &Name, token, since| {
            joins.push_back(Join { kind, name: name.clone(), token, since });
        };
        let mut known = match table.entry(hash, |known| known.name == name, hash_of) {
            Entry::Vacant(place) => {
                place.insert(Named { name, subscribers: Subscribers::One(token, since) });
                return;
            }
            Entry::Occupied(known) => known,
        };
        let Named { name, subscribers } = known.get_mut();
        match subscribers {
            Subscribers::One(only, earlier) if *only == token => *earlier = since,
            Subscribers::One(only, earlier) => {
                join(name, *only, *earlier);
                join(name, token, since);
                let several =
                    Several { latest: since.max(*earlier), tokens: Tokens::Few(vec![*only, token]) };
                *subscribers = Subscribers::Several(Box::new(several));
            }
            Subscribers::Several(several) => {
                join(name, token, since);
                several.latest = several.latest.max(since);
                several.tokens.insert(token);
            }
        }
    }

    /// Removes a subscription, if it exists.
    pub fn remove(&mut self, kind: SubscriptionKind, name: &Name, token: Token) {
        let hash = name.hash_value();
        let table = &mut self.kinds[kind as usize][shard(hash)];
        let Ok(mut known) = table.find_entry(hash, |known| known.name == *name) else { return };
        match &mut known.get_mut().subscribers {
            Subscribers::One(only, _) if *only != token => return,
            Subscribers::One(..) => {}
            Subscribers::Several(several) => {
                several.tokens.remove(token);
                // Without joins, no message can arrive that a subscription must not get.
                if let Some(only) = several.tokens.only().filter(|_| self.joins.is_empty()) {
                    known.get_mut().subscribers = Subscribers::One(only, 0);
                    return;
                }
                if several.tokens.len() > 0 {
                    return;
                }
            }
        }
        known.remove();
        shrink_if_sparse(table, hash_of);
    }

    /// Number of joins.
    #[inline]
    pub fn join_count(&self) -> usize {
        self.joins.len()
    }

    /// Forgets the oldest joins: no message can arrive any more that their subscription must not get.
    pub fn settle(&mut self, count: usize) {
        self.joins.drain(..count);
        if self.joins.is_empty() {
            self.joins = VecDeque::new();
        }
    }

    /// Checks the invariants.
    #[cfg(test)]
    fn check(&self) {
        for kind in &self.kinds {
            for (index, table) in kind.iter().enumerate() {
                for Named { name, subscribers } in table {
                    assert_eq!(shard(name.hash_value()), index);
                    let Subscribers::Several(several) = subscribers else { continue };
                    assert!(several.tokens.len() > 0, "{name:?} has no subscribers");
                    assert!(match &several.tokens {
                        Tokens::Few(few) => few.len() <= FEW_MAX,
                        Tokens::Many(many) => many.len() > FEW_MAX / 2,
                    });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, btree_map};

    use super::*;

    #[test]
    fn receivers_are_as_in_a_map() {
        const KINDS: [SubscriptionKind; 2] = [SubscriptionKind::Channel, SubscriptionKind::Pattern];
        let mut all = SubscribersByName::default();
        let mut model: BTreeMap<(usize, u64), BTreeMap<Token, u64>> = BTreeMap::new();
        let mut state = 1_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        // The stamp that all later messages have at least.
        let mut settled = 0;
        for stamp in 1..30_000 {
            let (kind, number) = (random(2) as usize, random(40));
            // Names of few subscribers and of many; pairs of names share a hash.
            let token = Token(random(if number < 20 { 4 } else { 40 }));
            let name = Name::new((number / 2) << 47, format!("name-{number}").as_bytes());
            let known = model.entry((kind, number)).or_default();
            if random(100) < if stamp / 5000 % 2 == 0 { 30 } else { 70 } {
                known.remove(&token);
                all.remove(KINDS[kind], &name, token);
            } else if let btree_map::Entry::Vacant(vacant) = known.entry(token) {
                vacant.insert(stamp);
                all.insert(KINDS[kind], name.clone(), token, stamp);
            }
            if stamp % 97 == 0 {
                settled = stamp;
                all.settle(all.join_count());
                all.check();
            }
            let message = settled + random(stamp - settled + 1);
            let mut receivers = Vec::new();
            if let Some(found) = all.receivers(KINDS[kind], (name.hash_value(), &name), message) {
                found.for_each(|token| receivers.push(token));
                let known = |token| known.get(&token).is_some_and(|since| *since <= message);
                assert!((0..40).map(Token).all(|token| found.contains(token) == known(token)));
            }
            receivers.sort_unstable();
            let expected = known.iter().filter(|(_, since)| **since <= message).map(|(token, _)| *token);
            assert!(receivers.into_iter().eq(expected), "{name:?} at {stamp}");
        }
    }
}
