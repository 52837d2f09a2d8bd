//! `MEMORY`

use collections::TABLE_BYTES_A_KEY;
use wire::number::parse_i64_strict;
use wire::reply::ReplyBuffer;
use wire::request::Args;

use crate::command::{Access, Command, Flags, KeyFlags, KeySpec};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::help;
use crate::host::MemoryStat;
use crate::reply::{Replied, Reply};
use crate::word::Word;

/// `MEMORY subcommand ...`
pub const COMMAND: Command = Command::container(
    "memory",
    Doc::new(Group::Server, "4.0.0", "Subcommands for memory diagnostics.")
        .complexity("Depends on subcommand."),
    &[
        Command::keyless(
            "doctor",
            2,
            Flags::empty(),
            Doc::new(Group::Server, "4.0.0", "Returns a report of memory problems."),
            doctor,
        )
        .tips(SPECIAL),
        help::command(Group::Server, "4.0.0", |_, _, reply| help::answer(&COMMAND, reply)),
        Command::keyless(
            "malloc-stats",
            2,
            Flags::LOADING,
            Doc::new(Group::Server, "4.0.0", "Returns the statistics of the allocator.").complexity(DEPENDS),
            |ctx, _, reply| Ok(reply.verbatim(b"txt", ctx.host.allocator_report().as_bytes())),
        )
        .tips(SPECIAL),
        Command::keyless(
            "purge",
            2,
            Flags::LOADING,
            Doc::new(
                Group::Server,
                "4.0.0",
                "Releases unused memory of the allocator to the operating system.",
            )
            .complexity(DEPENDS),
            |ctx, _, reply| {
                ctx.host.memory_purge();
                Ok(reply.ok())
            },
        )
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"]),
        Command::keyless(
            "stats",
            2,
            Flags::empty(),
            Doc::new(Group::Server, "4.0.0", "Returns details of the memory usage of the server."),
            stats,
        )
        .tips(SPECIAL),
        Command::keyless(
            "usage",
            -3,
            Flags::READONLY,
            Doc::new(Group::Server, "4.0.0", "Estimates the memory in bytes that a key and its value use.")
                .complexity("O(N) where N is the number of samples")
                .args(&[Arg::key("key", 0), Arg::integer("count").token("SAMPLES").optional()]),
            usage,
        )
        .access(Access::Read)
        .keys(&[KeySpec::at(2, KeyFlags::RO)]),
    ],
);

const DEPENDS: &str = "Depends on how much memory is allocated, could be slow";
const SPECIAL: &[&str] = &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"];

/// Used bytes below which ratios are meaningless.
const LITTLE_MEMORY: usize = 5 << 20;
/// Ratio of resident to used bytes above which `MEMORY DOCTOR` makes a remark.
const RESIDENT_RATIO_MAX: f64 = 1.4;
/// Ratio of peak to current use above which `MEMORY DOCTOR` makes a remark.
const PEAK_RATIO_MAX: f64 = 1.5;

fn usage(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let mut options = args.tail(3);
    while !options.is_empty() {
        let Some(count) = options.get(1).filter(|_| options.name().eq_token("samples")) else {
            return Err(CommandError::SYNTAX);
        };
        if parse_i64_strict(count).ok_or(CommandError::NOT_AN_INTEGER)? < 0 {
            return Err(CommandError::SYNTAX);
        }
        options = options.tail(2);
    }
    Ok(match ctx.data.peek(ctx.key(0)) {
        None => reply.null(),
        Some(entry) => reply.integer((entry.allocated_bytes() + TABLE_BYTES_A_KEY) as i64),
    })
}

fn stats(ctx: &mut Ctx<'_>, _: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let mut out = reply.parts();
    write_map(&mut out, &ctx.host.memory_stats());
    ctx.note_all_figures();
    Ok(out.done())
}

fn write_map(out: &mut ReplyBuffer<'_>, pairs: &[(String, MemoryStat)]) {
    out.map(pairs.len());
    for (name, value) in pairs {
        out.bulk(name.as_bytes());
        match value {
            MemoryStat::Integer(number) => out.integer(*number),
            MemoryStat::Double(number) => out.double(*number),
            MemoryStat::Text(text) => out.bulk(text.as_bytes()),
            MemoryStat::Map(inner) => write_map(out, inner),
        }
    }
}

fn doctor(ctx: &mut Ctx<'_>, _: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let stats = ctx.host.memory_stats();
    let figure = |wanted: &str| {
        stats.iter().find(|(name, _)| name == wanted).map_or(0.0, |(_, value)| match value {
            MemoryStat::Integer(number) => *number as f64,
            MemoryStat::Double(number) => *number,
            _ => 0.0,
        })
    };
    let used = figure("total.allocated");
    let mut remarks = Vec::new();
    if used < LITTLE_MEMORY as f64 {
        let text = "Hi Sam, this instance is empty or is using very little memory: too little for a \
                    diagnosis. Please try again when it contains data.\n";
        return Ok(reply.verbatim(b"txt", text.as_bytes()));
    }
    if figure("peak.allocated") > used * PEAK_RATIO_MAX {
        remarks.push(
            " * Peak memory was much higher than current memory: some of it may not have been returned to \
             the system. MEMORY PURGE returns free memory.\n",
        );
    }
    if figure("fragmentation") > RESIDENT_RATIO_MAX {
        remarks.push(
            " * Much more memory is resident than used: changed value sizes cause fragmentation. MEMORY PURGE \
             returns whole free pages.\n",
        );
    }
    if remarks.is_empty() {
        return Ok(reply.verbatim(b"txt", b"Hi Sam, I can't find any memory issue in your instance.\n"));
    }
    let text = format!("Sam, these are the memory issues of this instance:\n\n{}", remarks.concat());
    Ok(reply.verbatim(b"txt", text.as_bytes()))
}
