//! `ZRANGE` with its older forms, and `ZRANGESTORE`: one query, whose result is returned or stored.
//!
//! Start reading at [`Query::parse`].

use std::ops;

use collections::{Collection, SortedSet, SortedSetIter};
use wire::number::parse_i64_strict;
use wire::request::Args;

use super::limits;
use super::logged::{has_several_scores, log_stored};
use super::range::{By, Range};
use super::replies::write_elements;
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, ArgType, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};
use crate::word::Word;

/// `ZRANGE key start stop [BYSCORE|BYLEX] [REV] [LIMIT offset count] [WITHSCORES]`
pub const ZRANGE: Command = Command {
    name: "zrange",
    arity: -4,
    flags: Flags::READONLY,
    categories: Categories::SORTEDSET,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO.union(KeyFlags::ACCESS))],
    tips: &[],
    doc: Doc::new(
        Group::SortedSet,
        "1.2.0",
        "Returns the sorted set members in a range of ranks, scores or lexicographical order.",
    )
    .complexity("O(log(N)+M) for M returned members of N.")
    .history(&[("6.2.0", "Added `REV`, `BYSCORE`, `BYLEX` and `LIMIT`.")])
    .args(&[
        Arg::key("key", 0),
        Arg::string("start"),
        Arg::string("stop"),
        Arg::one_of("sortby", &[Arg::word("byscore", "BYSCORE"), Arg::word("bylex", "BYLEX")])
            .optional()
            .since("6.2.0"),
        Arg::word("rev", "REV").optional().since("6.2.0"),
        Arg::block("limit", &[Arg::integer("offset"), Arg::integer("count")])
            .token("LIMIT")
            .optional()
            .since("6.2.0"),
        Arg::word("withscores", "WITHSCORES").optional(),
    ]),
    subcommands: &[],
    run: |ctx, args, reply| answer(ctx, args, reply, ANY),
};

/// `ZREVRANGE key start stop [WITHSCORES]`
pub const ZREVRANGE: Command = Command {
    name: "zrevrange",
    arity: -4,
    flags: Flags::READONLY,
    categories: Categories::SORTEDSET,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO.union(KeyFlags::ACCESS))],
    tips: &[],
    doc: Doc::new(
        Group::SortedSet,
        "1.2.0",
        "Returns the sorted set members in a range of ranks, highest score first.",
    )
    .complexity("O(log(N)+M) for M returned members of N.")
    .args(&[
        Arg::key("key", 0),
        Arg::integer("start"),
        Arg::integer("stop"),
        Arg::word("withscores", "WITHSCORES").optional(),
    ]),
    subcommands: &[],
    run: |ctx, args, reply| {
        answer(ctx, args, reply, RangeCommand { by: Some(By::Rank), is_reverse: Some(true), ..ANY })
    },
};

/// `ZRANGEBYSCORE key min max [WITHSCORES] [LIMIT offset count]`
pub const ZRANGEBYSCORE: Command = Command {
    name: "zrangebyscore",
    arity: -4,
    flags: Flags::READONLY,
    categories: Categories::SORTEDSET,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO.union(KeyFlags::ACCESS))],
    tips: &[],
    doc: Doc::new(Group::SortedSet, "1.0.5", "Returns the sorted set members in a range of scores.")
        .complexity("O(log(N)+M) for M returned members of N.")
        .history(&[("2.0.0", "Added `WITHSCORES`.")])
        .args(&[
            Arg::key("key", 0),
            Arg::new("min", ArgType::Double),
            Arg::new("max", ArgType::Double),
            Arg::word("withscores", "WITHSCORES").optional().since("2.0.0"),
            Arg::block("limit", &[Arg::integer("offset"), Arg::integer("count")]).token("LIMIT").optional(),
        ]),
    subcommands: &[],
    run: |ctx, args, reply| {
        answer(ctx, args, reply, RangeCommand { by: Some(By::Score), is_reverse: Some(false), ..ANY })
    },
};

/// `ZREVRANGEBYSCORE key max min [WITHSCORES] [LIMIT offset count]`
pub const ZREVRANGEBYSCORE: Command = Command {
    name: "zrevrangebyscore",
    arity: -4,
    flags: Flags::READONLY,
    categories: Categories::SORTEDSET,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO.union(KeyFlags::ACCESS))],
    tips: &[],
    doc: Doc::new(
        Group::SortedSet,
        "2.2.0",
        "Returns the sorted set members in a range of scores, highest first.",
    )
    .complexity("O(log(N)+M) for M returned members of N.")
    .history(&[("2.1.6", "The ends of the range may be exclusive.")])
    .args(&[
        Arg::key("key", 0),
        Arg::new("max", ArgType::Double),
        Arg::new("min", ArgType::Double),
        Arg::word("withscores", "WITHSCORES").optional(),
        Arg::block("limit", &[Arg::integer("offset"), Arg::integer("count")]).token("LIMIT").optional(),
    ]),
    subcommands: &[],
    run: |ctx, args, reply| {
        answer(ctx, args, reply, RangeCommand { by: Some(By::Score), is_reverse: Some(true), ..ANY })
    },
};

