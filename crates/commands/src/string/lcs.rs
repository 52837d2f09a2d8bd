//! `LCS`: the longest common subsequence of two strings.
//!
//! Standard dynamic programming: a table of the lengths for all pairs of prefixes, then a walk back through
//! it. On a tie the second string is shortened: this determines which of several longest subsequences is returned.

use std::ops::Range;

use collections::{DecimalBuffer, ValueRef};
use keyspace::Key;
use wire::number::parse_i64_strict;
use wire::request::Args;

use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};
use crate::word::Word;

/// `LCS key1 key2 [LEN] [IDX] [MINMATCHLEN min-match-len] [WITHMATCHLEN]`
pub const COMMAND: Command = Command {
    name: "lcs",
    arity: -3,
    flags: Flags::READONLY,
    categories: Categories::STRING,
    access: Access::Read,
    keys: &[KeySpec::range(1, 1, 1, KeyFlags::RO.union(KeyFlags::ACCESS))],
    tips: &[],
    doc: Doc::new(Group::String, "7.0.0", "Returns the longest common subsequence of two string values.")
        .complexity("O(N*M) where N and M are the lengths of the values.")
        .args(&[
            Arg::key("key1", 0),
            Arg::key("key2", 0),
            Arg::word("len", "LEN").optional(),
            Arg::word("idx", "IDX").optional(),
            Arg::integer("min-match-len").token("MINMATCHLEN").optional(),
            Arg::word("withmatchlen", "WITHMATCHLEN").optional(),
        ]),
    subcommands: &[],
    run,
};

const NOT_STRINGS: CommandError = CommandError::new("ERR The specified keys must contain string values");
const AMBIGUOUS: CommandError =
    CommandError::new("ERR If you want both the length and indexes, please just use IDX.");
const TOO_LONG: CommandError = CommandError::new("ERR String too long for LCS");
const OVER_LIMIT: CommandError =
    CommandError::new("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len");
const NO_MEMORY: CommandError =
    CommandError::new("ERR Insufficient memory, failed allocating transient memory for LCS");

#[derive(Default)]
struct LcsOptions {
    len: bool,
    idx: bool,
    with_match_len: bool,
    match_len_min: usize,
}

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let (mut decimal_a, mut decimal_b) = (DecimalBuffer::new(), DecimalBuffer::new());
    // Both lookups are counted, regardless of their results.
    let (value_a, value_b) = (find(ctx, ctx.key(0)), find(ctx, ctx.key(1)));
    let (value_a, value_b) = (value_a?, value_b?);
    let a = value_a.text(&mut decimal_a).ok_or(NOT_STRINGS)?;
    let b = value_b.text(&mut decimal_b).ok_or(NOT_STRINGS)?;
    let options = parse(args.tail(3))?;
    let table = Lengths::new(a, b, ctx.config.proto_max_bulk_len)?;
    if options.idx {
        return Ok(reply_matches(&table, &options, reply));
    }
    if options.len {
        return Ok(reply.integer(i64::from(table.total())));
    }
    let mut common = vec![0; table.total() as usize];
    let mut unfilled = common.len();
    table.walk_back(|matched| {
        let part = &a[matched.in_a];
        common[unfilled - part.len()..unfilled].copy_from_slice(part);
        unfilled -= part.len();
    });
    Ok(reply.bulk(&common))
}

/// Finds a string; a missing key is an empty string.
fn find<'c>(ctx: &'c Ctx<'_>, key: Key<'_>) -> Result<ValueRef<'c>, CommandError> {
    Ok(ctx.find_string(key).map_err(|_| NOT_STRINGS)?.unwrap_or(ValueRef::Bytes(b"")))
}

