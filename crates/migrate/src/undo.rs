//! `--undo`: back to the state before the last step, as the roles of the servers and the record tell it.

use crate::address::HostPort;
use crate::cli::Cli;
use crate::error::MigrateError;
use crate::fence;
use crate::info::Role;
use crate::progress::Progress;
use crate::record::{Record, Side, Stage};
use crate::replication::{self, ReplicaLink};
use crate::server::Server;
use crate::session::{Relation, Session};
use crate::switch::Switch;

/// Undoes the last step.
pub fn run(session: &mut Session<'_>) -> Result<(), MigrateError> {
    match session.relation()? {
        Relation::Attached { .. } => detach(session),
        Relation::Reversed { is_linked: false } if session.cli.discard => reopen(session),
        Relation::Reversed { is_linked } => {
            if !is_linked {
                session.progress.line(
                    "the source has no link to the target; --undo --discard makes it the primary without waiting for one",
                );
            }
            switch_back(session)
        }
        Relation::Separate if session.record.stage() == Stage::Returning && is_source_complete(session)? => {
            session.progress.line("the source is the primary again already: only the rest is left");
            finish_return(session)
        }
        Relation::Separate if session.record.stage() != Stage::Begun => reopen(session),
        // Its primary is another server at the same address.
        Relation::Separate if session.record.is_stored() && is_replica_at_source_address(session)? => {
            detach(session)
        }
        Relation::Separate if session.record.is_stored() => {
            restore_all(session)?;
            fence::lift(session, Side::Target)?;
            if session.cli.discard {
                fence::lift(session, Side::Source)?;
            }
            session.progress.line(
                "undone: the settings of both servers are restored, and neither gets the writes to the other",
            );
            session.record.remove()?;
            still_fenced(session)
        }
        Relation::Separate => without_record(session),
    }
}

/// Whether the source is a primary, and has been since it had all writes, and the target has refused writes since then.
fn is_source_complete(session: &mut Session<'_>) -> Result<bool, MigrateError> {
    let run_id = session.servers.source.run_id()?;
    let role = session.servers.source.info("replication")?.role();
    let is_closed = session.cli.no_fence || fence::is_raised(&mut session.servers.target)?;
    Ok(is_closed && role == Role::Primary && session.record.is_complete(run_id.as_deref()))
}

/// Prints which servers have the fence of another move, which stays.
fn still_fenced(session: &mut Session<'_>) -> Result<(), MigrateError> {
    for side in [Side::Source, Side::Target] {
        let server = session.servers.get(side);
        if fence::is_raised(server)? {
            session.progress.line(&other_fence(server));
        }
    }
    Ok(())
}

fn other_fence(server: &Server) -> String {
    format!(
        "{} refuses writes: it has the fence of another move, which --undo of that one ends",
        server.name()
    )
}

fn is_replica_at_source_address(session: &mut Session<'_>) -> Result<bool, MigrateError> {
    let role = session.servers.target.info("replication")?.role();
    Ok(matches!(role, Role::Replica { primary, .. } if primary == *session.address(Side::Source)))
}

/// The record may be that of another user, or be named by other names of the servers.
fn without_record(session: &mut Session<'_>) -> Result<(), MigrateError> {
    let is_fenced = fence::is_raised(&mut session.servers.source)?;
    if is_fenced && session.cli.discard {
        return reopen(session);
    }
    if is_fenced {
        return Err(MigrateError::refused(format!(
            "{} refuses writes, as after a switch, but {} does not exist: give --from, --to and --state as at the switch; or \
             --discard lets it accept writes again, without those to the target since then",
            session.servers.source.name(),
            session.record.path().display()
        )));
    }
    if fence::is_raised(&mut session.servers.target)? {
        fence::lift(session, Side::Target)?;
        session.progress.line("undone: both servers accept writes");
        return Ok(());
    }
    let text = "neither server replicates from the other, and no step of a move between them is recorded: nothing to undo";
    session.progress.line(text);
    Ok(())
}

