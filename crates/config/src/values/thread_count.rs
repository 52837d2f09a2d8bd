//! `io-threads`: how many threads the server has.

use base::limits::THREAD_COUNT_MAX;

use crate::rule::{Reason, Rule};
use crate::setting::{Before, FileLines, Setting};

/// The number of threads asked for, where zero means one a core, and the number there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadCount {
    asked: u32,
    effective: u32,
}

impl ThreadCount {
    /// Whether the number is to follow the cores.
    #[must_use]
    pub const fn is_automatic(self) -> bool {
        self.asked == 0
    }

    /// The number of threads to run: the one asked for, or the one that [`Self::resolve`] found.
    #[must_use]
    pub const fn count(self) -> u32 {
        self.effective
    }

    /// Settles an automatic number: one a core, within the server's limit. Called at start and after each change.
    pub fn resolve(&mut self, core_count: usize) {
        if self.asked == 0 {
            self.effective = u32::try_from(core_count.clamp(1, THREAD_COUNT_MAX)).unwrap_or(1);
        }
    }
}

impl Setting for ThreadCount {
    fn parse(rule: &Rule, args: &[&[u8]], _: Before<'_, Self>) -> Result<Self, Reason> {
        let asked = u32::try_from(rule.number(args[0])?).map_err(|_| rule.out_of_bounds())?;
        Ok(Self { asked, effective: asked })
    }

    /// The effective number, which is what monitoring wants to know.
    fn print(&self, _: &Rule) -> Vec<u8> {
        self.effective.to_string().into_bytes()
    }

    /// The number asked for, so that a file moved to another machine goes on to mean one a core.
    fn file_lines(&self, _: &Rule, default: &Self) -> FileLines {
        FileLines::one(self.asked.to_string().into_bytes(), self.asked != default.asked)
    }

    fn describe(rule: &Rule) -> String {
        format!("{}, where 0 is one a core", rule.describe_number())
    }
}