fn parse(args: Args<'_>) -> Result<LcsOptions, CommandError> {
    let mut options = LcsOptions::default();
    let mut rest = args.iter();
    while let Some(word) = rest.next() {
        let is = |name: &str| word.eq_token(name);
        if is("IDX") {
            options.idx = true;
        } else if is("LEN") {
            options.len = true;
        } else if is("WITHMATCHLEN") {
            options.with_match_len = true;
        } else if is("MINMATCHLEN") {
            let text = rest.next().ok_or(CommandError::SYNTAX)?;
            let len = parse_i64_strict(text).ok_or(CommandError::NOT_AN_INTEGER)?;
            options.match_len_min = usize::try_from(len).unwrap_or(0);
        } else {
            return Err(CommandError::SYNTAX);
        }
    }
    if options.len && options.idx { Err(AMBIGUOUS) } else { Ok(options) }
}

fn reply_matches(table: &Lengths<'_>, options: &LcsOptions, reply: Reply<'_>) -> Replied {
    let mut out = reply.map(2);
    out.bulk(b"matches");
    let list = out.deferred_array();
    let mut count = 0;
    table.walk_back(|matched| {
        let len = matched.in_a.len();
        if len < options.match_len_min {
            return;
        }
        count += 1;
        out.array(if options.with_match_len { 3 } else { 2 });
        for range in [matched.in_a, matched.in_b] {
            out.array(2);
            out.integer(range.start as i64);
            out.integer(range.end as i64 - 1);
        }
        if options.with_match_len {
            out.integer(len as i64);
        }
    });
    out.set_len(list, count);
    out.bulk(b"len");
    out.integer(i64::from(table.total()));
    out.done()
}

/// Contiguous bytes common to two strings.
struct Match {
    in_a: Range<usize>,
    in_b: Range<usize>,
}

/// The length of the longest common subsequence for each pair of prefixes.
struct Lengths<'a> {
    a: &'a [u8],
    b: &'a [u8],
    /// One row for each prefix of `a`, with one cell for each prefix of `b`.
    cells: Vec<u32>,
}

impl<'a> Lengths<'a> {
    /// Computes the table, of at most `size_max` bytes.
    fn new(a: &'a [u8], b: &'a [u8], size_max: u64) -> Result<Self, CommandError> {
        if a.len().max(b.len()) >= u32::MAX as usize - 1 {
            return Err(TOO_LONG);
        }
        // Fewer than 2^64 cells, so only their size in bytes may overflow.
        let row_len = b.len() + 1;
        let cell_count = (a.len() as u64 + 1) * row_len as u64;
        if cell_count.checked_mul(size_of::<u32>() as u64).is_none_or(|size| size > size_max) {
            return Err(OVER_LIMIT);
        }
        let mut cells = Vec::new();
        cells.try_reserve_exact(cell_count as usize).map_err(|_| NO_MEMORY)?;
        cells.resize(cell_count as usize, 0);
        for (i, byte) in a.iter().enumerate() {
            let (before, row) = cells[i * row_len..][..2 * row_len].split_at_mut(row_len);
            for (j, other) in b.iter().enumerate() {
                row[j + 1] = if byte == other { before[j] + 1 } else { before[j + 1].max(row[j]) };
            }
        }
        Ok(Self { a, b, cells })
    }

    /// Returns the length of the longest common subsequence.
    fn total(&self) -> u32 {
        self.at(self.a.len(), self.b.len())
    }

    fn at(&self, i: usize, j: usize) -> u32 {
        self.cells[i * (self.b.len() + 1) + j]
    }

    /// Visits the parts of the longest common subsequence from the last to the first.
    fn walk_back(&self, mut visit: impl FnMut(Match)) {
        let (mut i, mut j) = (self.a.len(), self.b.len());
        while i > 0 && j > 0 {
            let (end_i, end_j) = (i, j);
            while i > 0 && j > 0 && self.a[i - 1] == self.b[j - 1] {
                i -= 1;
                j -= 1;
            }
            if i < end_i {
                visit(Match { in_a: i..end_i, in_b: j..end_j });
            } else if self.at(i - 1, j) > self.at(i, j - 1) {
                i -= 1;
            } else {
                j -= 1;
            }
        }
    }
}
