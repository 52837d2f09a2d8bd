//! One user: whether it is on, its passwords, and its selectors.

use std::fmt;

use config::{AclPubsubDefault, Config, split_arguments};
use indexmap::IndexSet;

use super::catalogue::Catalogue;
use super::password::PasswordHash;
use super::rule_error::RuleError;
use super::selector::Selector;
use crate::word::Word;

/// The settings on which the meaning of rules depends.
#[derive(Clone, Copy)]
pub struct Grammar {
    /// The commands that rules name.
    pub catalogue: &'static Catalogue,
    /// Whether new users and selectors may use all channels (`acl-pubsub-default`).
    pub all_channels_by_default: bool,
}

impl Grammar {
    /// Returns the grammar with this configuration.
    #[must_use]
    pub fn of(config: &Config, catalogue: &'static Catalogue) -> Self {
        let all_channels_by_default = config.acl_pubsub_default == AclPubsubDefault::AllChannels;
        Self { catalogue, all_channels_by_default }
    }
}

/// A user. Immutable once it is part of the users in force.
#[derive(Clone)]
pub struct User {
    name: Vec<u8>,
    /// Distinguishes a user from a deleted one of the same name.
    pub(super) incarnation: u64,
    is_on: bool,
    has_no_password: bool,
    /// In the order in which they were added.
    passwords: IndexSet<PasswordHash>,
    /// The first one is the root selector, which every user has.
    selectors: Vec<Selector>,
    /// Whether a selector allows everything. Derived from the selectors.
    is_unrestricted: bool,
    catalogue: &'static Catalogue,
}

impl User {
    /// Returns a user as `ACL SETUSER` creates it: off, without passwords and permissions.
    pub(super) fn new(name: &[u8], incarnation: u64, grammar: Grammar) -> Self {
        Self {
            name: name.to_vec(),
            incarnation,
            is_on: false,
            has_no_password: false,
            passwords: IndexSet::new(),
            selectors: vec![Selector::new(grammar)],
            is_unrestricted: false,
            catalogue: grammar.catalogue,
        }
    }

    /// Returns a user that is on, needs no password, and may do everything.
    pub(super) fn unrestricted(name: &[u8], catalogue: &'static Catalogue) -> Self {
        let grammar = Grammar { catalogue, all_channels_by_default: true };
        let mut user = Self::new(name, 0, grammar);
        for rule in ["on", "nopass", "~*", "+@all"] {
            user.apply(rule.as_bytes(), grammar).expect("these rules are valid");
        }
        user.finish();
        user
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Returns the commands that the user's rules name.
    #[must_use]
    pub fn catalogue(&self) -> &'static Catalogue {
        self.catalogue
    }

    /// Whether connections may authenticate as this user.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Whether any password is accepted.
    #[must_use]
    pub fn has_no_password(&self) -> bool {
        self.has_no_password
    }

    /// Whether some requests are not allowed.
    #[must_use]
    #[inline]
    pub fn is_restricted(&self) -> bool {
        !self.is_unrestricted
    }

    /// Returns the password hashes.
    #[must_use]
    pub fn passwords(&self) -> &IndexSet<PasswordHash> {
        &self.passwords
    }

    /// Returns the selectors, the root selector first.
    #[must_use]
    pub fn selectors(&self) -> &[Selector] {
        &self.selectors
    }

