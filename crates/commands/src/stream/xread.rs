//! `XREAD` and `XREADGROUP`

use std::time::Duration;

use base::Millis;
use collections::Kind;
use collections::stream::{ConsumerIndex, Delivery, Stream, StreamId};
use keyspace::Key;
use wire::number::parse_i64_strict;
use wire::reply::ReplyBuffer;
use wire::request::Args;

use super::entries::{write_entries, write_entry, write_id};
use super::ids::parse_id;
use super::logged::{log_deliveries, log_new_consumer, log_position};
use super::{no_group, parse_count};
use crate::command::{Access, Begin, Categories, Command, Find, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, Doc, Group};
use crate::error::{CommandError, up_to_nul};
use crate::reply::{Parts, Replied, Reply};
use crate::reply_buffers::SharedReplyBuffers;
use crate::session::{BlockReason, KeyWait};
use crate::word::Word;

/// `XREAD [COUNT count] [BLOCK ms] STREAMS key ... id ...`
pub const XREAD: Command = Command {
    name: "xread",
    arity: -4,
    flags: Flags::BLOCKING.union(Flags::READONLY),
    categories: Categories::STREAM,
    access: Access::Read,
    keys: &[keys_after_streams(1)],
    tips: &[],
    doc: Doc::new(
        Group::Stream,
        "5.0.0",
        "Returns the entries after an ID of each stream, or blocks until one arrives.",
    )
    .args(&[COUNT, BLOCK, STREAMS]),
    subcommands: &[],
    run: |ctx, args, reply| read(ctx, args, reply),
};

/// `XREADGROUP GROUP group consumer [COUNT count] [BLOCK ms] [NOACK] STREAMS key ... id ...`
pub const XREADGROUP: Command = Command {
    name: "xreadgroup",
    arity: -7,
    flags: Flags::BLOCKING.union(Flags::WRITE.union(Flags::LOG_INSTEAD)),
    access: Access::Write,
    keys: &[keys_after_streams(4)],
    doc: Doc::new(
        Group::Stream,
        "5.0.0",
        "Returns entries new to a consumer group or pending for a consumer, or blocks until one arrives.",
    )
    .complexity("O(M) for M returned entries of each stream.")
    .args(&[
        Arg::block("group-block", &[Arg::string("group"), Arg::string("consumer")]).token("GROUP"),
        COUNT,
        BLOCK,
        Arg::word("noack", "NOACK").optional(),
        STREAMS,
    ]),
    run: |ctx, args, reply| read_group(ctx, args, reply),
    ..XREAD
};

const COUNT: Arg = Arg::integer("count").token("COUNT").optional();
const BLOCK: Arg = Arg::integer("milliseconds").token("BLOCK").optional();
const STREAMS: Arg =
    Arg::block("streams", &[Arg::key("key", 0).multiple(), Arg::string("id").multiple()]).token("STREAMS");

const fn keys_after_streams(from: i32) -> KeySpec {
    KeySpec {
        flags: KeyFlags::RO.union(KeyFlags::ACCESS),
        begin: Begin::Keyword { word: "STREAMS", from },
        find: Find::Range { last: -1, step: 1, limit: 2 },
        notes: None,
        custom: None,
        flags_of_request: None,
    }
}

const GROUP_IN_XREAD: CommandError =
    CommandError::new("ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.");
const NOACK_IN_XREAD: CommandError =
    CommandError::new("ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.");
const NEW_IN_XREAD: CommandError = CommandError::new(
    "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.",
);
const MISSING_GROUP: CommandError = CommandError::new("ERR Missing GROUP option for XREADGROUP");
const LAST_IN_GROUP: CommandError = CommandError::new(
    "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by \
     specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set.",
);
const END_IN_GROUP: CommandError = CommandError::new(
    "ERR The + ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by \
     specifying a proper ID, or use the > ID to get new messages. The + ID would just return an empty result set.",
);
const LATE_TIMEOUT: CommandError = CommandError::new("ERR timeout is out of range");
const NEGATIVE_TIMEOUT: CommandError = CommandError::new("ERR timeout is negative");
const BAD_TIMEOUT: CommandError = CommandError::new("ERR timeout is not an integer or out of range");

