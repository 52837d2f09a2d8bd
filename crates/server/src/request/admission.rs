//! Whether the modes of the server and the connection allow a request now: one list of checks for requests of clients, of
//! scripts, and of those that continue after a wait. The first check that applies decides, so its error wins, in the order of
//! Valkey.
//!
//! A pure function of a [`Candidate`]. Authentication and permissions are checked before (`executor/permissions.rs`); what
//! they require is in `commands::acl`.

use commands::command::{Access, Flags};
use commands::error::CommandError;
use commands::session::{Queued, Session, SessionFlags};
use commands::table::{CATALOGUE, ResolvedCommand};
use wire::reply::Protocol;

use crate::shared::modes::GlobalFlags;

/// Why a request is to be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A client has sent it.
    Client,
    /// It has been admitted, and has waited for a latch since.
    Resumed,
    /// A script calls it.
    Script,
}

/// A request to be checked.
pub struct Candidate<'a> {
    /// Why it is checked.
    pub origin: Origin,
    /// The command.
    pub found: ResolvedCommand,
    /// The session that runs it.
    pub session: &'a Session,
    /// The modes of the server ([`GlobalFlags`]).
    pub modes: u32,
    /// The flags of the command, and of all commands of the transaction that it runs, as the scripts among them declare. Asked
    /// only in modes that depend on them.
    pub declared_flags: &'a dyn Fn() -> Flags,
    /// The same flags as the commands define them.
    pub own_flags: &'a dyn Fn() -> Flags,
    /// Whether it needs memory, and there is none.
    pub lacks_memory: bool,
    /// Whether a pause of clients has not ended yet.
    pub is_pause_in_force: bool,
    /// Whether it may change entries that the snapshot must save first, and has no room to preserve.
    pub outruns_snapshot: bool,
    /// The address of the primary, with which a client is redirected. Asked only for a request that is then refused.
    pub redirection: &'a dyn Fn() -> Option<String>,
    /// Why the append-only file can't be written, while that is so. Asked only for a request that is then refused.
    pub append_failure: &'a dyn Fn() -> Option<String>,
    /// `extended-redis-compatibility`: errors have the words of Redis.
    pub is_redis: bool,
}

/// Why a request does not run now.
#[derive(Debug)]
pub enum Hindrance {
    /// It is refused with this error.
    Refused(CommandError),
    /// It waits until the snapshot has made room.
    Snapshot,
    /// It waits for the end of the pause.
    Pause,
    /// It is queued for `EXEC`.
    Queue,
}

/// The checks, in the order in which they decide, and the origins of the requests that they are for.
const CHECKS: [(Check, &[Origin]); 15] = {
    use Origin::{Client, Resumed, Script};
    [
        (redirect, &[Client, Resumed]),
        (stale_in_script, &[Script]),
        (memory, &[Client]),
        (saving, &[Client, Script]),
        (append_only_file, &[Client, Script]),
        (replicas, &[Client, Script]),
        (read_only, &[Client, Resumed, Script]),
        (memory, &[Script]),
        (subscriptions, &[Client]),
        (stale, &[Client]),
        (loading, &[Client, Resumed]),
        (monitors, &[Client]),
        (snapshot, &[Client]),
        (pause, &[Client, Resumed]),
        (transaction, &[Client]),
    ]
};

type Check = fn(&Candidate<'_>) -> Option<Hindrance>;

/// The reply to a command on data of a connection in `MONITOR`, in the words of Valkey, where it counts as a replica.
const MONITOR_DENIED: CommandError = CommandError::new("ERR Replica can't interact with the keyspace");

/// What hinders a request. `None`: it may run now.
#[must_use]
pub fn hindrance(candidate: &Candidate<'_>) -> Option<Hindrance> {
    let mut checks = CHECKS.iter().filter(|(_, origins)| origins.contains(&candidate.origin));
    checks.find_map(|(check, _)| check(candidate))
}

/// The requests of the transaction that a request runs.
pub fn queued_by(session: &Session, found: ResolvedCommand) -> impl Iterator<Item = Queued<'_>> {
    let queue = session.transaction().filter(|_| found.command.access == Access::Queued);
    queue.into_iter().flat_map(|queue| queue.iter())
}

