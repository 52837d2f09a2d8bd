//! `DIGEST`: a hash of a value that clients can compute too, to compare values without transferring them.

use std::io::Write;

use collections::DecimalBuffer;
use wire::request::Args;
use xxhash_rust::xxh3::xxh3_64;

use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `DIGEST key`
pub const COMMAND: Command = Command {
    name: "digest",
    arity: 2,
    flags: Flags::READONLY.union(Flags::FAST),
    categories: Categories::STRING,
    access: Access::Read,
    keys: &[KeySpec::first(KeyFlags::RO.union(KeyFlags::ACCESS))],
    tips: &[],
    doc: Doc::new(Group::String, "8.4.0", "Returns the XXH3 digest of a string value in hexadecimal.")
        .complexity("O(N) where N is the length of the value.")
        .args(&[Arg::key("key", 0)]),
    subcommands: &[],
    run,
};

/// Size of a digest in bytes.
pub(super) const DIGEST_SIZE: usize = 16;

fn run(ctx: &mut Ctx<'_>, _args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let Some(value) = ctx.find_string(ctx.key(0))? else { return Ok(reply.null()) };
    let mut decimal = DecimalBuffer::new();
    let text = value.text(&mut decimal).ok_or(CommandError::WRONG_TYPE)?;
    Ok(reply.bulk(&digest(text)))
}

/// Returns the 64-bit XXH3 hash of `text` with seed 0, in lower-case hexadecimal with leading zeros.
pub(super) fn digest(text: &[u8]) -> [u8; DIGEST_SIZE] {
    let mut hexadecimal = [0; DIGEST_SIZE];
    write!(&mut hexadecimal[..], "{:016x}", xxh3_64(text)).expect("64 bits are 16 digits");
    hexadecimal
}
