//! `ZRANDMEMBER`

use std::collections::HashSet;

use collections::SortedSet;
use wire::number::parse_i64_strict;
use wire::request::Args;

use super::replies::{write_element, write_elements, write_header};
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};
use crate::word::Word;

/// `ZRANDMEMBER key [count [WITHSCORES]]`
pub const COMMAND: Command = Command {
    name: "zrandmember",
    arity: -2,
    flags: Flags::READONLY,
    categories: Categories::SORTEDSET,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO.union(KeyFlags::ACCESS))],
    tips: &["nondeterministic_output"],
    doc: Doc::new(Group::SortedSet, "6.2.0", "Returns random members of a sorted set.")
        .complexity("O(N) where N is the number of members returned.")
        .args(&[
            Arg::key("key", 0),
            Arg::block("options", &[Arg::integer("count"), Arg::word("withscores", "WITHSCORES").optional()])
                .optional(),
        ]),
    subcommands: &[],
    run,
};

const COUNT_OUT_OF_RANGE: CommandError = CommandError::new(
    "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
);

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let key = ctx.key(0);
    let Some(text) = args.get(2) else {
        let Some(set) = ctx.find::<SortedSet>(key)? else { return Ok(reply.null()) };
        let rank = ctx.data.random().below(set.len() as u64);
        return Ok(reply.bulk(set.at(rank as usize).0));
    };
    let count = parse_i64_strict(text).ok_or(CommandError::NOT_AN_INTEGER)?;
    if count == i64::MIN {
        return Err(COUNT_OUT_OF_RANGE);
    }
    let with_scores = args.get(3).is_some();
    if args.len() > 4 || args.get(3).is_some_and(|word| !word.eq_token("withscores")) {
        return Err(CommandError::SYNTAX);
    }
    if with_scores && count.unsigned_abs() > i64::MAX as u64 / 2 {
        return Err(CommandError::OUT_OF_RANGE);
    }
    let Some(set) = ctx.find::<SortedSet>(key)? else { return Ok(reply.array(0).done()) };
    let mut out = reply.parts();
    let random = |bound: usize| ctx.data.random().below(bound as u64) as usize;
    let len = set.len();
    let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    if count < 0 {
        let size_max = ctx.repetition_size_max();
        let (start, array, mut drawn) = (out.mark(), out.deferred_array(), 0);
        while drawn < wanted && out.written_since(start).len() as u64 <= size_max {
            let (member, score) = set.at(random(len));
            write_element(&mut out, member, score, with_scores);
            drawn += 1;
        }
        let each = if with_scores && !out.is_resp3() { 2 } else { 1 };
        out.set_len(array, drawn * each);
    } else if wanted >= len {
        write_elements(&mut out, set.iter(), with_scores, &ctx.report.shared_replies);
    } else if wanted * DRAW_FACTOR > len {
        // Selection sampling: each element is chosen with probability wanted / left.
        write_header(&mut out, wanted, with_scores);
        let mut missing = wanted;
        for (index, (member, score)) in set.iter().enumerate() {
            if random(len - index) < missing {
                missing -= 1;
                write_element(&mut out, member, score, with_scores);
            }
        }
    } else {
        write_header(&mut out, wanted, with_scores);
        let mut taken = HashSet::with_capacity(wanted);
        while taken.len() < wanted {
            let rank = random(len);
            if taken.insert(rank) {
                let (member, score) = set.at(rank);
                write_element(&mut out, member, score, with_scores);
            }
        }
    }
    Ok(out.done())
}

/// If more than 1 / `DRAW_FACTOR` of the elements are requested, one pass decides for each element. Otherwise
/// elements are drawn until there are enough.
const DRAW_FACTOR: usize = 3;
