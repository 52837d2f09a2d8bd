//! `SDIFF` and `SDIFFSTORE`

use collections::{AllocContext, Collection, DecimalBuffer, Item, Set, SoughtMember};
use wire::request::Args;

use super::combine::{find_sets, store};
use super::limits;
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `SDIFF key [key ...]`
pub const SDIFF: Command = Command {
    name: "sdiff",
    arity: -2,
    flags: Flags::READONLY,
    categories: Categories::SET,
    access: Access::Read,
    keys: &[KeySpec::range(1, -1, 1, KeyFlags::RO.union(KeyFlags::ACCESS))],
    tips: &["nondeterministic_output_order"],
    doc: Doc::new(Group::Set, "1.0.0", "Returns the difference between the first set and the other sets.")
        .complexity("O(N) where N is the number of members of all sets.")
        .args(&[Arg::key("key", 0).multiple()]),
    subcommands: &[],
    run: sdiff,
};

/// `SDIFFSTORE destination key [key ...]`
pub const SDIFFSTORE: Command = Command {
    name: "sdiffstore",
    arity: -3,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM).union(Flags::DENYOOM),
    categories: Categories::SET,
    access: Access::Write,
    keys: &[
        KeySpec::at(1, KeyFlags::OW.union(KeyFlags::UPDATE)),
        KeySpec::range(2, -1, 1, KeyFlags::RO.union(KeyFlags::ACCESS)),
    ],
    tips: &[],
    doc: Doc::new(
        Group::Set,
        "1.0.0",
        "Stores the difference between the first set and the other sets in a key.",
    )
    .complexity("O(N) where N is the number of members of all sets.")
    .args(&[Arg::key("destination", 0), Arg::key("key", 1).multiple()]),
    subcommands: &[],
    run: sdiffstore,
};

fn sdiff(ctx: &mut Ctx<'_>, _args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let sets = find_sets(ctx, 0)?;
    let mut out = reply.parts();
    let start = out.deferred_set();
    let (mut count, chunks) = (0, ctx.chunks(&out));
    subtract(ctx.alloc_context(ctx.key(0)), &sets, |member| {
        out.item(member);
        chunks.cut(&mut out);
        count += 1;
    });
    chunks.set_len(&mut out, start, count);
    Ok(out.done())
}

fn sdiffstore(ctx: &mut Ctx<'_>, _args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let (destination, limits) = (ctx.key(0), limits(ctx.config));
    let alloc = ctx.alloc_context(destination);
    ctx.expire_sources(1);
    let sets = find_sets(ctx, 1)?;
    let mut difference = Set::new();
    match sets.split_first() {
        // The encoding of the result depends on all members that it temporarily contained.
        Some((Some(first), others)) if removal_is_cheaper(first, others) => {
            for member in first.iter() {
                difference.add_item(alloc, member, limits);
            }
            let mut buffer = DecimalBuffer::new();
            for member in others.iter().copied().flatten().flat_map(Set::iter) {
                difference.remove(alloc, member.text(&mut buffer));
            }
        }
        _ => subtract(alloc, &sets, |member| {
            difference.add_item(alloc, member, limits);
        }),
    }
    Ok(store(ctx, destination, difference, "sdiffstore", reply))
}

/// Visits the members of the first set that are in no other set.
fn subtract(alloc: AllocContext<'_>, sets: &[Option<&Set>], mut visit: impl FnMut(Item<'_>)) {
    let Some((Some(first), all_others)) = sets.split_first() else { return };
    let mut others: Vec<&Set> = all_others.iter().copied().flatten().collect();
    if others.iter().any(|set| std::ptr::eq(*set, *first)) {
        return;
    }
    if removal_is_cheaper(first, all_others) {
        let mut rest = first.to_copy(alloc.heap);
        let mut buffer = DecimalBuffer::new();
        for member in others.iter().flat_map(|set| set.iter()) {
            rest.remove(alloc, member.text(&mut buffer));
        }
        rest.iter().for_each(visit);
        return;
    }
    // The largest set is the most likely to contain a member.
    others.sort_by_key(|set| std::cmp::Reverse(set.len()));
    let mut buffer = DecimalBuffer::new();
    for member in first.iter() {
        let mut wanted = SoughtMember::new(member, &mut buffer);
        if !others.iter().any(|set| set.has(alloc, &mut wanted)) {
            visit(member);
        }
    }
}

/// Whether to remove the members of the others from a copy of the first set. This is faster if the others are many
/// and small. Otherwise each member of the first set is looked up in the others; a lookup costs about half a
/// removal.
fn removal_is_cheaper(first: &Set, others: &[Option<&Set>]) -> bool {
    let others = || others.iter().copied().flatten();
    let lookup_count = first.len().saturating_mul(others().count() + 1) / 2;
    let removed_count = first.len() + others().map(Set::len).sum::<usize>();
    lookup_count > removed_count && !others().any(|set| std::ptr::eq(set, first))
}
