//! `SUNION` and `SUNIONSTORE`

use collections::{Collection, DecimalBuffer, Set, SoughtMember};
use wire::request::Args;

use super::combine::{find_sets, store};
use super::limits;
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `SUNION key [key ...]`
pub const SUNION: Command = Command {
    name: "sunion",
    arity: -2,
    flags: Flags::READONLY,
    categories: Categories::SET,
    access: Access::Read,
    keys: &[KeySpec::range(1, -1, 1, KeyFlags::RO.union(KeyFlags::ACCESS))],
    tips: &["nondeterministic_output_order"],
    doc: Doc::new(Group::Set, "1.0.0", "Returns the union of sets.")
        .complexity("O(N) where N is the number of members of all sets.")
        .args(&[Arg::key("key", 0).multiple()]),
    subcommands: &[],
    run: sunion,
};

/// `SUNIONSTORE destination key [key ...]`
pub const SUNIONSTORE: Command = Command {
    name: "sunionstore",
    arity: -3,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM).union(Flags::DENYOOM),
    categories: Categories::SET,
    access: Access::Write,
    keys: &[
        KeySpec::at(1, KeyFlags::OW.union(KeyFlags::UPDATE)),
        KeySpec::range(2, -1, 1, KeyFlags::RO.union(KeyFlags::ACCESS)),
    ],
    tips: &[],
    doc: Doc::new(Group::Set, "1.0.0", "Stores the union of sets in a key.")
        .complexity("O(N) where N is the number of members of all sets.")
        .args(&[Arg::key("destination", 0), Arg::key("key", 1).multiple()]),
    subcommands: &[],
    run: sunionstore,
};

/// For up to this many sets, each member is looked up in the previous sets. For more, the union is built.
const LOOKUP_SET_COUNT_MAX: usize = 4;

fn sunion(ctx: &mut Ctx<'_>, _args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let alloc = ctx.alloc_context(ctx.key(0));
    let mut sets: Vec<&Set> = find_sets(ctx, 0)?.into_iter().flatten().collect();
    let mut out = reply.parts();
    let all_integers = sets.iter().all(|set| set.is_intset());
    if sets.len() > LOOKUP_SET_COUNT_MAX || all_integers {
        let mut union = if all_integers { Set::new() } else { Set::new_hashtable() };
        let limits = limits(ctx.config);
        for member in sets.iter().flat_map(|set| set.iter()) {
            union.add_item(alloc, member, limits);
        }
        out.set(union.len());
        let chunks = ctx.chunks(&out);
        union.iter().for_each(|member| {
            out.item(member);
            chunks.cut(&mut out);
        });
        return Ok(out.done());
    }
    sets.sort_by_key(|set| std::cmp::Reverse(set.len()));
    let start = out.deferred_set();
    let (mut count, chunks) = (0, ctx.chunks(&out));
    let mut buffer = DecimalBuffer::new();
    for (index, set) in sets.iter().enumerate() {
        for member in set.iter() {
            let mut wanted = SoughtMember::new(member, &mut buffer);
            if !sets[..index].iter().any(|earlier| earlier.has(alloc, &mut wanted)) {
                out.item(member);
                chunks.cut(&mut out);
                count += 1;
            }
        }
    }
    chunks.set_len(&mut out, start, count);
    Ok(out.done())
}

fn sunionstore(ctx: &mut Ctx<'_>, _args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let (destination, limits) = (ctx.key(0), limits(ctx.config));
    let alloc = ctx.alloc_context(destination);
    ctx.expire_sources(1);
    let mut union = Set::new();
    for member in find_sets(ctx, 1)?.into_iter().flatten().flat_map(Set::iter) {
        union.add_item(alloc, member, limits);
    }
    Ok(store(ctx, destination, union, "sunionstore", reply))
}
