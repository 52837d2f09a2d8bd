//! The named workloads, one line each, and the workload type.

mod collections;
mod scripts;

use crate::distribution::Distribution;
use crate::error::BenchError;

pub use scripts::digest;

/// A named workload: its commands and the keys they require.
#[derive(Debug)]
pub struct Named {
    /// Name on the command line.
    pub name: &'static str,
    /// Commands, with relative frequencies.
    pub commands: &'static [(u32, &'static str)],
    /// Prefix of every key.
    pub key_prefix: &'static str,
    /// Command that writes each key once before the measurement.
    pub fill: Option<&'static str>,
    /// Distribution, if the workload prescribes one.
    pub distribution: Option<Distribution>,
    /// Each run begins with an empty store and sends one request per key.
    pub from_empty: bool,
    /// Settings that the workload prescribes.
    pub own: Own,
    /// One line for `--list`.
    pub about: &'static str,
}

/// Settings that a workload prescribes, overriding the user's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Own {
    /// Number of keys.
    pub key_count: Option<u64>,
    /// Bytes of a value.
    pub value_size: Option<usize>,
    /// Number of times the fill command is sent for each key.
    pub fill_times: u64,
    /// If set, each run fills the keys again and then sends this many requests per key, which consume the
    /// fill.
    pub uses_up: Option<u64>,
    /// Number of subscribers to the channel `news`. If not 0, messages delivered to them are counted instead
    /// of replies.
    pub listener_count: usize,
    /// Additional connections, and the blocking command that each of them sends, one at a time, to consume
    /// the data of the other connections. The requests of both groups are counted.
    pub waiting: Option<(usize, &'static str)>,
    /// A script, which is loaded before the fill and before each run.
    pub script: Option<&'static str>,
}

/// No prescribed settings.
pub const USUAL: Own = Own {
    key_count: None,
    value_size: None,
    fill_times: 1,
    uses_up: None,
    listener_count: 0,
    waiting: None,
    script: None,
};

const STRINGS: &str = "key:";
const SET: Option<&str> = Some("SET {key} {value}");
const NUMBER: Option<&str> = Some("SET {key} 1000");
const IN_ORDER: Option<Distribution> = Some(Distribution::Sequential);
const HOT: Option<Distribution> = Some(Distribution::Hot { share: 1.0 });

#[rustfmt::skip]
static NAMED: &[Named] = &[
    Named { name: "append",   key_prefix: "app:",  fill: None,   distribution: None, from_empty: false, own: USUAL, commands: &[(1, "APPEND {key} {int:0..9}")],                             about: "one byte appended to a key: values grow" },
    Named { name: "fill",     key_prefix: STRINGS, fill: None,   distribution: IN_ORDER, from_empty: true, own: USUAL,  commands: &[(1, "SET {key} {value}")],                                   about: "SET of new keys in sequence, starting with an empty store" },
    Named { name: "get",      key_prefix: STRINGS, fill: SET,    distribution: None, from_empty: false, own: USUAL, commands: &[(1, "GET {key}")],                                           about: "GET of existing keys" },
    Named { name: "get-hot",  key_prefix: STRINGS, fill: SET,    distribution: HOT,  from_empty: false, own: USUAL, commands: &[(1, "GET {key}")],                                           about: "GET of a single key" },
    Named { name: "getrange", key_prefix: STRINGS, fill: SET,    distribution: None, from_empty: false, own: USUAL, commands: &[(1, "GETRANGE {key} 0 7")],                                  about: "the first 8 bytes of existing values" },
    Named { name: "incr",     key_prefix: "int:",  fill: NUMBER, distribution: None, from_empty: false, own: USUAL, commands: &[(1, "INCR {key}")],                                          about: "INCR of existing numbers" },
    Named { name: "incr-hot", key_prefix: "int:",  fill: NUMBER, distribution: HOT,  from_empty: false, own: USUAL, commands: &[(1, "INCR {key}")],                                          about: "INCR of a single number" },
    Named { name: "mget10",   key_prefix: STRINGS, fill: SET,    distribution: None, from_empty: false, own: USUAL, commands: &[(1, "MGET {key*10}")],                                       about: "MGET of 10 existing keys" },
    Named { name: "mixed",    key_prefix: STRINGS, fill: SET,    distribution: None, from_empty: false, own: USUAL, commands: &[(80, "GET {key}"), (20, "SET {key} {value}")],               about: "80 % GET and 20 % SET (other shares: --mix get=95,set=5)" },
    Named { name: "mset10",   key_prefix: STRINGS, fill: SET,    distribution: None, from_empty: false, own: USUAL, commands: &[(1, "MSET {pair*10}")],                                      about: "MSET of 10 existing keys" },
    Named { name: "ping",     key_prefix: STRINGS, fill: None,   distribution: None, from_empty: false, own: USUAL, commands: &[(1, "PING")],                                                about: "PING: the cost of a request without a key" },
    Named { name: "set",      key_prefix: STRINGS, fill: SET,    distribution: None, from_empty: false, own: USUAL, commands: &[(1, "SET {key} {value}")],                                   about: "SET over existing keys" },
    Named { name: "setex",    key_prefix: "exp:",  fill: SET,    distribution: None, from_empty: false, own: USUAL, commands: &[(1, "SET {key} {value} EX 3600")],                           about: "SET with an expiry over existing keys" },
    Named { name: "setrange", key_prefix: STRINGS, fill: SET,    distribution: None, from_empty: false, own: USUAL, commands: &[(1, "SETRANGE {key} 4 {int:1000..9999}")],                   about: "4 bytes overwritten inside existing values" },
];

