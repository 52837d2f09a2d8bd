//! `save`: the conditions for automatic snapshots.

use crate::rule::{Reason, Rule};
use crate::setting::{Before, FileLine, FileLines, Occurrence, Setting, utf8};
use crate::values::join;

/// A snapshot is taken after this time if at least this many changes were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavePoint {
    /// Seconds since the last snapshot, at least 1.
    pub seconds: u64,
    /// Changes since the last snapshot.
    pub changes: u64,
}

/// All save points; without any, no automatic snapshot is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavePoints(pub Vec<SavePoint>);

impl Default for SavePoints {
    fn default() -> Self {
        let point = |(seconds, changes)| SavePoint { seconds, changes };
        Self([(3600, 1), (300, 100), (60, 10_000)].map(point).to_vec())
    }
}

impl Setting for SavePoints {
    const IS_LIST: bool = true;

    /// In a file each further line adds save points, and an empty value removes all previous ones.
    fn parse(_: &Rule, args: &[&[u8]], before: Before<'_, Self>) -> Result<Self, Reason> {
        if args == [b""] {
            return Ok(Self(Vec::new()));
        }
        let (pairs, rest) = args.as_chunks::<2>();
        if !rest.is_empty() {
            return Err("Invalid save parameters".into());
        }
        let mut points = match before.occurrence {
            Occurrence::First => Vec::new(),
            Occurrence::Further => before.current.0.clone(),
        };
        for &[seconds, changes] in pairs {
            let point = parse_point(seconds, changes).ok_or("Invalid save parameters")?;
            points.push(point);
        }
        Ok(Self(points))
    }

    fn print(&self, _: &Rule) -> Vec<u8> {
        join(self.0.iter().map(|point| format!("{} {}", point.seconds, point.changes)))
    }

    /// Always written: without the lines, a file would mean the defaults.
    fn file_lines(&self, _: &Rule, _: &Self) -> FileLines {
        if self.0.is_empty() {
            return FileLines::one(b"\"\"".to_vec(), true);
        }
        let line = |point: &SavePoint| FileLine {
            value: format!("{} {}", point.seconds, point.changes).into_bytes(),
            forced: true,
        };
        FileLines::Write(self.0.iter().map(line).collect())
    }

    fn describe(_: &Rule) -> String {
        "pairs of <seconds> <changes>, or \"\" for none".into()
    }
}

/// Parses a number; as in C, one beyond the range of 64 bits is the nearest in range.
fn parse_saturating(text: &[u8]) -> Option<i64> {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    utf8(text).ok()?.parse().map_or_else(
        |error: std::num::ParseIntError| match error.kind() {
            PosOverflow => Some(i64::MAX),
            NegOverflow => Some(i64::MIN),
            _ => None,
        },
        Some,
    )
}

fn parse_point(seconds: &[u8], changes: &[u8]) -> Option<SavePoint> {
    let seconds = parse_saturating(seconds).filter(|seconds| *seconds >= 1)?;
    // A blank after the seconds creates an empty second argument.
    let changes = if changes.is_empty() { 0 } else { parse_saturating(changes)? };
    Some(SavePoint { seconds: u64::try_from(seconds).ok()?, changes: u64::try_from(changes).ok()? })
}
