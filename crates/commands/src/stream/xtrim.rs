//! `XTRIM`

use collections::stream::Stream;
use wire::request::Args;

use super::references;
use super::trimming::{self, TrimmingOptions};
use crate::command::{Access, Categories, Command, Flags, KeyFlags, KeySpec};
use crate::context::{Ctx, EventClass};
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::reply::{Replied, Reply};

/// `XTRIM key MAXLEN | MINID [= | ~] threshold [LIMIT count] [KEEPREF | DELREF | ACKED]`
pub const COMMAND: Command = Command {
    name: "xtrim",
    arity: -4,
    flags: Flags::WRITE.union(Flags::LOG_INSTEAD),
    categories: Categories::STREAM,
    access: Access::Write,
    keys: &[KeySpec::first(KeyFlags::RW.union(KeyFlags::DELETE))],
    tips: &["nondeterministic_output"],
    doc: Doc::new(Group::Stream, "5.0.0", "Trims a stream by deleting its oldest entries.")
        .complexity("O(N) for N deleted entries, with a small factor: whole nodes are deleted at once.")
        .history(&[
            ("6.2.0", "Added `MINID` and `LIMIT`."),
            ("8.2.0", "Added `KEEPREF`, `DELREF` and `ACKED`."),
        ])
        .args(&[Arg::key("key", 0), Arg::block("trim", trimming::ARGS), references::ARG.since("8.2.0")]),
    subcommands: &[],
    run,
};

const NO_STRATEGY: CommandError =
    CommandError::new("ERR syntax error, XTRIM must be called with a trimming strategy");

fn run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let mut options = TrimmingOptions::default();
    let mut at = 2;
    while at < args.len() {
        let words: Vec<&[u8]> = args.tail(at).iter().take(3).collect();
        at += options.parse(&words)?.ok_or(CommandError::SYNTAX)?;
    }
    let trimming = options.finish(ctx.config.stream_node_max_entries, Some(NO_STRATEGY))?;
    let key = ctx.key(0);
    let trimmed = ctx.edit(key, |stream: &mut Stream, _| trimming.map(|trimming| trimming.apply(stream)))?;
    let Some(trimmed) = trimmed.flatten().filter(|trimmed| trimmed.count > 0) else {
        return Ok(reply.integer(0));
    };
    ctx.changed(EventClass::Stream, "xtrim", key);
    ctx.report.dirty += trimmed.count - 1;
    if let Some(len) = trimmed.exact_len() {
        ctx.record_effect(&["XTRIM".into(), key.bytes.into(), "MAXLEN".into(), "=".into(), len.into()]);
    }
    trimmed.log_rest(ctx, key);
    Ok(reply.integer(trimmed.count as i64))
}
