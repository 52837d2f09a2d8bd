//! `broadloom migrate`: moves the data of a running server to another one while its clients go on, and back.
//!
//! - Owns: its connections, and the record of what it has changed.
//! - Touches: both servers, through the protocol only; the record's file.
//! - Never: a step that its messages do not name. A failure or Ctrl-C leaves a state that the last lines describe.
//! - Start reading at `replication` (attaching and following a replica), `compare`, `switch` (the order of its steps), `undo`,
//!   and `by_scan` for sources that refuse replication.

mod address;
mod by_scan;
mod checks;
mod cli;
mod compare;
mod connection;
mod encryption;
mod error;
mod fence;
mod info;
mod progress;
mod record;
mod replication;
mod server;
mod servers;
mod session;
mod switch;
mod undo;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use crate::address::{HostPort, ServerUrl};
use crate::cli::Cli;
use crate::compare::Comparison;
use crate::connection::WaitLimit;
use crate::error::MigrateError;
use crate::info::Role;
use crate::progress::Progress;
use crate::record::{Record, Side, Stage};
use crate::replication::ReplicaLink;
use crate::server::Server;
use crate::servers::Servers;
use crate::session::{Relation, Session};
use crate::switch::Switch;

/// Time to wait for a reply that describes the state after a failure.
const DESCRIBE_TIME_MAX: Duration = Duration::from_secs(1);

/// Runs the tool as a program. `args` begin with the words that call it, in one string: `broadloom migrate`.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    tool::run("migrate", args.into_iter().collect(), "ends the tool without a description", |cli: &Cli, _| {
        connect_and_run(cli)
    })
}

fn connect_and_run(cli: &Cli) -> Result<(), MigrateError> {
    let with_password = |url: &ServerUrl, password: Option<&String>| {
        let mut url = url.clone();
        url.password = password.cloned().or(url.password);
        url
    };
    let from = with_password(&cli.from, cli.from_password.as_ref());
    let to = with_password(&cli.to, cli.to_password.as_ref());
    let encryption = if from.is_encrypted || to.is_encrypted {
        Some(encryption::settings(cli.cacert.as_deref(), cli.cert.as_deref().zip(cli.key.as_deref()))?)
    } else {
        None
    };
    let wait_limit = WaitLimit { reply_time_max: cli.reply_time_max(), deadline: None };
    let connect = |side, url| Server::connect(side, url, encryption.as_ref(), wait_limit);
    // Not every undo needs both servers.
    let or_unreachable = |server| match server {
        Err(error @ MigrateError::Connection { .. }) if cli.undo => Ok(Err(error)),
        server => server.map(Ok),
    };
    let source = or_unreachable(connect("source", &from))?;
    let target = or_unreachable(connect("target", &to))?;
    let record = Record::open(cli.state.as_deref(), &from.address, &to.address)?;
    match (source, target) {
        (Ok(source), Ok(target)) => {
            let servers = Servers { source, target };
            let progress = Progress::new(!cli.no_progress);
            run_step(&mut Session { cli, from, to, servers, record, progress })
        }
        (Err(unreachable), Ok(target)) => undo::without_source(cli, target, record, unreachable),
        (Ok(source), Err(unreachable)) => undo::without_target(cli, source, record, &unreachable),
        (Err(unreachable), Err(_)) => Err(unreachable),
    }
}

fn run_step(session: &mut Session<'_>) -> Result<(), MigrateError> {
    checks::are_two(session)?;
    if session.cli.undo {
        return undo::run(session).inspect_err(|error| describe_failure(session, error));
    }
    if is_unfinished_reversal(session)? {
        let finished = finish_reversal(session);
        finished.inspect_err(|error| describe_failure(session, error))?;
        conclude_switch(session);
        return Ok(());
    }
    let is_attached = checks::may_move(session)?;
    checks::warn(session)?;
    let comparison =
        if session.cli.by_scan { by_scan::run(session) } else { replicate(session, is_attached) };
    let comparison = comparison.inspect_err(|error| describe_failure(session, error))?;
    conclude(session, &comparison)
}

/// Whether the target is the primary, and only the reversal is left to do: the source refuses writes since the switch.
fn is_unfinished_reversal(session: &mut Session<'_>) -> Result<bool, MigrateError> {
    let is_due = match session.relation()? {
        Relation::Reversed { .. } => true,
        Relation::Separate => {
            session.record.stage() == Stage::Switched
                && session.servers.source.info("replication")?.role() == Role::Primary
        }
        Relation::Attached { .. } => false,
    };
    Ok(is_due && session.cli.reverse && fence::is_raised(&mut session.servers.source)?)
}

fn finish_reversal(session: &mut Session<'_>) -> Result<(), MigrateError> {
    if session.relation()? == Relation::Separate {
        session.progress.line("the target is the primary already: only the reversal is left");
        checks::may_reverse(session)?;
        checks::has_complete_target(session)?;
        replication::attach(session, Side::Source, Stage::Reversed)?;
    } else {
        session
            .progress
            .line("the source is a replica of the target already: only its fence is to be lifted");
    }
    switch::finish_reversal(session, Side::Source)
}

