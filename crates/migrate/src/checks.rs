//! What must hold before a move, with an error that names the value. Nothing is changed here.

use wire::response::Reply;

use crate::error::MigrateError;
use crate::info::Role;
use crate::record::Side;
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

/// Checks the roles and contents of both servers. Returns whether the target is a replica of the source already.
pub fn may_move(session: &mut Session<'_>) -> Result<bool, MigrateError> {
    let relation = session.relation()?;
    let source = session.servers.source.info("replication")?;
    let (source_name, target_name) = (session.servers.source.name(), session.servers.target.name());
    if let Relation::Reversed { .. } = relation {
        return Err(MigrateError::refused(format!(
            "{source_name} is a replica of the target already: the move is complete, and --undo makes it the primary again"
        )));
    }
    if let Role::Replica { primary, .. } = source.role() {
        return Err(MigrateError::refused(format!(
            "{source_name} is itself a replica, of {primary}: give that primary as --from"
        )));
    }
    let is_attached = matches!(relation, Relation::Attached { .. });
    if !is_attached && let Role::Replica { primary, .. } = session.servers.target.info("replication")?.role()
    {
        return Err(MigrateError::refused(format!(
            "{target_name} is a replica of {primary}: REPLICAOF NO ONE on it first"
        )));
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
                "{target_name} is not empty: it has {keys} keys, which --overwrite deletes"
            )));
        }
    }
    Ok(is_attached)
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
    let (source, target) = (session.address(Side::Source), &session.cli.to.address);
    if !session.cli.by_scan && source.is_loopback() && !target.is_loopback() {
        session.progress.line(&format!(
            "warning: for the target on {target}, the source {source} is on the target's own machine; --from-as gives another address"
        ));
    }
    Ok(())
}
