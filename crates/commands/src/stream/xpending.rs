//! `XPENDING`

use collections::stream::{Delivery, Group as ConsumerGroup, Stream, StreamId};
use wire::request::Args;

use super::entries::write_id;
use super::ids::{parse_end, parse_start};
use super::{no_group, parse_count, parse_integer};
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};
use crate::word::Word;

/// `XPENDING key group [[IDLE min-idle-time] start end count [consumer]]`
pub const COMMAND: Command = Command {
    name: "xpending",
    arity: -3,
    flags: Flags::READONLY,
    categories: Categories::STREAM,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO.union(KeyFlags::ACCESS))],
    tips: &["nondeterministic_output"],
    doc: Doc::new(
        Group::Stream,
        "5.0.0",
        "Returns the pending entries of a consumer group, or a summary of them.",
    )
    .complexity("O(N) for N returned entries; O(N) for N consumers without a range.")
    .history(&[("6.2.0", "Added `IDLE` and exclusive ends.")])
    .args(&[
        Arg::key("key", 0),
        Arg::string("group"),
        Arg::block(
            "filters",
            &[
                Arg::integer("min-idle-time").token("IDLE").since("6.2.0").optional(),
                Arg::string("start"),
                Arg::string("end"),
                Arg::integer("count"),
                Arg::string("consumer").optional(),
            ],
        )
        .optional(),
    ]),
    subcommands: &[],
    run,
};

/// The filter for pending entries.
struct Filter<'a> {
    min_idle: i64,
    start: StreamId,
    end: StreamId,
    count: usize,
    consumer: Option<&'a [u8]>,
}

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let filter = Filter::parse(args)?;
    let stream = ctx.find::<Stream>(ctx.key(0))?;
    let Some(group) = stream.and_then(|stream| stream.group(args.at(2))) else {
        return Err(no_group(args.at(1), args.at(2), ""));
    };
    match filter {
        None => Ok(summarise(group, reply)),
        Some(filter) => Ok(list(group, &filter, ctx.now().0, reply)),
    }
}

fn summarise(group: &ConsumerGroup, reply: Reply<'_>) -> Replied {
    let mut out = reply.array(4);
    out.integer(group.pending_count() as i64);
    let mut pending = group.pending_from(StreamId::MIN).map(|(id, _)| id);
    let Some(first) = pending.next() else {
        out.null();
        out.null();
        out.null_array();
        return out.done();
    };
    write_id(&mut out, first);
    write_id(&mut out, pending.next_back().unwrap_or(first));
    let array = out.deferred_array();
    let mut len = 0;
    for (_, consumer) in group.consumers().filter(|(_, consumer)| consumer.pending_count() > 0) {
        out.array(2);
        out.bulk(&consumer.name);
        out.bulk_int(consumer.pending_count() as i64);
        len += 1;
    }
    out.set_len(array, len);
    out.done()
}

fn list(group: &ConsumerGroup, filter: &Filter<'_>, now: i64, reply: Reply<'_>) -> Replied {
    let mut out = reply.parts();
    let array = out.deferred_array();
    let mut len = 0;
    let mut write = |(id, delivery): (StreamId, Delivery)| {
        out.array(4);
        write_id(&mut out, id);
        out.bulk(&group.consumer(delivery.consumer).name);
        out.integer((now - delivery.at).max(0));
        out.integer(delivery.count as i64);
        len += 1;
    };
    let is_wanted =
        |(_, delivery): &(StreamId, Delivery)| filter.min_idle == 0 || now - delivery.at >= filter.min_idle;
    let within = |(id, _): &(StreamId, Delivery)| *id <= filter.end;
    match filter.consumer.map(|name| group.find_consumer(name)) {
        Some(None) => {}
        Some(Some(consumer)) => {
            let pending = group.pending_of(consumer, filter.start).take_while(within);
            pending.filter(is_wanted).take(filter.count).for_each(&mut write);
        }
        None => {
            let pending = group.pending_from(filter.start).take_while(within);
            pending.filter(is_wanted).take(filter.count).for_each(&mut write);
        }
    }
    out.set_len(array, len);
    out.done()
}

impl<'a> Filter<'a> {
    fn parse(args: Args<'a>) -> Result<Option<Self>, CommandError> {
        match args.len() {
            3 => return Ok(None),
            6..=9 => {}
            _ => return Err(CommandError::SYNTAX),
        }
        let mut at = 3;
        let mut min_idle = 0;
        if args.at(3).eq_token("idle") {
            min_idle = parse_integer(args.at(4))?;
            if args.len() < 8 {
                return Err(CommandError::SYNTAX);
            }
            at = 5;
        }
        let count = parse_count(args.at(at + 2))?;
        let start = parse_start(args.at(at))?;
        let end = parse_end(args.at(at + 1))?;
        Ok(Some(Self { min_idle, start, end, count, consumer: args.get(at + 3) }))
    }
}
