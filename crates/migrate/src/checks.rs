//! What must hold before a move, with an error that names the value. Nothing is changed here.

use wire::response::Reply;

use crate::cli::Cli;
use crate::error::MigrateError;
use crate::fence;
use crate::info::Role;
use crate::record::{Side, Stage};
use crate::session::{Relation, Session};

/// Checks that the options name two servers.
pub fn are_two(session: &mut Session<'_>) -> Result<(), MigrateError> {
    let source = session.servers.source.info("server")?;
    let target = session.servers.target.info("server")?;
    let (source_id, target_id) = (source.field("run_id"), target.field("run_id"));
    if session.from.address == session.to.address || (source_id.is_some() && source_id == target_id) {
        let (from, to) = (&session.cli.from, &session.cli.to);
        return Err(MigrateError::usage(format!("--from {from} and --to {to} are the same server")));
    }
    session.progress.line(&format!("from {} {}", source.product(), session.from.address));
    session.progress.line(&format!("to   {} {}", target.product(), session.to.address));
    Ok(())
}

/// Checks the roles and contents of both servers, and that they reach each other. Returns whether the target is a replica of
/// the source already.
pub fn may_move(session: &mut Session<'_>) -> Result<bool, MigrateError> {
    let is_attached = has_fitting_roles(session)?;
    if !session.cli.by_scan {
        has_databases(session)?;
        is_at_its_address(session, Side::Source)?;
    }
    if session.cli.reverse {
        may_reverse(session)?;
    }
    for side in [Side::Source, Side::Target] {
        let server = session.server(side);
        if server.info("persistence")?.is_on("loading") && !is_attached {
            return Err(MigrateError::refused(format!("{} is still loading its data", server.name())));
        }
        if server.info("cluster")?.is_on("cluster_enabled") {
            return Err(MigrateError::refused(format!(
                "{} is a node of a cluster (cluster-enabled yes), of which only some slots would be moved",
                server.name()
            )));
        }
    }
    if !is_attached {
        let keys: u64 = session.servers.target.keyspace()?.values().map(|counts| counts.keys).sum();
        if keys > 0 && !session.cli.overwrite {
            return Err(MigrateError::refused(format!(
                "{} is not empty: it has {keys} keys, which --overwrite deletes",
                session.servers.target.name()
            )));
        }
    }
    Ok(is_attached)
}

/// Checks that the source reaches the target, and no other server, by its address.
pub fn may_reverse(session: &mut Session<'_>) -> Result<(), MigrateError> {
    has_reachable_target(session.cli)?;
    is_at_its_address(session, Side::Target)
}

/// Checks the roles. Returns whether the target is a replica of the source already.
fn has_fitting_roles(session: &mut Session<'_>) -> Result<bool, MigrateError> {
    let relation = session.relation()?;
    let (source_name, target_name) = (session.servers.source.name(), session.servers.target.name());
    let is_attached = matches!(relation, Relation::Attached { .. });
    let refused = |reason: String| Err(MigrateError::refused(reason));
    if let Relation::Reversed { .. } = relation {
        return refused(format!(
            "{source_name} is a replica of the target already: the move is complete, and --undo makes it the primary again"
        ));
    }
    if !is_attached && session.record.stage() != Stage::Begun {
        return refused(format!(
            "the switch from {source_name} to {target_name} is complete, and {target_name} may have writes since then: --undo \
             --discard first, or remove the record {} if it is out of date",
            session.record.path().display()
        ));
    }
    if let Role::Replica { primary, .. } = session.servers.source.info("replication")?.role() {
        return refused(format!(
            "{source_name} is itself a replica, of {primary}: give that primary as --from"
        ));
    }
    if is_attached && session.cli.by_scan {
        return refused(format!(
            "{target_name} is a replica of {source_name}: switch without --by-scan, or --undo first"
        ));
    }
    if !is_attached && let Role::Replica { primary, .. } = session.servers.target.info("replication")?.role()
    {
        return refused(format!("{target_name} is a replica of {primary}: REPLICAOF NO ONE on it first"));
    }
    Ok(is_attached)
}

