//! `HGETALL`, `HKEYS` and `HVALS`

use collections::Hash;

use super::write_item;
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `HGETALL key`
pub const HGETALL: Command = Command {
    name: "hgetall",
    arity: 2,
    flags: Flags::READONLY,
    categories: Categories::HASH,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO.union(KeyFlags::ACCESS))],
    tips: &["nondeterministic_output_order"],
    doc: Doc::new(Group::Hash, "2.0.0", "Returns each field of a hash with its value.")
        .complexity("O(N) where N is the number of fields.")
        .args(&[Arg::key("key", 0)]),
    subcommands: &[],
    run: |ctx, _, reply| all(ctx, EntryPart::Both, reply),
};

/// `HKEYS key`
pub const HKEYS: Command = Command {
    name: "hkeys",
    doc: Doc::new(Group::Hash, "2.0.0", "Returns the names of all fields of a hash.")
        .complexity("O(N) where N is the number of fields.")
        .args(&[Arg::key("key", 0)]),
    run: |ctx, _, reply| all(ctx, EntryPart::Fields, reply),
    ..HGETALL
};

/// `HVALS key`
pub const HVALS: Command = Command {
    name: "hvals",
    doc: Doc::new(Group::Hash, "2.0.0", "Returns the values of all fields of a hash.")
        .complexity("O(N) where N is the number of fields.")
        .args(&[Arg::key("key", 0)]),
    run: |ctx, _, reply| all(ctx, EntryPart::Values, reply),
    ..HGETALL
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum EntryPart {
    Both,
    Fields,
    Values,
}

fn all(ctx: &mut Ctx<'_>, part: EntryPart, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let due = ctx.data.due();
    let Some(hash) = ctx.find::<Hash>(ctx.key(0))? else {
        let out = if part == EntryPart::Both { reply.map(0) } else { reply.array(0) };
        return Ok(out.done());
    };
    let mut out = reply.parts();
    // With field expiries the number is not known in advance: expired fields are skipped.
    let deferred = match part {
        _ if !hash.has_expiries() => None,
        EntryPart::Both => Some(out.deferred_map()),
        EntryPart::Fields | EntryPart::Values => Some(out.deferred_array()),
    };
    match part {
        _ if deferred.is_some() => {}
        EntryPart::Both => out.map(hash.len()),
        EntryPart::Fields | EntryPart::Values => out.array(hash.len()),
    }
    let (mut count, chunks) = (0, ctx.chunks(&out));
    match part {
        EntryPart::Both => hash.visit(due, |field, value| {
            count += 1;
            write_item(&mut out, field);
            write_item(&mut out, value);
            chunks.cut(&mut out);
            true
        }),
        EntryPart::Fields | EntryPart::Values => hash.visit(due, |field, value| {
            count += 1;
            write_item(&mut out, if part == EntryPart::Fields { field } else { value });
            chunks.cut(&mut out);
            true
        }),
    }
    if let Some(deferred) = deferred {
        chunks.set_len(&mut out, deferred, count);
    }
    Ok(out.done())
}
