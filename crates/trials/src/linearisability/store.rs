//! The sequential store: the effect and output of each command in isolation.

use super::search::Command;
use crate::reply::Reply;

/// Maximum number of keys of a history.
pub const KEY_COUNT_MAX: usize = 8;

/// One of the few keys of a history.
pub type Key = usize;

/// Values of all keys; numbers only.
pub type State = [Option<i64>; KEY_COUNT_MAX];

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// GET
    Get(Key),
    /// SET
    Set(Key, i64),
    /// SET with GET
    SetGet(Key, i64),
    /// SET with NX
    SetIfAbsent(Key, i64),
    /// SET with IFEQ
    SetIfEqual {
        /// The key.
        key: Key,
        /// Required current value.
        expected: i64,
        /// New value.
        value: i64,
    },
    /// INCR
    Increment(Key),
    /// GETDEL
    GetDelete(Key),
    /// DEL
    Delete(Vec<Key>),
    /// FLUSHALL, if there are no other keys
    Flush(Vec<Key>),
    /// EXISTS
    Exists(Vec<Key>),
    /// MGET
    MultiGet(Vec<Key>),
    /// MSET
    MultiSet(Vec<(Key, i64)>),
    /// MSETNX
    MultiSetIfAbsent(Vec<(Key, i64)>),
    /// RENAME
    Rename(Key, Key),
    /// RENAMENX
    RenameIfAbsent(Key, Key),
    /// COPY with REPLACE
    Copy(Key, Key),
    /// EVAL of a script that declares its key, and returns its old value
    ScriptSetGet(Key, i64),
    /// EVAL of a script that writes two keys, which it does not declare, and returns their old values
    ScriptSetBoth(Key, Key, i64),
}

/// The script of [`Op::ScriptSetGet`].
const SET_GET: &str = "local old = redis.call('GET', KEYS[1]) redis.call('SET', KEYS[1], ARGV[1]) return old";

/// The script of [`Op::ScriptSetBoth`]. It accesses the second key after it has written the first one.
const SET_BOTH: &str = "local first = redis.call('GET', ARGV[1]) redis.call('SET', ARGV[1], ARGV[3]) \
                        local second = redis.call('GET', ARGV[2]) redis.call('SET', ARGV[2], ARGV[3]) return {first, second}";

/// Output of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// One value.
    Value(Option<i64>),
    /// Several values.
    Values(Vec<Option<i64>>),
    /// A count, or 1 and 0 for success and failure.
    Count(i64),
    /// OK, or nil for failure.
    Done(bool),
    /// The error of RENAME and RENAMENX.
    NoSuchKey,
}

impl Command for Op {
    type State = State;
    type Output = Output;

    fn apply(&self, state: &mut State) -> Output {
        match self {
            Op::Get(key) => Output::Value(state[*key]),
            Op::Set(key, value) => {
                state[*key] = Some(*value);
                Output::Done(true)
            }
            Op::SetGet(key, value) | Op::ScriptSetGet(key, value) => {
                Output::Value(state[*key].replace(*value))
            }
            Op::ScriptSetBoth(first, second, value) => {
                Output::Values([first, second].map(|key| state[*key].replace(*value)).to_vec())
            }
            Op::SetIfAbsent(key, value) => {
                let is_absent = state[*key].is_none();
                state[*key].get_or_insert(*value);
                Output::Done(is_absent)
            }
            Op::SetIfEqual { key, expected, value } => {
                let is_equal = state[*key] == Some(*expected);
                if is_equal {
                    state[*key] = Some(*value);
                }
                Output::Done(is_equal)
            }
            Op::Increment(key) => {
                let value = state[*key].unwrap_or(0) + 1;
                state[*key] = Some(value);
                Output::Count(value)
            }
            Op::GetDelete(key) => Output::Value(state[*key].take()),
            Op::Delete(keys) => {
                Output::Count(keys.iter().filter(|key| state[**key].take().is_some()).count() as i64)
            }
            Op::Flush(keys) => {
                keys.iter().for_each(|key| state[*key] = None);
                Output::Done(true)
            }
            Op::Exists(keys) => {
                Output::Count(keys.iter().filter(|key| state[**key].is_some()).count() as i64)
            }
            Op::MultiGet(keys) => Output::Values(keys.iter().map(|key| state[*key]).collect()),
            Op::MultiSet(pairs) => {
                pairs.iter().for_each(|(key, value)| state[*key] = Some(*value));
                Output::Done(true)
            }
            Op::MultiSetIfAbsent(pairs) => {
                let are_absent = pairs.iter().all(|(key, _)| state[*key].is_none());
                if are_absent {
                    pairs.iter().for_each(|(key, value)| state[*key] = Some(*value));
                }
                Output::Count(i64::from(are_absent))
            }
            Op::Rename(from, to) => match state[*from].take() {
                None => Output::NoSuchKey,
                value => {
                    state[*to] = value;
                    Output::Done(true)
                }
            },
            Op::RenameIfAbsent(from, to) => match state[*from] {
                None => Output::NoSuchKey,
                Some(_) if state[*to].is_some() => Output::Count(0),
                value => {
                    state[*from] = None;
                    state[*to] = value;
                    Output::Count(1)
                }
            },
            Op::Copy(from, to) => match state[*from] {
                None => Output::Count(0),
                value => {
                    state[*to] = value;
                    Output::Count(1)
                }
            },
        }
    }

