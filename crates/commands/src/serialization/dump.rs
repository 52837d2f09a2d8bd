//! `DUMP`

use collections::{AllocContext, ValueRef};
use rdb::{Encoder, Payload, Version};
use wire::request::Args;

use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `DUMP key`
pub const COMMAND: Command = Command {
    name: "dump",
    arity: 2,
    flags: Flags::READONLY,
    categories: Categories::KEYSPACE,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO.union(KeyFlags::ACCESS))],
    tips: &["nondeterministic_output"],
    doc: Doc::new(Group::Generic, "2.6.0", "Returns a serialized representation of the value of a key.")
        .complexity("O(N) where N is the size of the value in bytes.")
        .args(&[Arg::key("key", 0)]),
    subcommands: &[],
    run,
};

/// The version is the oldest that can hold the value, so that older servers can restore it.
fn run(ctx: &mut Ctx<'_>, _args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let key = ctx.key(0);
    let alloc = ctx.alloc_context(key);
    let Some(entry) = ctx.data.find(key) else { return Ok(reply.null()) };
    Ok(reply.bulk(&payload(ctx.config.rdbcompression, alloc, entry.value())))
}

/// Returns the payload of a value, in the oldest version that can hold it.
pub(super) fn payload(is_packing: bool, alloc: AllocContext<'_>, value: ValueRef<'_>) -> Vec<u8> {
    let payload = [Version::V11, Version::V80]
        .into_iter()
        .find_map(|version| payload_in(version, is_packing, alloc, value));
    payload.expect("the second version holds every value")
}

/// Returns the payload of a value in a version, if it can hold the value.
pub(super) fn payload_in(
    version: Version,
    is_packing: bool,
    alloc: AllocContext<'_>,
    value: ValueRef<'_>,
) -> Option<Vec<u8>> {
    let mut encoder = Encoder::new(version, is_packing);
    let mut payload = vec![encoder.type_byte(value).ok()?];
    encoder.write_value(alloc, value, &mut payload).ok()?;
    Payload::seal(version, &mut payload);
    Some(payload)
}