/// Parsed options.
struct ReadOptions<'a> {
    /// Argument index of the first key.
    streams_at: usize,
    stream_count: usize,
    count: Option<usize>,
    /// `Some(None)`: block without timeout; `None`: do not block.
    timeout: Option<Option<Duration>>,
    /// Group and consumer.
    group: Option<(&'a [u8], &'a [u8])>,
    no_ack: bool,
}

fn read(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let options = ReadOptions::parse(args, "xread", ctx.now())?;
    let mut after = Vec::with_capacity(options.stream_count);
    for (index, key) in ctx.keys_for_reading(0).enumerate() {
        let stream = ctx.find::<Stream>(key)?;
        after.push(match up_to_nul(options.id(args, index)) {
            b"$" => stream.map_or(StreamId::MIN, |stream| stream.last_id),
            // The last entry, not the last id, whose entry may be deleted.
            b"+" => {
                let last = stream.and_then(Stream::last_entry_id);
                last.and_then(StreamId::previous).unwrap_or(StreamId::MIN)
            }
            b">" => return Err(NEW_IN_XREAD),
            text => parse_id(text, 0)?,
        });
    }
    let mut out = reply.parts();
    let mut streams = StreamsReply::new();
    for (key, after) in ctx.keys_for_reading(0).zip(&after) {
        // A second lookup, which counts as another hit or miss, as in Redis.
        let Some(stream) = ctx.find::<Stream>(key)? else { continue };
        if stream.last_entry_id().is_none_or(|last| last <= *after) {
            continue;
        }
        let Some(start) = after.next() else { continue };
        streams.begin(&mut out, key.bytes);
        write_entries(
            &mut out,
            stream.range(start, StreamId::MAX),
            options.count,
            &SharedReplyBuffers::default(),
        );
    }
    match streams.finish(&mut out) {
        true => Ok(out.done()),
        false => Ok(wait(ctx, args, &options, Some(&after), out)),
    }
}

fn read_group(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let options = ReadOptions::parse(args, "xreadgroup", ctx.now())?;
    let (group, _) = options.group.ok_or(MISSING_GROUP)?;
    // `None`: entries that are new to the group.
    let mut after = Vec::with_capacity(options.stream_count);
    for (index, key) in ctx.keys_for_reading(0).enumerate() {
        if ctx.data.is_hidden(key) {
            after.push(None);
            continue;
        }
        if ctx.find::<Stream>(key)?.and_then(|stream| stream.group(group)).is_none() {
            return Err(no_group(key.bytes, group, " in XREADGROUP with GROUP option"));
        }
        after.push(match up_to_nul(options.id(args, index)) {
            b"$" => return Err(LAST_IN_GROUP),
            b"+" => return Err(END_IN_GROUP),
            b">" => None,
            // As in Redis, the largest ID is equivalent to `>`.
            text => Some(parse_id(text, 0)?).filter(|id| *id != StreamId::MAX),
        });
    }
    let mut out = reply.parts();
    let mut streams = StreamsReply::new();
    let mut keys = ctx.walk();
    for after in &after {
        let Some(key) = keys.next(ctx.data) else { break };
        if !ctx.data.is_hidden(key) {
            read_one_for_group(ctx, key, *after, &options, &mut streams, &mut out)?;
        }
    }
    match streams.finish(&mut out) {
        true => Ok(out.done()),
        false => Ok(wait(ctx, args, &options, None, out)),
    }
}

/// Blocks if the request has `BLOCK`. Each `$` is replaced by its ID in `after`.
fn wait(
    ctx: &mut Ctx<'_>,
    args: Args<'_>,
    options: &ReadOptions<'_>,
    after: Option<&[StreamId]>,
    mut out: Parts<'_>,
) -> Replied {
    let Some(timeout) = options.timeout.filter(|_| ctx.may_block()) else {
        out.null_array();
        return out.done();
    };
    let mut wait = KeyWait::for_kind(Kind::Stream, 0..options.stream_count);
    wait.needs.or_none = options.group.is_some();
    for (index, id) in after.unwrap_or_default().iter().enumerate() {
        if up_to_nul(options.id(args, index)) == b"$" {
            wait.replaced.push((options.id_at(index), id.to_string().into_bytes()));
        }
    }
    ctx.block(timeout, BlockReason::Keys(wait));
    out.done()
}