/// `ZRANGEBYLEX key min max [LIMIT offset count]`
pub const ZRANGEBYLEX: Command = Command {
    name: "zrangebylex",
    arity: -4,
    flags: Flags::READONLY,
    categories: Categories::SORTEDSET,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO.union(KeyFlags::ACCESS))],
    tips: &[],
    doc: Doc::new(Group::SortedSet, "2.8.9", "Returns the sorted set members in a lexicographical range.")
        .complexity("O(log(N)+M) for M returned members of N.")
        .args(&[
            Arg::key("key", 0),
            Arg::string("min"),
            Arg::string("max"),
            Arg::block("limit", &[Arg::integer("offset"), Arg::integer("count")]).token("LIMIT").optional(),
        ]),
    subcommands: &[],
    run: |ctx, args, reply| {
        answer(ctx, args, reply, RangeCommand { by: Some(By::Lex), is_reverse: Some(false), ..ANY })
    },
};

/// `ZREVRANGEBYLEX key max min [LIMIT offset count]`
pub const ZREVRANGEBYLEX: Command = Command {
    name: "zrevrangebylex",
    arity: -4,
    flags: Flags::READONLY,
    categories: Categories::SORTEDSET,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO.union(KeyFlags::ACCESS))],
    tips: &[],
    doc: Doc::new(
        Group::SortedSet,
        "2.8.9",
        "Returns the sorted set members in a lexicographical range, in descending order.",
    )
    .complexity("O(log(N)+M) for M returned members of N.")
    .args(&[
        Arg::key("key", 0),
        Arg::string("max"),
        Arg::string("min"),
        Arg::block("limit", &[Arg::integer("offset"), Arg::integer("count")]).token("LIMIT").optional(),
    ]),
    subcommands: &[],
    run: |ctx, args, reply| {
        answer(ctx, args, reply, RangeCommand { by: Some(By::Lex), is_reverse: Some(true), ..ANY })
    },
};

/// `ZRANGESTORE dst src min max [BYSCORE|BYLEX] [REV] [LIMIT offset count]`
pub const ZRANGESTORE: Command = Command {
    name: "zrangestore",
    arity: -5,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM).union(Flags::DENYOOM),
    categories: Categories::SORTEDSET,
    access: Access::Write,
    keys: &[
        KeySpec::first(KeyFlags::OW.union(KeyFlags::UPDATE)),
        KeySpec::at(2, KeyFlags::RO.union(KeyFlags::ACCESS)),
    ],
    tips: &[],
    doc: Doc::new(Group::SortedSet, "6.2.0", "Stores a range of sorted set members in another key.")
        .complexity("O(log(N)+M) for M stored members of N.")
        .args(&[
            Arg::key("dst", 0),
            Arg::key("src", 1),
            Arg::string("min"),
            Arg::string("max"),
            Arg::one_of("sortby", &[Arg::word("byscore", "BYSCORE"), Arg::word("bylex", "BYLEX")]).optional(),
            Arg::word("rev", "REV").optional(),
            Arg::block("limit", &[Arg::integer("offset"), Arg::integer("count")]).token("LIMIT").optional(),
        ]),
    subcommands: &[],
    run: store,
};

const LIMIT_BY_RANK: CommandError = CommandError::new(
    "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
);
const SCORES_BY_LEX: CommandError =
    CommandError::new("ERR syntax error, WITHSCORES not supported in combination with BYLEX");

/// The properties that a command's name determines; its options determine the others.
#[derive(Clone, Copy)]
struct RangeCommand {
    by: Option<By>,
    is_reverse: Option<bool>,
    may_have_scores: bool,
}

const ANY: RangeCommand = RangeCommand { by: None, is_reverse: None, may_have_scores: true };

/// A parsed query, independent of a set.
struct Query<'a> {
    range: Range<'a>,
    by: By,
    is_reverse: bool,
    with_scores: bool,
    offset: i64,
    count: i64,
}