/// Returns all named workloads: those on strings, on collections, and on scripts, each sorted by name.
pub fn named() -> impl Iterator<Item = &'static Named> {
    NAMED.iter().chain(collections::NAMED).chain(scripts::NAMED)
}

/// A command with its relative frequency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weighted {
    /// Relative frequency, at least 1.
    pub weight: u32,
    /// Command with placeholders.
    pub command: String,
}

/// The requests of one measured case.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Name in reports.
    pub name: String,
    /// Commands to choose from.
    pub commands: Vec<Weighted>,
    /// Prefix of every key.
    pub key_prefix: String,
    /// Command that writes each key once before the measurement.
    pub fill: Option<String>,
    /// Overrides the distribution that the user selected.
    pub distribution: Option<Distribution>,
    /// Each run begins with an empty store and sends one request per key.
    pub from_empty: bool,
    /// Settings that the workload prescribes.
    pub own: Own,
}

impl Workload {
    /// Returns the named workload `name`.
    pub fn named(name: &str) -> Result<Self, BenchError> {
        let named = named().find(|named| named.name == name).ok_or_else(|| {
            let names: Vec<&str> = self::named().map(|named| named.name).collect();
            BenchError::usage(format!("unknown workload '{name}'; available: {}", names.join(", ")))
        })?;
        let sha = named.own.script.map(digest).unwrap_or_default();
        let with_digest = |command: &str| command.replace(scripts::SHA, &sha);
        let commands = named.commands.iter();
        Ok(Self {
            name: named.name.to_owned(),
            commands: commands
                .map(|&(weight, command)| Weighted { weight, command: with_digest(command) })
                .collect(),
            key_prefix: named.key_prefix.to_owned(),
            fill: named.fill.map(with_digest),
            distribution: named.distribution,
            from_empty: named.from_empty,
            own: named.own,
        })
    }

    /// Parses a mix of named workloads, such as `get=95,set=5`. They share the keys and the fill of the first
    /// workload.
    pub fn mix(text: &str) -> Result<Self, BenchError> {
        let mut mix: Option<Self> = None;
        for part in text.split(',') {
            let (name, weight) = part.split_once('=').unwrap_or((part, "1"));
            let weight = parse_weight(weight)?;
            let mut one = Self::named(name.trim())?;
            let inner: u32 = one.commands.iter().map(|command| command.weight).sum();
            let Own { uses_up, waiting, script, .. } = one.own;
            let needs_more = uses_up.is_some() || waiting.is_some() || script.is_some();
            if inner > 1 || one.from_empty || needs_more {
                return Err(BenchError::usage(format!(
                    "'{name}' can't be part of a mix: it has several commands, a prescribed fill, or connections of its own"
                )));
            }
            one.commands.iter_mut().for_each(|command| command.weight = weight);
            match &mut mix {
                None => mix = Some(one),
                Some(mix) if mix.key_prefix == one.key_prefix => mix.commands.append(&mut one.commands),
                Some(mix) => {
                    return Err(BenchError::usage(format!("'{name}' has other keys than '{}'", mix.name)));
                }
            }
        }
        let mut mix = mix.ok_or_else(|| BenchError::usage("an empty --mix"))?;
        mix.name = text.to_owned();
        mix.distribution = None;
        Ok(mix)
    }

