//! `bind`: the addresses to listen on.

use std::net::IpAddr;

use crate::rule::{Reason, Rule};
use crate::setting::{Before, FileLines, Setting, utf8};
use crate::values::join;

/// Maximum number of addresses, as in Redis.
const ADDRESS_COUNT_MAX: usize = 16;

/// Addresses to listen on: `*` is every IPv4 address, `::*` every IPv6 address. An address with a leading `-`
/// may be unavailable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindAddresses(pub Vec<String>);

impl Default for BindAddresses {
    fn default() -> Self {
        Self(vec!["*".into(), "-::*".into()])
    }
}

impl BindAddresses {
    /// The addresses that other machines can't reach.
    #[must_use]
    pub fn loopback() -> Self {
        Self(vec!["127.0.0.1".into(), "-::1".into()])
    }

    /// Whether other machines can reach one of them. Names other than `localhost` may stand for any address.
    #[must_use]
    pub fn are_exposed(&self) -> bool {
        self.0.iter().any(|address| {
            let address = address.strip_prefix('-').unwrap_or(address);
            let is_loopback = address.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
            !is_loopback && !address.eq_ignore_ascii_case("localhost") && !address.is_empty()
        })
    }
}

impl Setting for BindAddresses {
    const IS_LIST: bool = true;

    fn parse(_: &Rule, args: &[&[u8]], _: Before<'_, Self>) -> Result<Self, Reason> {
        if args.len() > ADDRESS_COUNT_MAX {
            return Err("Too many bind addresses specified.".into());
        }
        let given = if args == [b""] { &[] } else { args };
        given.iter().map(|arg| utf8(arg).map(str::to_owned)).collect::<Result<_, _>>().map(Self)
    }

    fn print(&self, _: &Rule) -> Vec<u8> {
        join(self.0.iter().cloned())
    }

    fn file_lines(&self, rule: &Rule, default: &Self) -> FileLines {
        if self == default {
            FileLines::Remove
        } else if self.0.is_empty() {
            FileLines::one(b"\"\"".to_vec(), true)
        } else {
            FileLines::one(self.print(rule), true)
        }
    }

    fn describe(_: &Rule) -> String {
        format!("up to {ADDRESS_COUNT_MAX} addresses, such as 127.0.0.1 -::1")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exposed_addresses() {
        let check = |addresses: &[&str], expected: bool| {
            let bind = BindAddresses(addresses.iter().map(|address| (*address).to_owned()).collect());
            assert_eq!(bind.are_exposed(), expected, "{addresses:?}");
        };
        check(&["127.0.0.1", "-::1"], false);
        check(&["127.8.9.10", "localhost"], false);
        check(&[], false);
        for exposed in ["*", "::*", "-::", "0.0.0.0", "10.0.0.1", "a.example", "::ffff:10.0.0.1"] {
            check(&["127.0.0.1", exposed], true);
        }
    }
}
