//! Denied requests: the denial log, and the check of a request without running it.

use wire::number::parse_i64_strict;
use wire::request::Args;

use super::super::{Catalogue, DenialContext, MissingPermission};
use super::ADMIN;
use crate::command::Command;
use crate::context::Ctx;
use crate::doc::{Arg, Doc, Group};
use crate::error::CommandError;
use crate::help;
use crate::reply::{Replied, Reply};
use crate::resolved_command::CommandId;
use crate::word::Word;

pub(super) const LOG: Command = Command::keyless(
    "log",
    -2,
    ADMIN,
    Doc::new(Group::Server, "6.0.0", "Returns the log of denied requests, or clears it.")
        .complexity("O(N) with N being the number of entries shown.")
        .history(&[("7.2.0", "Added the number of each entry, and when it was created and updated.")])
        .args(&[Arg::one_of("operation", &[Arg::integer("count"), Arg::word("reset", "RESET")]).optional()]),
    log,
);

/// The number of entries shown if none is given.
const SHOWN_COUNT: i64 = 10;

fn log(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let count = match (args.get(2), args.len()) {
        (None, _) => SHOWN_COUNT,
        (Some(word), 3) if word.eq_token("reset") => {
            ctx.host.clear_denials();
            return Ok(reply.ok());
        }
        (Some(count), 3) => parse_i64_strict(count).ok_or(CommandError::NOT_AN_INTEGER)?,
        _ => return Err(help::wrong_subcommand("ACL", args.at(1))),
    };
    let entries = ctx.host.denials(usize::try_from(count).unwrap_or(0));
    let now_ms = ctx.host.unix_micros() / 1000;
    let mut out = reply.array(entries.len());
    for entry in entries {
        out.map(10);
        out.bulk(b"count");
        out.integer(entry.count as i64);
        let texts: [(&[u8], &[u8]); 4] = [
            (b"reason", reason(entry.missing)),
            (b"context", context(entry.context)),
            (b"object", &entry.object),
            (b"username", &entry.user),
        ];
        for (name, text) in texts {
            out.bulk(name);
            out.bulk(text);
        }
        out.bulk(b"age-seconds");
        out.double((now_ms - entry.updated_ms) as f64 / 1000.0);
        out.bulk(b"client-info");
        out.bulk(&entry.client);
        out.bulk(b"entry-id");
        out.integer(entry.id as i64);
        out.bulk(b"timestamp-created");
        out.integer(entry.created_ms);
        out.bulk(b"timestamp-last-updated");
        out.integer(entry.updated_ms);
    }
    Ok(out.done())
}

fn reason(missing: Option<MissingPermission>) -> &'static [u8] {
    match missing {
        None => b"auth",
        Some(MissingPermission::Command) => b"command",
        Some(MissingPermission::Key) => b"key",
        Some(MissingPermission::Channel) => b"channel",
        Some(MissingPermission::Database) => b"database",
        Some(MissingPermission::Certificate) => b"tls-cert",
    }
}

fn context(context: DenialContext) -> &'static [u8] {
    match context {
        DenialContext::Toplevel => b"toplevel",
        DenialContext::Multi => b"multi",
        DenialContext::Lua => b"lua",
    }
}

pub(super) const DRYRUN: Command = Command::keyless(
    "dryrun",
    -4,
    ADMIN,
    Doc::new(Group::Server, "7.0.0", "Returns whether a user may run a command, without running it.")
        .complexity("O(1).")
        .args(&[Arg::string("username"), Arg::string("command"), Arg::string("arg").optional().multiple()]),
    dry_run,
);

fn dry_run(ctx: &mut Ctx<'_>, args: Args<'_>, reply: Reply<'_>) -> Result<Replied, CommandError> {
    let users = ctx.host.users();
    let user =
        users.find(args.at(2)).ok_or_else(|| CommandError::quote("ERR User '", args.at(2), "' not found"))?;
    let request = args.tail(3);
    let catalogue = user.catalogue();
    let id = id_of(catalogue, request)
        .ok_or_else(|| CommandError::quote("ERR Command '", request.name(), "' not found"))?;
    let name = catalogue.name(id);
    if !catalogue.command(id).accepts(request.len()) {
        return Err(CommandError::owned(format!("ERR wrong number of arguments for '{name}' command")));
    }
    match user.check(id, request, ctx.db(), ctx.data.db_count()) {
        Ok(()) => Ok(reply.ok()),
        Err(denial) => Ok(reply.bulk(&denial.explanation(user.name(), name, request))),
    }
}

/// Returns the number of the command or subcommand of a request.
fn id_of(catalogue: &Catalogue, request: Args<'_>) -> Option<CommandId> {
    let id = catalogue.find(request.name()).filter(|_| !request.name().contains(&b'|'))?;
    match request.get(1).filter(|_| !catalogue.command(id).public_subcommands().is_empty()) {
        Some(sub) => catalogue.find(&[request.name(), b"|", sub].concat()),
        None => Some(id),
    }
}
