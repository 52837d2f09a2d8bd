//! `XINFO`

use collections::stream::{Consumer, Group as ConsumerGroup, Stream, StreamId};
use wire::reply::ReplyBuffer;
use wire::request::Args;

use super::entries::{write_entries, write_entry, write_id};
use super::{no_group_of_key, parse_integer};
use crate::command::{Access, Categories, Command, Flags, Handler, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::help;
use crate::reply::{Replied, Reply};
use crate::reply_buffers::SharedReplyBuffers;
use crate::word::Word;

/// `XINFO subcommand ...`
pub const COMMAND: Command = Command::container(
    "xinfo",
    Doc::new(Group::Stream, "5.0.0", "Subcommands that inspect streams and consumer groups.")
        .complexity("Depends on the subcommand."),
    &[
        sub(
            "consumers",
            4,
            Doc::new(Group::Stream, "5.0.0", "Returns the consumers of a consumer group.")
                .history(&[("7.2.0", "Added `inactive`; `idle` counts from the last attempt.")])
                .args(&[Arg::key("key", 0), Arg::string("group")]),
            consumers,
        )
        .tips(&["nondeterministic_output"]),
        sub(
            "groups",
            3,
            Doc::new(Group::Stream, "5.0.0", "Returns the consumer groups of a stream.")
                .history(&[("7.0.0", "Added `entries-read` and `lag`.")])
                .args(&[Arg::key("key", 0)]),
            groups,
        ),
        help::command(Group::Stream, "5.0.0", |_, _, reply| help::answer(&COMMAND, reply))
            .add_categories(Categories::STREAM),
        sub(
            "stream",
            -3,
            Doc::new(Group::Stream, "5.0.0", "Returns the properties of a stream.")
                .history(&[
                    ("6.0.0", "Added `FULL`."),
                    ("7.0.0", "Added `max-deleted-entry-id`, `entries-added`, `entries-read` and others."),
                    ("7.2.0", "Added `active-time`; `seen-time` counts from the last attempt."),
                ])
                .args(&[
                    Arg::key("key", 0),
                    Arg::block(
                        "full-block",
                        &[Arg::word("full", "FULL"), Arg::integer("count").token("COUNT").optional()],
                    )
                    .optional(),
                ]),
            stream,
        ),
    ],
);

const KEYS: &[KeySpec] = &[KeySpec::at(2, KeyFlags::RO.union(KeyFlags::ACCESS))];

const fn sub(name: &'static str, arity: i32, doc: Doc, run: Handler) -> Command {
    Command {
        name,
        arity,
        flags: Flags::READONLY,
        categories: Categories::STREAM,
        access: Access::Read,
        keys: KEYS,
        tips: &[],
        doc,
        subcommands: &[],
        run,
    }
}

/// Default number of entries and pending entries in the reply of `FULL`.
const COUNT_DEFAULT: usize = 10;

fn consumers(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let stream = ctx.find::<Stream>(ctx.key(0))?.ok_or(CommandError::NO_SUCH_KEY)?;
    let group = stream.group(args.at(3)).ok_or_else(|| no_group_of_key(args.at(2), args.at(3)))?;
    let now = ctx.now().0;
    let mut out = reply.array(group.consumer_count());
    for (_, consumer) in group.consumers() {
        out.map(4);
        out.bulk(b"name");
        out.bulk(&consumer.name);
        field(&mut out, "pending", consumer.pending_count() as i64);
        field(&mut out, "idle", (now - consumer.seen_at).max(0));
        field(&mut out, "inactive", consumer.active_at.map_or(-1, |at| now - at));
    }
    Ok(out.done())
}

fn groups(ctx: &mut Ctx<'_>, _: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let stream = ctx.find::<Stream>(ctx.key(0))?.ok_or(CommandError::NO_SUCH_KEY)?;
    let mut out = reply.array(stream.group_count());
    for (name, group) in stream.groups() {
        out.map(6);
        out.bulk(b"name");
        out.bulk(name);
        field(&mut out, "consumers", group.consumer_count() as i64);
        field(&mut out, "pending", group.pending_count() as i64);
        write_progress(&mut out, stream, group);
    }
    Ok(out.done())
}

fn stream(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let stream = ctx.find::<Stream>(ctx.key(0))?.ok_or(CommandError::NO_SUCH_KEY)?;
    let wrong = || help::wrong_subcommand("XINFO", args.at(1));
    let options = args.tail(3);
    let full = match options.len() {
        0 => None,
        1 | 3 if options.at(0).eq_token("full") => {
            let count = match options.get(2) {
                None => COUNT_DEFAULT,
                Some(_) if !options.at(1).eq_token("count") => return Err(wrong()),
                Some(count) => usize::try_from(parse_integer(count)?).unwrap_or(COUNT_DEFAULT),
            };
            Some(if count == 0 { usize::MAX } else { count })
        }
        _ => return Err(wrong()),
    };
    let mut out = reply.map(if full.is_some() { 9 } else { 10 });
    field(&mut out, "length", stream.len() as i64);
    // There is no radix tree; each node of entries counts as one key of it.
    field(&mut out, "radix-tree-keys", stream.node_count() as i64);
    field(&mut out, "radix-tree-nodes", stream.node_count() as i64 + 1);
    id_field(&mut out, "last-generated-id", stream.last_id);
    id_field(&mut out, "max-deleted-entry-id", stream.max_deleted_id);
    field(&mut out, "entries-added", stream.entries_added as i64);
    id_field(&mut out, "recorded-first-entry-id", stream.first_id());
    match full {
        None => write_ends(&mut out, stream),
        Some(count) => write_everything(&mut out, stream, count),
    }
    Ok(out.done())
}

fn write_ends(out: &mut ReplyBuffer<'_>, stream: &Stream) {
    field(out, "groups", stream.group_count() as i64);
    let first = stream.range(StreamId::MIN, StreamId::MAX).next();
    let last = stream.range_down(StreamId::MIN, StreamId::MAX).next();
    for (name, entry) in [("first-entry", first), ("last-entry", last)] {
        out.bulk(name.as_bytes());
        match entry {
            Some(entry) => write_entry(out, &entry),
            None => out.null(),
        }
    }
}

fn write_everything(out: &mut ReplyBuffer<'_>, stream: &Stream, count: usize) {
    out.bulk(b"entries");
    write_entries(
        out,
        stream.range(StreamId::MIN, StreamId::MAX),
        Some(count),
        &SharedReplyBuffers::default(),
    );
    out.bulk(b"groups");
    out.array(stream.group_count());
    for (name, group) in stream.groups() {
        out.map(7);
        out.bulk(b"name");
        out.bulk(name);
        write_progress(out, stream, group);
        field(out, "pel-count", group.pending_count() as i64);
        out.bulk(b"pending");
        out.array(group.pending_count().min(count));
        for (id, delivery) in group.pending_from(StreamId::MIN).take(count) {
            out.array(4);
            write_id(out, id);
            out.bulk(&group.consumer(delivery.consumer).name);
            out.integer(delivery.at);
            out.integer(delivery.count as i64);
        }
        out.bulk(b"consumers");
        out.array(group.consumer_count());
        for (index, consumer) in group.consumers() {
            write_consumer(out, consumer);
            out.array(consumer.pending_count().min(count));
            for (id, delivery) in group.pending_of(index, StreamId::MIN).take(count) {
                out.array(3);
                write_id(out, id);
                out.integer(delivery.at);
                out.integer(delivery.count as i64);
            }
        }
    }
}

/// Writes a consumer, up to its pending entries.
fn write_consumer(out: &mut ReplyBuffer<'_>, consumer: &Consumer) {
    out.map(5);
    out.bulk(b"name");
    out.bulk(&consumer.name);
    field(out, "seen-time", consumer.seen_at);
    field(out, "active-time", consumer.active_at.unwrap_or(-1));
    field(out, "pel-count", consumer.pending_count() as i64);
    out.bulk(b"pending");
}

/// Writes the read progress of a group.
fn write_progress(out: &mut ReplyBuffer<'_>, stream: &Stream, group: &ConsumerGroup) {
    id_field(out, "last-delivered-id", group.last_id);
    for (name, value) in
        [("entries-read", group.entries_read.map(|read| read as i64)), ("lag", stream.lag(group))]
    {
        out.bulk(name.as_bytes());
        match value {
            Some(value) => out.integer(value),
            None => out.null(),
        }
    }
}

fn field(out: &mut ReplyBuffer<'_>, name: &str, value: i64) {
    out.bulk(name.as_bytes());
    out.integer(value);
}

fn id_field(out: &mut ReplyBuffer<'_>, name: &str, id: StreamId) {
    out.bulk(name.as_bytes());
    write_id(out, id);
}