/// Checks that the address of the target is not one that is the source's own machine there.
fn has_reachable_target(cli: &Cli) -> Result<(), MigrateError> {
    let target = cli.target_address();
    // A given address is taken as it is.
    if cli.to_as.is_none() && target.is_loopback() && !cli.from.address.is_loopback() {
        return Err(MigrateError::refused(format!(
            "--reverse makes the source {} a replica of {target}, which is the source's own machine there: --to-as gives the \
             address by which the source reaches the target",
            cli.from.address
        )));
    }
    Ok(())
}

/// Checks that a server is at the address that is given for the other one, as far as this tool can tell: a replica of another
/// server would lose its data.
fn is_at_its_address(session: &mut Session<'_>, side: Side) -> Result<(), MigrateError> {
    let (option, given) = match side {
        Side::Source => ("--from-as", &session.cli.from_as),
        Side::Target => ("--to-as", &session.cli.to_as),
    };
    let Some(address) = given else { return Ok(()) };
    // It stands for the machine of the other server.
    if address.is_loopback() && !session.url(side.other()).address.is_loopback() {
        return Ok(());
    }
    let server = session.server(side);
    let own = server.run_id()?;
    let found = server.run_id_at(address);
    if found.is_some() && own.is_some() && found != own {
        return Err(MigrateError::refused(format!(
            "{option} {address} is another server than {}: the other one would get its data",
            server.name()
        )));
    }
    Ok(())
}

/// Checks that the target has every database that the source may write to. A replica applies writes to another one in a
/// wrong database.
fn has_databases(session: &mut Session<'_>) -> Result<(), MigrateError> {
    let mut count = |side| -> Result<Option<u32>, MigrateError> {
        Ok(session.server(side).setting("databases")?.and_then(|count| count.parse().ok()))
    };
    match (count(Side::Source)?, count(Side::Target)?) {
        (Some(source), Some(target)) if target < source => Err(MigrateError::refused(format!(
            "{} has {source} databases, but {} has only {target}: set databases to {source} there, and restart it",
            session.servers.source.name(),
            session.servers.target.name()
        ))),
        _ => Ok(()),
    }
}

/// Prints what may go wrong later.
pub fn warn(session: &mut Session<'_>) -> Result<(), MigrateError> {
    let modules = session.servers.source.try_call(&["MODULE", "LIST"])?;
    // Valkey has its own Lua engine as a module.
    let is_foreign =
        |module: &Reply| module.elements().and_then(|fields| fields.get(1)?.text()) != Some(b"lua");
    if modules.elements().is_some_and(|modules| modules.iter().any(is_foreign)) {
        let warning =
            "warning: the source has modules: keys of their types need the same modules in the target";
        session.progress.line(warning);
    }
    let used = session.servers.source.info("memory")?.number("used_memory").unwrap_or_default();
    let limit = session.servers.target.info("memory")?.number("maxmemory").unwrap_or_default();
    if limit > 0 && limit < used {
        session.progress.line(&format!(
            "warning: the target may use {limit} bytes (maxmemory), but the source uses {used}: keys may be evicted or refused"
        ));
    }
    if let Some((name, count)) = fence::limit(&mut session.servers.target)?
        && count != "0"
        && !fence::is_raised(&mut session.servers.target)?
    {
        session.progress.line(&format!(
            "warning: the target refuses writes while it has fewer than {count} replicas ({name})"
        ));
    }
    let (source, target) = (session.address(Side::Source), &session.cli.to.address);
    if !session.cli.by_scan && source.is_loopback() && !target.is_loopback() {
        session.progress.line(&format!(
            "warning: for the target on {target}, the source {source} is on the target's own machine; --from-as gives another address"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn a_source_elsewhere_is_not_made_a_replica_of_its_own_machine() {
        let check = |options: &str| {
            let words = ["migrate", "--switch", "--reverse"].into_iter().chain(options.split_whitespace());
            has_reachable_target(&Cli::try_parse_from(words).expect(options))
                .map_err(|error| error.to_string())
        };
        assert!(check("--from=redis://10.0.0.5").is_err_and(|error| error.contains("--to-as")));
        assert!(check("--from=redis://10.0.0.5 --to=redis://localhost:7").is_err());
        assert_eq!(check("--from=redis://10.0.0.5 --to-as=10.0.0.6:6379"), Ok(()));
        assert_eq!(check("--from=redis://10.0.0.5 --to=redis://10.0.0.6"), Ok(()));
        assert_eq!(check("--from=redis://127.0.0.1:7"), Ok(()));
    }
}
