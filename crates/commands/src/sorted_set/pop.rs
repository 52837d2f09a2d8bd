//! Popping elements from an end of a sorted set: shared by `ZPOPMIN`, `ZMPOP` and their blocking forms.

use collections::SortedSet;
use keyspace::Key;

use crate::context::{Ctx, EventClass};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};
use crate::word::Word;

/// An end of a sorted set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The lowest scores.
    Min,
    /// The highest scores.
    Max,
}

/// The layout of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PopReplyForm {
    /// Members and scores alternating.
    Flat,
    /// Pairs.
    Pairs,
    /// The key, then members and scores alternating.
    KeyAndFlat,
    /// The key, and an array of pairs.
    KeyAndPairs,
}

impl End {
    /// Parses an end.
    pub(crate) fn parse(word: &[u8]) -> Option<Self> {
        match () {
            () if word.eq_token("min") => Some(Self::Min),
            () if word.eq_token("max") => Some(Self::Max),
            () => None,
        }
    }

    fn command(self) -> &'static str {
        match self {
            Self::Min => "ZPOPMIN",
            Self::Max => "ZPOPMAX",
        }
    }

    fn event(self) -> &'static str {
        match self {
            Self::Min => "zpopmin",
            Self::Max => "zpopmax",
        }
    }
}

/// Returns the request's first key that exists; it must be a sorted set.
pub(crate) fn first_present<'a>(ctx: &mut Ctx<'a>) -> Result<Option<Key<'a>>, CommandError> {
    let mut keys = ctx.walk();
    while let Some(key) = keys.next(ctx.data) {
        if ctx.find_for_write::<SortedSet>(key)?.is_some() {
            return Ok(Some(key));
        }
    }
    Ok(None)
}

/// Pops up to `count` elements, at least 1, from a set that exists, replies with them and reports the change.
pub(crate) fn pop(
    ctx: &mut Ctx<'_>,
    key: Key<'_>,
    end: End,
    count: usize,
    form: PopReplyForm,
    reply: Reply<'_>,
) -> Result<Replied, CommandError> {
    let mut out = reply.parts();
    let popped = ctx.edit(key, |set: &mut SortedSet, alloc| {
        let len = set.len();
        let count = count.min(len);
        match form {
            PopReplyForm::Flat => out.array(2 * count),
            PopReplyForm::Pairs => out.array(count),
            PopReplyForm::KeyAndFlat => {
                out.array(2 * count + 1);
                out.bulk(key.bytes);
            }
            PopReplyForm::KeyAndPairs => {
                out.array(2);
                out.bulk(key.bytes);
                out.array(count);
            }
        }
        let elements = match end {
            End::Min => set.range(0, count),
            End::Max => set.range_backward(len - 1, count),
        };
        for (member, score) in elements {
            if matches!(form, PopReplyForm::Pairs | PopReplyForm::KeyAndPairs) {
                out.array(2);
            }
            out.bulk(member);
            out.double(score);
        }
        set.remove_ranks(alloc, if end == End::Min { 0 } else { len - count }, count);
        count
    })?;
    let count = popped.expect("the caller has seen it");
    ctx.changed(EventClass::SortedSet, end.event(), key);
    ctx.report.dirty += count as u64 - 1;
    ctx.report_if_emptied(key);
    match form {
        // These are replies of commands on one key, which do not block.
        PopReplyForm::Flat | PopReplyForm::Pairs => {}
        PopReplyForm::KeyAndFlat => ctx.record_effect(&[end.command().into(), key.bytes.into()]),
        PopReplyForm::KeyAndPairs => {
            ctx.record_effect(&[end.command().into(), key.bytes.into(), (count as i64).into()]);
        }
    }
    Ok(out.done())
}
