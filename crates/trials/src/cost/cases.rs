//! The cases of the audit, each a request with its preparation. A new command that takes a count, a range or
//! many keys is one line here.

mod collections;
mod keys;
mod permissions;
mod scripts;
mod sorted_sets;
mod streams;
mod strings;

use std::io;

use super::{LINEAR_GROWTH_MAX, RATIO_MAX, SQUARE_GROWTH_MAX};

/// The unit of N.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Elements of a collection: 4N is one million.
    Elements,
    /// Keys, arguments or requests: 4N is 100,000.
    Arguments,
    /// Bytes of a string: 4N is 100 MB.
    Bytes,
    /// Both lengths of a command whose cost is their product.
    Sides,
}

/// A case: texts in the syntax of `template.rs`.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Name in reports.
    pub title: &'static str,
    /// The unit of N.
    pub scale: Scale,
    /// Preparation, on an empty server.
    pub set_up: &'static [&'static str],
    /// The measured request.
    pub request: &'static str,
    /// Maximum growth of the cost from N to 4N.
    pub growth_max: f64,
    /// Maximum ratio to Valkey's cost.
    ratio_max: f64,
    /// The same with the small sizes of a short test, where fixed costs count.
    quick_ratio_max: f64,
    /// Reason for a higher limit than that of other cases; empty if both limits are the default.
    pub reason: &'static str,
}

/// Reason why requests of many keys may cost more than Valkey's.
const SLOTS: &str = "each key's slot is latched";

/// Reason why walks over the keys of a small database may cost more than Valkey's.
const EMPTY_SLOTS: &str = "every slot is visited, and most slots of a small database are empty";

impl Scale {
    /// Returns N.
    pub fn size(self, is_quick: bool) -> usize {
        let (size, quick_size) = match self {
            Self::Elements => (250_000, 8_000),
            Self::Arguments => (25_000, 4_000),
            Self::Bytes => (25_000_000, 1_000_000),
            Self::Sides => (500, 200),
        };
        if is_quick { quick_size } else { size }
    }
}

impl Case {
    const fn new(
        title: &'static str,
        scale: Scale,
        set_up: &'static [&'static str],
        request: &'static str,
    ) -> Case {
        let growth_max = if matches!(scale, Scale::Sides) { SQUARE_GROWTH_MAX } else { LINEAR_GROWTH_MAX };
        let [ratio_max, quick_ratio_max] = [RATIO_MAX; 2];
        Case { title, scale, set_up, request, growth_max, ratio_max, quick_ratio_max, reason: "" }
    }

    /// Sets another ratio limit, with its reason.
    const fn up_to(self, ratio_max: f64, reason: &'static str) -> Case {
        Case { ratio_max, quick_ratio_max: ratio_max, reason, ..self }
    }

    /// Sets another ratio limit for small sizes, with its reason.
    const fn quick_up_to(self, quick_ratio_max: f64, reason: &'static str) -> Case {
        Case { quick_ratio_max, reason, ..self }
    }

    /// Maximum ratio to Valkey's cost.
    pub fn ratio_max(&self, is_quick: bool) -> f64 {
        if is_quick { self.quick_ratio_max } else { self.ratio_max }
    }

    const fn elements(title: &'static str, set_up: &'static [&'static str], request: &'static str) -> Case {
        Case::new(title, Scale::Elements, set_up, request)
    }

    const fn arguments(title: &'static str, set_up: &'static [&'static str], request: &'static str) -> Case {
        Case::new(title, Scale::Arguments, set_up, request)
    }

    const fn bytes(title: &'static str, set_up: &'static [&'static str], request: &'static str) -> Case {
        Case::new(title, Scale::Bytes, set_up, request)
    }

    const fn sides(title: &'static str, set_up: &'static [&'static str], request: &'static str) -> Case {
        Case::new(title, Scale::Sides, set_up, request)
    }

    /// Returns the measured commands, in lower case.
    pub fn commands(&self) -> impl Iterator<Item = String> {
        self.request.split([';', '|']).map(|line| {
            let line = line.split_once(": ").map_or(line, |(_, words)| words);
            line.split_whitespace().next().unwrap_or_default().to_lowercase()
        })
    }

    /// Returns an error that names the case.
    pub fn error(&self, what: &str) -> io::Error {
        io::Error::other(format!("{}: {what}", self.title))
    }
}

/// Returns all cases.
pub fn all() -> impl Iterator<Item = &'static Case> {
    [strings::CASES, collections::LISTS, collections::SETS, collections::HASHES, sorted_sets::CASES]
        .into_iter()
        .chain([streams::CASES, keys::CASES, permissions::CASES, scripts::CASES])
        .flatten()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{RATIO_MAX, all};

    #[test]
    fn titles_are_unique() {
        let titles: BTreeSet<&str> = all().map(|case| case.title).collect();
        assert_eq!(titles.len(), all().count());
    }

    #[test]
    fn other_limits_have_a_reason() {
        assert!(all().all(|case| [false, true].iter().all(|quick| case.ratio_max(*quick) == RATIO_MAX)
            == case.reason.is_empty()));
    }
}
