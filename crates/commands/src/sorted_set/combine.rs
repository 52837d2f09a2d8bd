//! Unions, intersections and differences of sorted sets: parsing the arguments and computing the result.
//!
//! A result is an ordered list of members borrowed from the inputs; the caller returns it or builds a set of
//! it. Start reading at [`Inputs::parse`].

use std::borrow::Cow;
use std::collections::HashMap;

use collections::{AllocContext, Collection, DecimalBuffer, Item, Object, Set, SortedSet, ValueRef};
use keyspace::Key;
use wire::number::{parse_f64_decimal, parse_i64_strict};
use wire::request::Args;

use super::limits;
use super::replies::write_elements;
use super::zrange::store_result;
use crate::context::Ctx;
use crate::error::CommandError;
use crate::reply::{Replied, Reply};
use crate::word::Word;

/// Finds the keys after their count at `count_at`; none if the count is invalid: the handler reports the error.
pub(super) fn find_counted(args: Args<'_>, count_at: u32, found: &mut Vec<u32>) {
    let first = count_at + 1;
    let count =
        args.get(count_at as usize).and_then(parse_i64_strict).and_then(|count| u32::try_from(count).ok());
    if let Some(count) = count
        && args.len() - first as usize >= count as usize
    {
        found.extend(first..first + count);
    }
}

/// The set operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Union,
    Inter,
    Diff,
    /// An intersection of which only the size is needed.
    InterCard,
}

/// How the scores of a member are combined.
#[derive(Clone, Copy, Debug)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

/// The input sets and their options.
pub(super) struct Inputs<'a> {
    sources: Vec<Source<'a>>,
    aggregate: Aggregate,
    with_scores: bool,
    /// Maximum number of members to count; 0: all.
    limit: usize,
}

struct Source<'a> {
    value: Value<'a>,
    alloc: AllocContext<'static>,
    weight: f64,
}

#[derive(Clone, Copy)]
enum Value<'a> {
    Missing,
    SortedSet(&'a SortedSet),
    /// A set; its members have score 1.
    Set(&'a Set),
}

/// Members in order, with their scores.
type Elements<'a> = Vec<(Cow<'a, [u8]>, f64)>;

impl Aggregate {
    fn parse(word: &[u8]) -> Option<Self> {
        match () {
            () if word.eq_token("sum") => Some(Self::Sum),
            () if word.eq_token("min") => Some(Self::Min),
            () if word.eq_token("max") => Some(Self::Max),
            () => None,
        }
    }

    fn apply(self, score: &mut f64, other: f64) {
        match self {
            // The sum of infinities of opposite signs is 0.
            Self::Sum => *score = number_or_zero(*score + other),
            Self::Min if other < *score => *score = other,
            Self::Max if other > *score => *score = other,
            Self::Min | Self::Max => {}
        }
    }
}

