//! Ranges of the range commands: by rank, by score or by member, resolved to ranks of a given set.
//!
//! Start reading at [`Range::ranks`].

use std::ops;

use collections::{Bound, SortedSet};
use wire::number::parse_i64_strict;

use crate::error::{CommandError, up_to_nul};

pub(crate) const NOT_A_SCORE_RANGE: CommandError = CommandError::new("ERR min or max is not a float");
const NOT_A_LEX_RANGE: CommandError = CommandError::new("ERR min or max not valid string range item");

/// The kind of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Rank,
    Score,
    Lex,
}

/// A range of elements, independent of a set.
#[derive(Clone, Copy, Debug)]
pub(super) enum Range<'a> {
    /// Between two ranks, inclusive; negative ones count from the end.
    Ranks(i64, i64),
    /// Between two scores.
    Scores(ScoreRange),
    /// Between two members, if all scores are equal.
    Members(LexEnd<'a>, LexEnd<'a>),
}

/// A range of scores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScoreRange {
    pub(crate) min: f64,
    pub(crate) min_is_out: bool,
    pub(crate) max: f64,
    pub(crate) max_is_out: bool,
}

/// An end of a range of members.
#[derive(Clone, Copy, Debug)]
pub(super) enum LexEnd<'a> {
    /// `-`: before all members.
    First,
    /// `+`: after all members.
    Last,
    /// `[member`: inclusive.
    In(&'a [u8]),
    /// `(member`: exclusive.
    Out(&'a [u8]),
}

impl<'a> Range<'a> {
    /// Parses a range, the lower end first.
    pub(super) fn parse(by: By, min: &'a [u8], max: &'a [u8]) -> Result<Self, CommandError> {
        match by {
            By::Rank => {
                let rank = |text| parse_i64_strict(text).ok_or(CommandError::NOT_AN_INTEGER);
                Ok(Self::Ranks(rank(min)?, rank(max)?))
            }
            By::Score => ScoreRange::parse(min, max).map(Self::Scores),
            By::Lex => {
                let ends = LexEnd::parse(min).zip(LexEnd::parse(max)).ok_or(NOT_A_LEX_RANGE)?;
                Ok(Self::Members(ends.0, ends.1))
            }
        }
    }

    /// Returns the ranks of its elements in a set, from the lowest; given ranks count from the highest if
    /// `is_reverse`.
    pub(super) fn ranks(&self, set: &SortedSet, is_reverse: bool) -> ops::Range<usize> {
        let len = set.len();
        let (start, end) = match *self {
            Self::Ranks(first, last) => {
                let ranks = clamp_ranks(first, last, len);
                if is_reverse { (len - ranks.end, len - ranks.start) } else { (ranks.start, ranks.end) }
            }
            Self::Scores(range) => return range.ranks(set),
            Self::Members(min, max) if set.is_listpack() && len <= WALKED_LEN_MAX => {
                return walk_listpack(set, min, max, is_reverse);
            }
            Self::Members(min, max) => (
                match min {
                    LexEnd::First => 0,
                    LexEnd::Last => len,
                    LexEnd::In(member) => set.rank_of(Bound::BeforeMember(member)),
                    LexEnd::Out(member) => set.rank_of(Bound::AfterMember(member)),
                },
                match max {
                    LexEnd::First => 0,
                    LexEnd::Last => len,
                    LexEnd::In(member) => set.rank_of(Bound::AfterMember(member)),
                    LexEnd::Out(member) => set.rank_of(Bound::BeforeMember(member)),
                },
            ),
        };
        start..end.max(start)
    }
}

impl ScoreRange {
    /// Parses a range.
    pub(super) fn parse(min: &[u8], max: &[u8]) -> Result<Self, CommandError> {
        let (min, min_is_out) = parse_end(min).ok_or(NOT_A_SCORE_RANGE)?;
        let (max, max_is_out) = parse_end(max).ok_or(NOT_A_SCORE_RANGE)?;
        Ok(Self { min, min_is_out, max, max_is_out })
    }

    /// Returns the ranks of its elements in a set.
    pub(crate) fn ranks(&self, set: &SortedSet) -> ops::Range<usize> {
        let bound =
            |score, is_after| if is_after { Bound::AfterScore(score) } else { Bound::BeforeScore(score) };
        let start = set.rank_of(bound(self.min, self.min_is_out));
        let end = set.rank_of(bound(self.max, !self.max_is_out));
        start..end.max(start)
    }
}

/// Listpack length up to which a range of members is found by a linear walk.
const WALKED_LEN_MAX: usize = 128;

/// Finds a range of members in a listpack like Redis, by walking from one end. If the scores differ, members are not in
/// order, and a binary search would have another result.
fn walk_listpack(set: &SortedSet, min: LexEnd<'_>, max: LexEnd<'_>, is_reverse: bool) -> ops::Range<usize> {
    let len = set.len();
    let is_from_min = |rank: usize| min.is_at_or_before(set.at(rank).0);
    let is_to_max = |rank: usize| max.is_at_or_after(set.at(rank).0);
    if len == 0 || !is_from_min(len - 1) || !is_to_max(0) {
        return 0..0;
    }
    if is_reverse {
        let end = (0..len).rev().find(|rank| is_to_max(*rank)).map_or(0, |last| last + 1);
        let count = (0..end).rev().take_while(|rank| is_from_min(*rank)).count();
        return end - count..end;
    }
    let start = (0..len).find(|rank| is_from_min(*rank)).unwrap_or(len);
    let count = (start..len).take_while(|rank| is_to_max(*rank)).count();
    start..start + count
}

/// Returns the elements from rank `first` to `last`, negative ones counted from the end.
fn clamp_ranks(first: i64, last: i64, len: usize) -> ops::Range<usize> {
    let len = len as i64;
    let from_start = |rank: i64| if rank < 0 { len + rank } else { rank };
    let (first, last) = (from_start(first).max(0), from_start(last).min(len - 1));
    if first > last { 0..0 } else { first as usize..last as usize + 1 }
}

/// Parses a score and whether it is exclusive.
fn parse_end(text: &[u8]) -> Option<(f64, bool)> {
    match text.strip_prefix(b"(") {
        None => Some((parse_score(text)?, false)),
        Some(text) => Some((parse_score(text)?, true)),
    }
}

/// Parses a score at the end of a range. More lenient than for the score of a member: an empty text is 0,
/// numbers out of range are infinite; but hexadecimal numbers are rejected.
fn parse_score(text: &[u8]) -> Option<f64> {
    let text = up_to_nul(text);
    if text.is_empty() {
        return Some(0.0);
    }
    let score: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (!score.is_nan()).then_some(score)
}

impl<'a> LexEnd<'a> {
    fn parse(text: &'a [u8]) -> Option<Self> {
        match text {
            [b'-'] | [b'-', 0, ..] => Some(Self::First),
            [b'+'] | [b'+', 0, ..] => Some(Self::Last),
            [b'[', member @ ..] => Some(Self::In(member)),
            [b'(', member @ ..] => Some(Self::Out(member)),
            _ => None,
        }
    }

    /// Whether a member is not below a range that starts here.
    fn is_at_or_before(self, member: &[u8]) -> bool {
        match self {
            Self::First => true,
            Self::Last => false,
            Self::In(end) => member >= end,
            Self::Out(end) => member > end,
        }
    }

    /// Whether a member is not above a range that ends here.
    fn is_at_or_after(self, member: &[u8]) -> bool {
        match self {
            Self::First => false,
            Self::Last => true,
            Self::In(end) => member <= end,
            Self::Out(end) => member < end,
        }
    }
}
