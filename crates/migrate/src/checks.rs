//! What must hold before a move, with an error that names the value. Nothing is changed here.

use wire::response::Reply;

use crate::cli::Cli;
use crate::error::MigrateError;
use crate::fence;
use crate::info::Role;
use crate::record::{Side, Stage};
use crate::server::Server;
use crate::session::{Relation, Session};

/// What servers have as modules of their own: the Lua engine of Valkey, the vector sets of Redis 8.
const OWN_MODULES: [&[u8]; 2] = [b"lua", b"vectorset"];

/// The channel that a Sentinel subscribes to on each server that it watches.
const SENTINEL_CHANNEL: &str = "__sentinel__:hello";

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
        if !is_attached {
            is_elsewhere(session.cli, Side::Source)?;
        }
        has_databases(session, Side::Target)?;
        is_at_its_address(session, Side::Source)?;
        if !is_attached {
            is_unwatched(session, Side::Target)?;
        }
        if session.cli.switch {
            is_unwatched(session, Side::Source)?;
        }
    }
    if session.cli.switch
        && let Some(reason) = missing_replicas(session)?
    {
        return Err(MigrateError::refused(format!(
            "after the switch {reason}: lower that setting, or attach replicas to the target first"
        )));
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

/// Checks that the source reaches the target, and no other server, by its address, and can have its data.
pub fn may_reverse(session: &mut Session<'_>) -> Result<(), MigrateError> {
    is_elsewhere(session.cli, Side::Target)?;
    has_databases(session, Side::Source)?;
    is_at_its_address(session, Side::Target)
}

/// Checks that the target is a primary, and has been since it had all changes of the source. The source would lose its data to
/// one that has restarted with less.
pub fn has_complete_target(session: &mut Session<'_>) -> Result<(), MigrateError> {
    let run_id = session.servers.target.run_id()?;
    let role = session.servers.target.info("replication")?.role();
    if role == Role::Primary && session.record.is_complete(run_id.as_deref()) {
        return Ok(());
    }
    let (source, target) = (session.servers.source.name(), session.servers.target.name());
    Err(MigrateError::refused(format!(
        "{target} has restarted or changed its role since the switch, so it may lack data that {source} has: --undo --discard \
         lets {source} accept writes again; or, if {target} has everything, REPLICAOF on {source} makes it a replica, and the same \
         command goes on"
    )))
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
    if !is_attached && session.record.stage() == Stage::Returning {
        return refused(format!(
            "an --undo has made {source_name} the primary again, but has not ended: --undo first"
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

/// Checks that the address of a primary does not stand for the replica's own machine there.
fn is_elsewhere(cli: &Cli, primary: Side) -> Result<(), MigrateError> {
    let (from, to) = (&cli.from.address, &cli.to.address);
    let (option, given, primary, address, name, replica) = match primary {
        Side::Source => ("--from-as", &cli.from_as, "source", from, "target", to),
        Side::Target => ("--to-as", &cli.to_as, "target", to, "source", from),
    };
    // A given address is taken as it is.
    if given.is_none() && address.is_loopback() && !replica.is_loopback() {
        return Err(MigrateError::refused(format!(
            "the {name} {replica} would become a replica of {address}, which is the {name}'s own machine there: {option} gives \
             the address by which the {name} reaches the {primary}"
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

/// Checks that a replica has every database that its primary may write to. It applies writes to another one in a wrong
/// database.
fn has_databases(session: &mut Session<'_>, replica: Side) -> Result<(), MigrateError> {
    let mut count = |side| -> Result<Option<u32>, MigrateError> {
        Ok(session.server(side).setting("databases")?.and_then(|count| count.parse().ok()))
    };
    let (Some(needed), Some(found)) = (count(replica.other())?, count(replica)?) else { return Ok(()) };
    if found >= needed {
        return Ok(());
    }
    let (primary, name) = (session.server(replica.other()).name(), session.server(replica).name());
    let after = if replica == Side::Source { ", which becomes its replica after the switch," } else { "" };
    Err(MigrateError::refused(format!(
        "{primary} has {needed} databases, but {name}{after} has only {found}: give both the same number of databases, and \
         restart the server that you change"
    )))
}

/// Checks that no Sentinel watches a server whose role is about to change: it would make the new primary a replica of the former
/// one, and what clients have written to it would be lost.
fn is_unwatched(session: &mut Session<'_>, side: Side) -> Result<(), MigrateError> {
    let server = session.server(side);
    let count = sentinel_count(server)?;
    if count == 0 {
        return Ok(());
    }
    Err(MigrateError::refused(format!(
        "{count} Sentinels watch {}, and would undo the change of its role: SENTINEL REMOVE on each of them first, and SENTINEL \
         MONITOR for the target when it is the primary",
        server.name()
    )))
}

/// The number of Sentinels that watch a server; 0 if it does not tell.
fn sentinel_count(server: &mut Server) -> Result<i64, MigrateError> {
    let reply = server.try_call(&["PUBSUB", "NUMSUB", SENTINEL_CHANNEL])?;
    Ok(match reply.elements() {
        Some([_, Reply::Integer(count)]) => *count,
        _ => 0,
    })
}

/// Returns that the target will refuse writes as a primary, by its own settings, if it will.
fn missing_replicas(session: &mut Session<'_>) -> Result<Option<String>, MigrateError> {
    let target = &mut session.servers.target;
    let others = target.info("replication")?.number("connected_slaves").unwrap_or_default();
    let count = others + u64::from(session.cli.reverse);
    let missing = fence::replicas_missing(target, count)?;
    Ok(missing.map(|(name, least)| {
        format!("the target refuses writes while it has fewer than {least} replicas ({name}), and it will have {count}")
    }))
}

/// Prints what may go wrong later.
pub fn warn(session: &mut Session<'_>) -> Result<(), MigrateError> {
    let modules = session.servers.source.try_call(&["MODULE", "LIST"])?;
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
    if let Some(reason) = missing_replicas(session)? {
        session.progress.line(&format!("warning: {reason}"));
    }
    let count = if session.cli.by_scan { 0 } else { sentinel_count(&mut session.servers.source)? };
    if count > 0 {
        session.progress.line(&format!(
            "warning: {count} Sentinels watch the source: a failover may make the target the primary (replica-priority 0 in the target \
             prevents it), and they must be told to SENTINEL REMOVE the source before the switch"
        ));
    }
    Ok(())
}

/// Whether a module, in the reply to `MODULE LIST`, does not belong to the server itself.
fn is_foreign(module: &Reply) -> bool {
    let name = module.elements().and_then(|fields| fields.get(1)?.text());
    !name.is_some_and(|name| OWN_MODULES.contains(&name))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn a_server_elsewhere_is_not_made_a_replica_of_its_own_machine() {
        let check_with = |primary: Side, options: &str| {
            let words = ["migrate", "--switch", "--reverse"].into_iter().chain(options.split_whitespace());
            is_elsewhere(&Cli::try_parse_from(words).expect(options), primary)
                .map_err(|error| error.to_string())
        };
        let check = |options: &str| check_with(Side::Target, options);
        assert!(check("--from=redis://10.0.0.5").is_err_and(|error| error.contains("--to-as")));
        assert!(check("--from=redis://10.0.0.5 --to=redis://localhost:7").is_err());
        assert_eq!(check("--from=redis://10.0.0.5 --to-as=10.0.0.6:6379"), Ok(()));
        assert_eq!(check("--from=redis://10.0.0.5 --to=redis://10.0.0.6"), Ok(()));
        assert_eq!(check("--from=redis://127.0.0.1:7"), Ok(()));
        let check = |options: &str| check_with(Side::Source, options);
        let out = "--from=redis://127.0.0.1 --to=redis://10.0.0.6";
        assert!(check(out).is_err_and(|error| error.contains("--from-as")));
        assert_eq!(check(&format!("{out} --from-as=10.0.0.5:6379")), Ok(()));
        assert_eq!(check("--from=redis://10.0.0.5"), Ok(()));
    }
}
