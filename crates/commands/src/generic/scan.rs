//! `SCAN`

use std::cell::Cell;

use base::glob;
use collections::{Entry, Kind};
use keyspace::ScanPosition;
use wire::number::parse_i64_strict;
use wire::request::Args;

use crate::command::{Access, Categories, Command, Flags};
use crate::context::Ctx;
use crate::doc::{Arg, ArgType, Doc, Group};
use crate::error::{CommandError, up_to_nul};
use crate::reply::{Replied, Reply};

/// `SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]`
pub const COMMAND: Command = Command {
    name: "scan",
    arity: -2,
    flags: Flags::READONLY,
    categories: Categories::KEYSPACE,
    access: Access::None,
    keys: &[],
    tips: &["nondeterministic_output", "request_policy:special", "response_policy:special"],
    doc: Doc::new(Group::Generic, "2.8.0", "Walks over the keys of the database, some at each call.")
        .complexity("O(1) for a call, O(N) for a walk over all N keys.")
        .history(&[("6.0.0", "Added `TYPE`.")])
        .args(&[
            Arg::integer("cursor"),
            Arg::new("pattern", ArgType::Pattern).token("MATCH").optional(),
            Arg::integer("count").token("COUNT").optional(),
            Arg::string("type").token("TYPE").since("6.0.0").optional(),
        ]),
    subcommands: &[],
    run,
};

const INVALID_CURSOR: CommandError = CommandError::new("ERR invalid cursor");
const MISPLACED_NOVALUES: CommandError = CommandError::new("ERR NOVALUES option can only be used in HSCAN");
const MISPLACED_NOSCORES: CommandError = CommandError::new("ERR NOSCORES option can only be used in ZSCAN");

/// Keys looked at in a call that does not say.
const COUNT_DEFAULT: usize = 10;

/// Buckets looked at in a call, for each key that it asks for.
const BUCKETS_PER_KEY: usize = 10;

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let cursor = parse_cursor(up_to_nul(args.at(1))).ok_or(INVALID_CURSOR)?;
    let options = Options::parse(args.tail(2))?;
    let mut out = reply.array(2);
    // The keys come behind the cursor that is known after them.
    let mut found = Vec::new();
    let next = ScanPosition::from_cursor(cursor).and_then(|from| scan(ctx, from, &options, &mut found));
    out.bulk_int(next.map_or(0, |next| next.cursor() as i64));
    out.array(found.len());
    found.iter().for_each(|key| out.bulk(key));
    Ok(out.done())
}

fn scan(
    ctx: &mut Ctx<'_>,
    from: ScanPosition,
    options: &Options<'_>,
    found: &mut Vec<Box<[u8]>>,
) -> Option<ScanPosition> {
    let seen_count = Cell::new(0);
    let mut bucket_count: usize = 0;
    let visit = |entry: Entry<'_>| {
        seen_count.set(seen_count.get() + 1);
        if options.keeps(entry) {
            found.push(entry.key().into());
        }
    };
    let enough = || {
        bucket_count += 1;
        seen_count.get() >= options.count || bucket_count / BUCKETS_PER_KEY >= options.count
    };
    ctx.data.scan(ctx.session.db, from, visit, enough)
}

struct Options<'a> {
    pattern: Option<&'a [u8]>,
    kind: Option<Kind>,
    count: usize,
}

impl<'a> Options<'a> {
    fn parse(args: Args<'a>) -> Result<Self, CommandError> {
        let mut options = Self { pattern: None, kind: None, count: COUNT_DEFAULT };
        let mut rest = args.iter();
        while let Some(word) = rest.next() {
            let mut operand = || rest.next().ok_or(CommandError::SYNTAX);
            if word.eq_ignore_ascii_case(b"match") {
                options.pattern = Some(operand()?).filter(|pattern| *pattern != b"*");
            } else if word.eq_ignore_ascii_case(b"count") {
                let count = parse_i64_strict(operand()?).ok_or(CommandError::NOT_AN_INTEGER)?;
                options.count =
                    usize::try_from(count).ok().filter(|count| *count > 0).ok_or(CommandError::SYNTAX)?;
            } else if word.eq_ignore_ascii_case(b"type") {
                options.kind = Some(parse_kind(operand()?)?);
            } else if word.eq_ignore_ascii_case(b"novalues") {
                return Err(MISPLACED_NOVALUES);
            } else if word.eq_ignore_ascii_case(b"noscores") {
                return Err(MISPLACED_NOSCORES);
            } else {
                return Err(CommandError::SYNTAX);
            }
        }
        Ok(options)
    }

    fn keeps(&self, entry: Entry<'_>) -> bool {
        self.kind.is_none_or(|kind| kind == entry.kind())
            && self.pattern.is_none_or(|pattern| glob::matches(pattern, entry.key()))
    }
}

fn parse_kind(name: &[u8]) -> Result<Kind, CommandError> {
    Kind::ALL
        .into_iter()
        .find(|kind| kind.name().as_bytes().eq_ignore_ascii_case(name))
        .ok_or_else(|| CommandError::quote("ERR unknown type name '", name, "'"))
}

/// A cursor as Redis reads it, by C's `strtoull`: blanks, signs and leading zeros are let pass.
fn parse_cursor(text: &[u8]) -> Option<u64> {
    if let Some(cursor) = parse_i64_strict(text) {
        return u64::try_from(cursor).ok();
    }
    let text = std::str::from_utf8(text).ok()?.trim_start_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r']);
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if !digits.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    let cursor: u64 = digits.parse().ok()?;
    Some(if negative { cursor.wrapping_neg() } else { cursor })
}