/// Detaches a target that is a replica of a source that can't be reached; with `--discard`, lets a fenced one accept writes. What
/// is to be undone in the source stays recorded.
///
/// # Errors
/// `unreachable` in any other state, which can't be told without the source.
pub fn without_source(
    cli: &Cli,
    mut target: Server,
    mut record: Record,
    unreachable: MigrateError,
) -> Result<(), MigrateError> {
    let is_attached = match target.info("replication")?.role() {
        Role::Replica { primary, .. } if primary == *cli.source_address() => true,
        Role::Primary if fence::is_raised(&mut target)? => false,
        _ => return Err(unreachable),
    };
    if !is_attached && !cli.discard {
        return Err(MigrateError::refused(format!(
            "{unreachable}: the source may have writes that the target does not have. {} refuses writes; --undo --discard lets \
             it accept them without those",
            target.name()
        )));
    }
    let progress = Progress::new(!cli.no_progress);
    progress.line(&format!("{unreachable}: the source could not be reached, so only the target is changed"));
    if is_attached {
        replication::detach(&mut target)?;
    }
    record.restore(Side::Target, &mut target, |_| true)?;
    if is_attached && !record.is_stored() {
        progress.line(&login_stays(&target));
    }
    if cli.discard
        && let Some(line) = fence::lift_unrecorded(&mut target)?
    {
        progress.line(&line);
    }
    if fence::is_raised(&mut target)? {
        progress.line(&other_fence(&target));
    }
    progress.line(&if is_attached {
        detached(&mut target)?
    } else {
        format!(
            "undone: {} accepts writes again; keep clients away from the source when it is back",
            target.name()
        )
    });
    keep_remaining(&progress, cli, record, Side::Source)
}

/// Lets a source accept writes again whose target can't be reached. What is to be undone in the target stays recorded.
///
/// # Errors
/// `unreachable` without `--discard`: the target may be the primary, with writes that the source does not have.
pub fn without_target(
    cli: &Cli,
    mut source: Server,
    mut record: Record,
    unreachable: &MigrateError,
) -> Result<(), MigrateError> {
    let progress = Progress::new(!cli.no_progress);
    let name = source.name();
    let is_fenced = fence::is_raised(&mut source)?;
    if !cli.discard {
        let state = if is_fenced { "refuses writes" } else { "is unchanged" };
        return Err(MigrateError::refused(format!(
            "{unreachable}: the target may have writes since a switch. {name} {state}; --undo --discard lets it accept writes \
             without those"
        )));
    }
    let role = source.info("replication")?.role();
    let is_replica = is_detachable(role, &record, cli.target_address(), &name)?;
    progress.line(&format!("{unreachable}: the target could not be reached, so only the source is changed"));
    if is_replica {
        replication::detach(&mut source)?;
    }
    record.restore(Side::Source, &mut source, |_| true)?;
    if let Some(line) = fence::lift_unrecorded(&mut source)? {
        progress.line(&line);
    }
    progress.line(&format!(
        "undone: {name} accepts writes again, without those to the target since a switch; clients are to be pointed to it, \
         and none to the target when it is back"
    ));
    if !record.is_stored() {
        return Ok(());
    }
    keep_remaining(&progress, cli, record, Side::Target)
}

/// Keeps the record while settings of the server that could not be reached remain to be restored, and says so.
fn keep_remaining(
    progress: &Progress,
    cli: &Cli,
    mut record: Record,
    unreachable: Side,
) -> Result<(), MigrateError> {
    let settings = record.changed(unreachable).join(", ");
    if settings.is_empty() {
        progress.line(&format!("no settings of the {unreachable} remain to be restored"));
        return record.remove();
    }
    record.set_stage(Stage::Begun)?;
    progress.line(&format!(
        "settings of the {unreachable} remain to be restored ({settings}): --undo once more, when it can be reached"
    ));
    progress.line(&format!("undo:  {}", cli.undo_command()));
    Ok(())
}

/// The target is a replica of the source.
fn detach(session: &mut Session<'_>) -> Result<(), MigrateError> {
    replication::detach(session.server(Side::Target))?;
    if session.record.is_stored() {
        restore_all(session)?;
        session.record.remove()?;
    } else {
        session.progress.line(&login_stays(&session.servers.target));
    }
    let source = session.servers.source.name();
    let line = detached(session.server(Side::Target))?;
    session.progress.line(&format!("{line}; {source} is as before the move"));
    still_fenced(session)
}

fn login_stays(target: &Server) -> String {
    format!("{}: no record of earlier settings: its login for the source stays", target.name())
}

