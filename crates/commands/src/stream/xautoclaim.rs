//! `XAUTOCLAIM`

use collections::stream::{Delivery, Stream, StreamId};
use wire::number::parse_i64_strict;
use wire::request::Args;

use super::entries::{write_entry, write_id};
use super::ids::parse_start;
use super::logged::{log_acknowledged, log_deliveries, log_new_consumer};
use super::{no_group, parse_min_idle};
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};
use crate::word::Word;

/// `XAUTOCLAIM key group consumer min-idle-time start [COUNT count] [JUSTID]`
pub const COMMAND: Command = Command {
    name: "xautoclaim",
    arity: -6,
    flags: Flags::WRITE.union(Flags::LOG_INSTEAD).union(Flags::FAST),
    categories: Categories::STREAM,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::RW.union(KeyFlags::DELETE))],
    tips: &["nondeterministic_output"],
    doc: Doc::new(
        Group::Stream,
        "6.2.0",
        "Transfers entries that are pending longer than a minimum idle time to a consumer.",
    )
    .complexity("O(1) if COUNT is small.")
    .history(&[("7.0.0", "Returns the IDs of entries that are no longer in the stream.")])
    .args(&[
        Arg::key("key", 0),
        Arg::string("group"),
        Arg::string("consumer"),
        Arg::string("min-idle-time"),
        Arg::string("start"),
        Arg::integer("count").token("COUNT").optional(),
        Arg::word("justid", "JUSTID").optional(),
    ]),
    subcommands: &[],
    run,
};

const BAD_MIN_IDLE: CommandError = CommandError::new("ERR Invalid min-idle-time argument for XAUTOCLAIM");
const BAD_COUNT: CommandError = CommandError::new("ERR COUNT must be > 0");

/// Default of `COUNT`.
const COUNT_DEFAULT: i64 = 100;
/// Maximum number of pending entries visited, for each entry to be claimed.
const ATTEMPTS_FACTOR: i64 = 10;
/// Maximum of `COUNT`: the number of IDs for which Redis could still allocate memory.
const COUNT_MAX: i64 = i64::MAX / 16;

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let (key, name, now) = (ctx.key(0), args.at(3), ctx.now().0);
    // A miss counts even if the request is invalid, as in Redis.
    let stream = ctx.find::<Stream>(key);
    let claim = Claim::parse(args)?;
    if stream?.and_then(|stream| stream.group(args.at(2))).is_none() {
        return Err(no_group(args.at(1), args.at(2), ""));
    }
    let stream = ctx.peek::<Stream>(key).expect("found just now");
    let group = stream.group(args.at(2)).expect("found just now");
    let mut scanned = group.pending_from(claim.start);
    let mut left = claim.count;
    let mut attempts_left = claim.count.saturating_mul(ATTEMPTS_FACTOR);
    let (mut due, mut deleted) = (Vec::new(), Vec::new());
    while attempts_left > 0 && left > 0 {
        let Some((id, delivery)) = scanned.next() else { break };
        attempts_left -= 1;
        if stream.find(id).is_none() {
            deleted.push(id);
        } else if claim.min_idle > 0 && now - delivery.at < claim.min_idle {
            continue;
        } else {
            due.push((id, delivery.count));
        }
        left -= 1;
    }
    let next = scanned.next().map_or(StreamId::MIN, |(id, _)| id);
    drop(scanned);
    let made_consumer = ctx.edit(key, |stream: &mut Stream, _| {
        let group = stream.group_mut(args.at(2)).expect("found just now");
        let before = group.find_consumer(name);
        let consumer = before.unwrap_or_else(|| group.add_consumer(name, now));
        group.consumer_mut(consumer).seen_at = now;
        deleted.iter().for_each(|id| {
            group.acknowledge(*id);
        });
        for (id, count) in &due {
            let count = count + u64::from(!claim.just_id);
            group.deliver(*id, Delivery { consumer, at: now, count });
            group.consumer_mut(consumer).active_at = Some(now);
        }
        before.is_none()
    })?;
    ctx.report.dirty += (due.len() + deleted.len()) as u64;
    if made_consumer == Some(true) {
        ctx.report.dirty += 1;
        ctx.announce(EventClass::Stream, "xgroup-createconsumer", key);
    }
    if ctx.records_effects() {
        log_claims(ctx, args, now, made_consumer == Some(true), claim.just_id, (&due, &deleted));
    }
    let mut out = reply.array(3);
    write_id(&mut out, next);
    out.array(due.len());
    let stream = ctx.peek::<Stream>(key).expect("found just now");
    for (id, _) in due {
        match stream.find(id) {
            Some(entry) if !claim.just_id => write_entry(&mut out, &entry),
            _ => write_id(&mut out, id),
        }
    }
    out.array(deleted.len());
    deleted.into_iter().for_each(|id| write_id(&mut out, id));
    Ok(out.done())
}

/// Records the claims, and the acknowledgement of deleted entries.
fn log_claims(
    ctx: &mut Ctx<'_>,
    args: Args<'_>,
    now: i64,
    made_consumer: bool,
    just_id: bool,
    (due, deleted): (&[(StreamId, u64)], &[StreamId]),
) {
    let (key, group, consumer) = (ctx.key(0), args.at(2), args.at(3));
    if made_consumer {
        log_new_consumer(ctx, key, group, consumer);
    }
    let found = ctx.peek::<Stream>(key).and_then(|stream| stream.group(group));
    let last_id = found.map_or(StreamId::MIN, |group| group.last_id);
    for (id, count) in due {
        let count = count + u64::from(!just_id);
        log_deliveries(ctx, key, (group, consumer), &[*id], (now, count), last_id);
    }
    if !deleted.is_empty() {
        log_acknowledged(ctx, key, group, deleted);
    }
}

struct Claim {
    min_idle: i64,
    start: StreamId,
    count: i64,
    just_id: bool,
}

impl Claim {
    fn parse(args: Args<'_>) -> Result<Self, CommandError> {
        let min_idle = parse_min_idle(args.at(4), BAD_MIN_IDLE)?;
        let mut claim =
            Self { min_idle, start: parse_start(args.at(5))?, count: COUNT_DEFAULT, just_id: false };
        let mut options = args.tail(6).iter();
        while let Some(word) = options.next() {
            if word.eq_token("justid") {
                claim.just_id = true;
                continue;
            }
            let operand = options.next().filter(|_| word.eq_token("count"));
            let count = parse_i64_strict(operand.ok_or(CommandError::SYNTAX)?);
            claim.count = count.filter(|count| (1..=COUNT_MAX).contains(count)).ok_or(BAD_COUNT)?;
        }
        Ok(claim)
    }
}
