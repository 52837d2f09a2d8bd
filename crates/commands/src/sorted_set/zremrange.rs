//! `ZREMRANGEBYRANK`, `ZREMRANGEBYSCORE` and `ZREMRANGEBYLEX`

use collections::SortedSet;
use wire::request::Args;

use super::logged::{has_several_scores, log_removed};
use super::range::{By, Range};
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, ArgType, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `ZREMRANGEBYRANK key start stop`
pub const ZREMRANGEBYRANK: Command = Command {
    name: "zremrangebyrank",
    arity: 4,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM),
    categories: Categories::SORTEDSET,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::RW.union(KeyFlags::DELETE))],
    tips: &[],
    doc: Doc::new(Group::SortedSet, "2.0.0", "Removes the sorted set members in a range of ranks.")
        .complexity("O(log(N)+M) for M removed members of N.")
        .args(&[Arg::key("key", 0), Arg::integer("start"), Arg::integer("stop")]),
    subcommands: &[],
    run: |ctx, args, reply| remove(ctx, args, reply, By::Rank),
};

/// `ZREMRANGEBYSCORE key min max`
pub const ZREMRANGEBYSCORE: Command = Command {
    name: "zremrangebyscore",
    arity: 4,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM),
    categories: Categories::SORTEDSET,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::RW.union(KeyFlags::DELETE))],
    tips: &[],
    doc: Doc::new(Group::SortedSet, "1.2.0", "Removes the sorted set members in a range of scores.")
        .complexity("O(log(N)+M) for M removed members of N.")
        .args(&[Arg::key("key", 0), Arg::new("min", ArgType::Double), Arg::new("max", ArgType::Double)]),
    subcommands: &[],
    run: |ctx, args, reply| remove(ctx, args, reply, By::Score),
};

/// `ZREMRANGEBYLEX key min max`
pub const ZREMRANGEBYLEX: Command = Command {
    name: "zremrangebylex",
    arity: 4,
    flags: Flags::WRITE.union(Flags::LOG_VERBATIM),
    categories: Categories::SORTEDSET,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::RW.union(KeyFlags::DELETE))],
    tips: &[],
    doc: Doc::new(Group::SortedSet, "2.8.9", "Removes the sorted set members in a lexicographical range.")
        .complexity("O(log(N)+M) for M removed members of N.")
        .args(&[Arg::key("key", 0), Arg::string("min"), Arg::string("max")]),
    subcommands: &[],
    run: |ctx, args, reply| remove(ctx, args, reply, By::Lex),
};

fn remove(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>, by: By) -> Result<Replied, CommandError> {
    let range = Range::parse(by, args.at(2), args.at(3))?;
    let key = ctx.key(0);
    let logs_by_name = ctx.records_effects() && by == By::Lex;
    let mut names: Vec<Vec<u8>> = Vec::new();
    let removed = ctx.edit(key, |set: &mut SortedSet, alloc| {
        let ranks = range.ranks(set, false);
        if logs_by_name && has_several_scores(set) {
            names.extend(set.range(ranks.start, ranks.len()).map(|(member, _)| member.to_vec()));
        }
        set.remove_ranks(alloc, ranks.start, ranks.len());
        ranks.len()
    })?;
    let count = removed.unwrap_or(0);
    if count > 0 {
        let event = match by {
            By::Rank => "zremrangebyrank",
            By::Score => "zremrangebyscore",
            By::Lex => "zremrangebylex",
        };
        ctx.changed(EventClass::SortedSet, event, key);
        ctx.report.dirty += count as u64 - 1;
        log_removed(ctx, key, &names);
        ctx.report_if_emptied(key);
    }
    Ok(reply.integer(count as i64))
}
