//! The sequential store of collections: lists, hashes, sets, sorted sets and streams of a few numbers.
//!
//! Each reply is reduced to the numbers in it, so that one comparison serves all commands. If the order of a
//! reply is unspecified, its numbers are sorted.

use super::search::Command;
use super::store::Key;
use crate::random::Random;
use crate::reply::Reply;

/// Maximum number of keys of a history.
const KEY_COUNT_MAX: usize = 4;

/// The contents of every key: list elements with a 0, fields and values, members with a 0, members and
/// scores, entries.
pub type Contents = [Vec<(i64, i64)>; KEY_COUNT_MAX];

/// Operation of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the command of its name")]
pub enum Verb {
    LPush,
    RPush,
    LPop,
    RPop,
    LRange,
    LMove,
    HSet,
    HSetNx,
    HIncrBy,
    HDel,
    HGetAll,
    SAdd,
    SRem,
    SMove,
    SMembers,
    ZAdd,
    ZIncrBy,
    ZRem,
    ZPopMin,
    ZRange,
    XAdd,
    XTrim,
    XRange,
    Del,
    Rename,
}

/// A command on a collection.
#[derive(Clone, Debug)]
pub struct Act {
    verb: Verb,
    key: Key,
    /// The second key, for commands with two keys.
    to: Key,
    /// A field or member: one of few.
    member: i64,
    /// A value, element or score: one of many.
    value: i64,
}

/// The commands of each type, including commands on whole keys.
pub static TYPES: &[&[Verb]] = &[
    &[Verb::LPush, Verb::RPush, Verb::LPop, Verb::RPop, Verb::LRange, Verb::LMove, Verb::Del, Verb::Rename],
    &[Verb::HSet, Verb::HSetNx, Verb::HIncrBy, Verb::HDel, Verb::HGetAll, Verb::Del, Verb::Rename],
    &[Verb::SAdd, Verb::SRem, Verb::SMove, Verb::SMembers, Verb::Del, Verb::Rename],
    &[Verb::ZAdd, Verb::ZIncrBy, Verb::ZRem, Verb::ZPopMin, Verb::ZRange, Verb::Del, Verb::Rename],
    &[Verb::XAdd, Verb::XTrim, Verb::XRange, Verb::Del, Verb::Rename],
];

impl Act {
    /// Chooses one of these commands. `unique` is a value that no other command writes.
    pub fn choose(verbs: &[Verb], random: &mut Random, key_count: usize, unique: i64) -> Act {
        let key = random.below(key_count);
        let to = (key + 1 + random.below(key_count - 1)) % key_count;
        // Commands on whole keys are rarer, because otherwise keys would hold few elements.
        let verb = match *random.pick(verbs) {
            Verb::Del | Verb::Rename if random.chance(60) => verbs[0],
            verb => verb,
        };
        Act { verb, key, to, member: random.between(0, 2), value: unique }
    }
}

impl Command for Act {
    type State = Contents;
    type Output = Vec<i64>;

    fn apply(&self, state: &mut Contents) -> Vec<i64> {
        let Act { verb, key, to, member, value } = *self;
        let held = &mut state[key];
        let at = held.iter().position(|(name, _)| *name == member);
        match verb {
            Verb::LPush => held.insert(0, (value, 0)),
            Verb::RPush => held.push((value, 0)),
            Verb::XAdd => {
                held.push((value, 0));
                return Vec::new();
            }
            Verb::LPop => return take_first(held).into_iter().collect(),
            Verb::RPop => return held.pop().map(|(element, _)| element).into_iter().collect(),
            Verb::LMove => {
                let moved = take_first(held);
                state[to].extend(moved.map(|element| (element, 0)));
                return moved.into_iter().collect();
            }
            Verb::LRange | Verb::SMembers | Verb::XRange => {
                return held.iter().map(|(element, _)| *element).collect();
            }
            Verb::HGetAll => return held.iter().flat_map(|(field, value)| [*field, *value]).collect(),
            Verb::ZRange => return by_score(held).iter().flat_map(|(name, score)| [*name, *score]).collect(),
            Verb::HSet | Verb::ZAdd => return put(held, (member, value)),
            Verb::SAdd => return put(held, (member, 0)),
            Verb::HSetNx if at.is_some() => return vec![0],
            Verb::HSetNx => return put(held, (member, value)),
            Verb::HIncrBy | Verb::ZIncrBy => {
                let sum = at.map_or(0, |at| held[at].1) + 1;
                put(held, (member, sum));
                return vec![sum];
            }
            Verb::HDel | Verb::SRem | Verb::ZRem => {
                return vec![i64::from(at.map(|at| held.remove(at)).is_some())];
            }
            Verb::SMove => {
                let moved = at.map(|at| held.remove(at));
                moved.into_iter().for_each(|member| drop(put(&mut state[to], member)));
                return vec![i64::from(moved.is_some())];
            }
            Verb::ZPopMin => {
                let Some(first) = by_score(held).first().copied() else { return Vec::new() };
                held.retain(|held| *held != first);
                return vec![first.0, first.1];
            }
            Verb::XTrim => {
                let excess = held.len().saturating_sub(1);
                held.drain(..excess);
                return vec![excess as i64];
            }
            Verb::Del => return vec![i64::from(!std::mem::take(held).is_empty())],
            Verb::Rename => {
                // On a missing key it is an error, which contains no number either.
                if !held.is_empty() {
                    state[to] = std::mem::take(held);
                }
                return Vec::new();
            }
        }
        vec![held.len() as i64]
    }

    fn keys(&self) -> Vec<Key> {
        match self.verb {
            Verb::LMove | Verb::SMove | Verb::Rename => vec![self.key, self.to],
            _ => vec![self.key],
        }
    }

