//! `io-threads`: the number of workers.

use base::limits::THREAD_COUNT_MAX;

use crate::rule::{Reason, Rule};
use crate::setting::{Before, FileLines, Setting};

/// The configured number of workers, where 0 means one for each core, and the effective number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadCount {
    configured: u32,
    effective: u32,
}

impl ThreadCount {
    /// Whether the number follows the cores.
    #[must_use]
    pub const fn is_automatic(self) -> bool {
        self.configured == 0
    }

    /// The number of workers to run: the configured one, or the one set by [`Self::resolve`].
    #[must_use]
    pub const fn count(self) -> u32 {
        self.effective
    }

    /// Resolves an automatic number: one for each core, within the server's limit. Called at start and after
    /// each change.
    pub fn resolve(&mut self, core_count: usize) {
        if self.configured == 0 {
            self.effective = u32::try_from(core_count.clamp(1, THREAD_COUNT_MAX)).unwrap_or(1);
        }
    }
}

impl Setting for ThreadCount {
    fn parse(rule: &Rule, args: &[&[u8]], _: Before<'_, Self>) -> Result<Self, Reason> {
        let configured = u32::try_from(rule.number(args[0])?).map_err(|_| rule.out_of_bounds())?;
        Ok(Self { configured, effective: configured })
    }

    /// The effective number, for monitoring.
    fn print(&self, _: &Rule) -> Vec<u8> {
        self.effective.to_string().into_bytes()
    }

    /// The configured number, so that a file copied to another machine still means one for each core.
    fn file_lines(&self, _: &Rule, default: &Self) -> FileLines {
        FileLines::one(self.configured.to_string().into_bytes(), self.configured != default.configured)
    }

    fn describe(rule: &Rule) -> String {
        format!("{}, where 0 is one a core", rule.describe_number())
    }
}