    fn keys(&self) -> Vec<Key> {
        match self {
            Op::Get(key) | Op::Set(key, _) | Op::SetGet(key, _) | Op::SetIfAbsent(key, _) => vec![*key],
            Op::SetIfEqual { key, .. } | Op::Increment(key) | Op::GetDelete(key) => vec![*key],
            Op::ScriptSetGet(key, _) => vec![*key],
            Op::ScriptSetBoth(first, second, _) => vec![*first, *second],
            Op::Delete(keys) | Op::Flush(keys) | Op::Exists(keys) | Op::MultiGet(keys) => keys.clone(),
            Op::MultiSet(pairs) | Op::MultiSetIfAbsent(pairs) => pairs.iter().map(|(key, _)| *key).collect(),
            Op::Rename(from, to) | Op::RenameIfAbsent(from, to) | Op::Copy(from, to) => vec![*from, *to],
        }
    }

    fn request(&self) -> Vec<String> {
        let name = |key: &Key| format!("linear:{key}");
        let words = |command: &str, rest: Vec<String>| [vec![command.to_owned()], rest].concat();
        let names = |keys: &[Key]| keys.iter().map(name).collect::<Vec<_>>();
        let named_values = |pairs: &[(Key, i64)]| {
            pairs.iter().flat_map(|(key, value)| [name(key), value.to_string()]).collect::<Vec<_>>()
        };
        let set = |key: &Key, value: &i64, options: &[&str]| {
            let options = options.iter().map(|option| (*option).to_owned()).collect();
            words("SET", [vec![name(key), value.to_string()], options].concat())
        };
        match self {
            Op::Get(key) => words("GET", names(&[*key])),
            Op::Set(key, value) => set(key, value, &[]),
            Op::SetGet(key, value) => set(key, value, &["GET"]),
            Op::SetIfAbsent(key, value) => set(key, value, &["NX"]),
            Op::SetIfEqual { key, expected, value } => set(key, value, &["IFEQ", &expected.to_string()]),
            Op::Increment(key) => words("INCR", names(&[*key])),
            Op::GetDelete(key) => words("GETDEL", names(&[*key])),
            Op::Delete(keys) => words("DEL", names(keys)),
            Op::Flush(_) => words("FLUSHALL", Vec::new()),
            Op::Exists(keys) => words("EXISTS", names(keys)),
            Op::MultiGet(keys) => words("MGET", names(keys)),
            Op::MultiSet(pairs) => words("MSET", named_values(pairs)),
            Op::MultiSetIfAbsent(pairs) => words("MSETNX", named_values(pairs)),
            Op::Rename(from, to) => words("RENAME", names(&[*from, *to])),
            Op::RenameIfAbsent(from, to) => words("RENAMENX", names(&[*from, *to])),
            Op::ScriptSetGet(key, value) => {
                words("EVAL", vec![SET_GET.to_owned(), "1".to_owned(), name(key), value.to_string()])
            }
            Op::ScriptSetBoth(first, second, value) => {
                let arguments = vec![name(first), name(second), value.to_string()];
                words("EVAL", [vec![SET_BOTH.to_owned(), "0".to_owned()], arguments].concat())
            }
            Op::Copy(from, to) => words("COPY", [names(&[*from, *to]), vec!["REPLACE".to_owned()]].concat()),
        }
    }

    fn read(&self, reply: &Reply) -> Option<Output> {
        let value = |reply: &Reply| match reply {
            Reply::Null => Some(None),
            Reply::Bulk(text) => Some(Some(std::str::from_utf8(text).ok()?.parse::<i64>().ok()?)),
            _ => None,
        };
        match (self, reply) {
            (Op::Get(_) | Op::SetGet(..) | Op::ScriptSetGet(..) | Op::GetDelete(_), _) => {
                Some(Output::Value(value(reply)?))
            }
            (Op::MultiGet(_) | Op::ScriptSetBoth(..), Reply::List(_, items)) => {
                Some(Output::Values(items.iter().map(value).collect::<Option<_>>()?))
            }
            (Op::Rename(..) | Op::RenameIfAbsent(..), Reply::Error(text)) => {
                (text == b"ERR no such key").then_some(Output::NoSuchKey)
            }
            (_, Reply::Integer(count)) => Some(Output::Count(*count)),
            (_, Reply::Simple(text)) if text == b"OK" => Some(Output::Done(true)),
            (Op::SetIfAbsent(..) | Op::SetIfEqual { .. }, Reply::Null) => Some(Output::Done(false)),
            _ => None,
        }
    }
}

