//! `DEBUG`: subcommands for tests and debugging, allowed by `enable-debug-command`.
//!
//! | file | holds |
//! |---|---|
//! | `digest.rs` | digests of data |
//! | `keys.rs` | inspecting and creating keys |
//! | `protocol.rs` | replies of every type |
//! | `synchronising.rs` | what happens in a full synchronisation |
//! | `debug.rs` | everything else |
//!
//! Invariant: every subcommand checks [`Session::may_debug`](crate::session::Session::may_debug), and so does
//! the rejection of an unknown subcommand.

mod digest;
mod keys;
mod protocol;
mod synchronising;

use wire::number::{parse_f64, parse_i64_strict};
use wire::request::Args;

use crate::command::{Access, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::{CommandError, up_to_nul};
use crate::help;
use crate::host::{Crash, Reload, ReplyBufferSetting};
use crate::reply::{Replied, Reply};
use crate::session::BlockReason;
use crate::word::Word;

/// `DEBUG subcommand ...`
pub const COMMAND: Command = Command {
    flags: FLAGS.union(Flags::PRIVATE_SUBCOMMANDS),
    run: unknown_subcommand,
    ..Command::container(
        "debug",
        Doc::new(Group::Server, "1.0.0", "Subcommands for tests and debugging.")
            .complexity("Depends on subcommand.")
            .internal(),
        &[
            sub(
                "aof-flush-sleep",
                3,
                "Delays each write of the append-only file.",
                &[Arg::integer("microseconds")],
            ),
            sub("assert", 2, "Crashes the server with a failed assertion and a crash report.", &[]),
            sub("change-repl-id", 2, "Changes the replication ID.", &[]),
            sub(
                "client-enforce-reply-list",
                3,
                "Counts each reply as an output block towards the limit of unauthenticated clients.",
                &[SWITCH],
            ),
            sub("config-rewrite-force-all", 2, "Rewrites the configuration file with every directive.", &[]),
            sub("dict-resizing", 3, "Has no effect: tables always grow and shrink.", &[SWITCH]),
            sub(
                "delay-rdb-client-free-seconds",
                3,
                "Sets how long a stream is kept for a replica whose snapshot is sent.",
                &[Arg::integer("seconds")],
            ),
            sub("digest", 2, "Returns a digest of all data.", &[]).access(Access::ReadAll),
            sub("digest-value", -3, "Returns a digest of each key's value.", &[KEY.multiple()])
                .access(Access::Read)
                .keys(&[KeySpec::range(2, -1, 1, KeyFlags::RO)]),
            sub("error", 3, "Returns an error reply with the given text.", &[Arg::string("text")]),
            sub("hashtable-can-abort-shrink", 3, "Has no effect: tables shrink incrementally.", &[SWITCH]),
            help::command(Group::Server, "1.0.0", |ctx, _, reply| {
                ctx.session.may_debug(ctx.config)?;
                help::answer(&COMMAND, reply)
            })
            .add_flags(Flags::FOR_DEBUGGING),
            sub(
                "htstats",
                -3,
                "Returns statistics of the tables of a database.",
                &[Arg::integer("db"), FULL],
            ),
            sub("htstats-key", -3, "Returns statistics of the table in a key's value.", &[KEY, FULL])
                .access(Access::Read)
                .keys(ONE),
            sub("jmap", 2, "Not supported: there is no Java heap to map.", &[]),
            sub("loadaof", 2, "Replaces all data by the data of the append-only files.", &[]),
            sub("log", 3, "Writes a line to the log.", &[Arg::string("message")]),
            sub("object", -3, "Returns low-level details of a key and its value.", &[KEY])
                .access(Access::Read)
                .keys(ONE),
            sub("panic", 2, "Crashes the server, with a crash report.", &[]),
            sub(
                "pause-after-fork",
                3,
                "Stops the process when a full synchronisation has begun, until SIGCONT.",
                &[SWITCH],
            ),
            sub("pause-cron", 3, "Suspends or resumes the periodic tasks.", &[SWITCH]),
            sub("populate", -3, "Creates test keys. Existing keys are kept.", POPULATE_ARGS)
                .access(Access::WriteAll),
            sub("protocol", 3, "Returns a test reply of the given protocol type.", &[Arg::string("type")]),
            sub(
                "quicklist-packed-threshold",
                3,
                "Has no effect: lists have no such threshold.",
                &[Arg::integer("size")],
            ),
            sub("reload", -2, "Saves the data to the RDB file and loads the file.", RELOAD_ARGS),
            sub(
                "replicate",
                -3,
                "Sends a request to the replicas, without running it.",
                &[Arg::string("argument").multiple()],
            ),
            sub(
                "repl-pause",
                3,
                "Stops the process at a point of a full synchronisation, until SIGCONT.",
                synchronising::PAUSE_ARGS,
            ),
            sub(
                "replybuffer",
                4,
                "Changes how reply buffer sizes are reported.",
                &[Arg::string("setting"), Arg::string("value")],
            ),
            sub("sdslen", 3, "Returns the lengths of a key and its string value.", &[KEY])
                .access(Access::Read)
                .keys(ONE),
            sub("segfault", 2, "Crashes the server, with a crash report.", &[]),
            sub("set-active-expire", 3, "Turns the active expiry cycle on or off.", &[SWITCH]),
            sub("set-disable-deny-scripts", 3, "Sets whether scripts may run every command.", &[SWITCH]),
            sub(
                "set-skip-checksum-validation",
                3,
                "Sets whether the checksums of dumped values are ignored.",
                &[SWITCH],
            ),
            sub(
                "sleep",
                3,
                "Blocks all worker threads for a number of seconds; in a transaction only its own.",
                &[Arg::new("seconds", crate::doc::ArgType::Double)],
            ),
            sub(
                "stringmatch-len",
                4,
                "Matches a pattern against a string of the given length.",
                &[Arg::integer("length"), Arg::new("pattern", crate::doc::ArgType::Pattern)],
            ),
            sub("structsize", 2, "Returns the sizes of internal structures.", &[]),
        ],
    )
};

const FLAGS: Flags =
    Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::LOADING).union(Flags::STALE).union(Flags::FOR_DEBUGGING);
