//! `SPOP`

use collections::{Collection, DecimalBuffer, Item, NewValue, OwnedEntry, Set};
use keyspace::{Key, Random};
use wire::number::parse_i64_strict;
use wire::request::Args;

use super::limits;
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EffectArg, EventClass};
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `SPOP key [count]`
pub const COMMAND: Command = Command {
    name: "spop",
    arity: -2,
    flags: Flags::WRITE.union(Flags::LOG_INSTEAD).union(Flags::FAST),
    categories: Categories::SET,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::DELETE))],
    tips: &["nondeterministic_output"],
    doc: Doc::new(Group::Set, "1.0.0", "Removes and returns random members of a set.")
        .complexity("O(1) without a count, else O(N) where N is the count.")
        .history(&[("3.2.0", "Added the `count` argument.")])
        .args(&[Arg::key("key", 0), Arg::integer("count").optional().since("3.2.0")]),
    subcommands: &[],
    run,
};

const NOT_POSITIVE: CommandError = CommandError::new("ERR value is out of range, must be positive");

/// If the number of remaining members times this factor is at most the number popped, the remaining members are
/// drawn instead of the popped ones.
const DRAW_REMAINDER_FACTOR: usize = 5;

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    if args.len() > 3 {
        return Err(CommandError::SYNTAX);
    }
    let key = ctx.key(0);
    // A separate generator, because the handler's is part of the data being changed.
    let random = Random::new(ctx.data.random().next_u64());
    if let Some(count) = args.get(2) {
        return pop_several(ctx, key, count, &random, reply);
    }
    let mut out = reply.parts();
    let mut removed = Removed::new(ctx.records_effects());
    let popped = ctx.edit(key, |set: &mut Set, alloc| {
        set.pop(alloc, &mut || random.next_u64(), |member| {
            removed.add(member);
            out.item(member);
        });
    })?;
    if popped.is_none() {
        out.null();
        return Ok(out.done());
    }
    ctx.changed(EventClass::Set, "spop", key);
    ctx.report_if_emptied(key);
    removed.record_effects(ctx, key);
    Ok(out.done())
}

fn pop_several(
    ctx: &mut Ctx<'_>,
    key: Key<'_>,
    count: &[u8],
    random: &Random,
    reply: Reply<'_>,
) -> Result<Replied, CommandError> {
    let count = parse_i64_strict(count).and_then(|count| usize::try_from(count).ok()).ok_or(NOT_POSITIVE)?;
    let mut out = reply.parts();
    let len = ctx.find_for_write::<Set>(key)?.map_or(0, Set::len);
    let count = count.min(len);
    out.set(count);
    if count == 0 {
        return Ok(out.done());
    }
    if count == len {
        // As in Redis, which reads the whole set in this case, and only in this one counts a hit.
        let _ = ctx.data.find(key);
    }
    let limits = limits(ctx.config);
    // If all members are popped, the deletion of the key is logged instead.
    let mut removed = Removed::new(ctx.records_effects() && count < len);
    let mut next = || random.next_u64();
    let rest = ctx.edit(key, |set: &mut Set, alloc| {
        let remaining = len - count;
        if remaining * DRAW_REMAINDER_FACTOR > count {
            for _ in 0..count {
                set.pop(alloc, &mut next, |member| {
                    removed.add(member);
                    out.item(member);
                });
            }
            return Set::new();
        }
        let mut kept = if set.is_intset() { Set::new() } else { Set::new_listpack() };
        for _ in 0..remaining {
            set.pop(alloc, &mut next, |member| {
                kept.add_item(alloc, member, limits);
            });
        }
        set.iter().for_each(|member| {
            removed.add(member);
            out.item(member);
        });
        std::mem::replace(set, kept)
    })?;
    if let Some(rest) = rest.filter(Set::is_costly_to_drop) {
        let rest = NewValue::Object(Box::new(rest.into_object()));
        let heap = ctx.alloc_context(key).heap;
        ctx.data.discard(OwnedEntry::new(heap, key.bytes, rest, None));
    }
    ctx.changed(EventClass::Set, "spop", key);
    ctx.report.dirty += count as u64 - 1;
    ctx.report_if_emptied(key);
    if count == len {
        ctx.record_deletion(key);
    } else {
        removed.record_effects(ctx, key);
    }
    Ok(out.done())
}

/// The members that were popped at random, for the log.
struct Removed {
    is_on: bool,
    members: Vec<Vec<u8>>,
}

/// Members removed by one logged request.
const LOGGED_MEMBER_COUNT_MAX: usize = 1024;

impl Removed {
    fn new(is_on: bool) -> Self {
        Self { is_on, members: Vec::new() }
    }

    fn add(&mut self, member: Item<'_>) {
        if self.is_on {
            self.members.push(member.text(&mut DecimalBuffer::new()).to_vec());
        }
    }

    fn record_effects(self, ctx: &mut Ctx<'_>, key: Key<'_>) {
        for members in self.members.chunks(LOGGED_MEMBER_COUNT_MAX) {
            let command = [EffectArg::from("SREM"), key.bytes.into()];
            let members = members.iter().map(|member| EffectArg::from(&member[..]));
            ctx.record_effect(&command.into_iter().chain(members).collect::<Vec<_>>());
        }
    }
}
