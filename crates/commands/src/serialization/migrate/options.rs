//! The arguments of `MIGRATE`, and the positions of its keys.

use std::time::Duration;

use wire::number::parse_i64_strict;
use wire::request::Args;

use crate::error::CommandError;
use crate::host::TransferTarget;
use crate::word::Word;

/// The index of the first option.
const OPTIONS_AT: usize = 6;

/// The timeout where the request has none, in milliseconds.
const DEFAULT_TIMEOUT_MS: u64 = 1000;

const KEY_NOT_EMPTY: CommandError =
    CommandError::new("ERR When using MIGRATE KEYS option, the key argument must be set to the empty string");

/// The options of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) target: TransferTarget,
    /// Whether the keys are kept on this server.
    pub(super) copies: bool,
    /// Whether keys that the target has are replaced.
    pub(super) replaces: bool,
}

impl Options {
    pub(super) fn parse(args: Args<'_>) -> Result<Self, CommandError> {
        let (mut copies, mut replaces) = (false, false);
        let mut credentials = 0..0;
        let mut at = OPTIONS_AT;
        while let Some(word) = args.get(at) {
            if word.eq_token("copy") {
                copies = true;
            } else if word.eq_token("replace") {
                replaces = true;
            } else if word.eq_token("auth") {
                credentials = at + 1..at + 2;
                at += 1;
            } else if word.eq_token("auth2") {
                credentials = at + 1..at + 3;
                at += 2;
            } else if word.eq_token("keys") {
                if !args.at(3).is_empty() {
                    return Err(KEY_NOT_EMPTY);
                }
                break;
            } else {
                return Err(CommandError::SYNTAX);
            }
            if at >= args.len() {
                return Err(CommandError::SYNTAX);
            }
            at += 1;
        }
        let timeout = parse_i64_strict(args.at(5)).ok_or(CommandError::NOT_AN_INTEGER)?;
        let db = parse_i64_strict(args.at(4)).ok_or(CommandError::NOT_AN_INTEGER)?;
        let timeout = u64::try_from(timeout).ok().filter(|timeout| *timeout > 0);
        let target = TransferTarget {
            host: args.at(1).to_vec(),
            port: args.at(2).to_vec(),
            db,
            timeout: Duration::from_millis(timeout.unwrap_or(DEFAULT_TIMEOUT_MS)),
            credentials: credentials.map(|place| args.at(place).to_vec()).collect(),
        };
        Ok(Self { target, copies, replaces })
    }
}

/// The argument index of the option `KEYS`, if the request has it.
fn keys_word(args: Args<'_>) -> Option<usize> {
    if !args.get(3)?.is_empty() {
        return None;
    }
    let mut at = OPTIONS_AT;
    loop {
        let word = args.get(at)?;
        if word.eq_token("keys") {
            return Some(at);
        }
        at += if word.eq_token("auth2") {
            3
        } else if word.eq_token("auth") {
            2
        } else {
            1
        };
    }
}

/// Finds the key of a request without the word `KEYS`.
pub(super) fn find_single(args: Args<'_>, found: &mut Vec<u32>) {
    if keys_word(args).is_none() {
        found.push(3);
    }
}

/// Finds the keys after the word `KEYS`.
pub(super) fn find_several(args: Args<'_>, found: &mut Vec<u32>) {
    if let Some(word) = keys_word(args) {
        found.extend(word as u32 + 1..args.len() as u32);
    }
}
