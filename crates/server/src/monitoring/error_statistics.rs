//! Error replies, counted by their code, for `INFO errorstats`.

use std::collections::BTreeMap;

use sync::{Mutex, MutexGuard};

/// Maximum number of codes counted; more exist only if a client invents them, as a script can.
const CODE_COUNT_MAX: usize = 128;

/// The codes of the server's own errors, which are always counted under their names.
const OWN_CODES: &[&str] = &[
    "BUSY",
    "BUSYGROUP",
    "BUSYKEY",
    "DENIED",
    "ERR",
    "EXECABORT",
    "INVALIDOBJ",
    "IOERR",
    "LOADING",
    "MISCONF",
    "NOAUTH",
    "NOGROUP",
    "NOPERM",
    "NOPROTO",
    "NOREPLICAS",
    "NOSCRIPT",
    "NOTBUSY",
    "OOM",
    "UNBLOCKED",
    "UNKILLABLE",
    "WRONGPASS",
    "WRONGTYPE",
];

/// The name under which all further codes are counted.
const OVERFLOW: &str = "ERRORSTATS_OVERFLOW";

/// Errors by code.
#[derive(Default)]
pub struct ErrorStatistics {
    codes: Mutex<BTreeMap<String, u64>>,
}

impl ErrorStatistics {
    fn codes(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        self.codes.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Counts an error.
    pub fn count(&self, code: &str) {
        let mut codes = self.codes();
        if let Some(count) = codes.get_mut(code) {
            *count += 1;
        } else if codes.len() < CODE_COUNT_MAX || OWN_CODES.contains(&code) {
            codes.insert(code.to_owned(), 1);
        } else {
            *codes.entry(OVERFLOW.to_owned()).or_default() += 1;
        }
    }

    /// All codes with their counts, sorted.
    #[must_use]
    pub fn all(&self) -> Vec<(String, u64)> {
        self.codes().iter().map(|(code, count)| (code.clone(), *count)).collect()
    }

    /// Removes all counts.
    pub fn reset(&self) {
        self.codes().clear();
    }
}
