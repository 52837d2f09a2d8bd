//! `XDELEX` and `XACKDEL`: deletion of entries that may be pending in groups.

use collections::stream::{Stream, StreamId};
use wire::number::parse_i64_strict;
use wire::request::Args;

use super::ids::parse_id;
use super::references::{self, References};
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};
use crate::word::Word;

/// `XDELEX key [KEEPREF | DELREF | ACKED] IDS numids id ...`
pub const XDELEX: Command = Command {
    name: "xdelex",
    arity: -5,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM).union(Flags::FAST),
    categories: Categories::STREAM,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::RW.union(KeyFlags::DELETE))],
    tips: &[],
    doc: Doc::new(
        Group::Stream,
        "8.2.0",
        "Deletes entries of a stream, with control over their references in consumer groups.",
    )
    .complexity("O(1) for each id and group.")
    .args(&[Arg::key("key", 0), references::ARG, IDS]),
    subcommands: &[],
    run: xdelex,
};

/// `XACKDEL key group [KEEPREF | DELREF | ACKED] IDS numids id ...`
pub const XACKDEL: Command = Command {
    name: "xackdel",
    arity: -6,
    doc: Doc::new(
        Group::Stream,
        "8.2.0",
        "Acknowledges pending entries of a consumer group and deletes them from the stream.",
    )
    .complexity("O(1) for each id and group.")
    .args(&[Arg::key("key", 0), Arg::string("group"), references::ARG, IDS]),
    run: xackdel,
    ..XDELEX
};

const IDS: Arg = Arg::block("ids", &[Arg::integer("numids"), Arg::string("id").multiple()]).token("IDS");

const WRONG_COUNT: CommandError =
    CommandError::new("ERR The `numids` parameter must match the number of arguments");
const NOT_POSITIVE: CommandError = CommandError::new("ERR Number of IDs must be a positive integer");

/// The result for one entry, as in the reply.
#[derive(Clone, Copy)]
enum Outcome {
    NotThere = -1,
    Deleted = 1,
    Kept = 2,
}

fn xdelex(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let (references, ids) = parse(args.tail(2))?;
    let outcomes = ctx.edit(ctx.key(0), |stream: &mut Stream, _| {
        let outcome = |id: &StreamId| match stream.find(*id) {
            None => Outcome::NotThere,
            Some(_) => delete(stream, *id, references),
        };
        ids.iter().map(outcome).collect()
    })?;
    answer(ctx, outcomes, ids.len(), reply)
}

fn xackdel(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let (references, ids) = parse(args.tail(3))?;
    let outcomes = ctx.edit(ctx.key(0), |stream: &mut Stream, _| {
        let outcome = |id: &StreamId| {
            let was_pending = stream.group_mut(args.at(2)).is_some_and(|group| group.acknowledge(*id));
            if was_pending { delete(stream, *id, references) } else { Outcome::NotThere }
        };
        ids.iter().map(outcome).collect()
    })?;
    answer(ctx, outcomes, ids.len(), reply)
}

fn delete(stream: &mut Stream, id: StreamId, references: References) -> Outcome {
    if !references.permit(stream, id) {
        return Outcome::Kept;
    }
    references.delete_references(stream, id);
    stream.delete(id);
    Outcome::Deleted
}

fn answer(
    ctx: &mut Ctx<'_>,
    outcomes: Option<Vec<Outcome>>,
    count: usize,
    reply: Reply<'_>,
) -> Result<Replied, CommandError> {
    let outcomes = outcomes.unwrap_or_else(|| vec![Outcome::NotThere; count]);
    let deleted = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Deleted)).count() as u64;
    let kept = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Kept)).count() as u64;
    if deleted > 0 {
        ctx.changed(EventClass::Stream, "xdel", ctx.key(0));
        ctx.effects.dirty += deleted - 1;
    }
    ctx.effects.dirty += kept;
    let mut out = reply.array(outcomes.len());
    outcomes.iter().for_each(|outcome| out.integer(*outcome as i64));
    Ok(out.done())
}

fn parse(args: Args<'_>) -> Result<(References, Vec<StreamId>), CommandError> {
    let mut references = None;
    let mut ids = None;
    let mut at = 0;
    while let Some(word) = args.get(at) {
        if let Some(named) = References::parse(word) {
            if references.replace(named).is_some() {
                return Err(CommandError::SYNTAX);
            }
            at += 1;
        } else if word.eq_token("ids") && ids.is_none() {
            let count = parse_i64_strict(args.get(at + 1).ok_or(CommandError::SYNTAX)?);
            let count = count.and_then(|count| usize::try_from(count).ok()).filter(|count| *count > 0);
            let count = count.ok_or(NOT_POSITIVE)?;
            let rest = args.tail(at + 2);
            if count > rest.len() {
                return Err(WRONG_COUNT);
            }
            ids = Some(rest.iter().take(count).map(|text| parse_id(text, 0)).collect::<Result<_, _>>()?);
            at += 2 + count;
        } else {
            return Err(CommandError::SYNTAX);
        }
    }
    Ok((references.unwrap_or_default(), ids.ok_or(CommandError::SYNTAX)?))
}