    /// Parses custom commands, each `COMMAND` or `WEIGHT*COMMAND`.
    pub fn free(commands: &[String], fill: Option<&str>) -> Result<Self, BenchError> {
        let commands: Vec<Weighted> =
            commands.iter().map(|text| parse_weighted(text)).collect::<Result<_, _>>()?;
        let names: Vec<&str> = commands.iter().map(|weighted| weighted.command.as_str()).collect();
        Ok(Self {
            name: names.join(" | "),
            commands,
            key_prefix: STRINGS.to_owned(),
            fill: fill.map(str::to_owned),
            distribution: None,
            from_empty: false,
            own: USUAL,
        })
    }
}

fn parse_weighted(text: &str) -> Result<Weighted, BenchError> {
    match text.split_once('*') {
        Some((weight, command)) if !weight.is_empty() && weight.bytes().all(|byte| byte.is_ascii_digit()) => {
            Ok(Weighted { weight: parse_weight(weight)?, command: command.to_owned() })
        }
        _ => Ok(Weighted { weight: 1, command: text.to_owned() }),
    }
}

/// Largest relative frequency of a command.
const WEIGHT_MAX: u32 = 1_000_000;

fn parse_weight(text: &str) -> Result<u32, BenchError> {
    match text.trim().parse() {
        Ok(weight) if (1..=WEIGHT_MAX).contains(&weight) => Ok(weight),
        _ => Err(BenchError::usage(format!("the weight '{text}' is not an integer from 1 to {WEIGHT_MAX}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::KeyShape;
    use crate::template::Template;
    use crate::values::ValueSource;

    #[test]
    fn the_table_is_sorted_and_compiles() {
        assert!(NAMED.is_sorted_by(|a, b| a.name < b.name));
        assert!(collections::NAMED.is_sorted_by(|a, b| a.name < b.name));
        assert!(scripts::NAMED.is_sorted_by(|a, b| a.name < b.name));
        let values = ValueSource::new("64".parse().unwrap());
        for named in named() {
            let keys = KeyShape::new(named.key_prefix, 16, 1_000).unwrap();
            let workload = Workload::named(named.name).unwrap();
            assert!(!workload.commands.is_empty() && !named.about.is_empty());
            let commands = workload.commands.iter().map(|weighted| weighted.command.as_str());
            let waiting = named.own.waiting.map(|(_, command)| command);
            for command in commands.chain(workload.fill.as_deref()).chain(waiting) {
                Template::parse(command, &keys, &values).unwrap();
            }
        }
    }

    #[test]
    fn mixes_and_weights() {
        let mix = Workload::mix("get=95,set=5").unwrap();
        let weights: Vec<(u32, &str)> = mix.commands.iter().map(|c| (c.weight, c.command.as_str())).collect();
        assert_eq!(weights, [(95, "GET {key}"), (5, "SET {key} {value}")]);
        for wrong in ["", "get=0", "get=x", "nope", "get,incr", "mixed=3", "get,evalsha"] {
            assert!(Workload::mix(wrong).is_err(), "{wrong}");
        }

        let free = Workload::free(&["3*GET {key}".into(), "MGET {key*2}".into()], None).unwrap();
        assert_eq!(free.commands[0], Weighted { weight: 3, command: "GET {key}".into() });
        assert_eq!(free.commands[1], Weighted { weight: 1, command: "MGET {key*2}".into() });
    }
}
