//! `CONFIG`

use base::Lsn;
use wire::request::Args;

use crate::command::{Command, Flags};
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::help;
use crate::reply::{Replied, Reply};

/// `CONFIG subcommand ...`
pub const COMMAND: Command = Command::container(
    "config",
    Doc::new(Group::Server, "2.0.0", "Subcommands for the server configuration.")
        .complexity("Depends on subcommand."),
    &[
        GET,
        help::command(Group::Server, "5.0.0", |_, _, reply| help::answer(&COMMAND, reply)),
        RESETSTAT,
        REWRITE,
        SET,
    ],
);

const FLAGS: Flags = Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::LOADING).union(Flags::STALE);
const EVERYWHERE: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];

const GET: Command = Command::keyless(
    "get",
    -3,
    FLAGS,
    Doc::new(
        Group::Server,
        "2.0.0",
        "Returns the configuration directives that match patterns, with their values.",
    )
    .complexity("O(N) where N is the number of patterns given")
    .history(&[("7.0.0", "Takes several patterns.")])
    .args(&[Arg::string("parameter").multiple()]),
    get,
);

fn get(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let patterns: Vec<&[u8]> = args.tail(2).iter().collect();
    let found = ctx.host.config_matching(&patterns);
    let mut out = reply.map(found.len());
    for (name, value) in &found {
        out.bulk(name.as_bytes());
        out.bulk(value);
    }
    Ok(out.done())
}

const SET: Command = Command::keyless(
    "set",
    -4,
    FLAGS.union(Flags::SESSION),
    Doc::new(Group::Server, "2.0.0", "Sets configuration directives atomically.")
        .complexity("O(N) where N is the number of directives given")
        .history(&[("7.0.0", "Takes several directives.")])
        .args(&[Arg::block("data", &[Arg::string("parameter"), Arg::string("value")]).multiple()]),
    |ctx, args, reply| {
        let arguments: Vec<&[u8]> = args.tail(2).iter().collect();
        let lsn = ctx.host.config_set(&arguments, ctx.session)?;
        if lsn > Lsn(0) {
            ctx.session.reply_lsn = ctx.session.reply_lsn.max(lsn);
            // No worker sends replies under the former policy any more.
            ctx.report.needs_barrier = true;
        }
        Ok(reply.ok())
    },
)
.tips(EVERYWHERE);

const RESETSTAT: Command = Command::keyless(
    "resetstat",
    2,
    FLAGS,
    Doc::new(Group::Server, "2.0.0", "Resets the statistics that INFO reports."),
    |ctx, _, reply| {
        ctx.host.reset_stats();
        Ok(reply.ok())
    },
)
.tips(EVERYWHERE);

const REWRITE: Command = Command::keyless(
    "rewrite",
    2,
    FLAGS,
    Doc::new(Group::Server, "2.8.0", "Writes the current configuration to the configuration file."),
    |ctx, _, reply| {
        ctx.host.config_rewrite(false)?;
        Ok(reply.ok())
    },
)
.tips(EVERYWHERE);
