//! `ZADD` and `ZINCRBY`, which is `ZADD` with the option `INCR`.

use collections::{AllocContext, SortedSet, SortedSetLimits};
use wire::number::parse_f64_decimal;
use wire::request::Args;

use super::limits;
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, ArgType, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};
use crate::word::Word;

/// `ZADD key [NX|XX] [GT|LT] [CH] [INCR] score member [score member ...]`
pub const ZADD: Command = Command {
    name: "zadd",
    arity: -4,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM).union(Flags::DENYOOM).union(Flags::FAST),
    categories: Categories::SORTEDSET,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::RW.union(KeyFlags::UPDATE))],
    tips: &[],
    doc: Doc::new(
        Group::SortedSet,
        "1.2.0",
        "Adds members to a sorted set, or updates the scores of existing ones.",
    )
    .complexity("O(log(N)) for each member, where N is the number of members of the set.")
    .history(&[
        ("2.4.0", "Takes several members."),
        ("3.0.2", "Added `XX`, `NX`, `CH` and `INCR`."),
        ("6.2.0", "Added `GT` and `LT`."),
    ])
    .args(&[
        Arg::key("key", 0),
        Arg::one_of("condition", &[Arg::word("nx", "NX"), Arg::word("xx", "XX")]).optional().since("3.0.2"),
        Arg::one_of("comparison", &[Arg::word("gt", "GT"), Arg::word("lt", "LT")]).optional().since("6.2.0"),
        Arg::word("change", "CH").optional().since("3.0.2"),
        Arg::word("increment", "INCR").optional().since("3.0.2"),
        Arg::block("data", &[Arg::new("score", ArgType::Double), Arg::string("member")]).multiple(),
    ]),
    subcommands: &[],
    run: run_zadd,
};

/// `ZINCRBY key increment member`
pub const ZINCRBY: Command = Command {
    name: "zincrby",
    arity: 4,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM).union(Flags::DENYOOM).union(Flags::FAST),
    categories: Categories::SORTEDSET,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::UPDATE))],
    tips: &[],
    doc: Doc::new(
        Group::SortedSet,
        "1.2.0",
        "Increments the score of a sorted set member. A missing member counts as 0.",
    )
    .complexity("O(log(N)) where N is the number of members.")
    .args(&[Arg::key("key", 0), Arg::integer("increment"), Arg::string("member")]),
    subcommands: &[],
    run: run_zincrby,
};

const XX_AND_NX: CommandError =
    CommandError::new("ERR XX and NX options at the same time are not compatible");
const GT_LT_AND_NX: CommandError =
    CommandError::new("ERR GT, LT, and/or NX options at the same time are not compatible");
const SEVERAL_INCREMENTS: CommandError =
    CommandError::new("ERR INCR option supports a single increment-element pair");
const NOT_A_NUMBER: CommandError = CommandError::new("ERR resulting score is not a number (NaN)");

/// The options.
#[derive(Clone, Copy, Default)]
pub(crate) struct AddOptions {
    pub(crate) only_new: bool,
    pub(crate) only_old: bool,
    only_greater: bool,
    only_less: bool,
    pub(crate) counts_changes: bool,
    increments: bool,
}

/// The result for one member.
enum MemberOutcome {
    Added,
    Updated,
    /// The member already has this score.
    Same,
    /// An option forbids the change.
    Refused,
    /// The increment results in NaN.
    NotANumber,
}

fn run_zadd(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let mut options = AddOptions::default();
    let mut first = 2;
    while let Some(word) = args.get(first)
        && options.take(word)
    {
        first += 1;
    }
    add(ctx, args.tail(first), options, reply)
}

fn run_zincrby(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    // Redis parses options here, too, so an increment that is an option's name is a syntax error.
    let mut options = AddOptions { increments: true, ..AddOptions::default() };
    if options.take(args.at(2)) {
        return Err(CommandError::SYNTAX);
    }
    add(ctx, args.tail(2), options, reply)
}

impl AddOptions {
    /// Whether a word is an option; if so, sets it.
    fn take(&mut self, word: &[u8]) -> bool {
        // A fast path: almost all words are scores.
        if word.first().is_none_or(|first| !first.is_ascii_alphabetic()) {
            return false;
        }
        let is = |name: &[u8]| word.eq_token(name);
        let option = match () {
            () if is(b"nx") => &mut self.only_new,
            () if is(b"xx") => &mut self.only_old,
            () if is(b"gt") => &mut self.only_greater,
            () if is(b"lt") => &mut self.only_less,
            () if is(b"ch") => &mut self.counts_changes,
            () if is(b"incr") => &mut self.increments,
            () => return false,
        };
        *option = true;
        true
    }

