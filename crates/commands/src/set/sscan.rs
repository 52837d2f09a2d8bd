//! `SSCAN`

use collections::{DecimalBuffer, Item, Kind, Set};
use wire::request::Args;

use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, ArgType, Doc, Group};
use crate::error::CommandError;
use crate::generic::scan_options::{ScanOptions, Subject, parse_cursor};
use crate::reply::{Replied, Reply};

/// `SSCAN key cursor [MATCH pattern] [COUNT count]`
pub const COMMAND: Command = Command {
    name: "sscan",
    arity: -3,
    flags: Flags::READONLY,
    categories: Categories::SET,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO.union(KeyFlags::ACCESS))],
    tips: &["nondeterministic_output"],
    doc: Doc::new(Group::Set, "2.8.0", "Iterates over the members of a set with a cursor.")
        .complexity("O(1) for a call, O(N) for a walk over all N members.")
        .args(&[
            Arg::key("key", 0),
            Arg::integer("cursor"),
            Arg::new("pattern", ArgType::Pattern).token("MATCH").optional(),
            Arg::integer("count").token("COUNT").optional(),
        ]),
    subcommands: &[],
    run,
};

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let cursor = parse_cursor(args.at(2))?;
    let key = ctx.key(0);
    let set = ctx.find::<Set>(key)?;
    let mut out = reply.array(2);
    let Some(set) = set else {
        out.bulk(b"0");
        out.array(0);
        return Ok(out.done());
    };
    let options = ScanOptions::parse(args.tail(3), Subject::Elements(Kind::Set))?;
    let mut found: Vec<Item<'_>> = Vec::new();
    let mut seen_count = 0;
    let mut position = cursor & Set::CURSOR_MAX;
    let next = loop {
        let next = set.scan(ctx.alloc_context(key), position, |member| {
            seen_count += 1;
            if options.matches(member.text(&mut DecimalBuffer::new())) {
                found.push(member);
            }
        });
        match next {
            Some(next) if seen_count < options.count => position = next,
            _ => break next,
        }
    };
    // The cursor precedes the members but is known only after them.
    out.bulk_int(next.unwrap_or(0) as i64);
    out.array(found.len());
    found.iter().for_each(|member| out.item(*member));
    Ok(out.done())
}