impl Candidate<'_> {
    fn has_mode(&self, mode: u32) -> bool {
        self.modes & mode != 0
    }

    /// Whether it writes, or must show whether writes are refused, as a `PING` does by itself for health checks.
    fn writes_or_shows_health(&self) -> bool {
        self.writes()
            || self.origin == Origin::Client && self.found.command.flags.contains(Flags::SHOWS_HEALTH)
    }

    /// Whether it runs a transaction in which some command may not run on a replica with old data.
    fn queues_other(&self) -> bool {
        queued_by(self.session, self.found).any(|queued| !queued.found.command.flags.contains(Flags::STALE))
    }

    fn writes(&self) -> bool {
        (self.declared_flags)().contains(Flags::WRITE)
    }
}

/// A replica redirects clients that want it (`CLIENT CAPA redirect`), unless they only read and accept what it has.
fn redirect(candidate: &Candidate<'_>) -> Option<Hindrance> {
    let options = &candidate.session.options;
    if !options.follows_redirects || !candidate.has_mode(GlobalFlags::REPLICA) {
        return None;
    }
    let reads = || !options.is_read_only && (candidate.declared_flags)().contains(Flags::READONLY);
    if !candidate.writes() && !reads() {
        return None;
    }
    if candidate.has_mode(GlobalFlags::FAILING_OVER) {
        // The target would redirect it back.
        return Some(Hindrance::Pause);
    }
    let address = (candidate.redirection)()?;
    Some(Hindrance::Refused(CommandError::owned(format!("REDIRECT {address}"))))
}

fn memory(candidate: &Candidate<'_>) -> Option<Hindrance> {
    candidate.lacks_memory.then_some(Hindrance::Refused(CommandError::OUT_OF_MEMORY))
}

fn subscriptions(candidate: &Candidate<'_>) -> Option<Hindrance> {
    let Candidate { session, found, .. } = *candidate;
    let is_confined = session.in_subscribed_mode() && session.protocol == Protocol::Resp2;
    if !is_confined || found.command.flags.intersects(Flags::PUSH_REPLY | Flags::FOR_SUBSCRIBERS) {
        return None;
    }
    let name = CATALOGUE.name(found.id);
    Some(Hindrance::Refused(CommandError::owned(format!(
        "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in \
         this context"
    ))))
}

fn append_only_file(candidate: &Candidate<'_>) -> Option<Hindrance> {
    if !candidate.has_mode(GlobalFlags::APPEND_FAILED) || !candidate.writes_or_shows_health() {
        return None;
    }
    let error = format!("MISCONF Errors writing to the AOF file: {}", (candidate.append_failure)()?);
    Some(Hindrance::Refused(CommandError::owned(error)))
}

fn replicas(candidate: &Candidate<'_>) -> Option<Hindrance> {
    (candidate.has_mode(GlobalFlags::NO_REPLICAS) && candidate.writes())
        .then_some(Hindrance::Refused(CommandError::NO_REPLICAS))
}

/// A replica changes its data as its primary does, and no client may change them.
fn read_only(candidate: &Candidate<'_>) -> Option<Hindrance> {
    (candidate.has_mode(GlobalFlags::READ_ONLY) && candidate.writes())
        .then_some(Hindrance::Refused(CommandError::READ_ONLY))
}

fn stale(candidate: &Candidate<'_>) -> Option<Hindrance> {
    let may_run = || (candidate.declared_flags)().contains(Flags::STALE) && !candidate.queues_other();
    (candidate.has_mode(GlobalFlags::STALE) && !may_run()).then_some(Hindrance::Refused(CommandError::STALE))
}

/// A script that runs on a replica with old data may not show them.
fn stale_in_script(candidate: &Candidate<'_>) -> Option<Hindrance> {
    const STALE: CommandError = CommandError::new("ERR Can not execute the command on a stale replica");
    let may_run = || candidate.found.command.flags.contains(Flags::STALE);
    (candidate.has_mode(GlobalFlags::STALE) && !may_run()).then_some(Hindrance::Refused(STALE))
}

fn loading(candidate: &Candidate<'_>) -> Option<Hindrance> {
    if !candidate.has_mode(GlobalFlags::ANY_LOADING) {
        return None;
    }
    let is_allowed = |found: ResolvedCommand| match candidate.has_mode(GlobalFlags::LOADING) {
        true => found.command.flags.contains(Flags::LOADING),
        false => !found.command.flags.contains(Flags::NO_ASYNC_LOADING),
    };
    let mut queued = queued_by(candidate.session, candidate.found);
    if is_allowed(candidate.found) && queued.all(|queued| is_allowed(queued.found)) {
        return None;
    }
    Some(Hindrance::Refused(CommandError::loading(candidate.is_redis)))
}

