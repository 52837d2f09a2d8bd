//! `OBJECT`

use keyspace::Aging;
use wire::request::Args;

use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `OBJECT subcommand ...`
pub const COMMAND: Command = Command {
    name: "object",
    arity: -2,
    flags: Flags::empty(),
    categories: Categories::empty(),
    access: Access::None,
    keys: &[],
    tips: &[],
    doc: Doc::new(Group::Generic, "2.2.3", "Subcommands that inspect the value of a key.")
        .complexity("Depends on the subcommand."),
    subcommands: &[
        sub("encoding", "2.2.3", "Returns the internal encoding of a value.", encoding),
        sub("freq", "4.0.0", "Returns the logarithmic access frequency (LFU counter) of a key.", freq),
        HELP,
        sub("idletime", "2.2.3", "Returns the seconds since the last access to a key.", idletime),
        sub("refcount", "2.2.3", "Returns the reference count of a value.", refcount),
    ],
    run: |_, _, _| Err(CommandError::wrong_arity("object")),
};

const KEYS: &[KeySpec] = &[KeySpec::at(2, KeyFlags::RO)];
const ARGS: &[Arg] = &[Arg::key("key", 0)];

const fn sub(
    name: &'static str,
    since: &'static str,
    summary: &'static str,
    run: crate::command::Handler,
) -> Command {
    Command {
        name,
        arity: 3,
        flags: Flags::READONLY,
        categories: Categories::KEYSPACE,
        access: Access::Read,
        keys: KEYS,
        tips: &["nondeterministic_output"],
        doc: Doc::new(Group::Generic, since, summary).args(ARGS),
        subcommands: &[],
        run,
    }
}

const HELP: Command = Command {
    name: "help",
    arity: 2,
    flags: Flags::LOADING.union(Flags::STALE),
    categories: Categories::KEYSPACE,
    access: Access::None,
    keys: &[],
    tips: &[],
    doc: Doc::new(Group::Generic, "6.2.0", "Returns the help text of the subcommands."),
    subcommands: &[],
    run: help,
};

const LFU_SELECTED: CommandError = CommandError::new(
    "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between policies \
     at runtime LRU and LFU data will take some time to adjust.",
);
const LFU_NOT_SELECTED: CommandError = CommandError::new(
    "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching \
     between policies at runtime LRU and LFU data will take some time to adjust.",
);

fn encoding(ctx: &mut Ctx<'_>, _args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    Ok(match ctx.data.examine(ctx.key(0)) {
        Some(entry) => reply.bulk(entry.encoding_name().as_bytes()),
        None => reply.null(),
    })
}

fn freq(ctx: &mut Ctx<'_>, _args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let Some(entry) = ctx.data.examine(ctx.key(0)) else { return Ok(reply.null()) };
    match ctx.data.mode.aging {
        Aging::Lfu { .. } => Ok(reply.integer(ctx.data.mode.aging.lfu_counter(entry.access()).into())),
        Aging::Lru { .. } | Aging::Lrm { .. } => Err(LFU_NOT_SELECTED),
    }
}

fn idletime(ctx: &mut Ctx<'_>, _args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let Some(entry) = ctx.data.examine(ctx.key(0)) else { return Ok(reply.null()) };
    match ctx.data.mode.aging {
        Aging::Lru { .. } | Aging::Lrm { .. } => {
            Ok(reply.integer(ctx.data.mode.aging.idle_seconds(entry.access()).into()))
        }
        Aging::Lfu { .. } => Err(LFU_SELECTED),
    }
}

/// Always 1 for an existing key: values are not shared.
fn refcount(ctx: &mut Ctx<'_>, _args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    Ok(match ctx.data.examine(ctx.key(0)) {
        Some(_) => reply.integer(1),
        None => reply.null(),
    })
}

fn help(_ctx: &mut Ctx<'_>, _args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let lines = [
        "OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "ENCODING <key>",
        "    Returns the internal encoding of the value of <key>.",
        "FREQ <key>",
        "    Returns the access frequency of <key>: a counter roughly logarithmic in its recent uses.",
        "IDLETIME <key>",
        "    Returns the approximate number of seconds since <key> was last used.",
        "REFCOUNT <key>",
        "    Returns the reference count of the value of <key>.",
        "HELP",
        "    Print this help.",
    ];
    let mut out = reply.array(lines.len());
    lines.iter().for_each(|line| out.simple(line));
    Ok(out.done())
}
