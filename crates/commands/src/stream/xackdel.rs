//! `XDELEX` and `XACKDEL`: deletion of entries that may be pending in groups.

use collections::stream::{Stream, StreamId};
use keyspace::Key;
use wire::number::parse_i64_strict;
use wire::request::Args;

use super::ids::parse_id;
use super::logged::log_deleted;
use super::references::{self, DeletedReferences, References};
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
    flags: Flags::WRITE.union(Flags::LOG_INSTEAD).union(Flags::FAST),
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
    keys: &[KeySpec::first(KeyFlags::RW.union(KeyFlags::UPDATE).union(KeyFlags::DELETE))],
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

const IDS_REQUIRED: CommandError = CommandError::new("ERR IDS option is required");

/// The result for one entry, as in the reply.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EntryOutcome {
    NotThere = -1,
    Deleted = 1,
    Kept = 2,
}

/// What a request has done.
#[derive(Default)]
struct Deletions {
    outcomes: Vec<EntryOutcome>,
    deleted: Vec<StreamId>,
    references: DeletedReferences,
}

fn xdelex(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let key = ctx.key(0);
    let exists = ctx.find_for_write::<Stream>(key)?.is_some();
    let (references, ids) = parse(args.tail(2))?;
    if !exists {
        return Ok(answer_none(ids, reply));
    }
    let ids = parse_ids(ids)?;
    let deletions = ctx.edit(key, |stream: &mut Stream, _| {
        let mut deletions = Deletions::default();
        ids.iter().for_each(|id| deletions.delete(stream, *id, references));
        deletions
    })?;
    Ok(deletions.unwrap_or_default().answer(ctx, key, reply))
}

fn xackdel(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let (key, group) = (ctx.key(0), args.at(2));
    let stream = ctx.find::<Stream>(key)?;
    let exists = stream.is_some_and(|stream| stream.group(group).is_some());
    let (references, ids) = parse(args.tail(3))?;
    if !exists {
        return Ok(answer_none(ids, reply));
    }
    let ids = parse_ids(ids)?;
    let deletions = ctx.edit(key, |stream: &mut Stream, _| {
        let mut deletions = Deletions::default();
        ids.iter().for_each(|id| deletions.acknowledge(stream, group, *id, references));
        deletions
    })?;
    Ok(deletions.unwrap_or_default().answer(ctx, key, reply))
}

impl Deletions {
    /// Deletes an entry and, if requested, the references to it, which may outlive it.
    fn delete(&mut self, stream: &mut Stream, id: StreamId, references: References) {
        let is_permitted = references.permit(stream, id);
        references.delete_references(stream, id, &mut self.references);
        let is_deleted = is_permitted && stream.delete(id);
        if is_deleted {
            self.deleted.push(id);
        }
        self.outcomes.push(match (is_permitted, is_deleted) {
            (false, _) => EntryOutcome::Kept,
            (true, false) => EntryOutcome::NotThere,
            (true, true) => EntryOutcome::Deleted,
        });
    }

    /// Acknowledges an entry, and deletes it if it was pending. It may be deleted already.
    fn acknowledge(&mut self, stream: &mut Stream, group: &[u8], id: StreamId, references: References) {
        if !stream.group_mut(group).is_some_and(|group| group.acknowledge(id)) {
            return self.outcomes.push(EntryOutcome::NotThere);
        }
        self.references.note(group, id);
        self.delete(stream, id, references);
        if let Some(outcome) = self.outcomes.last_mut().filter(|outcome| **outcome == EntryOutcome::NotThere)
        {
            *outcome = EntryOutcome::Deleted;
        }
    }

    /// Reports the changes, and replies. Their effects are logged in commands that older servers know.
    fn answer(&self, ctx: &mut Ctx<'_>, key: Key<'_>, reply: Reply<'_>) -> Replied {
        if !self.deleted.is_empty() {
            ctx.changed(EventClass::Stream, "xdel", key);
        }
        ctx.report.dirty += (self.deleted.len() as u64).saturating_sub(1) + self.references.count();
        self.references.record_effects(ctx, key);
        log_deleted(ctx, key, &self.deleted);
        let mut out = reply.array(self.outcomes.len());
        self.outcomes.iter().for_each(|outcome| out.integer(*outcome as i64));
        out.done()
    }
}

/// Replies that nothing is there. The IDs are not examined.
fn answer_none(ids: Args<'_>, reply: Reply<'_>) -> Replied {
    let mut out = reply.array(ids.len());
    ids.iter().for_each(|_| out.integer(EntryOutcome::NotThere as i64));
    out.done()
}

/// Parses the options. Returns the IDs unparsed: if nothing is there they are not examined.
fn parse(args: Args<'_>) -> Result<(References, Args<'_>), CommandError> {
    let mut references = None;
    let mut ids = None;
    let mut at = 0;
    while let Some(word) = args.get(at) {
        if let Some(named) = References::parse(word) {
            if references.replace(named).is_some() {
                return Err(CommandError::SYNTAX);
            }
            at += 1;
        } else if word.eq_token("ids") {
            let count = parse_i64_strict(args.get(at + 1).ok_or(CommandError::SYNTAX)?);
            let count = count.and_then(|count| usize::try_from(count).ok()).filter(|count| *count > 0);
            let count = count.ok_or(NOT_POSITIVE)?;
            let rest = args.tail(at + 2);
            if count > rest.len() {
                return Err(WRONG_COUNT);
            }
            ids = Some(rest.range(0..count));
            at += 2 + count;
        } else {
            return Err(CommandError::SYNTAX);
        }
    }
    Ok((references.unwrap_or_default(), ids.ok_or(IDS_REQUIRED)?))
}

fn parse_ids(ids: Args<'_>) -> Result<Vec<StreamId>, CommandError> {
    ids.iter().map(|text| parse_id(text, 0)).collect()
}