/// Reads one stream for a consumer of the group, which is created if missing.
fn read_one_for_group(
    ctx: &mut Ctx<'_>,
    key: Key<'_>,
    after: Option<StreamId>,
    options: &ReadOptions<'_>,
    streams: &mut StreamsReply,
    out: &mut ReplyBuffer<'_>,
) -> Result<(), CommandError> {
    let Some((name, consumer_name)) = options.group else { return Ok(()) };
    let (now, logs) = (ctx.now().0, ctx.records_effects());
    let mut delivered = Delivered::default();
    // A second lookup, which counts as another hit, as in Redis.
    ctx.find::<Stream>(key)?;
    let result = ctx.edit(key, |stream: &mut Stream, _| {
        let last_entry_id = stream.last_entry_id();
        let group = stream.group_mut(name).expect("looked up just now");
        let before = group.find_consumer(consumer_name);
        let consumer = before.unwrap_or_else(|| group.add_consumer(consumer_name, now));
        group.consumer_mut(consumer).seen_at = now;
        let group_last_id = group.last_id;
        let reader = Reader { group: name, consumer, now, count: options.count, no_ack: options.no_ack };
        let mut has_read = true;
        match after {
            Some(after) => {
                streams.begin(out, key.bytes);
                reader.read_pending(stream, after, &mut delivered, out);
            }
            None if last_entry_id.is_some_and(|last| last > group_last_id) => {
                streams.begin(out, key.bytes);
                reader.read_new(stream, group_last_id, &mut delivered, out);
            }
            None => has_read = false,
        }
        (before.is_none(), has_read)
    })?;
    let (made_consumer, has_read) = result.unwrap_or_default();
    ctx.report.dirty += u64::from(made_consumer) + u64::from(has_read);
    if logs {
        delivered.record_effects(ctx, key, (name, consumer_name), now, made_consumer);
    }
    if made_consumer {
        ctx.announce(EventClass::Stream, "xgroup-createconsumer", key);
    }
    Ok(())
}

/// The deliveries of a read, for the log.
#[derive(Default)]
struct Delivered {
    /// Entries that are new to the group.
    new: Vec<StreamId>,
    /// Entries that were pending, with their new counts of deliveries.
    redelivered: Vec<(StreamId, u64)>,
    /// Whether the group's last delivered ID has changed.
    has_advanced: bool,
}

impl Delivered {
    /// Records the deliveries. A read without deliveries changes only the consumer's times.
    fn record_effects(
        self,
        ctx: &mut Ctx<'_>,
        key: Key<'_>,
        names: (&[u8], &[u8]),
        now: i64,
        made_consumer: bool,
    ) {
        let (group, consumer) = names;
        if made_consumer {
            log_new_consumer(ctx, key, group, consumer);
        }
        let found = ctx.peek::<Stream>(key).and_then(|stream| stream.group(group));
        let Some(last_id) = found.map(|group| group.last_id) else { return };
        log_deliveries(ctx, key, names, &self.new, (now, 1), last_id);
        for (id, count) in self.redelivered {
            log_deliveries(ctx, key, names, &[id], (now, count), last_id);
        }
        if self.has_advanced {
            log_position(ctx, key, group);
        }
        ctx.report.is_logged = true;
    }
}

/// The consumer of a group that reads, and its options.
struct Reader<'a> {
    group: &'a [u8],
    consumer: ConsumerIndex,
    now: i64,
    count: Option<usize>,
    no_ack: bool,
}