    /// Returns the names of the flags.
    #[must_use]
    pub fn flags(&self) -> Vec<&'static str> {
        let mut flags = vec![if self.is_on { "on" } else { "off" }];
        flags.extend(self.has_no_password.then_some("nopass"));
        flags
    }

    /// Whether a connection may authenticate with this password. Compares it with every password of the user.
    #[must_use]
    pub fn accepts(&self, password: &PasswordHash) -> bool {
        let is_known = self.passwords.iter().fold(false, |known, own| known | (own == password));
        self.is_on && (self.has_no_password || is_known)
    }

    /// Applies a rule. After the last one, [`Self::finish`] is called.
    ///
    /// # Errors
    /// If the rule is invalid. The user may then be partly changed and must be discarded.
    pub fn apply(&mut self, rule: &[u8], grammar: Grammar) -> Result<(), RuleError> {
        let is = |word: &str| rule.eq_token(word);
        match rule {
            [] => {}
            _ if is("on") => self.is_on = true,
            _ if is("off") => self.is_on = false,
            // These rules had an effect in Redis 6 to 8. Here every payload is checked.
            _ if is("sanitize-payload") || is("skip-sanitize-payload") => {}
            _ if is("nopass") => {
                self.passwords.clear();
                self.has_no_password = true;
            }
            _ if is("resetpass") => {
                self.passwords.clear();
                self.has_no_password = false;
            }
            [b'>', password @ ..] => self.add_password(PasswordHash::of(password)),
            [b'#', digits @ ..] => self.add_password(parse_hash(digits)?),
            [b'<', password @ ..] => self.remove_password(PasswordHash::of(password))?,
            [b'!', digits @ ..] => self.remove_password(parse_hash(digits)?)?,
            [b'(', rules @ .., b')'] => self.selectors.push(parse_selector(rules, grammar)?),
            _ if is("clearselectors") => self.selectors.truncate(1),
            _ if is("reset") => *self = Self::new(&self.name, self.incarnation, grammar),
            _ => self.selectors[0].apply(rule, grammar)?,
        }
        Ok(())
    }

    /// Derives what follows from the rules, after the last one is applied.
    pub(super) fn finish(&mut self) {
        self.is_unrestricted = self.selectors.iter().any(Selector::allows_everything);
    }

    fn add_password(&mut self, password: PasswordHash) {
        self.passwords.insert(password);
        self.has_no_password = false;
    }

    fn remove_password(&mut self, password: PasswordHash) -> Result<(), RuleError> {
        match self.passwords.shift_remove(&password) {
            true => Ok(()),
            false => Err(RuleError::NoSuchPassword),
        }
    }

    /// Returns the rules that turn a new user into this one, separated by spaces.
    #[must_use]
    pub fn rules(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for flag in self.flags() {
            out.extend_from_slice(flag.as_bytes());
            out.push(b' ');
        }
        for password in &self.passwords {
            out.extend_from_slice(format!("#{} ", password.to_hex()).as_bytes());
        }
        self.selectors[0].write(&mut out);
        for selector in &self.selectors[1..] {
            out.extend_from_slice(b" (");
            selector.write(&mut out);
            out.push(b')');
        }
        out
    }
}

impl fmt::Debug for User {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "User({})", self.name.escape_ascii())
    }
}

fn parse_hash(digits: &[u8]) -> Result<PasswordHash, RuleError> {
    PasswordHash::from_hex(digits).ok_or(RuleError::NotAHash)
}

/// Parses the rules between the parentheses of a selector. Unbalanced quotes make it empty, as in Valkey.
fn parse_selector(rules: &[u8], grammar: Grammar) -> Result<Selector, RuleError> {
    let mut selector = Selector::new(grammar);
    for rule in split_arguments(rules).unwrap_or_default() {
        selector.apply(&rule, grammar)?;
    }
    Ok(selector)
}

/// Joins the parts of selectors that were given as several arguments.
///
/// # Errors
/// If a selector does not end: the argument with which it begins.
pub(super) fn merge_selectors<'a>(rules: &[&'a [u8]]) -> Result<Vec<Vec<u8>>, &'a [u8]> {
    let mut merged = Vec::with_capacity(rules.len());
    let mut open: Option<(&[u8], Vec<u8>)> = None;
    for &rule in rules {
        let ends = rule.last() == Some(&b')');
        match open.take() {
            None if rule.first() == Some(&b'(') && !ends => open = Some((rule, rule.to_vec())),
            None => merged.push(rule.to_vec()),
            Some((first, mut text)) => {
                text.push(b' ');
                text.extend_from_slice(rule);
                if ends {
                    merged.push(text);
                } else {
                    open = Some((first, text));
                }
            }
        }
    }
    match open {
        None => Ok(merged),
        Some((first, _)) => Err(first),
    }
}
