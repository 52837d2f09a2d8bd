//! One set of permissions: commands, keys, channels and databases. A request is allowed if a selector of its user allows all
//! of it.

use std::collections::BTreeSet;

use base::glob;
use indexmap::{IndexMap, IndexSet};

use super::command_permissions::CommandPermissions;
use super::rule_error::RuleError;
use super::user::Grammar;
use crate::command::KeyFlags;
use crate::error::up_to_nul;
use crate::word::Word;

/// A set of permissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    pub(super) commands: CommandPermissions,
    pub(super) keys: KeyPermissions,
    pub(super) channels: ChannelPermissions,
    pub(super) databases: DatabasePermissions,
}

/// The keys of a selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeyPermissions {
    /// All keys, for reading and writing.
    All,
    /// Keys that match a pattern.
    Matching(IndexMap<Vec<u8>, KeyPattern>),
}

/// The channels of a selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ChannelPermissions {
    /// All.
    All,
    /// Channels that match a pattern.
    Matching(IndexSet<Vec<u8>>),
}

/// The databases of a selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DatabasePermissions {
    /// All.
    All,
    /// The databases with these numbers.
    Only(BTreeSet<u32>),
}

/// How the keys that match a pattern may be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPattern {
    uses: KeyUses,
    /// If the only special character of the pattern is a star at its end: the number of bytes before it. Comparing
    /// this prefix then decides.
    prefix: Option<usize>,
}

bitflags::bitflags! {
    /// The uses of a key that need permission.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct KeyUses: u8 {
        const READ = 1;
        const WRITE = 2;
    }
}

impl KeyPattern {
    fn new(pattern: &[u8], uses: KeyUses) -> Self {
        let is_literal = |byte: &u8| !b"*?[\\".contains(byte);
        let prefix =
            pattern.strip_suffix(b"*").filter(|before| before.iter().all(is_literal)).map(<[u8]>::len);
        Self { uses, prefix }
    }

    #[inline]
    fn matches(&self, pattern: &[u8], key: &[u8]) -> bool {
        match self.prefix {
            // An empty text matches only the empty pattern. Most patterns differ in the first byte.
            Some(0) => !key.is_empty(),
            Some(len) => key.first() == pattern.first() && key.starts_with(&pattern[..len]),
            None => glob::matches(pattern, key),
        }
    }

    fn write(&self, pattern: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(
            match (self.uses.contains(KeyUses::READ), self.uses.contains(KeyUses::WRITE)) {
                (true, false) => b"%R~",
                (false, true) => b"%W~",
                _ => b"~",
            },
        );
        out.extend_from_slice(pattern);
    }
}

/// Returns how a request uses a key, by the flags of the key's position.
#[inline]
fn needed(flags: KeyFlags) -> KeyUses {
    let writes = KeyFlags::INSERT | KeyFlags::DELETE | KeyFlags::UPDATE;
    let read = if flags.contains(KeyFlags::ACCESS) { KeyUses::READ } else { KeyUses::empty() };
    if flags.intersects(writes) { read | KeyUses::WRITE } else { read }
}

impl KeyPermissions {
    /// Whether a key may be used in the way that the flags specify.
    #[inline]
    pub(super) fn allow(&self, key: &[u8], flags: KeyFlags) -> bool {
        let Self::Matching(patterns) = self else { return true };
        let needed = needed(flags);
        patterns.iter().any(|(text, pattern)| pattern.uses.contains(needed) && pattern.matches(text, key))
    }

    /// Whether every key may be read.
    pub(super) fn allow_reading_all(&self) -> bool {
        let Self::Matching(patterns) = self else { return true };
        patterns.get(&b"*"[..]).is_some_and(|pattern| pattern.uses.contains(KeyUses::READ))
    }

    /// Appends the rules, separated by spaces.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::All => out.extend_from_slice(b"~*"),
            Self::Matching(patterns) => join(out, patterns, |(text, pattern), out| pattern.write(text, out)),
        }
    }

    /// Adds a pattern. The uses of an equal pattern are extended.
    fn add(&mut self, pattern: &[u8], uses: KeyUses) -> Result<(), RuleError> {
        let Self::Matching(patterns) = self else { return Err(RuleError::KeysAfterAll) };
        if has_space(pattern) {
            return Err(RuleError::Syntax);
        }
        match patterns.get_mut(pattern) {
            Some(known) => known.uses |= uses,
            None => drop(patterns.insert(pattern.to_vec(), KeyPattern::new(pattern, uses))),
        }
        Ok(())
    }
}

