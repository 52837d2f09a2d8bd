//! `LPOS`

use collections::{Item, List};
use wire::number::parse_i64_strict;
use wire::request::Args;

use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};
use crate::word::Word;

/// `LPOS key element [RANK rank] [COUNT num-matches] [MAXLEN len]`
pub const COMMAND: Command = Command {
    name: "lpos",
    arity: -3,
    flags: Flags::READONLY,
    categories: Categories::LIST,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO.union(KeyFlags::ACCESS))],
    tips: &[],
    doc: Doc::new(Group::List, "6.0.6", "Returns the indices of the list elements that equal a value.")
        .complexity("O(N) where N is the number of elements looked at.")
        .args(&[
            Arg::key("key", 0),
            Arg::string("element"),
            Arg::integer("rank").token("RANK").optional(),
            Arg::integer("num-matches").token("COUNT").optional(),
            Arg::integer("len").token("MAXLEN").optional(),
        ]),
    subcommands: &[],
    run,
};

const ZERO_RANK: CommandError = CommandError::new(
    "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from \
     the end of the list",
);
const BEYOND_RANGE: CommandError = CommandError::new(
    "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
);
const BAD_COUNT: CommandError = CommandError::new("ERR COUNT can't be negative");
const BAD_MAXLEN: CommandError = CommandError::new("ERR MAXLEN can't be negative");

struct PositionOptions {
    rank: i64,
    count: Option<u64>,
    len_max: u64,
}

impl PositionOptions {
    fn parse(args: Args<'_>) -> Result<Self, CommandError> {
        let mut options = Self { rank: 1, count: None, len_max: 0 };
        let mut index = 3;
        while let Some(word) = args.get(index) {
            let value = args.get(index + 1).ok_or(CommandError::SYNTAX)?;
            let number = parse_i64_strict(value);
            let not_negative = number.and_then(|number| u64::try_from(number).ok());
            if word.eq_token("rank") {
                options.rank = number.ok_or(CommandError::NOT_AN_INTEGER)?;
                match options.rank {
                    i64::MIN => return Err(BEYOND_RANGE),
                    0 => return Err(ZERO_RANK),
                    _ => {}
                }
            } else if word.eq_token("count") {
                options.count = Some(not_negative.ok_or(BAD_COUNT)?);
            } else if word.eq_token("maxlen") {
                options.len_max = not_negative.ok_or(BAD_MAXLEN)?;
            } else {
                return Err(CommandError::SYNTAX);
            }
            index += 2;
        }
        Ok(options)
    }
}

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let (key, element) = (ctx.key(0), args.at(2));
    let PositionOptions { rank, count, len_max } = PositionOptions::parse(args)?;
    let Some(list) = ctx.find::<List>(key)? else {
        return Ok(if count.is_some() { reply.array(0).done() } else { reply.null() });
    };
    let wanted = match count {
        None => 1,
        Some(0) => u64::MAX,
        Some(count) => count,
    };
    let mut matches_to_skip = rank.unsigned_abs() - 1;
    let mut comparisons_left = if len_max == 0 { u64::MAX } else { len_max };
    let mut found: Vec<usize> = Vec::new();
    let visit = |index: usize, item: Item<'_>| {
        comparisons_left -= 1;
        if item.is(element) {
            if matches_to_skip > 0 {
                matches_to_skip -= 1;
            } else {
                found.push(index);
            }
        }
        comparisons_left > 0 && (found.len() as u64) < wanted
    };
    if rank < 0 {
        list.walk_back(list.len() - 1, visit);
    } else {
        list.walk(0, visit);
    }
    if count.is_none() {
        return Ok(match found.first() {
            Some(index) => reply.integer(*index as i64),
            None => reply.null(),
        });
    }
    let mut out = reply.array(found.len());
    found.iter().for_each(|index| out.integer(*index as i64));
    Ok(out.done())
}