    fn request(&self) -> Vec<String> {
        let (key, to) = (format!("linear:{}", self.key), format!("linear:{}", self.to));
        let (member, value) = (self.member, self.value);
        let line = match self.verb {
            Verb::LPush => format!("LPUSH {key} {value}"),
            Verb::RPush => format!("RPUSH {key} {value}"),
            Verb::LPop => format!("LPOP {key}"),
            Verb::RPop => format!("RPOP {key}"),
            Verb::LRange => format!("LRANGE {key} 0 -1"),
            Verb::LMove => format!("LMOVE {key} {to} LEFT RIGHT"),
            Verb::HSet => format!("HSET {key} {member} {value}"),
            Verb::HSetNx => format!("HSETNX {key} {member} {value}"),
            Verb::HIncrBy => format!("HINCRBY {key} {member} 1"),
            Verb::HDel => format!("HDEL {key} {member}"),
            Verb::HGetAll => format!("HGETALL {key}"),
            Verb::SAdd => format!("SADD {key} {member}"),
            Verb::SRem => format!("SREM {key} {member}"),
            Verb::SMove => format!("SMOVE {key} {to} {member}"),
            Verb::SMembers => format!("SMEMBERS {key}"),
            Verb::ZAdd => format!("ZADD {key} {value} {member}"),
            Verb::ZIncrBy => format!("ZINCRBY {key} 1 {member}"),
            Verb::ZRem => format!("ZREM {key} {member}"),
            Verb::ZPopMin => format!("ZPOPMIN {key}"),
            Verb::ZRange => format!("ZRANGE {key} 0 -1 WITHSCORES"),
            Verb::XAdd => format!("XADD {key} * item {value}"),
            Verb::XTrim => format!("XTRIM {key} MAXLEN 1"),
            Verb::XRange => format!("XRANGE {key} - +"),
            Verb::Del => format!("DEL {key}"),
            Verb::Rename => format!("RENAME {key} {to}"),
        };
        line.split(' ').map(str::to_owned).collect()
    }

    fn read(&self, reply: &Reply) -> Option<Vec<i64>> {
        if matches!(reply, Reply::Error(text) if self.verb != Verb::Rename || text != b"ERR no such key") {
            return None;
        }
        let mut numbers = Vec::new();
        collect_numbers(reply, &mut numbers);
        Some(match self.verb {
            Verb::SMembers => sorted(numbers),
            Verb::HGetAll => {
                let pairs: Vec<[i64; 2]> = numbers.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect();
                sorted(pairs).concat()
            }
            _ => numbers,
        })
    }
}

fn sorted<T: Ord>(mut items: Vec<T>) -> Vec<T> {
    items.sort_unstable();
    items
}

fn take_first(held: &mut Vec<(i64, i64)>) -> Option<i64> {
    (!held.is_empty()).then(|| held.remove(0).0)
}

/// Inserts or updates the item with this name, in name order. Returns whether it was new.
fn put(held: &mut Vec<(i64, i64)>, item: (i64, i64)) -> Vec<i64> {
    match held.binary_search_by_key(&item.0, |(name, _)| *name) {
        Ok(at) => {
            held[at] = item;
            vec![0]
        }
        Err(at) => {
            held.insert(at, item);
            vec![1]
        }
    }
}

fn by_score(held: &[(i64, i64)]) -> Vec<(i64, i64)> {
    let mut items = held.to_vec();
    items.sort_by_key(|(name, score)| (*score, *name));
    items
}

/// Collects the numbers of a reply, in order; stream ids and field names are not numbers.
fn collect_numbers(reply: &Reply, numbers: &mut Vec<i64>) {
    match reply {
        Reply::Integer(number) => numbers.push(*number),
        Reply::Bulk(text) => {
            numbers.extend(std::str::from_utf8(text).ok().and_then(|text| text.parse::<i64>().ok()));
        }
        Reply::List(_, items) => items.iter().for_each(|item| collect_numbers(item, numbers)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::search::{Operation, check};
    use super::*;

    fn act(verb: Verb, member: i64, value: i64) -> Act {
        Act { verb, key: 0, to: 1, member, value }
    }

    #[test]
    fn commands_match_their_definitions() {
        let mut state = Contents::default();
        let mut run = |act: Act| act.apply(&mut state);
        assert_eq!(run(act(Verb::ZAdd, 2, 5)), [1]);
        assert_eq!(run(act(Verb::ZAdd, 1, 7)), [1]);
        assert_eq!(run(act(Verb::ZIncrBy, 1, 0)), [8]);
        assert_eq!(run(act(Verb::ZRange, 0, 0)), [2, 5, 1, 8]);
        assert_eq!(run(act(Verb::ZPopMin, 0, 0)), [2, 5]);
        assert_eq!(run(act(Verb::Rename, 0, 0)), []);
        assert_eq!(run(act(Verb::ZRange, 0, 0)), []);
        assert_eq!(run(act(Verb::RPush, 0, 3)), [1]);
        assert_eq!(run(act(Verb::LPush, 0, 4)), [2]);
        assert_eq!(run(act(Verb::LMove, 0, 0)), [4]);
        assert_eq!(run(act(Verb::LRange, 0, 0)), [3]);
    }

    #[test]
    fn an_element_that_is_popped_twice_is_noticed() {
        let history = |second: Vec<i64>| {
            let step = |client, called_at, verb, output| Operation {
                client,
                called_at,
                returned_at: called_at + 10,
                op: act(verb, 0, 9),
                output,
            };
            [
                step(0, 0, Verb::RPush, vec![1]),
                step(1, 20, Verb::LPop, vec![9]),
                step(2, 21, Verb::LPop, second),
            ]
        };
        assert!(check(&history(vec![])).is_ok());
        assert!(check(&history(vec![9])).is_err());
    }
}