    fn check(self, pair_count: usize) -> Result<(), CommandError> {
        if self.only_new && self.only_old {
            return Err(XX_AND_NX);
        }
        let comparing = self.only_greater || self.only_less;
        if comparing && self.only_new || self.only_greater && self.only_less {
            return Err(GT_LT_AND_NX);
        }
        if self.increments && pair_count > 1 { Err(SEVERAL_INCREMENTS) } else { Ok(()) }
    }
}

/// Adds `pairs`, which are scores and members alternating.
fn add(
    ctx: &mut Ctx<'_>,
    pairs: Args<'_>,
    options: AddOptions,
    reply: Reply<'_>,
) -> Result<Replied, CommandError> {
    if pairs.is_empty() || !pairs.len().is_multiple_of(2) {
        return Err(CommandError::SYNTAX);
    }
    options.check(pairs.len() / 2)?;
    // All scores are parsed before any member is added.
    let score = |text| parse_f64_decimal(text).ok_or(CommandError::NOT_A_FLOAT);
    if pairs.len() == 2 {
        return add_elements(ctx, &[(pairs.at(1), score(pairs.at(0))?)], options, reply);
    }
    let mut elements = Vec::with_capacity(pairs.len() / 2);
    for index in (0..pairs.len()).step_by(2) {
        elements.push((pairs.at(index + 1), score(pairs.at(index))?));
    }
    add_elements(ctx, &elements, options, reply)
}

/// Adds members with their scores to the set of the request's first key, as the options allow.
pub(crate) fn add_elements(
    ctx: &mut Ctx<'_>,
    elements: &[(&[u8], f64)],
    options: AddOptions,
    reply: Reply<'_>,
) -> Result<Replied, CommandError> {
    let (key, limits) = (ctx.key(0), limits(ctx));
    let value_size_max = elements.iter().map(|(member, _)| member.len()).max().unwrap_or(0);
    let add_all = |set: &mut SortedSet, alloc: AllocContext<'_>| {
        set.prepare(elements.len(), value_size_max, limits);
        let is_reserving = set.is_empty() && elements.len() > 1;
        if is_reserving {
            set.reserve(alloc, elements.iter().copied());
        }
        let mut counts = Counts::default();
        for (member, score) in elements {
            counts.note(add_one(set, alloc, limits, member, *score, options));
        }
        if is_reserving && set.len() < elements.len() {
            set.shrink_if_roomy(alloc);
        }
        counts
    };
    let counts = match options.only_old {
        true => ctx.edit(key, add_all)?.unwrap_or_default(),
        false => ctx.edit_or_new(key, add_all)?,
    };
    if counts.added + counts.updated > 0 {
        ctx.changed(EventClass::SortedSet, if options.increments { "zincr" } else { "zadd" }, key);
        ctx.report.dirty += counts.added + counts.updated - 1;
    }
    if counts.not_a_number {
        return Err(NOT_A_NUMBER);
    }
    if options.increments {
        return Ok(reply.double_or_null(counts.score));
    }
    let changed = if options.counts_changes { counts.added + counts.updated } else { counts.added };
    Ok(reply.integer(changed as i64))
}

#[derive(Clone, Copy, Default)]
struct Counts {
    added: u64,
    updated: u64,
    /// The score of the last member that no option excluded.
    score: Option<f64>,
    not_a_number: bool,
}

impl Counts {
    fn note(&mut self, (outcome, score): (MemberOutcome, f64)) {
        match outcome {
            MemberOutcome::Added => self.added += 1,
            MemberOutcome::Updated => self.updated += 1,
            MemberOutcome::Same => {}
            MemberOutcome::Refused => return,
            MemberOutcome::NotANumber => {
                self.not_a_number = true;
                return;
            }
        }
        self.score = Some(score);
    }
}

/// Sets the score of one member, as the options allow. Returns the resulting score.
fn add_one(
    set: &mut SortedSet,
    alloc: AllocContext<'_>,
    limits: SortedSetLimits,
    member: &[u8],
    score: f64,
    options: AddOptions,
) -> (MemberOutcome, f64) {
    let (mut outcome, mut score) = (MemberOutcome::Refused, score);
    set.update(alloc, limits, member, |old| {
        let Some(old) = old else {
            if options.only_old {
                return None;
            }
            outcome = MemberOutcome::Added;
            return Some(score);
        };
        if options.only_new {
            return None;
        }
        if options.increments {
            score += old;
            if score.is_nan() {
                outcome = MemberOutcome::NotANumber;
                return None;
            }
        }
        if options.only_less && score >= old || options.only_greater && score <= old {
            return None;
        }
        let is_same = score == old;
        outcome = if is_same { MemberOutcome::Same } else { MemberOutcome::Updated };
        (!is_same).then_some(score)
    });
    (outcome, score)
}
