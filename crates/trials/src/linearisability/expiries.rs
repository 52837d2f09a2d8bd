//! Commands on one key each, with expiries: some in the past, some far away, and some that pass during the
//! history.
//!
//! A key expires at an unobserved moment. The expiry is a separate command in the history, which may take
//! effect at any time after the command that set it, or never. It only deletes a key that still has that
//! expiry.

use super::search::Command;
use super::store::{KEY_COUNT_MAX, Key};
use crate::random::Random;
use crate::reply::Reply;

/// A key's value and expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Held {
    value: i64,
    expiry: Option<Expiry>,
}

/// A distant expiry, or one that will pass, identified by its command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Expiry {
    Far,
    Soon(i64),
}

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Timed {
    /// GET
    Get(Key),
    /// SET
    Set(Key, i64),
    /// SET with PX of a millisecond or two; the value identifies the expiry.
    SetSoon(Key, i64),
    /// SET with PX of a day
    SetFar(Key, i64),
    /// SET with KEEPTTL
    SetKeep(Key, i64),
    /// SET with NX
    SetIfAbsent(Key, i64),
    /// INCR, which keeps the expiry
    Increment(Key),
    /// PEXPIREAT in the past, which deletes
    ExpireNow(Key),
    /// PEXPIRE of a millisecond or two
    ExpireSoon(Key, i64),
    /// PEXPIRE of a day with NX
    ExpireFarIfNone(Key),
    /// PERSIST
    Persist(Key),
    /// GETDEL
    GetDelete(Key),
    /// The key's expiry passes.
    Pass(Key, i64),
}

/// Output of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// A value.
    Value(Option<i64>),
    /// A count, or 1 and 0 for success and failure.
    Count(i64),
    /// OK, or nil for failure.
    Done(bool),
}

impl Timed {
    /// Chooses a command. `unique` is a value that no other command has.
    pub fn choose(random: &mut Random, key_count: usize, unique: i64) -> Timed {
        let key = random.below(key_count);
        match random.below(20) {
            0..=5 => Timed::Get(key),
            6..=7 => Timed::Set(key, unique),
            8..=9 => Timed::SetSoon(key, unique),
            10 => Timed::SetFar(key, unique),
            11 => Timed::SetKeep(key, unique),
            12 => Timed::SetIfAbsent(key, unique),
            13..=14 => Timed::Increment(key),
            15 => Timed::ExpireNow(key),
            16 => Timed::ExpireSoon(key, unique),
            17 => Timed::ExpireFarIfNone(key),
            18 => Timed::Persist(key),
            _ => Timed::GetDelete(key),
        }
    }
}

impl Command for Timed {
    type State = [Option<Held>; KEY_COUNT_MAX];
    type Output = Output;

    fn apply(&self, state: &mut Self::State) -> Output {
        let held = |state: &Self::State, key: Key| state[key].map(|held| held.value);
        let set = |state: &mut Self::State, key: Key, value, expiry| {
            state[key] = Some(Held { value, expiry });
            Output::Done(true)
        };
        let set_expiry = |state: &mut Self::State, key: Key, expiry, may: fn(Option<Expiry>) -> bool| {
            let changed = state[key].as_mut().filter(|held| may(held.expiry));
            let count = i64::from(changed.is_some());
            if let Some(held) = changed {
                held.expiry = expiry;
            }
            Output::Count(count)
        };
        match *self {
            Timed::Get(key) => Output::Value(held(state, key)),
            Timed::Set(key, value) => set(state, key, value, None),
            Timed::SetSoon(key, value) => set(state, key, value, Some(Expiry::Soon(value))),
            Timed::SetFar(key, value) => set(state, key, value, Some(Expiry::Far)),
            Timed::SetKeep(key, value) => {
                let expiry = state[key].and_then(|held| held.expiry);
                set(state, key, value, expiry)
            }
            Timed::SetIfAbsent(key, value) if state[key].is_none() => set(state, key, value, None),
            Timed::SetIfAbsent(..) => Output::Done(false),
            Timed::Increment(key) => {
                let Held { value, expiry } = state[key].unwrap_or(Held { value: 0, expiry: None });
                state[key] = Some(Held { value: value + 1, expiry });
                Output::Count(value + 1)
            }
            Timed::ExpireNow(key) => Output::Count(i64::from(state[key].take().is_some())),
            Timed::ExpireSoon(key, unique) => set_expiry(state, key, Some(Expiry::Soon(unique)), |_| true),
            Timed::ExpireFarIfNone(key) => {
                set_expiry(state, key, Some(Expiry::Far), |expiry| expiry.is_none())
            }
            Timed::Persist(key) => set_expiry(state, key, None, |expiry| expiry.is_some()),
            Timed::GetDelete(key) => Output::Value(state[key].take().map(|held| held.value)),
            Timed::Pass(key, unique) => {
                if state[key].is_some_and(|held| held.expiry == Some(Expiry::Soon(unique))) {
                    state[key] = None;
                }
                Output::Done(true)
            }
        }
    }