fn saving(candidate: &Candidate<'_>) -> Option<Hindrance> {
    (candidate.has_mode(GlobalFlags::UNSAVED) && candidate.writes_or_shows_health())
        .then(|| Hindrance::Refused(CommandError::unsaved(candidate.is_redis)))
}

/// A connection in `MONITOR`, or of a replica, may not read or change data, or publish.
fn monitors(candidate: &Candidate<'_>) -> Option<Hindrance> {
    (candidate.session.flags.intersects(SessionFlags::MONITOR | SessionFlags::REPLICA)
        && (candidate.own_flags)().intersects(Flags::READONLY | Flags::WRITE | Flags::MAY_REPLICATE))
    .then_some(Hindrance::Refused(MONITOR_DENIED))
}

fn snapshot(candidate: &Candidate<'_>) -> Option<Hindrance> {
    (candidate.outruns_snapshot && candidate.writes()).then_some(Hindrance::Snapshot)
}

/// Replicas go on: a failover or a shutdown may wait for what they acknowledge.
fn pause(candidate: &Candidate<'_>) -> Option<Hindrance> {
    if !candidate.is_pause_in_force || candidate.session.flags.contains(SessionFlags::REPLICA) {
        return None;
    }
    let waits = match candidate.has_mode(GlobalFlags::PAUSED) {
        true => !candidate.found.command.flags.contains(Flags::NO_PAUSE),
        false => (candidate.declared_flags)().intersects(Flags::WRITE | Flags::MAY_REPLICATE),
    };
    waits.then_some(Hindrance::Pause)
}

fn transaction(candidate: &Candidate<'_>) -> Option<Hindrance> {
    (candidate.session.in_multi() && !candidate.found.command.flags.contains(Flags::NO_QUEUE))
        .then_some(Hindrance::Queue)
}

#[cfg(test)]
mod tests {
    use commands::acl::Users;
    use commands::index::Index;
    use commands::session::Endpoints;

    use super::*;

    /// What the checks of a SET look at.
    struct State {
        session: Session,
        modes: u32,
        lacks_memory: bool,
        is_pause_in_force: bool,
        outruns_snapshot: bool,
        /// The flags of the commands that it runs.
        queued: Flags,
    }