const ONE: &[KeySpec] = &[KeySpec::at(2, KeyFlags::RO)];
const KEY: Arg = Arg::key("key", 0);
const SWITCH: Arg = Arg::one_of("switch", &[Arg::word("off", "0"), Arg::word("on", "1")]);
const FULL: Arg = Arg::word("full", "FULL").optional();
const RELOAD_ARGS: &[Arg] = &[
    Arg::word("merge", "MERGE").optional(),
    Arg::word("noflush", "NOFLUSH").optional(),
    Arg::word("nosave", "NOSAVE").optional(),
];
const POPULATE_ARGS: &[Arg] = &[
    Arg::integer("count"),
    Arg::string("prefix").optional(),
    Arg::integer("size").optional(),
    Arg::word("rand", "RAND").optional(),
];

/// Runs a queued request with an unknown subcommand: like Redis, a transaction queues any `DEBUG` request.
fn unknown_subcommand(_: &mut Ctx<'_>, args: Args<'_>, _: Reply<'_>) -> Result<Replied, CommandError> {
    Err(help::wrong_subcommand("DEBUG", args.at(1)))
}

const fn sub(name: &'static str, arity: i32, summary: &'static str, args: &'static [Arg]) -> Command {
    Command::keyless(name, arity, FLAGS, Doc::new(Group::Server, "1.0.0", summary).args(args), run)
}

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    ctx.session.may_debug(ctx.config)?;
    match ctx.command.name {
        "object" => return keys::object(ctx, reply),
        "sdslen" => return keys::lengths(ctx, reply),
        "populate" => return keys::populate(ctx, args, reply),
        "digest" => return digest::digest(ctx, reply),
        "digest-value" => return digest::digest_values(ctx, reply),
        "htstats" => return keys::table_stats(ctx, args, reply),
        "htstats-key" => return keys::value_table_stats(ctx, reply),
        "protocol" => return protocol::example(args.at(2), reply),
        "sleep" => sleep(ctx, args)?,
        "replicate" => {
            let mut bytes = Vec::new();
            wire::response::encode_command(&args.tail(2).into_iter().collect::<Vec<_>>(), &mut bytes);
            ctx.data.append_for_replicas(&bytes);
        }
        "pause-after-fork" => synchronising::pause_after_fork(ctx, is_on(args.at(2))?),
        "repl-pause" => synchronising::pause_at(ctx, args)?,
        "delay-rdb-client-free-seconds" => {
            let seconds = parse_i64_strict(args.at(2)).ok_or(CommandError::NOT_AN_INTEGER)?;
            ctx.host.set_stream_grace(seconds);
        }
        "change-repl-id" => ctx.host.change_replication_id(),
        "set-active-expire" => ctx.host.set_active_expire(is_on(args.at(2))?),
        "set-disable-deny-scripts" => ctx.host.set_scripts_unrestricted(is_on(args.at(2))?),
        "set-skip-checksum-validation" => ctx.host.set_checksum_validation(!is_on(args.at(2))?),
        "aof-flush-sleep" => {
            let micros = parse_i64_strict(args.at(2)).and_then(|micros| u64::try_from(micros).ok());
            ctx.host.delay_append_only(micros.ok_or(CommandError::NOT_AN_INTEGER)?);
        }
        "pause-cron" => ctx.host.pause_cron(is_on(args.at(2))?),
        "log" => {
            let text = String::from_utf8_lossy(args.at(2)).into_owned();
            ctx.host.write_server_log(&format!("DEBUG LOG: {text}"));
        }
        "error" => {
            let text = String::from_utf8_lossy(args.at(2)).replace(['\r', '\n'], " ");
            return Err(CommandError::owned(text));
        }
        "config-rewrite-force-all" => ctx.host.config_rewrite(true)?,
        "reload" => {
            let reload = reload_options(args)?;
            return begin_reload(ctx, reload, reply);
        }
        "loadaof" => return begin_reload(ctx, Reload::AppendOnly, reply),
        "panic" | "assert" => ctx.host.crash(Crash::Panic),
        "segfault" => ctx.host.crash(Crash::Segfault),
        "structsize" => return Ok(reply.simple("bits:64 robj:0 dictentry:9 sdshdr5:0 sdshdr8:0 sdshdr16:0")),
        "stringmatch-len" => {
            let length = parse_i64_strict(args.at(2)).and_then(|length| usize::try_from(length).ok());
            let text = vec![b'a'; length.ok_or(CommandError::NOT_AN_INTEGER)?];
            // Only the duration matters.
            std::hint::black_box(base::glob::matches(args.at(3), &text));
        }
        "client-enforce-reply-list" => {
            ctx.host.set_reply_buffers(ReplyBufferSetting::CountsBlocks(is_on(args.at(2))?));
        }
        "replybuffer" => ctx.host.set_reply_buffers(reply_buffer_setting(args)?),
        "dict-resizing" | "hashtable-can-abort-shrink" | "quicklist-packed-threshold" => {}
        name => {
            return Err(CommandError::owned(format!(
                "ERR DEBUG {} is not supported by this version of Broadloom",
                name.to_ascii_uppercase()
            )));
        }
    }
    Ok(reply.ok())
}