impl ChannelPermissions {
    /// Whether a channel, or a pattern of channels, may be used. A pattern must literally equal a pattern of the
    /// rules.
    pub(super) fn allow(&self, name: &[u8], is_pattern: bool) -> bool {
        let Self::Matching(patterns) = self else { return true };
        let matches = |pattern: &Vec<u8>| match is_pattern {
            true => pattern == up_to_nul(name),
            false => glob::matches(pattern, name),
        };
        patterns.iter().any(matches)
    }

    /// Appends the rules that allow channels, separated by spaces.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::All => out.extend_from_slice(b"&*"),
            Self::Matching(patterns) => join(out, patterns, |pattern, out| {
                out.push(b'&');
                out.extend_from_slice(pattern);
            }),
        }
    }

    fn add(&mut self, pattern: &[u8]) -> Result<(), RuleError> {
        let Self::Matching(patterns) = self else { return Err(RuleError::ChannelsAfterAll) };
        if has_space(pattern) {
            return Err(RuleError::Syntax);
        }
        if !patterns.contains(pattern) {
            patterns.insert(pattern.to_vec());
        }
        Ok(())
    }
}

impl DatabasePermissions {
    /// Whether a database may be accessed.
    #[inline]
    pub(super) fn allow(&self, database: u32, db_count: usize) -> bool {
        match self {
            Self::All => true,
            Self::Only(databases) => (database as usize) < db_count && databases.contains(&database),
        }
    }

    /// Appends the rule; nothing if no database is allowed.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::All => out.extend_from_slice(b"alldbs"),
            Self::Only(databases) if databases.is_empty() => {}
            Self::Only(databases) => {
                let numbers: Vec<String> = databases.iter().map(u32::to_string).collect();
                out.extend_from_slice(format!("db={}", numbers.join(",")).as_bytes());
            }
        }
    }

    /// Parses database numbers, separated by commas.
    fn parse(list: &[u8]) -> Result<Self, RuleError> {
        up_to_nul(list)
            .split(|byte| *byte == b',')
            .map(parse_database)
            .collect::<Result<_, _>>()
            .map(Self::Only)
    }
}

/// Parses a database number as the C library does: spaces and a plus sign may precede it.
fn parse_database(text: &[u8]) -> Result<u32, RuleError> {
    let text = text.trim_ascii_start();
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] | digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(RuleError::Syntax);
    }
    let number = digits
        .iter()
        .try_fold(0u32, |number, digit| number.checked_mul(10)?.checked_add(u32::from(digit - b'0')));
    let number = number.filter(|number| *number <= i32::MAX as u32 && (!is_negative || *number == 0));
    number.ok_or(RuleError::DatabaseOutOfRange)
}

impl Selector {
    /// Returns a selector with the permissions of a new one.
    pub(super) fn new(grammar: Grammar) -> Self {
        let channels = match grammar.all_channels_by_default {
            true => ChannelPermissions::All,
            false => ChannelPermissions::Matching(IndexSet::new()),
        };
        Self {
            commands: CommandPermissions::new(false),
            keys: KeyPermissions::Matching(IndexMap::new()),
            channels,
            databases: DatabasePermissions::All,
        }
    }

    /// Whether it allows every request.
    pub(super) fn allows_everything(&self) -> bool {
        self.commands.has_all()
            && self.keys == KeyPermissions::All
            && self.channels == ChannelPermissions::All
            && self.databases == DatabasePermissions::All
    }

