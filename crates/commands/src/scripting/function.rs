//! `FUNCTION`: the libraries of functions.
//!
//! Changes hold the script token, so that each has a definite place in the write log and relative to a snapshot.

use wire::request::Args;

use crate::command::{Access, Categories, Command, Flags};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::help;
use crate::host::{LibraryFacts, RestorePolicy, ScriptKind};
use crate::reply::{Parts, Replied, Reply};
use crate::word::Word;

const WRITES: Flags = Flags::NOSCRIPT.union(Flags::WRITE).union(Flags::LOG_VERBATIM);
const WRITE_TIPS: &[&str] = &["request_policy:all_shards", "response_policy:all_succeeded"];

/// `FUNCTION subcommand ...`
pub const COMMAND: Command = Command::container(
    "function",
    Doc::new(Group::Scripting, "7.0.0", "Subcommands for functions.").complexity("Depends on subcommand."),
    &[
        writer(
            "delete",
            3,
            WRITES,
            Doc::new(Group::Scripting, "7.0.0", "Deletes a library and its functions.")
                .args(&[Arg::string("library-name")]),
            |ctx, args, reply| {
                ctx.host.delete_library(args.at(2))?;
                ctx.report.dirty += 1;
                Ok(reply.ok())
            },
        ),
        Command::keyless(
            "dump",
            2,
            Flags::NOSCRIPT,
            Doc::new(Group::Scripting, "7.0.0", "Returns all libraries as one payload.")
                .complexity("O(N) where N is the number of functions"),
            |ctx, _, reply| {
                let libraries = ctx.host.libraries();
                ctx.data.note_all_changes();
                Ok(reply.bulk(&rdb::write_libraries(libraries.iter().map(|library| &library.code[..]))))
            },
        )
        .add_categories(Categories::SCRIPTING),
        writer(
            "flush",
            -2,
            WRITES,
            Doc::new(Group::Scripting, "7.0.0", "Deletes all libraries and functions.")
                .complexity("O(N) where N is the number of functions")
                .args(&[Arg::one_of(
                    "flush-type",
                    &[Arg::word("async", "ASYNC"), Arg::word("sync", "SYNC")],
                )
                .optional()]),
            flush,
        ),
        help::command(Group::Scripting, "7.0.0", |_, _, reply| help::answer(&COMMAND, reply))
            .add_categories(Categories::SCRIPTING),
        Command::keyless(
            "kill",
            2,
            Flags::NOSCRIPT.union(Flags::ALLOW_BUSY),
            Doc::new(Group::Scripting, "7.0.0", "Ends functions that run too long and have not written."),
            |ctx, _, reply| {
                ctx.host.kill_script(ScriptKind::Function)?;
                Ok(reply.ok())
            },
        )
        .add_categories(Categories::SCRIPTING)
        .tips(&["request_policy:all_shards", "response_policy:one_succeeded"]),
        Command::keyless(
            "list",
            -2,
            Flags::NOSCRIPT,
            Doc::new(Group::Scripting, "7.0.0", "Describes the libraries.")
                .complexity("O(N) where N is the number of functions")
                .args(&[
                    Arg::string("library-name-pattern").token("LIBRARYNAME").optional(),
                    Arg::word("withcode", "WITHCODE").optional(),
                ]),
            list,
        )
        .add_categories(Categories::SCRIPTING)
        .tips(&["nondeterministic_output_order"]),
        writer(
            "load",
            -3,
            WRITES.union(Flags::DENYOOM),
            Doc::new(Group::Scripting, "7.0.0", "Adds a library.")
                .complexity("O(1), besides the time to compile it")
                .args(&[Arg::word("replace", "REPLACE").optional(), Arg::string("function-code")]),
            load,
        ),
        writer(
            "restore",
            -3,
            WRITES.union(Flags::DENYOOM),
            Doc::new(Group::Scripting, "7.0.0", "Adds the libraries of a payload.")
                .complexity("O(N) where N is the number of functions in the payload")
                .args(&[
                    Arg::string("serialized-value"),
                    Arg::one_of(
                        "policy",
                        &[
                            Arg::word("flush", "FLUSH"),
                            Arg::word("append", "APPEND"),
                            Arg::word("replace", "REPLACE"),
                        ],
                    )
                    .optional(),
                ]),
            restore,
        ),
        Command::keyless(
            "stats",
            2,
            Flags::NOSCRIPT.union(Flags::ALLOW_BUSY),
            Doc::new(Group::Scripting, "7.0.0", "Describes the running function, and the engine."),
            stats,
        )
        .add_categories(Categories::SCRIPTING)
        .tips(&["nondeterministic_output", "request_policy:all_shards", "response_policy:special"]),
    ],
);

