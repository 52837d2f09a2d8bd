//! `--undo`: back to the state before the last step, as the roles of the servers and the record tell it.

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
        Relation::Reversed { .. } => switch_back(session),
        Relation::Separate if !session.record.is_stored() => {
            let text = "neither server replicates from the other, and no step of a move between them is recorded: nothing to undo";
            session.progress.line(text);
            Ok(())
        }
        Relation::Separate => match session.record.stage() {
            Stage::Switched | Stage::Reversed => reopen(session),
            Stage::Begun => {
                restore_all(session)?;
                session.progress.line("undone: the settings of both servers are restored");
                session.record.remove()
            }
        },
    }
}

/// Detaches a target that is a replica of a source that can't be reached. What is to be undone in the source stays recorded.
///
/// # Errors
/// `unreachable`, if the target is not a replica of the source: then the state can't be told without the source.
pub fn without_source(
    cli: &Cli,
    mut target: Server,
    mut record: Record,
    unreachable: MigrateError,
) -> Result<(), MigrateError> {
    match target.info("replication")?.role() {
        Role::Replica { primary, .. } if primary == *cli.source_address() => {}
        _ => return Err(unreachable),
    }
    let progress = Progress::new(!cli.no_progress);
    progress.line(&format!("{unreachable}: the source could not be reached, so only the target is changed"));
    replication::detach(&mut target)?;
    if record.is_stored() {
        record.restore(Side::Target, &mut target, |_| true)?;
    } else {
        progress.line(&without_record(&target));
    }
    progress.line(&detached(&mut target)?);
    let remaining = record.changed(Side::Source).join(", ");
    if remaining.is_empty() {
        progress.line("no settings of the source remain to be restored");
        return record.remove();
    }
    record.set_stage(Stage::Begun)?;
    progress.line(&format!(
        "settings of the source remain to be restored ({remaining}): --undo once more, when it can be reached"
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
        session.progress.line(&without_record(&session.servers.target));
    }
    let source = session.servers.source.name();
    let line = detached(session.server(Side::Target))?;
    session.progress.line(&format!("{line}; {source} is unchanged"));
    Ok(())
}

fn without_record(target: &Server) -> String {
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
        return Err(MigrateError::refused(format!(
            "{source} has not received the writes to {target} since the switch; --discard accepts that they are missing"
        )));
    }
    if !session.cli.no_fence {
        fence::raise(session, Side::Target)?;
    }
    session.restore(Side::Source, |_| true)?;
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

fn restore_all(session: &mut Session<'_>) -> Result<(), MigrateError> {
    session.restore(Side::Target, |_| true)?;
    session.restore(Side::Source, |_| true)
}