    /// A state in which a check applies, and how its outcome begins.
    type Row = (fn(&mut State), &'static str);

    const UNSAVED: Row = (|state| state.modes |= GlobalFlags::UNSAVED, "MISCONF Valkey");
    const UNWRITABLE: Row = (|state| state.modes |= GlobalFlags::APPEND_FAILED, "MISCONF Errors");
    const NO_REPLICAS: Row = (|state| state.modes |= GlobalFlags::NO_REPLICAS, "NOREPLICAS");
    const READ_ONLY: Row = (|state| state.modes |= GlobalFlags::READ_ONLY, "READONLY");
    const STALE: Row = (|state| state.modes |= GlobalFlags::STALE, "MASTERDOWN");
    const REDIRECTED: Row = (
        |state| {
            state.session.options.follows_redirects = true;
            state.modes |= GlobalFlags::REPLICA;
        },
        "REDIRECT host:1",
    );
    const NO_MEMORY: Row = (|state| state.lacks_memory = true, "OOM");
    const LOADING: Row = (|state| state.modes |= GlobalFlags::LOADING, "LOADING");
    const PAUSED: Row = (|state| state.is_pause_in_force = true, "Some(Pause)");
    const SUBSCRIBED: Row =
        (|state| state.session.flags |= SessionFlags::SUBSCRIBED, "ERR Can't execute 'set'");
    const MONITOR: Row = (|state| state.session.flags |= SessionFlags::MONITOR, "ERR Replica");
    const SNAPSHOT_FULL: Row = (|state| state.outruns_snapshot = true, "Some(Snapshot)");
    const MULTI: Row = (|state| state.session.multi = Some(Box::default()), "Some(Queue)");

    /// The order of `processCommand` in Valkey.
    const OF_CLIENT: [Row; 13] = [
        REDIRECTED,
        NO_MEMORY,
        UNSAVED,
        UNWRITABLE,
        NO_REPLICAS,
        READ_ONLY,
        SUBSCRIBED,
        STALE,
        LOADING,
        MONITOR,
        SNAPSHOT_FULL,
        PAUSED,
        MULTI,
    ];

    fn outcome(origin: Origin, command: &str, rows: &[Row]) -> String {
        let found = Index::new().find(command.as_bytes()).expect("a command");
        let mut state = State {
            session: Session::new(1, Endpoints::none(""), &Users::new(&CATALOGUE)),
            modes: 0,
            lacks_memory: false,
            is_pause_in_force: false,
            outruns_snapshot: false,
            queued: Flags::empty(),
        };
        rows.iter().for_each(|(apply, _)| apply(&mut state));
        let flags = || found.command.flags | state.queued;
        let candidate = Candidate {
            origin,
            found,
            session: &state.session,
            modes: state.modes,
            declared_flags: &flags,
            own_flags: &flags,
            lacks_memory: state.lacks_memory,
            is_pause_in_force: state.is_pause_in_force,
            outruns_snapshot: state.outruns_snapshot,
            redirection: &|| Some("host:1".to_owned()),
            append_failure: &|| Some("no space".to_owned()),
            is_redis: false,
        };
        match hindrance(&candidate) {
            Some(Hindrance::Refused(error)) => String::from_utf8_lossy(error.text()).into_owned(),
            other => format!("{other:?}"),
        }
    }

    fn expect_order(origin: Origin, rows: &[Row]) {
        for (index, (_, expected)) in rows.iter().enumerate() {
            for all in [&rows[index..], &rows[index..=index]] {
                let outcome = outcome(origin, "set", all);
                assert!(outcome.starts_with(expected), "{origin:?}, {index}: {outcome}");
            }
        }
        assert_eq!(outcome(origin, "set", &[]), "None");
    }

    #[test]
    fn the_first_check_decides() {
        expect_order(Origin::Client, &OF_CLIENT);
        const STALE_IN_SCRIPT: Row = (STALE.0, "ERR Can not execute");
        expect_order(
            Origin::Script,
            &[STALE_IN_SCRIPT, UNSAVED, UNWRITABLE, NO_REPLICAS, READ_ONLY, NO_MEMORY],
        );
        expect_order(Origin::Resumed, &[REDIRECTED, READ_ONLY, LOADING, PAUSED]);
    }

    #[test]
    fn the_other_checks_are_not_for_every_origin() {
        let others = [SUBSCRIBED, LOADING, MONITOR, SNAPSHOT_FULL, PAUSED, MULTI];
        assert_eq!(outcome(Origin::Script, "set", &others), "None");
        let others =
            [NO_MEMORY, UNSAVED, UNWRITABLE, NO_REPLICAS, SUBSCRIBED, STALE, MONITOR, SNAPSHOT_FULL, MULTI];
        assert_eq!(outcome(Origin::Resumed, "set", &others), "None");
    }

    #[test]
    fn requests_on_data_run_while_others_are_loaded_beside_them() {
        const BESIDE: Row = (|state| state.modes |= GlobalFlags::ASYNC_LOADING, "LOADING");
        for command in ["replicaof", "psync", "bgsave"] {
            assert!(outcome(Origin::Client, command, &[BESIDE]).starts_with("LOADING"), "{command}");
        }
        for command in ["get", "set", "exec"] {
            assert_eq!(outcome(Origin::Client, command, &[BESIDE]), "None", "{command}");
        }
    }

    #[test]
    fn health_checks_show_that_changes_are_not_stored() {
        for (row, expected) in
            [(UNSAVED, "MISCONF Valkey"), (UNWRITABLE, "MISCONF Errors"), (NO_REPLICAS, "None")]
        {
            assert!(outcome(Origin::Client, "ping", &[row]).starts_with(expected), "{expected}");
            assert_eq!(outcome(Origin::Script, "ping", &[row]), "None");
            assert_eq!(outcome(Origin::Client, "get", &[row]), "None");
        }
        assert_eq!(outcome(Origin::Client, "ping", &[SUBSCRIBED, MONITOR]), "None");
        // One that a transaction runs does not make the transaction fail.
        const QUEUED: Row = (|state| state.queued = Flags::SHOWS_HEALTH, "");
        assert_eq!(outcome(Origin::Client, "exec", &[UNSAVED, UNWRITABLE, QUEUED]), "None");
        const WRITE_QUEUED: Row = (|state| state.queued = Flags::WRITE, "");
        assert!(outcome(Origin::Client, "exec", &[UNWRITABLE, WRITE_QUEUED]).starts_with("MISCONF Errors"));
    }
}