fn reload_options(args: Args<'_>) -> Result<Reload, CommandError> {
    let (mut saves, mut flushes, mut replaces) = (true, true, false);
    for word in args.tail(2) {
        if word.eq_token("merge") {
            replaces = true;
        } else if word.eq_token("noflush") {
            flushes = false;
        } else if word.eq_token("nosave") {
            saves = false;
        } else {
            let text = "ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.";
            return Err(CommandError::new(text));
        }
    }
    Ok(Reload::Dump { saves, flushes, replaces })
}

/// Blocks the connection until the load ends. Until then, other connections receive errors.
fn begin_reload(ctx: &mut Ctx<'_>, reload: Reload, reply: Reply<'_>) -> Result<Replied, CommandError> {
    if !ctx.may_block() {
        return Err(CommandError::new("ERR The data can't be loaded within a transaction"));
    }
    ctx.host.prepare_reload(reload)?;
    ctx.block(None, BlockReason::Reload(reload));
    Ok(reply.nothing())
}

fn is_on(switch: &[u8]) -> Result<bool, CommandError> {
    parse_i64_strict(switch).map(|number| number != 0).ok_or(CommandError::NOT_AN_INTEGER)
}

/// `DEBUG REPLYBUFFER PEAK-RESET-TIME milliseconds|never|reset`, `... RESIZING switch`
fn reply_buffer_setting(args: Args<'_>) -> Result<ReplyBufferSetting, CommandError> {
    let value = args.at(3);
    if args.at(2).eq_token("resizing") {
        return Ok(ReplyBufferSetting::Resizing(is_on(value)?));
    }
    if !args.at(2).eq_token("peak-reset-time") {
        return Err(help::wrong_subcommand("DEBUG", args.at(1)));
    }
    Ok(ReplyBufferSetting::PeakReset(if value.eq_token("never") {
        Some(-1)
    } else if value.eq_token("reset") {
        None
    } else {
        Some(parse_i64_strict(value).ok_or(CommandError::NOT_AN_INTEGER)?)
    }))
}

fn sleep(ctx: &mut Ctx<'_>, args: Args<'_>) -> Result<(), CommandError> {
    let seconds = parse_f64(up_to_nul(args.at(2)).trim_ascii()).ok_or(CommandError::NOT_A_FLOAT)?;
    let micros = (seconds.max(0.0) * 1e6) as u64;
    if ctx.may_block() {
        ctx.host.stall_others(micros);
    }
    ctx.host.sleep(micros);
    Ok(())
}
