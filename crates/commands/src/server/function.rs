//! `FUNCTION`: functions are not supported yet; the lists are empty.

use wire::request::Args;

use crate::command::{Categories, Command, Flags};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::help;
use crate::reply::{Replied, Reply};
use crate::word::Word;

/// `FUNCTION subcommand ...`
pub const COMMAND: Command = Command::container(
    "function",
    Doc::new(Group::Scripting, "7.0.0", "Subcommands for server-side functions.")
        .complexity("Depends on subcommand."),
    &[
        Command::keyless(
            "flush",
            -2,
            Flags::NOSCRIPT,
            Doc::new(
                Group::Scripting,
                "7.0.0",
                "Deletes all function libraries. Functions are not supported yet.",
            )
            .args(&[Arg::one_of(
                "flush-type",
                &[Arg::word("async", "ASYNC"), Arg::word("sync", "SYNC")],
            )
            .optional()]),
            flush,
        )
        .categories_too(Categories::SCRIPTING)
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"]),
        help::command(Group::Scripting, "7.0.0", |_, _, reply| help::answer(&COMMAND, reply))
            .categories_too(Categories::SCRIPTING),
        Command::keyless(
            "list",
            -2,
            Flags::NOSCRIPT,
            Doc::new(
                Group::Scripting,
                "7.0.0",
                "Returns all function libraries. Functions are not supported yet.",
            ),
            |_, _, reply| Ok(reply.array(0).done()),
        )
        .categories_too(Categories::SCRIPTING)
        .tips(&["nondeterministic_output_order"]),
    ],
);

fn flush(_: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let is_known = |word: &[u8]| word.eq_token("sync") || word.eq_token("async");
    if args.len() > 3 || args.get(2).is_some_and(|word| !is_known(word)) {
        return Err(CommandError::new("ERR FUNCTION FLUSH only supports SYNC|ASYNC option"));
    }
    Ok(reply.ok())
}
