//! `EVAL`, `EVALSHA` and their read-only forms: run a script.

use wire::number::parse_i64_strict;
use wire::request::Args;

use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec, ScriptSource};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::host::{ScriptName, ScriptRequest};
use crate::reply::{Replied, Reply};

const FLAGS: Flags = Flags::NOSCRIPT
    .union(Flags::STALE)
    .union(Flags::SKIP_MONITOR)
    .union(Flags::NO_MANDATORY_KEYS)
    .union(Flags::MOVABLEKEYS);

/// The flags of commands that run scripts or functions that may write.
pub(super) const WRITING: Flags = FLAGS.union(Flags::MAY_REPLICATE);

/// The flags of commands that run scripts or functions that only read.
pub(super) const READING: Flags = FLAGS.union(Flags::READONLY);

const ANY_USE: &str = "What a script does with its keys is not known, so the strongest access is assumed.";

/// The keys of a script that may write.
pub(super) const WRITTEN_KEYS: KeySpec = KeySpec {
    notes: Some(ANY_USE),
    custom: Some(find_keys),
    ..KeySpec::counted(2, 1, KeyFlags::RW.union(KeyFlags::ACCESS).union(KeyFlags::UPDATE))
};

/// The keys of a script that only reads.
pub(super) const READ_KEYS: KeySpec = KeySpec {
    notes: Some(ANY_USE),
    custom: Some(find_keys),
    ..KeySpec::counted(2, 1, KeyFlags::RO.union(KeyFlags::ACCESS))
};

const DEPENDS: &str = "Depends on the script.";

/// `EVAL script numkeys [key ...] [arg ...]`
pub const EVAL: Command = Command {
    name: "eval",
    arity: -3,
    flags: WRITING,
    categories: Categories::SCRIPTING,
    access: Access::Script { source: ScriptSource::Body, reads_only: false },
    keys: &[WRITTEN_KEYS],
    tips: &[],
    doc: Doc::new(Group::Scripting, "2.6.0", "Runs a Lua script.").complexity(DEPENDS).args(&[
        Arg::string("script"),
        Arg::integer("numkeys"),
        Arg::key("key", 0).optional().multiple(),
        Arg::string("arg").optional().multiple(),
    ]),
    subcommands: &[],
    run,
};

/// `EVAL_RO script numkeys [key ...] [arg ...]`
pub const EVAL_RO: Command = Command {
    name: "eval_ro",
    flags: READING,
    access: Access::Script { source: ScriptSource::Body, reads_only: true },
    keys: &[READ_KEYS],
    doc: Doc { summary: "Runs a Lua script that only reads.", since: "7.0.0", ..EVAL.doc },
    ..EVAL
};

/// `EVALSHA sha1 numkeys [key ...] [arg ...]`
pub const EVALSHA: Command = Command {
    name: "evalsha",
    access: Access::Script { source: ScriptSource::Sha, reads_only: false },
    keys: &[KeySpec { notes: None, ..WRITTEN_KEYS }],
    doc: Doc { summary: "Runs a Lua script by its SHA1 digest.", ..EVAL.doc }.args(SHA_ARGS),
    ..EVAL
};

/// `EVALSHA_RO sha1 numkeys [key ...] [arg ...]`
pub const EVALSHA_RO: Command = Command {
    name: "evalsha_ro",
    flags: READING,
    access: Access::Script { source: ScriptSource::Sha, reads_only: true },
    keys: &[KeySpec { notes: None, ..READ_KEYS }],
    doc: Doc {
        summary: "Runs a Lua script that only reads, by its SHA1 digest.",
        since: "7.0.0",
        ..EVAL.doc
    }
    .args(SHA_ARGS),
    ..EVAL
};

const SHA_ARGS: &[Arg] = &[
    Arg::string("sha1"),
    Arg::integer("numkeys"),
    Arg::key("key", 0).optional().multiple(),
    Arg::string("arg").optional().multiple(),
];

/// Digits of a digest.
const SHA_LEN: usize = 40;

/// Argument index of the first key.
const FIRST_KEY: usize = 3;

/// Finds the keys; none if their number is invalid, which the handler reports.
fn find_keys(args: Args<'_>, found: &mut Vec<u32>) {
    if let Ok(count) = key_count(args) {
        found.extend(FIRST_KEY as u32..(FIRST_KEY + count) as u32);
    }
}

/// The number of keys.
fn key_count(args: Args<'_>) -> Result<usize, CommandError> {
    let count = args.get(2).and_then(parse_i64_strict).ok_or(CommandError::NOT_AN_INTEGER)?;
    match usize::try_from(count) {
        Err(_) => Err(CommandError::new("ERR Number of keys can't be negative")),
        Ok(count) if count > args.len().saturating_sub(FIRST_KEY) => {
            Err(CommandError::new("ERR Number of keys can't be greater than number of args"))
        }
        Ok(count) => Ok(count),
    }
}

/// The error for calling a function with an invalid number of keys.
fn function_error(ctx: &Ctx<'_>, name: &[u8], error: CommandError) -> CommandError {
    if !ctx.host.has_function(name) {
        return CommandError::new("ERR Function not found");
    }
    match error == CommandError::NOT_AN_INTEGER {
        true => CommandError::new("ERR Bad number of keys provided"),
        false => error,
    }
}

/// Runs a script or function with the keys and arguments of the request.
fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let Access::Script { source, reads_only } = ctx.command.access else {
        unreachable!("a command with this handler runs scripts");
    };
    let name = ScriptName::of(source, args);
    let count = key_count(args).inspect_err(|_| ctx.host.show_malformed_script(ctx));
    let count = count.map_err(|error| match name {
        ScriptName::Function(name) => function_error(ctx, name, error),
        ScriptName::Sha(sha) if sha.len() != SHA_LEN => CommandError::new("NOSCRIPT No matching script."),
        _ => error,
    })?;
    let keys = args.range(FIRST_KEY..FIRST_KEY + count);
    let request = ScriptRequest { name, reads_only, keys, arguments: args.tail(FIRST_KEY + count) };
    let mut out = reply.parts();
    ctx.host.run_script(ctx, request, &mut out)?;
    Ok(out.done())
}
