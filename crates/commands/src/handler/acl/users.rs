//! All users, as one immutable value with a version.
//!
//! A change returns new users and leaves the old ones unmodified: sessions refer to these until their next check.
//! Invariant: there always is a user `default`.

use std::sync::Arc;

use rpds::RedBlackTreeMapSync;

use super::catalogue::Catalogue;
use super::password::PasswordHash;
use super::rule_error::RuleError;
use super::selector::has_space;
use super::user::{Grammar, User, merge_selectors};
use crate::error::{CommandError, up_to_nul};

/// The user of connections that have not authenticated as another one.
const DEFAULT: &[u8] = b"default";

/// All users.
#[derive(Clone)]
pub struct Users {
    /// Its copies share what is equal, because each change copies it.
    by_name: RedBlackTreeMapSync<Vec<u8>, Arc<User>>,
    /// Grows with each change.
    version: u64,
    next_incarnation: u64,
}

/// Why a `user` line of the configuration is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserLineError {
    /// The reason, in the words of Valkey. Passwords are hidden.
    pub reason: String,
}

impl Users {
    /// Returns the users of a server without configured users: a default user that may do everything.
    #[must_use]
    pub fn new(catalogue: &'static Catalogue) -> Self {
        let mut users = Self { by_name: RedBlackTreeMapSync::new_sync(), version: 1, next_incarnation: 1 };
        users.put(User::unrestricted(DEFAULT, catalogue));
        users
    }

    /// Returns the version: different values have different versions.
    #[must_use]
    #[inline]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the default user.
    #[must_use]
    pub fn default_user(&self) -> &Arc<User> {
        &self.by_name[DEFAULT]
    }

    /// Whether new connections have to authenticate.
    #[must_use]
    pub fn require_authentication(&self) -> bool {
        let user = self.default_user();
        !user.has_no_password() || !user.is_on()
    }

    /// Returns the user with this name.
    #[must_use]
    pub fn find(&self, name: &[u8]) -> Option<&Arc<User>> {
        self.by_name.get(name)
    }

    /// Returns the current state of a user; `None`: it is deleted, even if a user of that name was created later.
    #[must_use]
    pub fn current(&self, user: &User) -> Option<&Arc<User>> {
        self.find(user.name()).filter(|current| current.incarnation == user.incarnation)
    }

    /// Returns the user if name and password are correct and the user is on. Takes equal time for unknown users.
    #[must_use]
    pub fn authenticate(&self, name: &[u8], password: &[u8]) -> Option<&Arc<User>> {
        let password = PasswordHash::of(password);
        self.find(name).filter(|user| user.accepts(&password))
    }

