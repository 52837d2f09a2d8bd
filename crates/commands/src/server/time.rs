//! `TIME`

use wire::request::Args;

use crate::command::{Command, Flags};
use crate::context::Ctx;
use crate::doc::{Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};
use crate::session::SessionFlags;

/// `TIME`
pub const COMMAND: Command = Command::keyless(
    "time",
    1,
    Flags::LOADING.union(Flags::STALE).union(Flags::FAST),
    Doc::new(
        Group::Server,
        "2.6.0",
        "Returns the server time as Unix seconds and the microseconds of the current second.",
    ),
    run,
)
.tips(&["nondeterministic_output"]);

fn run(ctx: &mut Ctx<'_>, _: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let micros = match ctx.session.flags.contains(SessionFlags::IN_SCRIPT) {
        // A script reads one constant time.
        true => *ctx.session.script_micros.get_or_insert_with(|| ctx.host.unix_micros()),
        false => ctx.host.unix_micros(),
    };
    let mut out = reply.array(2);
    out.bulk_int(micros / 1_000_000);
    out.bulk_int(micros % 1_000_000);
    Ok(out.done())
}
