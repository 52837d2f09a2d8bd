//! `replicaof`: the primary to replicate.

use crate::rule::{Reason, Rule};
use crate::setting::{Before, FileLines, Setting, utf8};

/// The primary's host and port; `None` on a primary.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrimaryAddress(pub Option<(String, u16)>);

impl Setting for PrimaryAddress {
    const IS_LIST: bool = true;

    fn parse(_: &Rule, args: &[&[u8]], _: Before<'_, Self>) -> Result<Self, Reason> {
        let &[host, port] = args else {
            return Err("wrong number of arguments".into());
        };
        if host.eq_ignore_ascii_case(b"no") && port.eq_ignore_ascii_case(b"one") {
            return Ok(Self(None));
        }
        let port = utf8(port)?.parse().map_err(|_| "Invalid primary port")?;
        Ok(Self(Some((utf8(host)?.to_owned(), port))))
    }

    fn print(&self, _: &Rule) -> Vec<u8> {
        self.0.as_ref().map_or_else(Vec::new, |(host, port)| format!("{host} {port}").into_bytes())
    }

    fn file_lines(&self, rule: &Rule, _: &Self) -> FileLines {
        match self.0 {
            None => FileLines::Remove,
            Some(_) => FileLines::one(self.print(rule), true),
        }
    }

    fn describe(_: &Rule) -> String {
        "<host> <port>, or no one".into()
    }
}