/// Makes the target a replica of the source, follows it, compares, and switches if that is wanted.
fn replicate(session: &mut Session<'_>, is_attached: bool) -> Result<Comparison, MigrateError> {
    if is_attached {
        session.progress.line("the target is a replica of the source already");
    } else {
        replication::attach(session, Side::Target, Stage::Begun)?;
    }
    replication::follow(session, Side::Target)?;
    let mut link = ReplicaLink { from: Side::Source, time_max: session.cli.timeout };
    let comparison =
        compare::run(&mut session.servers, &mut link, session.cli.sample, &mut session.progress)?;
    if session.cli.follow && comparison.is_equal() {
        print(session, &comparison);
        replication::show_lag(session, Side::Target)?;
    }
    if session.cli.switch && comparison.is_equal() {
        let (is_reversed, is_fenced) = (session.cli.reverse, !session.cli.no_fence);
        link.time_max = session.cli.pause_max;
        Switch { old: Side::Source, is_replica: true, is_reversed, is_fenced }.run(session, &mut link)?;
    }
    Ok(comparison)
}

fn print(session: &Session<'_>, comparison: &Comparison) {
    session.progress.line("compared:");
    for line in &comparison.lines {
        session.progress.line(line);
    }
}

/// Prints the comparison and the next step.
fn conclude(session: &mut Session<'_>, comparison: &Comparison) -> Result<(), MigrateError> {
    print(session, comparison);
    let (source, target) = (session.servers.source.name(), session.servers.target.name());
    if !comparison.is_equal() {
        describe(session);
        return Err(MigrateError::refused(format!(
            "{} differences: it is not safe to switch",
            comparison.difference_count
        )));
    }
    if session.cli.switch {
        conclude_switch(session);
    } else if session.cli.by_scan {
        session.progress.line(&format!(
            "copied: {target} has the keys of {source}. Later changes are not copied: --by-scan --switch --overwrite copies \
             again and switches"
        ));
    } else {
        session
            .progress
            .line(&format!("in step: it is safe to switch. {target} goes on replicating from {source}"));
        session.progress.line("next: the same command with --switch, or with --undo");
    }
    Ok(())
}

/// Prints what is to be done after a switch.
fn conclude_switch(session: &mut Session<'_>) {
    let (source, target) = (session.servers.source.name(), session.servers.target.name());
    session.progress.line(&format!("switched: clients are to be pointed to {target}"));
    let until = match (session.cli.reverse, session.cli.no_fence) {
        (true, _) => {
            let HostPort { host, port } = session.address(Side::Target);
            format!("is a replica only until it restarts: set replicaof {host} {port} in")
        }
        (false, false) => {
            format!("refuses writes only until it restarts: stop it, or set {} in", fence::SETTING)
        }
        (false, true) => return describe(session),
    };
    session.progress.line(&format!("{source} {until} its configuration file"));
    describe(session);
}

/// Prints the state after a failure; after Ctrl-C, also how to go on.
fn describe_failure(session: &mut Session<'_>, error: &MigrateError) {
    session.servers.shorten_waits(DESCRIBE_TIME_MAX);
    describe(session);
    if !matches!(error, MigrateError::Interrupted(_)) {
        return;
    }
    let goes_on = matches!(session.relation(), Ok(Relation::Attached { .. }))
        || is_unfinished_reversal(session).is_ok_and(|is_unfinished| is_unfinished);
    session.progress.line(match (session.cli.undo, goes_on, session.cli.by_scan) {
        (true, ..) => "go on: the same command",
        (_, true, _) => "go on: the same command, which goes on from this state",
        (_, _, true) => "go on: the same command with --overwrite, which copies all keys again",
        _ => "go on: the same command, after --undo if something is to be undone",
    });
}

/// Prints the state that both servers are in, and how to undo it.
fn describe(session: &mut Session<'_>) {
    let (source, target) = (session.servers.source.name(), session.servers.target.name());
    let relation = session.relation();
    let is_separate = matches!(relation, Ok(Relation::Separate));
    let state = match relation {
        Ok(Relation::Attached { is_linked }) => {
            let link = if is_linked { "up" } else { "down" };
            format!("{source} is the primary, and {target} is its replica (link {link})")
        }
        Ok(Relation::Reversed { is_linked }) => {
            let link = if is_linked { "up" } else { "down" };
            format!("{target} is the primary, and {source} is its replica (link {link})")
        }
        Ok(Relation::Separate) if session.record.stage() == Stage::Returning => {
            format!("{source} is made the primary again by --undo, which has not ended")
        }
        Ok(Relation::Separate) if session.record.is_stored() && session.record.stage() != Stage::Begun => {
            format!("{target} is the primary, whose writes {source} does not get")
        }
        Ok(Relation::Separate) => format!("neither {source} nor {target} replicates from the other"),
        Err(error) => format!("unknown, because a server does not reply ({error})"),
    };
    session.progress.line(&format!("state: {state}"));
    for side in [Side::Source, Side::Target] {
        describe_server(session.servers.get(side), is_separate, &session.progress);
    }
    if session.record.is_stored() {
        session.progress.line(&format!("undo:  {}", session.cli.undo_command()));
    }
}

/// Prints what the relation of the servers does not tell. An error is in the lines above, or the next command names it.
fn describe_server(server: &mut Server, is_separate: bool, progress: &Progress) {
    let name = server.name();
    if is_separate
        && let Ok(Role::Replica { primary, .. }) = server.info("replication").map(|info| info.role())
    {
        progress.line(&format!("       {name} is a replica of {primary}"));
    }
    if fence::is_raised(server).is_ok_and(|is_raised| is_raised) {
        progress.line(&format!("       {name} refuses writes"));
    }
}