    /// Returns the users, sorted by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &User> {
        self.by_name.values().map(Arc::as_ref)
    }

    /// Returns the users with the rules applied to one of them, which is created if it does not exist (`ACL SETUSER`).
    ///
    /// # Errors
    /// If the name or a rule is invalid.
    pub fn with_rules(&self, name: &[u8], rules: &[&[u8]], grammar: Grammar) -> Result<Self, CommandError> {
        if has_space(name) {
            return Err(CommandError::new("ERR Usernames can't contain spaces or null characters"));
        }
        let rules = merge_selectors(rules).map_err(|first| {
            CommandError::quote("ERR Unmatched parenthesis in acl selector starting at '", first, "'.")
        })?;
        let mut users = self.changed();
        let mut user = users.find_or_new(name, grammar);
        for rule in &rules {
            user.apply(rule, grammar).map_err(|error| {
                let after = format!("': {}", error.text());
                CommandError::quote("ERR Error in ACL SETUSER modifier '", rule, &after)
            })?;
        }
        users.put(user);
        Ok(users)
    }

    /// Returns the users without these names, and the number of removed users (`ACL DELUSER`).
    ///
    /// # Errors
    /// If the default user is among them.
    pub fn without(&self, names: &[&[u8]]) -> Result<(Self, usize), CommandError> {
        if names.iter().any(|name| up_to_nul(name) == DEFAULT) {
            return Err(CommandError::new("ERR The 'default' user cannot be removed"));
        }
        let mut users = self.changed();
        let count = names.iter().filter(|name| users.by_name.remove_mut(**name)).count();
        Ok((users, count))
    }

    /// Returns the users with another password of the default user (`requirepass`).
    #[must_use]
    pub fn with_default_password(&self, password: Option<&[u8]>, grammar: Grammar) -> Self {
        let mut users = self.changed();
        let mut user = User::clone(users.default_user());
        let rules = match password {
            Some(password) => [b"resetpass".to_vec(), [b">", password].concat()],
            None => [b"resetpass".to_vec(), b"nopass".to_vec()],
        };
        for rule in rules {
            user.apply(&rule, grammar).expect("these rules are valid");
        }
        users.put(user);
        users
    }

    /// Returns the users with the user that a `user` line of the configuration declares. The line of the default user
    /// replaces that user.
    ///
    /// # Errors
    /// If the line is invalid.
    pub fn with_line(&self, name: &[u8], rules: &[&[u8]], grammar: Grammar) -> Result<Self, UserLineError> {
        let failed = |what: &[u8], reason: &str| UserLineError {
            reason: format!("Error in user declaration '{}': {reason}", shown(what)),
        };
        if has_space(name) {
            return Err(UserLineError { reason: "Spaces not allowed in ACL usernames".to_owned() });
        }
        if name != DEFAULT && self.find(name).is_some() {
            return Err(failed(name, RuleError::DuplicateUser.text()));
        }
        let rules =
            merge_selectors(rules).map_err(|first| failed(first, "Unmatched parenthesis in acl selector"))?;
        let mut users = self.changed();
        let incarnation = users.incarnation_of(name);
        let mut user = User::new(name, incarnation, grammar);
        for rule in &rules {
            user.apply(rule, grammar).map_err(|error| match error {
                RuleError::UnknownCommand => UserLineError {
                    reason: format!(
                        "Error loading ACL rule '{}' for the user named '{}': {}",
                        shown(rule),
                        shown(name),
                        error.text()
                    ),
                },
                _ => failed(rule, error.text()),
            })?;
        }
        users.put(user);
        Ok(users)
    }

    /// Returns the users of an ACL file with this text. A user that already exists is kept by its sessions.
    ///
    /// # Errors
    /// If any line is invalid: all errors, as one line of text.
    pub fn loaded(&self, text: &[u8], file: &str, grammar: Grammar) -> Result<Self, String> {
        let mut users = Self { by_name: RedBlackTreeMapSync::new_sync(), ..self.changed() };
        let mut errors = String::new();
        for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let line = trimmed(line, b" \t\r\n");
            if !line.is_empty() {
                self.load_line(&mut users, line, &format!("{file}:{}", index + 1), grammar, &mut errors);
            }
        }
        if !errors.is_empty() {
            return Err(errors
                + "WARNING: ACL errors detected, no change to the previously active ACL rules was performed");
        }
        if !users.by_name.contains_key(DEFAULT) {
            users.put(User::unrestricted(DEFAULT, grammar.catalogue));
        }
        Ok(users)
    }

    /// Adds the user of a line of an ACL file to `users`, or a text to `errors`.
    fn load_line(&self, users: &mut Self, line: &[u8], place: &str, grammar: Grammar, errors: &mut String) {
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let [b"user", name, rules @ ..] = &words[..] else {
            *errors += &format!("{place} should start with user keyword followed by the username. ");
            return;
        };
        if has_space(name) {
            *errors += &format!("'{place}: username '{}' contains invalid characters. ", shown(name));
            return;
        }
        if users.by_name.contains_key(*name) {
            let line_number = place.rsplit(':').next().unwrap_or_default();
            *errors += &format!("WARNING: Duplicate user '{}' found on line {line_number}. ", shown(name));
            return;
        }
        let incarnation = match self.find(name) {
            Some(known) => known.incarnation,
            None => users.incarnation_of(name),
        };
        let mut user = User::new(name, incarnation, grammar);
        let mut has_failed = false;
        match merge_selectors(rules) {
            Err(_) => *errors += &format!("{place}: Unmatched parenthesis in selector definition."),
            Ok(rules) => {
                for rule in &rules {
                    let rule = trimmed(rule, b"\t\r\n");
                    match user.apply(rule, grammar) {
                        Ok(()) => {}
                        Err(error @ RuleError::UnknownCommand) => {
                            let (rule, text) = (shown(rule), error.text());
                            *errors += &format!("{place}: Error in applying operation '{rule}': {text}. ");
                        }
                        // Only the first error, as it may cause others.
                        Err(error) if !has_failed => {
                            has_failed = true;
                            *errors += &format!("{place}: {}. ", error.text());
                        }
                        Err(_) => {}
                    }
                }
            }
        }
        users.put(user);
    }

    /// Returns one line for each user, in the form of an ACL file, without the word `user` and without line ends.
    #[must_use]
    pub fn lines(&self) -> Vec<Vec<u8>> {
        self.iter().map(|user| [user.name(), b" ", &user.rules()].concat()).collect()
    }

    /// Returns a copy with the next version.
    fn changed(&self) -> Self {
        Self { version: self.version + 1, ..self.clone() }
    }

    fn put(&mut self, mut user: User) {
        user.finish();
        self.by_name.insert_mut(user.name().to_vec(), Arc::new(user));
    }

    fn find_or_new(&mut self, name: &[u8], grammar: Grammar) -> User {
        match self.find(name) {
            Some(user) => User::clone(user),
            None => User::new(name, self.incarnation_of(name), grammar),
        }
    }

    /// Returns the incarnation of a new user. The default user has only one, as it cannot be deleted.
    fn incarnation_of(&mut self, name: &[u8]) -> u64 {
        if name == DEFAULT {
            return 0;
        }
        self.next_incarnation += 1;
        self.next_incarnation
    }
}

/// Returns text for an error, without a password.
fn shown(text: &[u8]) -> String {
    match text {
        [sign @ (b'>' | b'<' | b'#' | b'!'), _, ..] => format!("{}...", char::from(*sign)),
        text => String::from_utf8_lossy(up_to_nul(text)).into_owned(),
    }
}

fn trimmed<'a>(text: &'a [u8], unwanted: &[u8]) -> &'a [u8] {
    let is_wanted = |byte: &u8| !unwanted.contains(byte);
    match (text.iter().position(is_wanted), text.iter().rposition(is_wanted)) {
        (Some(first), Some(last)) => &text[first..=last],
        _ => b"",
    }
}