    /// Applies a rule.
    pub(super) fn apply(&mut self, rule: &[u8], grammar: Grammar) -> Result<(), RuleError> {
        let is = |word: &str| rule.eq_token(word);
        match rule {
            _ if is("allkeys") || is("~*") => self.keys = KeyPermissions::All,
            _ if is("resetkeys") => self.keys = KeyPermissions::Matching(IndexMap::new()),
            _ if is("allchannels") || is("&*") => self.channels = ChannelPermissions::All,
            _ if is("resetchannels") => self.channels = ChannelPermissions::Matching(IndexSet::new()),
            _ if is("alldbs") => self.databases = DatabasePermissions::All,
            _ if is("resetdbs") => self.databases = DatabasePermissions::Only(BTreeSet::new()),
            _ if is("allcommands") => self.commands = CommandPermissions::new(true),
            _ if is("nocommands") => self.commands = CommandPermissions::new(false),
            _ if rule.len() >= 3 && rule[..3].eq_ignore_ascii_case(b"db=") => {
                self.databases = DatabasePermissions::parse(&rule[3..])?;
            }
            [b'~', pattern @ ..] => self.keys.add(pattern, KeyUses::all())?,
            [b'%', _rest @ ..] if self.keys == KeyPermissions::All => return Err(RuleError::KeysAfterAll),
            [b'%', rest @ ..] => {
                let (uses, pattern) = parse_key_uses(rest)?;
                self.keys.add(pattern, uses)?;
            }
            [b'&', pattern @ ..] => self.channels.add(pattern)?,
            [sign @ (b'+' | b'-'), name @ ..] => {
                self.commands.apply(*sign == b'+', name, grammar.catalogue)?
            }
            _ => return Err(RuleError::Syntax),
        }
        Ok(())
    }

    /// Appends the rules that turn a new selector into this one.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let end_list = |out: &mut Vec<u8>, begin: usize| {
            if out.len() > begin {
                out.push(b' ');
            }
        };
        let begin = out.len();
        self.keys.write(out);
        end_list(out, begin);
        // The default for channels may be different when the rules are applied.
        if self.channels != ChannelPermissions::All {
            out.extend_from_slice(b"resetchannels ");
        }
        let begin = out.len();
        self.channels.write(out);
        end_list(out, begin);
        let begin = out.len();
        match &self.databases {
            // Omitted, because it is the default and older servers reject the rule.
            DatabasePermissions::All => {}
            DatabasePermissions::Only(databases) if databases.is_empty() => {
                out.extend_from_slice(b"resetdbs")
            }
            databases => databases.write(out),
        }
        end_list(out, begin);
        self.commands.write(out);
    }

    /// Returns the rules about commands.
    #[must_use]
    pub fn command_rules(&self) -> Vec<u8> {
        written(|out| self.commands.write(out))
    }

    /// Returns the rules about keys.
    #[must_use]
    pub fn key_rules(&self) -> Vec<u8> {
        written(|out| self.keys.write(out))
    }

    /// Returns the rules about channels.
    #[must_use]
    pub fn channel_rules(&self) -> Vec<u8> {
        written(|out| self.channels.write(out))
    }

    /// Returns the rules about databases.
    #[must_use]
    pub fn database_rules(&self) -> Vec<u8> {
        written(|out| self.databases.write(out))
    }
}

/// Parses the letters after a `%`, and returns the pattern after its `~`. A missing `~` ends the rule.
fn parse_key_uses(rest: &[u8]) -> Result<(KeyUses, &[u8]), RuleError> {
    let mut uses = KeyUses::empty();
    for (at, letter) in rest.iter().enumerate() {
        let used = match letter.to_ascii_uppercase() {
            b'R' => KeyUses::READ,
            b'W' => KeyUses::WRITE,
            b'~' if !uses.is_empty() => return Ok((uses, &rest[at + 1..])),
            _ => return Err(RuleError::Syntax),
        };
        if uses.contains(used) {
            return Err(RuleError::Syntax);
        }
        uses |= used;
    }
    if uses.is_empty() { Err(RuleError::Syntax) } else { Ok((uses, b"")) }
}

/// Whether a name contains white space or a NUL, which would end it in a file of rules.
pub(super) fn has_space(name: &[u8]) -> bool {
    name.iter().any(|byte| byte.is_ascii_whitespace() || matches!(byte, 0 | b'\x0b'))
}

fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

fn join<T>(out: &mut Vec<u8>, items: impl IntoIterator<Item = T>, write: impl Fn(T, &mut Vec<u8>)) {
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(b' ');
        }
        write(item, out);
    }
}