    fn aftermath(&self) -> Option<(Timed, Output)> {
        match *self {
            Timed::SetSoon(key, unique) | Timed::ExpireSoon(key, unique) => {
                Some((Timed::Pass(key, unique), Output::Done(true)))
            }
            _ => None,
        }
    }

    fn keys(&self) -> Vec<Key> {
        match *self {
            Timed::Get(key) | Timed::Set(key, _) | Timed::SetSoon(key, _) | Timed::SetFar(key, _) => {
                vec![key]
            }
            Timed::SetKeep(key, _) | Timed::SetIfAbsent(key, _) | Timed::Increment(key) => vec![key],
            Timed::ExpireNow(key) | Timed::ExpireSoon(key, _) | Timed::ExpireFarIfNone(key) => vec![key],
            Timed::Persist(key) | Timed::GetDelete(key) | Timed::Pass(key, _) => vec![key],
        }
    }

    fn request(&self) -> Vec<String> {
        let soon_ms = |unique: i64| 1 + unique % 2;
        let line = match *self {
            Timed::Get(key) => format!("GET timed:{key}"),
            Timed::Set(key, value) => format!("SET timed:{key} {value}"),
            Timed::SetSoon(key, value) => format!("SET timed:{key} {value} PX {}", soon_ms(value)),
            Timed::SetFar(key, value) => format!("SET timed:{key} {value} PX 86400000"),
            Timed::SetKeep(key, value) => format!("SET timed:{key} {value} KEEPTTL"),
            Timed::SetIfAbsent(key, value) => format!("SET timed:{key} {value} NX"),
            Timed::Increment(key) => format!("INCR timed:{key}"),
            Timed::ExpireNow(key) => format!("PEXPIREAT timed:{key} 1"),
            Timed::ExpireSoon(key, unique) => format!("PEXPIRE timed:{key} {}", soon_ms(unique)),
            Timed::ExpireFarIfNone(key) => format!("PEXPIRE timed:{key} 86400000 NX"),
            Timed::Persist(key) => format!("PERSIST timed:{key}"),
            Timed::GetDelete(key) => format!("GETDEL timed:{key}"),
            Timed::Pass(key, unique) => format!("(the expiry {unique} of timed:{key} passes)"),
        };
        line.split(' ').map(str::to_owned).collect()
    }

    fn read(&self, reply: &Reply) -> Option<Output> {
        match (self, reply) {
            (Timed::Get(_) | Timed::GetDelete(_), Reply::Null) => Some(Output::Value(None)),
            (Timed::Get(_) | Timed::GetDelete(_), Reply::Bulk(text)) => {
                Some(Output::Value(Some(std::str::from_utf8(text).ok()?.parse().ok()?)))
            }
            (Timed::SetIfAbsent(..), Reply::Null) => Some(Output::Done(false)),
            (_, Reply::Integer(count)) => Some(Output::Count(*count)),
            (_, Reply::Simple(text)) => (text == b"OK").then_some(Output::Done(true)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linearisability::search::{Operation, check};

    fn operation(op: Timed, output: Output, called_at: u64, returned_at: u64) -> Operation<Timed> {
        Operation { client: called_at as usize, called_at, returned_at, op, output }
    }

    /// Whether this history is explained: a key with an expiry, the passing of the expiry, two reads with
    /// these replies.
    fn explains(first: Option<i64>, second: Option<i64>) -> bool {
        let history = [
            operation(Timed::SetSoon(0, 5), Output::Done(true), 0, 1),
            operation(Timed::Pass(0, 5), Output::Done(true), 0, u64::MAX),
            operation(Timed::Get(0), Output::Value(first), 2, 3),
            operation(Timed::Get(0), Output::Value(second), 4, 5),
        ];
        check(&history).is_ok()
    }

    #[test]
    fn a_key_may_expire_any_time_but_not_reappear() {
        assert!(explains(Some(5), Some(5)) && explains(Some(5), None) && explains(None, None));
        assert!(!explains(None, Some(5)));
    }

    #[test]
    fn a_persisted_key_stays() {
        let history = |seen| {
            [
                operation(Timed::SetSoon(0, 5), Output::Done(true), 0, 1),
                operation(Timed::Pass(0, 5), Output::Done(true), 0, u64::MAX),
                operation(Timed::Persist(0), Output::Count(1), 2, 3),
                operation(Timed::Get(0), Output::Value(seen), 4, 5),
            ]
        };
        assert!(check(&history(Some(5))).is_ok());
        assert!(check(&history(None)).is_err());
    }
}