fn detached(target: &mut Server) -> Result<String, MigrateError> {
    let keys: u64 = target.keyspace()?.values().map(|counts| counts.keys).sum();
    let name = target.name();
    Ok(format!("undone: {name} is detached, with the {keys} keys that it has got (FLUSHALL deletes them)"))
}

/// The source is a replica of the target.
fn switch_back(session: &mut Session<'_>) -> Result<(), MigrateError> {
    replication::follow(session, Side::Source)?;
    let mut link = ReplicaLink { from: Side::Target, time_max: session.cli.pause_max };
    let back =
        Switch { old: Side::Target, is_replica: true, is_reversed: false, is_fenced: !session.cli.no_fence };
    back.run(session, &mut link)?;
    conclude_return(session)
}

/// What [`Switch`] does after the promotion of the source, in an earlier run that has not done it.
fn finish_return(session: &mut Session<'_>) -> Result<(), MigrateError> {
    session.restore(Side::Source, |_| true)?;
    fence::lift(session, Side::Source)?;
    if session.cli.no_fence {
        fence::lift(session, Side::Target)?;
    }
    conclude_return(session)
}

fn conclude_return(session: &mut Session<'_>) -> Result<(), MigrateError> {
    session.record.set_stage(Stage::Begun)?;
    let (source, target) = (session.servers.source.name(), session.servers.target.name());
    session.progress.line(&format!("undone: clients are to be pointed to {source}"));
    if session.cli.no_fence {
        session
            .progress
            .line(&format!("{target} is a primary of its own, whose writes the source does not get"));
        return session.record.remove();
    }
    session.progress.line(&format!("{target} refuses writes; --undo once more ends that"));
    Ok(())
}

/// The target is the primary, and the source is not its replica.
fn reopen(session: &mut Session<'_>) -> Result<(), MigrateError> {
    let (source, target) = (session.servers.source.name(), session.servers.target.name());
    if !session.cli.discard {
        let since = match session.record.stage() {
            Stage::Returning => {
                "because a server has restarted or changed its role since --undo made it the primary again"
            }
            _ => "since the switch",
        };
        let record = if fence::is_raised(&mut session.servers.source)? {
            String::new()
        } else {
            let path = session.record.path().display();
            format!(
                ". If this move was undone already, by other names of the servers, remove the record {path}"
            )
        };
        return Err(MigrateError::refused(format!(
            "{source} may lack writes to {target}, {since}; --discard accepts that they are missing, and a move from {target} to \
             {source} with --overwrite copies them{record}"
        )));
    }
    let role = session.servers.source.info("replication")?.role();
    let is_replica = is_detachable(role, &session.record, session.address(Side::Target), &source)?;
    if !session.cli.no_fence {
        fence::raise(session, Side::Target)?;
    }
    if is_replica {
        replication::detach(&mut session.servers.source)?;
    }
    session.restore(Side::Source, |_| true)?;
    fence::lift(session, Side::Source)?;
    session.record.set_stage(Stage::Begun)?;
    session.progress.line(&format!(
        "undone: {source} accepts writes again, without those to the target since the switch; clients are to be pointed to it"
    ));
    if session.cli.no_fence {
        return session.record.remove();
    }
    session.progress.line(&format!("{target} refuses writes; --undo once more ends that"));
    Ok(())
}

/// Whether the source is a replica that may be made a primary.
///
/// # Errors
/// It is a replica of a third server, by something else than this tool.
fn is_detachable(role: Role, record: &Record, target: &HostPort, source: &str) -> Result<bool, MigrateError> {
    match role {
        Role::Primary => Ok(false),
        Role::Replica { primary, .. }
            if primary == *target || matches!(record.stage(), Stage::Reversed | Stage::Returning) =>
        {
            Ok(true)
        }
        Role::Replica { primary, .. } => Err(MigrateError::refused(format!(
            "{source} is a replica of {primary}, by something else than this tool: REPLICAOF NO ONE on it first"
        ))),
    }
}

/// A fence that is not recorded belongs to another move, and stays.
fn restore_all(session: &mut Session<'_>) -> Result<(), MigrateError> {
    for side in [Side::Target, Side::Source] {
        session.restore(side, |_| true)?;
    }
    Ok(())
}