impl<'a> Query<'a> {
    /// Parses the arguments after the source key: the ends of the range, then options.
    fn parse(args: Args<'a>, form: RangeCommand) -> Result<Self, CommandError> {
        let (mut by, mut is_reverse) = (form.by, form.is_reverse);
        let (mut with_scores, mut offset, mut count) = (false, 0, -1);
        let mut options = args.tail(2);
        while let Some(word) = options.get(0) {
            let is = |name: &[u8]| word.eq_token(name);
            if form.may_have_scores && is(b"withscores") {
                with_scores = true;
            } else if is(b"limit") && options.len() > 2 {
                let number = |index| parse_i64_strict(options.at(index)).ok_or(CommandError::NOT_AN_INTEGER);
                (offset, count) = (number(1)?, number(2)?);
                options = options.tail(2);
            } else if is_reverse.is_none() && is(b"rev") {
                is_reverse = Some(true);
            } else if by.is_none() && is(b"bylex") {
                by = Some(By::Lex);
            } else if by.is_none() && is(b"byscore") {
                by = Some(By::Score);
            } else {
                return Err(CommandError::SYNTAX);
            }
            options = options.tail(1);
        }
        let (by, is_reverse) = (by.unwrap_or(By::Rank), is_reverse.unwrap_or(false));
        if count != -1 && by == By::Rank {
            return Err(LIMIT_BY_RANK);
        }
        if with_scores && by == By::Lex {
            return Err(SCORES_BY_LEX);
        }
        let (mut min, mut max) = (args.at(0), args.at(1));
        if is_reverse && by != By::Rank {
            (min, max) = (max, min);
        }
        Ok(Self { range: Range::parse(by, min, max)?, by, is_reverse, with_scores, offset, count })
    }

    /// Returns the ranks of the result in a set.
    fn ranks(&self, set: &SortedSet) -> ops::Range<usize> {
        let ranks = self.range.ranks(set, self.is_reverse);
        let (skipped, count) = match self.by {
            By::Rank => (0, ranks.len()),
            By::Score | By::Lex => self.limit(ranks.len(), !set.is_listpack()),
        };
        let start = if self.is_reverse { ranks.end - skipped - count } else { ranks.start + skipped };
        start..start + count
    }

    /// Iterates over the result in a set.
    fn select<'s>(&self, set: &'s SortedSet) -> SortedSetIter<'s> {
        let ranks = self.ranks(set);
        if self.is_reverse && !ranks.is_empty() {
            set.range_backward(ranks.end - 1, ranks.len())
        } else {
            set.range(ranks.start, ranks.len())
        }
    }

    /// For `len` elements in the range, returns how many are skipped and how many are returned.
    fn limit(&self, len: usize, is_skiplist: bool) -> (usize, usize) {
        let skipped = match usize::try_from(self.offset) {
            Ok(offset) => offset.min(len),
            // As in Redis, though unintended there: in a skiplist a negative offset counts from the other end
            // of the range.
            Err(_) if is_skiplist => {
                let from_end = usize::try_from(self.offset.unsigned_abs()).unwrap_or(usize::MAX);
                len.checked_sub(from_end).unwrap_or(len)
            }
            Err(_) => len,
        };
        let count = usize::try_from(self.count).unwrap_or(usize::MAX);
        (skipped, count.min(len - skipped))
    }
}

fn answer(
    ctx: &mut Ctx<'_>,
    args: Args<'_>,
    reply: Reply<'_>,
    form: RangeCommand,
) -> Result<Replied, CommandError> {
    let query = Query::parse(args.tail(2), form)?;
    let Some(set) = ctx.find::<SortedSet>(ctx.key(0))? else { return Ok(reply.array(0).done()) };
    let mut out = reply.parts();
    write_elements(&mut out, query.select(set), query.with_scores, &ctx.report.shared_replies);
    Ok(out.done())
}

fn store(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let query = Query::parse(args.tail(3), RangeCommand { may_have_scores: false, ..ANY })?;
    let (destination, source) = (ctx.key(0), ctx.key(1));
    let (alloc, limits) = (ctx.alloc_context(destination), limits(ctx));
    let mut stored = SortedSet::new();
    let mut depends_on_encoding = false;
    ctx.expire_sources(1);
    if let Some(set) = ctx.find::<SortedSet>(source)? {
        depends_on_encoding =
            query.by != By::Rank && query.offset < 0 || query.by == By::Lex && has_several_scores(set);
        let ranks = query.ranks(set);
        if query.by == By::Rank {
            stored.prepare(ranks.len(), 0, limits);
        }
        stored.fill_in_order(alloc, limits, set.range(ranks.start, ranks.len()));
    }
    if !depends_on_encoding {
        return store_result(ctx, stored, "zrangestore", reply);
    }
    let (is_empty, dirty_before) = (stored.is_empty(), ctx.report.dirty);
    if !is_empty {
        log_stored(ctx, destination, &stored);
    }
    let replied = store_result(ctx, stored, "zrangestore", reply)?;
    if is_empty && ctx.report.dirty != dirty_before {
        ctx.record_deletion(destination);
    }
    Ok(replied)
}

/// Stores a result under the request's first key, or removes that key if the result is empty, and replies
/// with its length.
pub(super) fn store_result(
    ctx: &mut Ctx<'_>,
    result: SortedSet,
    event: &'static str,
    reply: Reply<'_>,
) -> Result<Replied, CommandError> {
    let (destination, len) = (ctx.key(0), result.len());
    if len > 0 {
        ctx.put_object(destination, result.into_object());
        ctx.changed(EventClass::SortedSet, event, destination);
    } else if ctx.remove(destination) {
        ctx.changed(EventClass::Generic, "del", destination);
    }
    Ok(reply.integer(len as i64))
}
