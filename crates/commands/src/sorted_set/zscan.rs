//! `ZSCAN`

use collections::{Kind, SortedSet};
use wire::number::{write_f64, write_f64_general};
use wire::request::Args;

use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, ArgType, Doc, Group};
use crate::error::CommandError;
use crate::generic::scan_options::{ScanOptions, Subject, parse_cursor, position_of};
use crate::reply::{Replied, Reply};

/// `ZSCAN key cursor [MATCH pattern] [COUNT count] [NOSCORES]`
pub const COMMAND: Command = Command {
    name: "zscan",
    arity: -3,
    flags: Flags::READONLY,
    categories: Categories::SORTEDSET,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO.union(KeyFlags::ACCESS))],
    tips: &["nondeterministic_output"],
    doc: Doc::new(
        Group::SortedSet,
        "2.8.0",
        "Iterates over the members and scores of a sorted set with a cursor.",
    )
    .complexity("O(1) for a call, O(N) for a walk over all N members.")
    .history(&[("8.0.0", "Added `NOSCORES`.")])
    .args(&[
        Arg::key("key", 0),
        Arg::integer("cursor"),
        Arg::new("pattern", ArgType::Pattern).token("MATCH").optional(),
        Arg::integer("count").token("COUNT").optional(),
        Arg::word("noscores", "NOSCORES").optional(),
    ]),
    subcommands: &[],
    run,
};

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let cursor = parse_cursor(args.at(2))?;
    let set = ctx.find::<SortedSet>(ctx.key(0))?;
    let mut out = reply.array(2);
    let Some(set) = set else {
        out.bulk(b"0");
        out.array(0);
        return Ok(out.done());
    };
    let options = ScanOptions::parse(args.tail(3), Subject::Elements(Kind::SortedSet))?;
    let mut found: Vec<(&[u8], f64)> = Vec::new();
    let (mut seen_count, mut bucket_count) = (0, 0);
    let mut next = Some(position_of(cursor));
    while let Some(from) = next {
        next = set.scan(from, |member, score| {
            seen_count += 1;
            if options.matches(member) {
                found.push((member, score));
            }
        });
        bucket_count += 1;
        if seen_count >= options.count || bucket_count / BUCKETS_PER_MEMBER >= options.count {
            break;
        }
    }
    // The cursor precedes the members but is known only after them.
    out.bulk_int(next.map_or(0, i64::from));
    out.array(if options.names_only { found.len() } else { 2 * found.len() });
    // Redis prints scores in two formats here, depending on the encoding.
    let write_score = if set.encoding_name() == "listpack" { write_f64 } else { write_f64_general };
    let mut text = Vec::new();
    for (member, score) in found {
        out.bulk(member);
        if !options.names_only {
            text.clear();
            write_score(&mut text, score);
            out.bulk(&text);
        }
    }
    Ok(out.done())
}

/// Maximum number of buckets visited per call, for each requested member.
const BUCKETS_PER_MEMBER: usize = 10;
