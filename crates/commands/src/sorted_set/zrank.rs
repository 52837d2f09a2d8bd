//! `ZRANK` and `ZREVRANK`

use collections::SortedSet;
use wire::request::Args;

use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};
use crate::word::Word;

/// `ZRANK key member [WITHSCORE]`
pub const ZRANK: Command = Command {
    name: "zrank",
    arity: -3,
    flags: Flags::READONLY.union(Flags::FAST),
    categories: Categories::SORTEDSET,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO.union(KeyFlags::ACCESS))],
    tips: &[],
    doc: Doc::new(Group::SortedSet, "2.0.0", "Returns the rank of a sorted set member by ascending score.")
        .complexity("O(log(N)) where N is the number of members.")
        .history(&[("7.2.0", "Added `WITHSCORE`.")])
        .args(&[Arg::key("key", 0), Arg::string("member"), Arg::word("withscore", "WITHSCORE").optional()]),
    subcommands: &[],
    run: |ctx, args, reply| rank(ctx, args, reply, |_, rank| rank),
};

/// `ZREVRANK key member [WITHSCORE]`
pub const ZREVRANK: Command = Command {
    name: "zrevrank",
    arity: -3,
    flags: Flags::READONLY.union(Flags::FAST),
    categories: Categories::SORTEDSET,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO.union(KeyFlags::ACCESS))],
    tips: &[],
    doc: Doc::new(Group::SortedSet, "2.0.0", "Returns the rank of a sorted set member by descending score.")
        .complexity("O(log(N)) where N is the number of members.")
        .history(&[("7.2.0", "Added `WITHSCORE`.")])
        .args(&[Arg::key("key", 0), Arg::string("member"), Arg::word("withscore", "WITHSCORE").optional()]),
    subcommands: &[],
    run: |ctx, args, reply| rank(ctx, args, reply, |len, rank| len - 1 - rank),
};

/// Replies with a rank. `count` converts the number of members and the ascending rank to the rank in the requested
/// direction.
fn rank(
    ctx: &mut Ctx<'_>,
    args: Args<'_>,
    reply: Reply<'_>,
    count: fn(usize, usize) -> usize,
) -> Result<Replied, CommandError> {
    let with_score = match args.get(3) {
        None => false,
        Some(_) if args.len() > 4 => return Err(CommandError::wrong_arity(ctx.command.name)),
        Some(word) if word.eq_token("withscore") => true,
        Some(_) => return Err(CommandError::SYNTAX),
    };
    let key = ctx.key(0);
    let set = ctx.find::<SortedSet>(key)?;
    let place = set.and_then(|set| Some((set.len(), set.rank(ctx.alloc_context(key), args.at(2))?)));
    let Some((len, (rank, score))) = place else {
        return Ok(if with_score { reply.null_array() } else { reply.null() });
    };
    let rank = count(len, rank) as i64;
    if !with_score {
        return Ok(reply.integer(rank));
    }
    let mut out = reply.array(2);
    out.integer(rank);
    out.double(score);
    Ok(out.done())
}
