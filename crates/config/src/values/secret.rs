//! Passwords: bytes that are not shown in debug output.

use std::fmt;

use crate::rule::{Reason, Rule};
use crate::setting::{Before, FileLines, Setting, text_lines};

/// A password; empty if none is set.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Creates a password; an empty one means that none is set.
    #[must_use]
    pub fn new(password: Vec<u8>) -> Self {
        Self(password)
    }

    /// The password in plain text; `None` if none is set.
    #[must_use]
    pub fn reveal(&self) -> Option<&[u8]> {
        (!self.0.is_empty()).then_some(&self.0)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(if self.0.is_empty() { "Secret(unset)" } else { "Secret(redacted)" })
    }
}

impl Setting for Secret {
    fn parse(_: &Rule, args: &[&[u8]], _: Before<'_, Self>) -> Result<Self, Reason> {
        Ok(Self(args[0].to_vec()))
    }

    fn print(&self, _: &Rule) -> Vec<u8> {
        self.0.clone()
    }

    fn file_lines(&self, rule: &Rule, default: &Self) -> FileLines {
        text_lines(&self.0, rule, self != default)
    }

    fn describe(_: &Rule) -> String {
        "a text, in quotes if it has spaces".into()
    }
}
