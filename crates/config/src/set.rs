//! `CONFIG SET`: all changes or none.
//!
//! A change is a new [`Config`] beside the old one, so this module needs no rollback. The server applies the
//! changed directives and publishes the new configuration, or keeps the old one and replies
//! [`SetError::refused`].

use std::fmt;

use crate::choices::ProtectedAction;
use crate::rule::Reason;
use crate::setting::Occurrence;
use crate::table::directive::{Name, find, find_name};
use crate::table::{Config, Id};

const IMMUTABLE: &str = "can't set immutable config";

const ENABLED_TOO_LATE: &str = "memory tracking cannot be enabled at runtime";

/// The result of `CONFIG SET` for a configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The configuration with all the new values.
    pub config: Config,
    /// The directives with new values, in the order of the request.
    pub changed: Vec<Id>,
}

/// The relevant properties of the caller and the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetCaller {
    /// Whether the client is on the same machine.
    pub is_local: bool,
    /// Whether the server still loads its data.
    pub is_loading: bool,
}

/// The reason why nothing was set. Its text is the error reply without `ERR`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetError {
    /// No arguments, or a name without a value.
    Syntax,
    /// There is no directive of this name.
    UnknownOption(String),
    /// The directive cannot be set while data is loaded. The reply is the error of any command during a load.
    Loading,
    /// A value is invalid, or the server could not apply it.
    Refused {
        /// The given name.
        argument: String,
        /// The error.
        reason: Reason,
    },
}

impl SetError {
    /// The reply if applying a directive failed.
    #[must_use]
    pub fn refused(directive: Id, reason: impl Into<Reason>) -> Self {
        Self::Refused { argument: directive.name().to_owned(), reason: reason.into() }
    }
}

impl fmt::Display for SetError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax => out.write_str("syntax error"),
            Self::UnknownOption(name) => {
                write!(out, "Unknown option or number of arguments for CONFIG SET - '{name}'")
            }
            Self::Loading => out.write_str("the server is loading the dataset in memory"),
            Self::Refused { argument, reason } => {
                write!(out, "CONFIG SET failed (possibly related to argument '{argument}') - {reason}")
            }
        }
    }
}

impl std::error::Error for SetError {}

/// Whether the value of this name must not be logged; false for unknown names.
#[must_use]
pub fn is_sensitive(name: &[u8]) -> bool {
    find(name).is_some_and(|directive| directive.marks.sensitive)
}

impl Config {
    /// Returns the configuration after `CONFIG SET` with these arguments: names and values alternate.
    pub fn with_changes(&self, arguments: &[&[u8]], caller: SetCaller) -> Result<Change, SetError> {
        let (pairs, rest) = arguments.as_chunks::<2>();
        if !rest.is_empty() || pairs.is_empty() {
            return Err(SetError::Syntax);
        }
        let names = self.settable_names(pairs, caller)?;
        let mut config = self.clone();
        let mut changed = Vec::new();
        for (name, [_, value]) in names.into_iter().zip(pairs) {
            let args: Vec<&[u8]> = match name.directive.is_list {
                true if value.is_empty() => Vec::new(),
                true => value.split(|byte| *byte == b' ').collect(),
                false => vec![value],
            };
            let refused = |reason| SetError::Refused { argument: name.text.to_owned(), reason };
            let is_new = name.directive.set(&mut config, &args, Occurrence::First).map_err(refused)?;
            if is_new && name.directive.marks.fixed {
                return Err(refused(IMMUTABLE.into()));
            }
            if is_new && name.directive.marks.start_only && name.directive.value(&config) == b"yes" {
                return Err(refused(ENABLED_TOO_LATE.into()));
            }
            if let Some(reason) = name.directive.refusal(&config) {
                return Err(refused(reason.into()));
            }
            if is_new && !changed.contains(&name.directive.id) {
                changed.push(name.directive.id);
            }
        }
        config.apply_dependent_defaults();
        Ok(Change { config, changed })
    }

    /// The names of all pairs, if all of them may be set.
    fn settable_names(&self, pairs: &[[&[u8]; 2]], caller: SetCaller) -> Result<Vec<Name>, SetError> {
        let mut names: Vec<Name> = Vec::with_capacity(pairs.len());
        for [given, _] in pairs {
            // Errors show a name as a C string.
            let shown = given.split(|byte| *byte == 0).next().unwrap_or_default();
            let given_text = || String::from_utf8_lossy(shown).into_owned();
            let Some(name) = find_name(given) else {
                return Err(SetError::UnknownOption(given_text()));
            };
            let marks = name.directive.marks;
            let reason = if marks.immutable {
                IMMUTABLE
            } else if marks.protected && !self.allows_protected(caller) {
                "can't set protected config"
            } else if marks.deny_loading && caller.is_loading {
                return Err(SetError::Loading);
            } else if names.iter().any(|earlier| earlier.text == name.text) {
                "duplicate parameter"
            } else {
                names.push(name);
                continue;
            };
            return Err(SetError::Refused { argument: given_text(), reason: reason.into() });
        }
        Ok(names)
    }

    fn allows_protected(&self, caller: SetCaller) -> bool {
        self.enable_protected_configs.allows(caller.is_local)
    }
}

impl ProtectedAction {
    /// Whether a client may perform the action; `is_local`: it is on the same machine.
    #[must_use]
    pub fn allows(self, is_local: bool) -> bool {
        match self {
            Self::No => false,
            Self::Yes => true,
            Self::Local => is_local,
        }
    }
}
