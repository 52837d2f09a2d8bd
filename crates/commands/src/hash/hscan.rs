//! `HSCAN`

use collections::{DecimalBuffer, Hash, Item, Kind};
use wire::request::Args;

use super::write_item;
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, ArgType, Doc, Group};
use crate::error::CommandError;
use crate::generic::scan_options::{ScanOptions, Subject, parse_cursor};
use crate::reply::{Replied, Reply};

/// `HSCAN key cursor [MATCH pattern] [COUNT count] [NOVALUES]`
pub const COMMAND: Command = Command {
    name: "hscan",
    arity: -3,
    flags: Flags::READONLY,
    categories: Categories::HASH,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO.union(KeyFlags::ACCESS))],
    tips: &["nondeterministic_output"],
    doc: Doc::new(Group::Hash, "2.8.0", "Iterates over the fields and values of a hash with a cursor.")
        .complexity("O(1) for a call, O(N) for a walk over all N fields.")
        .args(&[
            Arg::key("key", 0),
            Arg::integer("cursor"),
            Arg::new("pattern", ArgType::Pattern).token("MATCH").optional(),
            Arg::integer("count").token("COUNT").optional(),
            Arg::word("novalues", "NOVALUES").optional(),
        ]),
    subcommands: &[],
    run,
};

/// Maximum number of buckets visited per call, for each requested field.
const BUCKETS_PER_FIELD: usize = 10;

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let cursor = parse_cursor(args.at(2))?;
    let due = ctx.data.due();
    let mut out = reply.array(2);
    let Some(hash) = ctx.find::<Hash>(ctx.key(0))? else {
        out.bulk_int(0);
        out.array(0);
        return Ok(out.done());
    };
    let options = ScanOptions::parse(args.tail(3), Subject::Elements(Kind::Hash))?;
    // The cursor precedes the fields but is known only after them.
    let mut found: Vec<(Item<'_>, Item<'_>)> = Vec::new();
    let (mut seen_count, mut bucket_count) = (0, 0);
    let alloc = ctx.alloc_context(ctx.key(0));
    let mut next = Some(cursor & Hash::CURSOR_MAX);
    while let Some(from) = next {
        next = hash.scan(alloc, from, due, |field, value| {
            seen_count += 1;
            if keeps(&options, field) {
                found.push((field, value));
            }
        });
        bucket_count += 1;
        if seen_count >= options.count || bucket_count / BUCKETS_PER_FIELD >= options.count {
            break;
        }
    }
    out.bulk_int(next.unwrap_or(0) as i64);
    out.array(if options.names_only { found.len() } else { 2 * found.len() });
    for (field, value) in found {
        write_item(&mut out, field);
        if !options.names_only {
            write_item(&mut out, value);
        }
    }
    Ok(out.done())
}

fn keeps(options: &ScanOptions<'_>, field: Item<'_>) -> bool {
    options.matches(field.text(&mut DecimalBuffer::new()))
}
