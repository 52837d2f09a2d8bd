//! `XCLAIM`

use collections::stream::{Delivery, Stream, StreamId};
use wire::request::Args;

use super::entries::{write_entry, write_id};
use super::ids::parse_id;
use super::logged::{log_acknowledged, log_deliveries, log_new_consumer, log_position};
use super::{no_group, parse_min_idle};
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, ArgType, Doc, Group};
use crate::error::{CommandError, up_to_nul};
use crate::reply::{Replied, Reply};
use crate::word::Word;
use wire::number::parse_i64_strict;

/// `XCLAIM key group consumer min-idle-time id ... [IDLE ms] [TIME ms] [RETRYCOUNT count] [FORCE] [JUSTID] [LASTID id]`
pub const COMMAND: Command = Command {
    name: "xclaim",
    arity: -6,
    flags: Flags::WRITE.union(Flags::LOG_INSTEAD).union(Flags::FAST),
    categories: Categories::STREAM,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::RW.union(KeyFlags::UPDATE))],
    tips: &["nondeterministic_output"],
    doc: Doc::new(Group::Stream, "5.0.0", "Transfers pending entries of a consumer group to a consumer.")
        .complexity("O(log N) for each id, N being the number of pending entries of the group.")
        .args(&[
            Arg::key("key", 0),
            Arg::string("group"),
            Arg::string("consumer"),
            Arg::string("min-idle-time"),
            Arg::string("id").multiple(),
            Arg::integer("ms").token("IDLE").optional(),
            Arg::new("unix-time-milliseconds", ArgType::UnixTime).token("TIME").optional(),
            Arg::integer("count").token("RETRYCOUNT").optional(),
            Arg::word("force", "FORCE").optional(),
            Arg::word("justid", "JUSTID").optional(),
            Arg::string("lastid").token("LASTID").optional(),
        ]),
    subcommands: &[],
    run,
};

const BAD_MIN_IDLE: CommandError = CommandError::new("ERR Invalid min-idle-time argument for XCLAIM");
const BAD_IDLE: CommandError = CommandError::new("ERR Invalid IDLE option argument for XCLAIM");
const BAD_TIME: CommandError = CommandError::new("ERR Invalid TIME option argument for XCLAIM");
const BAD_RETRY_COUNT: CommandError = CommandError::new("ERR Invalid RETRYCOUNT option argument for XCLAIM");

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let (key, group, name) = (ctx.key(0), args.at(2), args.at(3));
    if ctx.find::<Stream>(key)?.and_then(|stream| stream.group(group)).is_none() {
        return Err(no_group(args.at(1), group, ""));
    }
    let now = ctx.now().0;
    let claim = Claim::parse(args, now)?;
    let mut out = reply.parts();
    let array = out.deferred_array();
    let mut claimed = 0;
    let mut dirty = 0;
    // For the log: the claimed entries with their counts, and the deleted entries that were pending.
    let (logs, mut deliveries, mut deleted) = (ctx.records_effects(), Vec::new(), Vec::new());
    let mut last_id_changed = false;
    let made_consumer = ctx.edit(key, |stream: &mut Stream, _| {
        let found = stream.group_mut(group).expect("looked up just now");
        let changes_last_id = claim.last_id > found.last_id;
        found.last_id = found.last_id.max(claim.last_id);
        let before = found.find_consumer(name);
        let consumer = before.unwrap_or_else(|| found.add_consumer(name, now));
        found.consumer_mut(consumer).seen_at = now;
        for id in &claim.ids {
            let exists = stream.find(*id).is_some();
            let found = stream.group_mut(group).expect("looked up just now");
            let pending = found.delivery(*id);
            if !exists {
                if found.acknowledge(*id) {
                    dirty += 1;
                    deleted.push(*id);
                }
                continue;
            }
            let is_due = pending.is_none_or(|of| claim.min_idle == 0 || now - of.at >= claim.min_idle);
            if !is_due || (pending.is_none() && !claim.force) {
                continue;
            }
            let count = match (claim.retry_count, pending) {
                (Some(count), _) => count,
                (None, Some(of)) => of.count + u64::from(!claim.just_id),
                // A pending entry that `FORCE` creates starts with one delivery, before this one.
                (None, None) => 1 + u64::from(!claim.just_id),
            };
            found.deliver(*id, Delivery { consumer, at: claim.delivered_at, count });
            found.consumer_mut(consumer).active_at = Some(now);
            if claim.just_id {
                write_id(&mut out, *id);
            } else {
                write_entry(&mut out, &stream.find(*id).expect("looked up just now"));
            }
            if logs {
                deliveries.push((*id, count));
            }
            claimed += 1;
            dirty += 1;
        }
        last_id_changed = changes_last_id;
        dirty += u64::from(dirty == 0 && changes_last_id) + u64::from(before.is_none());
        before.is_none()
    })?;
    if made_consumer == Some(true) {
        ctx.announce(EventClass::Stream, "xgroup-createconsumer", key);
    }
    ctx.report.dirty += dirty;
    if logs {
        if made_consumer == Some(true) {
            log_new_consumer(ctx, key, group, name);
        }
        let group_last = ctx.peek::<Stream>(key).and_then(|stream| stream.group(group));
        let last_id = group_last.map_or(StreamId::MIN, |group| group.last_id);
        for (id, count) in deliveries {
            log_deliveries(ctx, key, (group, name), &[id], (claim.delivered_at, count), last_id);
        }
        if !deleted.is_empty() {
            log_acknowledged(ctx, key, group, &deleted);
        }
        if last_id_changed {
            log_position(ctx, key, group);
        }
    }
    out.set_len(array, claimed);
    Ok(out.done())
}

/// Parsed options.
struct Claim {
    min_idle: i64,
    ids: Vec<StreamId>,
    delivered_at: i64,
    retry_count: Option<u64>,
    force: bool,
    just_id: bool,
    last_id: StreamId,
}

impl Claim {
    fn parse(args: Args<'_>, now: i64) -> Result<Self, CommandError> {
        let min_idle = parse_min_idle(args.at(4), BAD_MIN_IDLE)?;
        let ids: Vec<StreamId> = args.tail(5).iter().map_while(|text| parse_id(text, 0).ok()).collect();
        let mut options = args.tail(5 + ids.len()).iter();
        let mut claim = Self {
            min_idle,
            ids,
            delivered_at: now,
            retry_count: None,
            force: false,
            just_id: false,
            last_id: StreamId::MIN,
        };
        while let Some(word) = options.next() {
            let unknown = || CommandError::quote("ERR Unrecognized XCLAIM option '", up_to_nul(word), "'");
            if word.eq_token("force") {
                claim.force = true;
            } else if word.eq_token("justid") {
                claim.just_id = true;
            } else if word.eq_token("idle") {
                let idle = parse_i64_strict(options.next().ok_or_else(unknown)?).ok_or(BAD_IDLE)?;
                claim.delivered_at = now.wrapping_sub(idle);
            } else if word.eq_token("time") {
                claim.delivered_at = parse_i64_strict(options.next().ok_or_else(unknown)?).ok_or(BAD_TIME)?;
            } else if word.eq_token("retrycount") {
                let count = parse_i64_strict(options.next().ok_or_else(unknown)?).ok_or(BAD_RETRY_COUNT)?;
                claim.retry_count = u64::try_from(count).ok();
            } else if word.eq_token("lastid") {
                claim.last_id = parse_id(options.next().ok_or_else(unknown)?, 0)?;
            } else {
                return Err(unknown());
            }
        }
        if !(0..=now).contains(&claim.delivered_at) {
            claim.delivered_at = now;
        }
        Ok(claim)
    }
}
