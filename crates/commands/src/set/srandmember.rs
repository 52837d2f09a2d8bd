//! `SRANDMEMBER`

use std::collections::HashSet;

use collections::{Item, Sampled, Set};
use keyspace::Random;
use wire::number::parse_i64_strict;
use wire::request::Args;

use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `SRANDMEMBER key [count]`
pub const COMMAND: Command = Command {
    name: "srandmember",
    arity: -2,
    flags: Flags::READONLY,
    categories: Categories::SET,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO.union(KeyFlags::ACCESS))],
    tips: &["nondeterministic_output"],
    doc: Doc::new(Group::Set, "1.0.0", "Returns random members of a set.")
        .complexity("O(1) without a count, else O(N) where N is the absolute value of the count.")
        .history(&[("2.6.0", "Added the optional `count` argument.")])
        .args(&[Arg::key("key", 0), Arg::integer("count").optional().since("2.6.0")]),
    subcommands: &[],
    run,
};

const OUT_OF_RANGE: CommandError = CommandError::new(
    "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
);

/// If more than 1 / `DRAW_FACTOR` of the members are requested, one pass decides for each member. Otherwise members
/// are drawn until there are enough.
const DRAW_FACTOR: usize = 3;

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    if args.len() > 3 {
        return Err(CommandError::SYNTAX);
    }
    let count = args.get(2).map(parse_count).transpose()?;
    let random = ctx.data.random();
    let set = ctx.find::<Set>(ctx.key(0))?;
    let Some(count) = count else {
        let mut out = reply.parts();
        match set {
            Some(set) => out.item(set.sample(&mut || random.next_u64()).item),
            None => out.null(),
        }
        return Ok(out.done());
    };
    let Some(set) = set.filter(|_| count != 0) else { return Ok(reply.array(0).done()) };
    let Ok(wanted) = usize::try_from(count) else {
        let (size_max, mut out) = (ctx.repetition_size_max(), reply.parts());
        let (start, array, mut len) = (out.mark(), out.deferred_array(), 0);
        while len < count.unsigned_abs() as usize && out.written_since(start).len() as u64 <= size_max {
            out.item(set.sample(&mut || random.next_u64()).item);
            len += 1;
        }
        out.set_len(array, len);
        return Ok(out.done());
    };
    let wanted = wanted.min(set.len());
    let mut out = reply.array(wanted);
    each_of_distinct(set, wanted, random, |member| out.item(member));
    Ok(out.done())
}

fn parse_count(text: &[u8]) -> Result<i64, CommandError> {
    let count = parse_i64_strict(text).ok_or(CommandError::NOT_AN_INTEGER)?;
    if count == i64::MIN { Err(OUT_OF_RANGE) } else { Ok(count) }
}

/// Visits `count` distinct random members; `count` is at most the number of members.
fn each_of_distinct(set: &Set, count: usize, random: &Random, mut visit: impl FnMut(Item<'_>)) {
    if count.saturating_mul(DRAW_FACTOR) > set.len() {
        let (mut wanted, mut left) = (count, set.len());
        for member in set.iter() {
            if random.below(left as u64) < wanted as u64 {
                visit(member);
                wanted -= 1;
            }
            left -= 1;
        }
        return;
    }
    let (mut places, mut unplaced) = (HashSet::new(), HashSet::new());
    while places.len() + unplaced.len() < count {
        let Sampled { item, place } = set.sample(&mut || random.next_u64());
        let is_new = match (place, item) {
            (Some(place), _) => places.insert(place),
            (None, Item::Bytes(member)) => unplaced.insert(member),
            (None, Item::Int(_)) => unreachable!("integers have places"),
        };
        if is_new {
            visit(item);
        }
    }
}
