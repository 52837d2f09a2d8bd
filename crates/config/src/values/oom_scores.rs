//! `oom-score-adj-values`: the scores of a primary, of a replica, and of a background child.

use crate::rule::{Reason, Rule};
use crate::setting::{Before, Setting, utf8};
use crate::values::join;

/// The scores of a primary, a replica and a background child, each from -2000 to 2000.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OomScores(pub [i32; 3]);

impl Setting for OomScores {
    const IS_LIST: bool = true;

    fn parse(_: &Rule, args: &[&[u8]], _: Before<'_, Self>) -> Result<Self, Reason> {
        if args.len() != 3 {
            return Err("wrong number of arguments".into());
        }
        let mut scores = [0; 3];
        for (score, arg) in scores.iter_mut().zip(args) {
            *score = utf8(arg)?
                .parse()
                .ok()
                .filter(|score| (-2000..=2000).contains(score))
                .ok_or("Invalid oom-score-adj-values, elements must be between -2000 and 2000.")?;
        }
        Ok(Self(scores))
    }

    fn print(&self, _: &Rule) -> Vec<u8> {
        join(self.0.iter().map(ToString::to_string))
    }

    fn describe(_: &Rule) -> String {
        "three numbers from -2000 to 2000".into()
    }
}