impl Reader<'_> {
    /// Replies with entries that were not yet delivered to any consumer of the group.
    fn read_new(
        &self,
        stream: &mut Stream,
        after: StreamId,
        delivered: &mut Delivered,
        out: &mut ReplyBuffer<'_>,
    ) {
        let array = out.deferred_array();
        let mut ids = Vec::new();
        let start = after.next().unwrap_or(StreamId::MAX);
        for entry in stream.range(start, StreamId::MAX).take(self.count.unwrap_or(usize::MAX)) {
            write_entry(out, &entry);
            ids.push(entry.id);
        }
        out.set_len(array, ids.len());
        delivered.has_advanced = !ids.is_empty();
        for &id in &ids {
            stream.advance(self.group, id);
            let Some(group) = stream.group_mut(self.group).filter(|_| !self.no_ack) else { continue };
            group.deliver(id, Delivery { consumer: self.consumer, at: self.now, count: 1 });
            group.consumer_mut(self.consumer).active_at = Some(self.now);
        }
        if !self.no_ack {
            delivered.new = ids;
        }
    }

    /// Replies with the consumer's pending entries; deleted ones have no fields.
    fn read_pending(
        &self,
        stream: &mut Stream,
        after: StreamId,
        delivered: &mut Delivered,
        out: &mut ReplyBuffer<'_>,
    ) {
        let array = out.deferred_array();
        let mut len = 0;
        let mut redelivered = Vec::new();
        let start = after.next().unwrap_or(StreamId::MAX);
        let group = stream.group(self.group).expect("the reader has a consumer of it");
        let pending = group.pending_of(self.consumer, start).take(self.count.unwrap_or(usize::MAX));
        for (id, delivery) in pending {
            if let Some(entry) = stream.find(id) {
                write_entry(out, &entry);
                redelivered.push((id, delivery));
            } else {
                out.array(2);
                write_id(out, id);
                out.null_array();
            }
            len += 1;
        }
        out.set_len(array, len);
        let group = stream.group_mut(self.group).expect("the reader has a consumer of it");
        for (id, delivery) in redelivered {
            group.deliver(id, Delivery { at: self.now, count: delivery.count + 1, ..delivery });
            delivered.redelivered.push((id, delivery.count + 1));
        }
    }
}

/// The outer reply, written only if some stream has entries: key and entries of each, in RESP3 a map.
struct StreamsReply {
    header: Option<wire::reply::Deferred>,
    len: usize,
}

impl StreamsReply {
    fn new() -> Self {
        Self { header: None, len: 0 }
    }

    fn begin(&mut self, out: &mut ReplyBuffer<'_>, key: &[u8]) {
        if self.header.is_none() {
            self.header = Some(if out.is_resp3() { out.deferred_map() } else { out.deferred_array() });
        }
        if !out.is_resp3() {
            out.array(2);
        }
        out.bulk(key);
        self.len += 1;
    }

    /// Completes the reply. Returns whether there is one.
    fn finish(self, out: &mut ReplyBuffer<'_>) -> bool {
        match self.header {
            Some(header) => {
                out.set_len(header, self.len);
                true
            }
            None => false,
        }
    }
}

impl<'a> ReadOptions<'a> {
    fn parse(args: Args<'a>, name: &str, now: Millis) -> Result<Self, CommandError> {
        let for_group = name == "xreadgroup";
        let mut options =
            Self { streams_at: 0, stream_count: 0, count: None, timeout: None, group: None, no_ack: false };
        let mut at = 1;
        while let Some(word) = args.get(at) {
            let more = args.len() - at - 1;
            if word.eq_token("block") && more > 0 {
                let timeout = parse_i64_strict(args.at(at + 1)).ok_or(BAD_TIMEOUT)?;
                if timeout < 0 {
                    return Err(NEGATIVE_TIMEOUT);
                }
                now.0.checked_add(timeout).ok_or(LATE_TIMEOUT)?;
                options.timeout = Some((timeout > 0).then(|| Duration::from_millis(timeout.unsigned_abs())));
                at += 2;
            } else if word.eq_token("count") && more > 0 {
                options.count = Some(parse_count(args.at(at + 1))?).filter(|count| *count > 0);
                at += 2;
            } else if word.eq_token("streams") && more > 0 {
                if !more.is_multiple_of(2) {
                    let symbol = if for_group { '>' } else { '$' };
                    return Err(CommandError::owned(format!(
                        "ERR Unbalanced '{name}' list of streams: for each stream key an ID or '{symbol}' must be \
                         specified."
                    )));
                }
                options.streams_at = at + 1;
                options.stream_count = more / 2;
                return Ok(options);
            } else if word.eq_token("group") && more >= 2 {
                if !for_group {
                    return Err(GROUP_IN_XREAD);
                }
                options.group = Some((args.at(at + 1), args.at(at + 2)));
                at += 3;
            } else if word.eq_token("noack") {
                if !for_group {
                    return Err(NOACK_IN_XREAD);
                }
                options.no_ack = true;
                at += 1;
            } else {
                return Err(CommandError::SYNTAX);
            }
        }
        Err(CommandError::SYNTAX)
    }

    /// Returns the ID after which a stream is read.
    fn id(&self, args: Args<'a>, index: usize) -> &'a [u8] {
        args.at(self.id_at(index))
    }

    /// Returns the argument index of the ID after which a stream is read.
    fn id_at(&self, index: usize) -> usize {
        self.streams_at + self.stream_count + index
    }
}