fn number_or_zero(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

impl<'a> Value<'a> {
    fn len(self) -> usize {
        match self {
            Self::Missing => 0,
            Self::SortedSet(set) => set.len(),
            Self::Set(set) => set.len(),
        }
    }

    /// Returns the score of a member; 1 in a set without scores.
    fn score(self, alloc: AllocContext<'_>, member: &[u8]) -> Option<f64> {
        match self {
            Self::Missing => None,
            Self::SortedSet(set) => set.score(alloc, member),
            Self::Set(set) => set.contains(alloc, member).then_some(1.0),
        }
    }

    fn for_each(self, mut visit: impl FnMut(Cow<'a, [u8]>, f64) -> bool) {
        match self {
            Self::Missing => {}
            Self::SortedSet(set) => {
                let _ = set.iter().all(|(member, score)| visit(Cow::Borrowed(member), score));
            }
            Self::Set(set) => {
                let _ = set.iter().all(|item| visit(text_of(item), 1.0));
            }
        }
    }
}

impl<'a> Inputs<'a> {
    /// Parses the number of keys at `count_at`, the keys, which are the request's last planned ones, and the
    /// options.
    pub(super) fn parse(
        ctx: &'a Ctx<'_>,
        args: Args<'_>,
        count_at: usize,
        operation: Operation,
    ) -> Result<Self, CommandError> {
        const NO_COUNT: CommandError = CommandError::NOT_AN_INTEGER;
        let key_count = parse_i64_strict(args.at(count_at)).ok_or(NO_COUNT)?;
        if key_count < 1 {
            let name = ctx.command.name;
            let text = format!("ERR at least 1 input key is needed for '{name}' command");
            return Err(CommandError::owned(text));
        }
        let key_count = usize::try_from(key_count).unwrap_or(usize::MAX);
        if key_count > args.len() - count_at - 1 {
            return Err(CommandError::SYNTAX);
        }
        let is_stored = count_at > 1;
        let mut sources = Vec::with_capacity(key_count);
        for key in ctx.keys_for_reading(usize::from(is_stored)) {
            sources.push(Source { value: value_of(ctx, key)?, alloc: ctx.alloc_context(key), weight: 1.0 });
        }
        let mut inputs = Self { sources, aggregate: Aggregate::Sum, with_scores: false, limit: 0 };
        inputs.parse_options(args.tail(count_at + 1 + key_count), operation, is_stored)?;
        if operation != Operation::Diff {
            inputs.sources.sort_by_key(|source| source.value.len());
        }
        Ok(inputs)
    }

    fn parse_options(
        &mut self,
        options: Args<'_>,
        operation: Operation,
        is_stored: bool,
    ) -> Result<(), CommandError> {
        const NOT_A_WEIGHT: CommandError = CommandError::new("ERR weight value is not a float");
        const NEGATIVE_LIMIT: CommandError = CommandError::new("ERR LIMIT can't be negative");
        let is_card = operation == Operation::InterCard;
        let has_aggregate = matches!(operation, Operation::Union | Operation::Inter);
        let mut options = options;
        while let Some(word) = options.get(0) {
            let is = |name: &[u8]| word.eq_token(name);
            if has_aggregate && options.len() > self.sources.len() && is(b"weights") {
                for (source, weight) in self.sources.iter_mut().zip(options.tail(1).iter()) {
                    source.weight = parse_f64_decimal(weight).ok_or(NOT_A_WEIGHT)?;
                }
                options = options.tail(1 + self.sources.len());
            } else if has_aggregate && options.len() > 1 && is(b"aggregate") {
                self.aggregate = Aggregate::parse(options.at(1)).ok_or(CommandError::SYNTAX)?;
                options = options.tail(2);
            } else if !is_stored && !is_card && is(b"withscores") {
                self.with_scores = true;
                options = options.tail(1);
            } else if is_card && options.len() > 1 && is(b"limit") {
                let limit = parse_i64_strict(options.at(1)).and_then(|limit| usize::try_from(limit).ok());
                self.limit = limit.ok_or(NEGATIVE_LIMIT)?;
                options = options.tail(2);
            } else {
                return Err(CommandError::SYNTAX);
            }
        }
        Ok(())
    }

    /// Returns the result, in order.
    pub(super) fn combine(&self, operation: Operation) -> Elements<'a> {
        let mut elements = match operation {
            Operation::Union => self.union(),
            Operation::Inter | Operation::InterCard => self.inter(),
            Operation::Diff => self.diff(),
        };
        elements.sort_unstable_by(|(left, a), (right, b)| {
            a.partial_cmp(b).expect("no score is NaN").then_with(|| left.cmp(right))
        });
        elements
    }

    fn union(&self) -> Elements<'a> {
        let mut elements: Elements<'a> = Vec::new();
        let mut places: HashMap<Cow<'a, [u8]>, usize> = HashMap::new();
        for source in &self.sources {
            source.value.for_each(|member, score| {
                let score = number_or_zero(source.weight * score);
                match places.get(&member) {
                    Some(&place) => self.aggregate.apply(&mut elements[place].1, score),
                    None => {
                        places.insert(member.clone(), elements.len());
                        elements.push((member, score));
                    }
                }
                true
            });
        }
        elements
    }

    fn inter(&self) -> Elements<'a> {
        let mut elements = Vec::new();
        self.for_each_common(|member, score| {
            elements.push((member, score));
            true
        });
        elements
    }

    /// Counts the members common to all inputs, up to the limit.
    pub(super) fn count_common(&self) -> usize {
        let mut count = 0;
        self.for_each_common(|_, _| {
            count += 1;
            count != self.limit
        });
        count
    }

    fn for_each_common(&self, mut visit: impl FnMut(Cow<'a, [u8]>, f64) -> bool) {
        let Some((smallest, others)) = self.sources.split_first() else { return };
        smallest.value.for_each(|member, score| {
            let mut sum = number_or_zero(smallest.weight * score);
            for other in others {
                let Some(score) = other.value.score(other.alloc, &member) else { return true };
                self.aggregate.apply(&mut sum, score * other.weight);
            }
            visit(member, sum)
        });
    }

    fn diff(&self) -> Elements<'a> {
        let mut elements = Vec::new();
        let Some((first, others)) = self.sources.split_first() else { return elements };
        first.value.for_each(|member, score| {
            if !others.iter().any(|other| other.value.score(other.alloc, &member).is_some()) {
                elements.push((member, score));
            }
            true
        });
        elements
    }
}

fn text_of(item: Item<'_>) -> Cow<'_, [u8]> {
    match item {
        Item::Bytes(bytes) => Cow::Borrowed(bytes),
        Item::Int(value) => Cow::Owned(DecimalBuffer::new().format(value).to_vec()),
    }
}

fn value_of<'a>(ctx: &'a Ctx<'_>, key: Key<'_>) -> Result<Value<'a>, CommandError> {
    let Some(entry) = ctx.data.find(key) else { return Ok(Value::Missing) };
    match entry.value() {
        ValueRef::Object(Object::SortedSet(set)) => Ok(Value::SortedSet(set)),
        ValueRef::Object(Object::Set(set)) => Ok(Value::Set(set)),
        _ => Err(CommandError::WRONG_TYPE),
    }
}

/// Replies with the result.
pub(super) fn answer(
    ctx: &mut Ctx<'_>,
    args: Args<'_>,
    reply: Reply<'_>,
    operation: Operation,
) -> Result<Replied, CommandError> {
    let inputs = Inputs::parse(ctx, args, 1, operation)?;
    let elements = inputs.combine(operation);
    let mut out = reply.parts();
    let elements = elements.iter().map(|(member, score)| (&member[..], *score));
    write_elements(&mut out, elements, inputs.with_scores, &ctx.report.shared_replies);
    Ok(out.done())
}

/// Stores the result under the first key.
pub(super) fn store(
    ctx: &mut Ctx<'_>,
    args: Args<'_>,
    reply: Reply<'_>,
    operation: Operation,
    event: &'static str,
) -> Result<Replied, CommandError> {
    ctx.expire_sources(1);
    let inputs = Inputs::parse(ctx, args, 2, operation)?;
    let (alloc, limits) = (ctx.alloc_context(ctx.key(0)), limits(ctx));
    let mut result = SortedSet::new();
    let elements = inputs.combine(operation);
    let value_size_max = elements.iter().map(|(member, _)| member.len()).max().unwrap_or(0);
    result.prepare(elements.len(), value_size_max, limits);
    result.fill_in_order(alloc, limits, elements.iter().map(|(member, score)| (&member[..], *score)));
    store_result(ctx, result, event, reply)
}
