//! `SHUTDOWN`

use wire::request::Args;

use crate::command::{Command, Flags};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::{CommandError, up_to_nul};
use crate::host::ShutdownOptions;
use crate::reply::{Replied, Reply};
use crate::session::BlockReason;

/// `SHUTDOWN [NOSAVE|SAVE] [NOW] [FORCE] [SAFE] [FAILOVER] | ABORT`
pub const COMMAND: Command = Command::keyless(
    "shutdown",
    -1,
    Flags::ADMIN
        .union(Flags::NOSCRIPT)
        .union(Flags::LOADING)
        .union(Flags::STALE)
        .union(Flags::NO_MULTI)
        .union(Flags::ALLOW_BUSY),
    Doc::new(Group::Server, "1.0.0", "Shuts down the server, and can save the dataset first.")
        .complexity("O(N) when saving, where N is the number of keys, otherwise O(1)")
        .history(&[("7.0.0", "Takes NOW, FORCE and ABORT."), ("9.0.0", "Takes SAFE and FAILOVER.")])
        .args(&[Arg::one_of(
            "abort-selector",
            &[
                Arg::block(
                    "save-selector-block",
                    &[
                        Arg::one_of(
                            "save-selector",
                            &[Arg::word("nosave", "NOSAVE"), Arg::word("save", "SAVE")],
                        )
                        .optional(),
                        Arg::word("now", "NOW").optional().since("7.0.0"),
                        Arg::word("force", "FORCE").optional().since("7.0.0"),
                        Arg::word("safe", "SAFE").optional().since("9.0.0"),
                        Arg::word("failover", "FAILOVER").optional().since("9.0.0"),
                    ],
                ),
                Arg::word("abort", "ABORT").since("7.0.0"),
            ],
        )
        .optional()]),
    run,
);

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let mut options = ShutdownOptions::default();
    for word in args.tail(1) {
        match up_to_nul(word).to_ascii_lowercase().as_slice() {
            b"save" if options.save != Some(false) => options.save = Some(true),
            b"nosave" if options.save != Some(true) => options.save = Some(false),
            b"now" => options.now = true,
            b"force" => options.force = true,
            b"safe" => options.safe = true,
            b"failover" => options.failover = true,
            b"abort" if args.len() == 2 => {
                ctx.host.shutdown_abort()?;
                return Ok(reply.ok());
            }
            _ => return Err(CommandError::SYNTAX),
        }
    }
    if options.failover {
        return Err(CommandError::new("ERR SHUTDOWN FAILOVER is only supported in cluster mode."));
    }
    if ctx.host.shutdown(options, ctx.session)? {
        ctx.block(None, BlockReason::Shutdown);
    }
    Ok(reply.nothing())
}
