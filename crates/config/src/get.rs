//! `CONFIG GET`.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::table::Config;
use crate::table::directive::{NAMES, find_name};
use base::glob;

impl Config {
    /// The names that match any of the patterns, aliases included, with their values: in alphabetical order,
    /// each once. An exact name is returned in the spelling of the request.
    #[must_use]
    pub fn matching<'a>(&self, patterns: &[&'a [u8]]) -> Vec<(Cow<'a, str>, Vec<u8>)> {
        let mut seen = HashSet::new();
        let mut found = Vec::new();
        for &pattern in patterns {
            if !pattern.iter().any(|byte| b"[*?".contains(byte)) {
                if let Some(name) = find_name(pattern)
                    && seen.insert(name.text)
                {
                    found.push((String::from_utf8_lossy(pattern), name.directive.value(self)));
                }
                continue;
            }
            for name in NAMES.iter().filter(|name| !name.directive.marks.hidden) {
                if glob::matches_ignoring_case(pattern, name.text.as_bytes()) && seen.insert(name.text) {
                    found.push((Cow::Borrowed(name.text), name.directive.value(self)));
                }
            }
        }
        found.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(patterns: &[&str], expected: &[(&str, &str)]) {
        let patterns: Vec<&[u8]> = patterns.iter().map(|pattern| pattern.as_bytes()).collect();
        let found = Config::default().matching(&patterns);
        let found: Vec<(&str, &str)> =
            found.iter().map(|(name, value)| (&**name, std::str::from_utf8(value).unwrap())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn patterns_and_names() {
        check(&["maxmemory-s*"], &[("maxmemory-samples", "5")]);
        check(&["nonesuch"], &[]);
        check(&["MaxMemory"], &[("MaxMemory", "0")]);
        check(&["MAXMEM*-policy", "maxmemory-policy"], &[("maxmemory-policy", "noeviction")]);
        check(&["timeout", "port", "timeout"], &[("port", "6379"), ("timeout", "0")]);
    }

    #[test]
    fn aliases_are_listed_beside_their_directive() {
        check(&["*-priority"], &[("replica-priority", "100"), ("slave-priority", "100")]);
        check(&["lua-time-limit"], &[("lua-time-limit", "5000")]);
    }

    #[test]
    fn hidden_directives_require_their_exact_name() {
        check(&["watchdog*"], &[]);
        check(&["watchdog-period"], &[("watchdog-period", "0")]);
    }
}
