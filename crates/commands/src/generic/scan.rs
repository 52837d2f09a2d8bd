//! `SCAN`

use std::cell::Cell;

use collections::Entry;
use keyspace::{DatabaseWalk, Liveness, ScanPosition};
use wire::reply::ReplyBuffer;
use wire::request::Args;

use super::scan_options::{ScanOptions, Subject, parse_cursor};
use crate::command::{Access, Categories, Command, Flags};
use crate::context::Ctx;
use crate::doc::{Arg, ArgType, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]`
pub const COMMAND: Command = Command {
    name: "scan",
    arity: -2,
    flags: Flags::READONLY,
    categories: Categories::KEYSPACE,
    access: Access::None,
    keys: &[],
    tips: &["nondeterministic_output", "request_policy:special", "response_policy:special"],
    doc: Doc::new(Group::Generic, "2.8.0", "Iterates over the keys of the selected database with a cursor.")
        .complexity("O(1) for a call, O(N) for a walk over all N keys.")
        .history(&[("6.0.0", "Added `TYPE`.")])
        .args(&[
            Arg::integer("cursor"),
            Arg::new("pattern", ArgType::Pattern).token("MATCH").optional(),
            Arg::integer("count").token("COUNT").optional(),
            Arg::string("type").token("TYPE").since("6.0.0").optional(),
        ]),
    subcommands: &[],
    run,
};

/// Maximum number of buckets visited per call, for each requested key.
const BUCKETS_PER_KEY: usize = 10;

/// Expected bytes of keys in a reply: the initial capacity of the buffer.
const KEYS_SIZE_EXPECTED: usize = 512;

/// The keys found, in reply format.
struct Found<'a> {
    count: usize,
    keys: ReplyBuffer<'a>,
}

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let cursor = parse_cursor(args.at(1))?;
    let options = ScanOptions::parse(args.tail(2), Subject::Keys)?;
    let mut out = reply.array(2);
    // The cursor precedes the keys but is known only after them: the keys are written to a separate buffer
    // first.
    let mut keys = Vec::with_capacity(KEYS_SIZE_EXPECTED);
    let mut found = Found { count: 0, keys: ReplyBuffer::new(&mut keys, out.protocol()) };
    let next = ScanPosition::from_cursor(cursor).and_then(|from| scan(ctx, from, &options, &mut found));
    out.bulk_int(next.map_or(0, |next| next.cursor() as i64));
    out.array(found.count);
    out.raw(&keys);
    Ok(out.done())
}

fn scan(
    ctx: &mut Ctx<'_>,
    from: ScanPosition,
    options: &ScanOptions<'_>,
    found: &mut Found<'_>,
) -> Option<ScanPosition> {
    let db = ctx.session.db;
    let mut expired: Vec<Box<[u8]>> = Vec::new();
    let seen_count = Cell::new(0);
    let mut bucket_count: usize = 0;
    let visit = |entry: Entry<'_>, life: Liveness| {
        seen_count.set(seen_count.get() + usize::from(life == Liveness::Live));
        if options.kind.is_none_or(|kind| kind == entry.kind()) && options.matches(entry.key()) {
            if life == Liveness::Live {
                found.keys.bulk(entry.key());
                found.count += 1;
            } else {
                expired.push(entry.key().into());
            }
        }
    };
    let enough = || {
        bucket_count += 1;
        seen_count.get() >= options.count || bucket_count / BUCKETS_PER_KEY >= options.count
    };
    let next = DatabaseWalk::new(ctx.data, db).scan(from, visit, enough);
    expired.into_iter().for_each(|key| ctx.data.note_expired(&key, db));
    next
}
