//! `shutdown-on-sigint`, `shutdown-on-sigterm`: how the process ends on a signal.

use crate::choices::{parse_word, unknown_word};
use crate::rule::{Reason, Rule};
use crate::setting::{Before, Setting};
use crate::values::join;

/// The options of `SHUTDOWN` that apply; none by default, as in Redis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShutdownFlags {
    /// Take a snapshot even if there are no save points.
    pub save: bool,
    /// Take no snapshot even if there are save points.
    pub nosave: bool,
    /// Do not wait for lagging replicas.
    pub now: bool,
    /// End even if the snapshot fails.
    pub force: bool,
    /// Do not end while the node owns slots.
    pub safe: bool,
    /// Fail over to a replica first.
    pub failover: bool,
}

type Flag = fn(&mut ShutdownFlags) -> &mut bool;

/// The words; `default` stands for no flag.
const WORDS: &[(&str, Option<Flag>)] = &[
    ("default", None),
    ("save", Some(|flags| &mut flags.save)),
    ("nosave", Some(|flags| &mut flags.nosave)),
    ("now", Some(|flags| &mut flags.now)),
    ("force", Some(|flags| &mut flags.force)),
    ("safe", Some(|flags| &mut flags.safe)),
    ("failover", Some(|flags| &mut flags.failover)),
];

impl Setting for ShutdownFlags {
    const IS_LIST: bool = true;

    fn parse(_: &Rule, args: &[&[u8]], _: Before<'_, Self>) -> Result<Self, Reason> {
        if args.is_empty() {
            return Err(unknown_word(WORDS));
        }
        let mut flags = Self::default();
        for arg in args {
            if let Some(flag) = parse_word(WORDS, arg)? {
                *flag(&mut flags) = true;
            }
        }
        if flags.save && flags.nosave {
            return Err("shutdown options SAVE and NOSAVE can't be used simultaneously".into());
        }
        Ok(flags)
    }

    fn print(&self, _: &Rule) -> Vec<u8> {
        if *self == Self::default() {
            return b"default".to_vec();
        }
        let mut flags = *self;
        let mut is_set = |flag: &Option<Flag>| flag.is_some_and(|flag| *flag(&mut flags));
        join(WORDS.iter().filter(|(_, flag)| is_set(flag)).map(|(word, _)| (*word).to_owned()))
    }

    fn describe(_: &Rule) -> String {
        "default, or words of save, nosave, now, force, safe, failover".into()
    }
}
