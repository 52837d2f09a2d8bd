//! `SCRIPT`: the cache of scripts, and ending a running script.

use wire::request::Args;

use crate::command::{Categories, Command, Flags};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::help;
use crate::host::ScriptKind;
use crate::reply::{Replied, Reply};
use crate::word::Word;

const FLAGS: Flags = Flags::NOSCRIPT.union(Flags::STALE);

/// The error for a digest that is not in the cache.
pub const NO_SCRIPT: CommandError = CommandError::new("NOSCRIPT No matching script.");

/// `SCRIPT subcommand ...`
pub const COMMAND: Command = Command::container(
    "script",
    Doc::new(Group::Scripting, "2.6.0", "Subcommands for scripts.").complexity("Depends on subcommand."),
    &[
        Command::keyless(
            "debug",
            -3,
            Flags::NOSCRIPT,
            Doc::new(Group::Scripting, "3.2.0", "Sets the debug mode of scripts. There is no debugger.")
                .complexity("O(1)")
                .args(&[
                    Arg::one_of(
                        "mode",
                        &[Arg::word("yes", "YES"), Arg::word("sync", "SYNC"), Arg::word("no", "NO")],
                    ),
                    Arg::string("engine").optional().since("9.1.0"),
                ]),
            debug,
        )
        .add_categories(Categories::SCRIPTING),
        Command::keyless(
            "exists",
            -3,
            FLAGS,
            Doc::new(
                Group::Scripting,
                "2.6.0",
                "Returns, for each digest, whether the cache has the script.",
            )
            .complexity("O(N) where N is the number of scripts")
            .args(&[Arg::string("sha1").multiple()]),
            exists,
        )
        .add_categories(Categories::SCRIPTING)
        .tips(&["request_policy:all_shards", "response_policy:agg_logical_and"]),
        Command::keyless(
            "flush",
            -2,
            FLAGS,
            Doc::new(Group::Scripting, "2.6.0", "Empties the cache of scripts.")
                .complexity("O(N) where N is the number of scripts")
                .history(&[("6.2.0", "Accepts `ASYNC` and `SYNC`.")])
                .args(&[Arg::one_of(
                    "flush-type",
                    &[Arg::word("async", "ASYNC"), Arg::word("sync", "SYNC")],
                )
                .since("6.2.0")
                .optional()]),
            flush,
        )
        .add_categories(Categories::SCRIPTING)
        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"]),
        help::command(Group::Scripting, "5.0.0", |_, _, reply| help::answer(&COMMAND, reply))
            .add_categories(Categories::SCRIPTING),
        Command::keyless(
            "kill",
            2,
            Flags::NOSCRIPT.union(Flags::ALLOW_BUSY),
            Doc::new(Group::Scripting, "2.6.0", "Ends scripts that run too long and have not written.")
                .complexity("O(1)"),
            |ctx, _, reply| {
                ctx.host.kill_script(ScriptKind::Script)?;
                Ok(reply.ok())
            },
        )
        .add_categories(Categories::SCRIPTING)
        .tips(&["request_policy:all_shards", "response_policy:one_succeeded"]),
        Command::keyless(
            "load",
            3,
            FLAGS,
            Doc::new(Group::Scripting, "2.6.0", "Adds a script to the cache, and returns its digest.")
                .complexity("O(N) where N is the length of the script")
                .args(&[Arg::string("script")]),
            |ctx, args, reply| Ok(reply.bulk(&ctx.host.load_script(args.at(2))?)),
        )
        .add_categories(Categories::SCRIPTING)
        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"]),
        Command::keyless(
            "show",
            3,
            FLAGS,
            Doc::new(Group::Scripting, "8.0.0", "Returns the text of a script in the cache.")
                .complexity("O(1).")
                .args(&[Arg::string("sha1")]),
            |ctx, args, reply| {
                let body = ctx.host.script_body(args.at(2)).ok_or(NO_SCRIPT)?;
                Ok(reply.bulk(&body))
            },
        )
        .add_categories(Categories::SCRIPTING),
    ],
);

fn exists(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let digests = args.tail(2);
    let mut out = reply.array(digests.len());
    for sha in digests {
        out.integer(i64::from(ctx.host.script_body(sha).is_some()));
    }
    Ok(out.done())
}

fn flush(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let is_known = |word: &[u8]| word.eq_token("sync") || word.eq_token("async");
    if args.len() > 3 || args.get(2).is_some_and(|word| !is_known(word)) {
        return Err(CommandError::new("ERR SCRIPT FLUSH only support SYNC|ASYNC option"));
    }
    ctx.host.flush_scripts();
    Ok(reply.ok())
}

fn debug(_: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    if args.len() > 4 {
        return Err(help::wrong_subcommand("SCRIPT", args.at(1)));
    }
    if let Some(engine) = args.get(3).filter(|engine| !engine.eq_token("lua")) {
        return Err(CommandError::quote(
            "ERR No scripting engine found with name '",
            engine,
            "' to enable debug",
        ));
    }
    let mode = args.at(2);
    if mode.eq_token("no") {
        return Ok(reply.ok());
    }
    if mode.eq_token("yes") || mode.eq_token("sync") {
        return Err(CommandError::new("ERR There is no debugger for scripts"));
    }
    Err(CommandError::new("ERR Use SCRIPT DEBUG YES/SYNC/NO"))
}