/// Makes commands with few keys and distinguishable values.
pub mod choose {
    use super::{Key, Op};
    use crate::random::Random;

    /// Chooses a single-key command. `unique` is a value that no other command writes.
    pub fn single(random: &mut Random, key_count: usize, unique: i64) -> Op {
        let key = random.below(key_count);
        match random.below(14) {
            0..=3 => Op::Get(key),
            4..=5 => Op::Set(key, unique),
            6 => Op::SetGet(key, unique),
            7 => Op::SetIfAbsent(key, unique),
            8..=9 => Op::SetIfEqual { key, expected: unique - random.between(1, 4), value: unique },
            10..=12 => Op::Increment(key),
            _ => Op::GetDelete(key),
        }
    }

    /// Chooses a command on one or several keys.
    pub fn any(random: &mut Random, key_count: usize, unique: i64) -> Op {
        let (from, to) = (random.below(key_count), random.below(key_count));
        match random.below(14) {
            0..=1 => single(random, key_count, unique),
            2..=4 => Op::MultiGet((0..key_count).collect()),
            5..=6 => Op::MultiSet(some(random, key_count).into_iter().map(|key| (key, unique)).collect()),
            7 => Op::MultiSetIfAbsent(some(random, key_count).into_iter().map(|key| (key, unique)).collect()),
            8..=9 => Op::Rename(from, to),
            10 => Op::RenameIfAbsent(from, to),
            11 if from != to => Op::Copy(from, to),
            12 => Op::Delete(some(random, key_count)),
            _ => Op::Exists((0..key_count).collect()),
        }
    }

    /// Chooses a script, or in one of two cases a command on one or several keys.
    pub fn scripted(random: &mut Random, key_count: usize, unique: i64) -> Op {
        let (first, second) = (random.below(key_count), random.below(key_count));
        match random.below(8) {
            0..=1 => Op::ScriptSetGet(first, unique),
            2..=3 if first != second => Op::ScriptSetBoth(first, second, unique),
            _ => any(random, key_count, unique),
        }
    }

    /// Returns two or more different keys, in any order.
    fn some(random: &mut Random, key_count: usize) -> Vec<Key> {
        let mut keys: Vec<Key> = (0..key_count).collect();
        random.shuffle(&mut keys);
        keys.truncate(2 + random.below(key_count - 1));
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn commands_match_their_definitions() {
        let mut state = State::default();
        let mut run = |op: Op| op.apply(&mut state);
        assert_eq!(run(Op::Increment(0)), Output::Count(1));
        assert_eq!(run(Op::SetIfAbsent(0, 5)), Output::Done(false));
        assert_eq!(run(Op::SetIfEqual { key: 0, expected: 1, value: 7 }), Output::Done(true));
        assert_eq!(run(Op::Rename(0, 1)), Output::Done(true));
        assert_eq!(run(Op::Rename(0, 1)), Output::NoSuchKey);
        assert_eq!(run(Op::RenameIfAbsent(1, 1)), Output::Count(0));
        assert_eq!(run(Op::Copy(1, 2)), Output::Count(1));
        assert_eq!(run(Op::MultiGet(vec![0, 1, 2])), Output::Values(vec![None, Some(7), Some(7)]));
        assert_eq!(run(Op::MultiSetIfAbsent(vec![(0, 1), (1, 1)])), Output::Count(0));
        assert_eq!(run(Op::Delete(vec![0, 1, 2])), Output::Count(2));
        assert_eq!(run(Op::Exists(vec![0, 1, 2])), Output::Count(0));
        assert_eq!(run(Op::Set(1, 5)), Output::Done(true));
        assert_eq!(run(Op::Flush(vec![0, 1, 2])), Output::Done(true));
        assert_eq!(run(Op::Get(1)), Output::Value(None));
        assert_eq!(run(Op::ScriptSetGet(1, 5)), Output::Value(None));
        assert_eq!(run(Op::ScriptSetBoth(0, 1, 6)), Output::Values(vec![None, Some(5)]));
        assert_eq!(run(Op::MultiGet(vec![0, 1])), Output::Values(vec![Some(6), Some(6)]));
    }

    #[test]
    fn chosen_keys_exist() {
        let mut random = Random::new(1);
        for unique in 0..2000 {
            let keys = choose::scripted(&mut random, 4, unique).keys();
            assert!(!keys.is_empty() && keys.iter().all(|key| *key < 4));
        }
    }
}
