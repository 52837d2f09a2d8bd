//! `CONFIG SET`: all of the changes or none.
//!
//! A change is a new [`Config`] beside the old one, so nothing needs to be rolled back here. The server runs what
//! hangs on the changed directives, publishes the new one, or keeps the old one and answers [`SetError::refused`].

use std::fmt;

use crate::choices::ProtectedAction;
use crate::directive::{Name, find, find_name};
use crate::rule::Reason;
use crate::setting::Turn;
use crate::table::{Config, Id};

const IMMUTABLE: &str = "can't set immutable config";

/// What `CONFIG SET` would make of a configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The configuration with all the new values.
    pub config: Config,
    /// The directives whose values are new, in the order in which they were given.
    pub changed: Vec<Id>,
}

/// What matters of who sets and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetCaller {
    /// Whether the client is on the same machine.
    pub is_local: bool,
    /// Whether the server still loads its data.
    pub is_loading: bool,
}

/// Why nothing was set. Its text is the error reply's, without the `ERR`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetError {
    /// A name came without a value.
    Syntax,
    /// There is no directive of this name.
    UnknownOption(String),
    /// The directive waits for the data to be loaded; the reply is the one of any command that must wait.
    Loading,
    /// One of the values, or what the server made of it, stands in the way.
    Refused {
        /// The name given.
        argument: String,
        /// What is wrong with it.
        reason: Reason,
    },
}

impl SetError {
    /// The answer when what hangs on a directive failed.
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

/// Whether the value of this name must be kept out of logs; unknown names have nothing to hide.
#[must_use]
pub fn is_sensitive(name: &[u8]) -> bool {
    find(name).is_some_and(|directive| directive.marks.sensitive)
}

impl Config {
    /// What the configuration is after `CONFIG SET` with these arguments: names and values in turn.
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
            let is_new = name.directive.set(&mut config, &args, Turn::First).map_err(refused)?;
            if is_new && name.directive.marks.fixed {
                return Err(refused(IMMUTABLE.into()));
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

    /// The names of all pairs, if every one may be set.
    fn settable_names(&self, pairs: &[[&[u8]; 2]], caller: SetCaller) -> Result<Vec<Name>, SetError> {
        let mut names: Vec<Name> = Vec::with_capacity(pairs.len());
        for [given, _] in pairs {
            let given_text = || String::from_utf8_lossy(given).into_owned();
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
    /// Whether a client may, given whether it is on the same machine.
    #[must_use]
    pub fn allows(self, is_local: bool) -> bool {
        match self {
            Self::No => false,
            Self::Yes => true,
            Self::Local => is_local,
        }
    }
}