const fn writer(
    name: &'static str,
    arity: i32,
    flags: Flags,
    doc: Doc,
    run: fn(&mut Ctx<'_>, Args<'_>, Reply<'_>) -> Result<Replied, CommandError>,
) -> Command {
    Command::keyless(name, arity, flags, doc, run)
        .add_categories(Categories::SCRIPTING)
        .access(Access::Libraries)
        .tips(WRITE_TIPS)
}

fn flush(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let is_known = |word: &[u8]| word.eq_token("sync") || word.eq_token("async");
    if args.len() > 3 {
        return Err(help::wrong_subcommand("FUNCTION", args.at(1)));
    }
    if args.get(2).is_some_and(|word| !is_known(word)) {
        return Err(CommandError::new("ERR FUNCTION FLUSH only supports SYNC|ASYNC option"));
    }
    ctx.host.flush_libraries();
    ctx.report.dirty += 1;
    Ok(reply.ok())
}

fn load(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let (mut at, mut replaces) = (2, false);
    while at + 1 < args.len() {
        if !args.at(at).eq_token("replace") {
            return Err(CommandError::quote("ERR Unknown option given: ", args.at(at), ""));
        }
        replaces = true;
        at += 1;
    }
    let name = ctx.host.load_library(args.at(at), replaces)?;
    ctx.report.dirty += 1;
    Ok(reply.bulk(&name))
}

fn restore(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    const WRONG_POLICY: CommandError =
        CommandError::new("ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.");
    if args.len() > 4 {
        return Err(help::wrong_subcommand("FUNCTION", args.at(1)));
    }
    let policy = match args.get(3) {
        None => RestorePolicy::Append,
        Some(word) if word.eq_token("append") => RestorePolicy::Append,
        Some(word) if word.eq_token("flush") => RestorePolicy::Flush,
        Some(word) if word.eq_token("replace") => RestorePolicy::Replace,
        Some(_) => return Err(WRONG_POLICY),
    };
    let codes =
        rdb::read_libraries(args.at(2)).map_err(|error| CommandError::owned(format!("ERR {error}")))?;
    let codes: Vec<&[u8]> = codes.iter().map(|code| &code[..]).collect();
    ctx.host.restore_libraries(&codes, policy)?;
    ctx.report.dirty += 1;
    if ctx.records_effects() {
        // In a version that older servers read.
        let payload = rdb::write_libraries(codes.iter().copied());
        let policy = args.get(3).unwrap_or(b"APPEND");
        ctx.record_effect(&["FUNCTION".into(), "RESTORE".into(), payload[..].into(), policy.into()]);
    }
    Ok(reply.ok())
}

fn list(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let (mut pattern, mut with_code, mut at) = (None, false, 2);
    while let Some(word) = args.get(at) {
        at += 1;
        if !with_code && word.eq_token("withcode") {
            with_code = true;
        } else if pattern.is_none() && word.eq_token("libraryname") {
            let given = args.get(at).ok_or(CommandError::new("ERR library name argument was not given"))?;
            pattern = Some(given);
            at += 1;
        } else {
            return Err(CommandError::quote("ERR Unknown argument ", word, ""));
        }
    }
    let mut libraries = ctx.host.libraries();
    ctx.data.note_all_changes();
    if let Some(pattern) = pattern {
        libraries.retain(|library| base::glob::matches_ignoring_case(pattern, &library.name));
    }
    let mut out = reply.array(libraries.len());
    for library in libraries {
        describe(&library, with_code, &mut out);
    }
    Ok(out.done())
}

fn describe(library: &LibraryFacts, with_code: bool, out: &mut Parts<'_>) {
    out.map(if with_code { 4 } else { 3 });
    out.bulk(b"library_name");
    out.bulk(&library.name);
    out.bulk(b"engine");
    out.bulk(b"LUA");
    out.bulk(b"functions");
    out.array(library.functions.len());
    for function in &library.functions {
        out.map(3);
        out.bulk(b"name");
        out.bulk(&function.name);
        out.bulk(b"description");
        match &function.description {
            Some(text) => out.bulk(text),
            None => out.null(),
        }
        out.bulk(b"flags");
        out.set(function.flags.len());
        for flag in &function.flags {
            out.simple(flag);
        }
    }
    if with_code {
        out.bulk(b"library_code");
        out.bulk(&library.code);
    }
}

fn stats(ctx: &mut Ctx<'_>, _: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let (library_count, function_count) = ctx.host.library_counts();
    ctx.data.note_all_changes();
    let mut out = reply.map(2);
    out.bulk(b"running_script");
    match ctx.host.running_function() {
        None => out.null(),
        Some(running) => {
            out.map(3);
            out.bulk(b"name");
            out.bulk(&running.name);
            out.bulk(b"command");
            out.array(running.command.len());
            running.command.iter().for_each(|word| out.bulk(word));
            out.bulk(b"duration_ms");
            out.integer(running.duration_ms as i64);
        }
    }
    out.bulk(b"engines");
    out.map(1);
    out.bulk(b"LUA");
    out.map(2);
    out.bulk(b"libraries_count");
    out.integer(library_count as i64);
    out.bulk(b"functions_count");
    out.integer(function_count as i64);
    Ok(out.done())
}
