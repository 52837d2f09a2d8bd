//! Replication between the servers: attaching a replica, following it until it is in step, detaching it.

use std::time::{Duration, Instant};

use tool::interrupt;
use wire::response::Reply;

use crate::address::HostPort;
use crate::error::{MigrateError, in_seconds};
use crate::info::{Info, Position, Role};
use crate::progress::Phase;
use crate::record::{Side, Stage};
use crate::server::Server;
use crate::servers::{Link, Servers};
use crate::session::Session;

/// Time between two readings of the state.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Time between two readings of an offset that is waited for.
const OFFSET_INTERVAL: Duration = Duration::from_millis(5);

/// A replica that gets each change within this time is in step.
const LAG_MAX: Duration = Duration::from_secs(1);

const NO_REPLICA: &str = "it is not a replica any more: something else has changed its role";

/// Full synchronisations that may fail.
const SYNC_ATTEMPTS_MAX: u32 = 3;

/// The settings of a replica that say how it connects to its primary. All servers have these names, also as aliases.
const LOGIN: [&str; 3] = ["masteruser", "masterauth", "tls-replication"];

/// Whether a setting belongs to the link of a replica to its primary.
pub fn is_login(name: &str) -> bool {
    LOGIN.contains(&name)
}

/// Replication from one server to the other.
pub struct ReplicaLink {
    /// The primary.
    pub from: Side,
    /// Maximum time of [`Link::settle`].
    pub time_max: Duration,
}

impl ReplicaLink {
    /// Returns the position of the primary.
    fn wanted(&self, servers: &mut Servers) -> Result<Position, MigrateError> {
        let server = servers.get(self.from);
        match server.position()? {
            (position, Role::Primary) => Ok(position),
            (_, Role::Replica { primary, .. }) => Err(MigrateError::refused(format!(
                "{} is a replica of {primary} now: something else has changed its role",
                server.name()
            ))),
        }
    }
}

impl Link for ReplicaLink {
    fn settle(&mut self, servers: &mut Servers) -> Result<(), MigrateError> {
        let mut wanted = self.wanted(servers)?;
        let time_max = servers.at_most(self.time_max);
        let deadline = Instant::now() + time_max;
        loop {
            let replica = servers.get(self.from.other());
            let (reached, role) = replica.position()?;
            let name = replica.name();
            let Some(gap) = Gap::between(&wanted, &reached, &role) else { return Ok(()) };
            // The next reading is to be made before the deadline, so that the lag is what the error names.
            if gap == Gap::NoReplica || Instant::now() + OFFSET_INTERVAL >= deadline {
                return Err(gap.into_error(name, &servers.get(self.from).name(), time_max));
            }
            interrupt::sleep(OFFSET_INTERVAL)?;
            if let Gap::History { .. } = gap {
                // The primary begins another history with its first replica.
                wanted = self.wanted(servers)?;
            }
        }
    }

    fn skips_expired(&self) -> bool {
        false
    }
}

/// Why a replica does not have all changes of its primary.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Gap {
    /// It is a primary, whose own offset tells nothing.
    NoReplica,
    NoLink,
    /// It replicates from another server, or from the state of an earlier start.
    History {
        address: HostPort,
    },
    Bytes(u64),
}

impl Gap {
    /// Returns what a replica misses.
    fn between(wanted: &Position, reached: &Position, role: &Role) -> Option<Self> {
        match role {
            Role::Primary => Some(Self::NoReplica),
            Role::Replica { is_linked: false, .. } => Some(Self::NoLink),
            Role::Replica { primary, .. } if reached.is_of_another_history(wanted) => {
                Some(Self::History { address: primary.clone() })
            }
            Role::Replica { .. } => {
                Some(wanted.offset.saturating_sub(reached.offset)).filter(|&bytes| bytes > 0).map(Self::Bytes)
            }
        }
    }

    fn into_error(self, replica: String, primary: &str, time_max: Duration) -> MigrateError {
        let time = in_seconds(time_max);
        let reason = match self {
            Self::NoReplica => NO_REPLICA.to_owned(),
            Self::NoLink => format!("it has had no link to its primary for {time}"),
            Self::History { address } => {
                return MigrateError::refused(format!(
                    "{replica} replicates from another server: what it reaches at {address} is not {primary} (their \
                     replication IDs differ). --from-as and --to-as give the addresses by which the servers reach each other"
                ));
            }
            Self::Bytes(bytes) => {
                format!("it is {bytes} bytes behind its primary, and did not reach it within {time}")
            }
        };
        MigrateError::server(replica, reason)
    }
}

/// Makes a server a replica of the other one: first its settings, of which the earlier values are recorded.
pub fn attach(session: &mut Session<'_>, replica: Side, stage: Stage) -> Result<(), MigrateError> {
    let primary = replica.other();
    let url = session.url(primary).clone();
    let name = session.server(primary).name();
    if !session.server(primary).has_command("psync")? {
        return Err(MigrateError::refused(format!(
            "{name} has no PSYNC: --by-scan copies without replication"
        )));
    }
    session.record.set_stage(session.record.stage())?;
    let tls = if url.is_encrypted { "yes" } else { "no" };
    let values = [url.user.as_deref().unwrap_or_default(), url.password.as_deref().unwrap_or_default(), tls];
    for (setting, value) in LOGIN.into_iter().zip(values) {
        let is_known = session.server(replica).setting(setting)?.is_some();
        // Servers without users or without TLS do not have all of them.
        if is_known || !(value.is_empty() || value == "no") {
            session.change(replica, setting, value)?;
        }
    }
    let address = session.address(primary).clone();
    let (host, port) = (address.host.as_str(), address.port.to_string());
    let server = session.server(replica);
    if let Reply::Error(text) = server.try_call(&["REPLICAOF", host, &port])? {
        let (name, text) = (server.name(), String::from_utf8_lossy(&text).into_owned());
        session.restore(replica, is_login)?;
        session.record.remove_if_empty()?;
        return Err(MigrateError::refused(format!(
            "{name} refuses REPLICAOF: {text} (--by-scan copies without replication)"
        )));
    }
    session.record.set_stage(stage)
}

/// Makes a replica a primary, and checks that it is one. Its settings stay. A replica that loads a snapshot refuses that until
/// it has ended.
pub fn detach(server: &mut Server) -> Result<(), MigrateError> {
    while server.call_unless_loading(&["REPLICAOF", "NO", "ONE"])?.is_none() {
        interrupt::sleep(POLL_INTERVAL)?;
    }
    match server.info("replication")?.role() {
        Role::Primary => Ok(()),
        Role::Replica { primary, .. } => {
            Err(MigrateError::server(server.name(), format!("it is still a replica, of {primary}")))
        }
    }
}

/// Follows a replica until it gets each change of its primary within [`LAG_MAX`], and shows the progress.
///
/// # Errors
/// There is no progress for the time of `--timeout`, or several full synchronisations fail.
pub fn follow(session: &mut Session<'_>, replica: Side) -> Result<(), MigrateError> {
    let mut watch = Watch::new(session.cli.timeout);
    loop {
        let (phase, progress) = phase(session, replica)?;
        session.progress.show(&phase);
        if let Phase::Streaming { lag } = phase {
            let mut link = ReplicaLink { from: replica.other(), time_max: LAG_MAX };
            match link.settle(&mut session.servers) {
                Ok(()) => return Ok(()),
                Err(MigrateError::Server { .. }) => watch.note_lag(lag),
                Err(error) => return Err(error),
            }
        }
        if let Err(reason) = watch.note(&phase, progress) {
            let address = session.address(replica.other());
            let text = format!(
                "{reason}. The log of this server has the cause. It connects to {address} (--from-as and --to-as give other \
                 addresses); the user needs the commands PSYNC, REPLCONF and PING; and it must be able to read the RDB \
                 version of its primary"
            );
            return Err(MigrateError::server(session.server(replica).name(), text));
        }
        interrupt::sleep(POLL_INTERVAL)?;
    }
}

/// Shows the lag until Ctrl-C.
pub fn show_lag(session: &mut Session<'_>, replica: Side) -> Result<(), MigrateError> {
    loop {
        let (phase, _) = phase(session, replica)?;
        session.progress.show(&phase);
        interrupt::sleep(POLL_INTERVAL)?;
    }
}

/// Returns the phase, and a number that changes if there is progress within it.
fn phase(session: &mut Session<'_>, replica: Side) -> Result<(Phase, u64), MigrateError> {
    let (Position { offset, .. }, _) = session.server(replica.other()).position()?;
    let server = session.server(replica);
    let info = server.info("replication")?;
    let persistence = server.info("persistence")?;
    let Role::Replica { is_linked, .. } = info.role() else {
        return Err(MigrateError::server(server.name(), NO_REPLICA));
    };
    Ok(phase_of(&info, &persistence, is_linked, offset))
}

fn phase_of(info: &Info, persistence: &Info, is_linked: bool, offset: u64) -> (Phase, u64) {
    if is_linked {
        let reached = info.number("slave_repl_offset").unwrap_or_default();
        return (Phase::Streaming { lag: offset.saturating_sub(reached) }, reached);
    }
    let bytes = info.number("master_sync_read_bytes").unwrap_or_default();
    // Zero while the source streams without a file.
    let total = info.number("master_sync_total_bytes").filter(|&total| total > 0 && total >= bytes);
    if persistence.is_on("loading") || persistence.is_on("async_loading") {
        let loaded = persistence.number("loading_loaded_bytes").unwrap_or_default();
        let percent = persistence.field("loading_loaded_perc").and_then(|text| text.parse::<f64>().ok());
        return (
            Phase::Loading { percent: percent.unwrap_or_default().min(100.0) as u64 },
            loaded.max(bytes),
        );
    }
    if info.is_on("master_sync_in_progress") {
        return (Phase::Receiving { bytes, total }, bytes);
    }
    (Phase::Connecting, 0)
}

/// Notices that nothing advances.
struct Watch {
    time_max: Duration,
    last: Option<(Phase, u64)>,
    advanced_at: Instant,
    lag_min: u64,
    failed_syncs: u32,
}

impl Watch {
    fn new(time_max: Duration) -> Self {
        Self { time_max, last: None, advanced_at: Instant::now(), lag_min: u64::MAX, failed_syncs: 0 }
    }

    /// A lag counts as progress only if it is smaller than before.
    fn note_lag(&mut self, lag: u64) {
        if lag < self.lag_min {
            self.lag_min = lag;
            self.advanced_at = Instant::now();
        }
    }

    fn note(&mut self, phase: &Phase, progress: u64) -> Result<(), String> {
        let is_syncing = |phase: &Phase| matches!(phase, Phase::Receiving { .. } | Phase::Loading { .. });
        if let Some((last, last_progress)) = &self.last {
            let is_same = std::mem::discriminant(last) == std::mem::discriminant(phase);
            let has_failed = is_syncing(last) && *phase == Phase::Connecting;
            self.failed_syncs += u32::from(has_failed);
            if !is_same && !has_failed || is_syncing(phase) && progress != *last_progress {
                self.advanced_at = Instant::now();
            }
        }
        self.last = Some((phase.clone(), progress));
        if self.failed_syncs >= SYNC_ATTEMPTS_MAX {
            return Err(format!("the full synchronisation failed {} times", self.failed_syncs));
        }
        if self.advanced_at.elapsed() < self.time_max {
            return Ok(());
        }
        let time = in_seconds(self.time_max);
        Err(match phase {
            Phase::Streaming { lag } => {
                format!("it lags {lag} bytes behind, which has not become less for {time}")
            }
            Phase::Connecting => format!("it has had no link to its primary for {time}"),
            _ => format!("its full synchronisation has not advanced for {time}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(replication: &str, persistence: &str) -> Phase {
        let (replication, persistence) = (replication.replace(' ', "\r\n"), persistence.replace(' ', "\r\n"));
        let info = Info::new(replication);
        let is_linked = info.field("master_link_status") == Some("up");
        phase_of(&info, &Info::new(persistence), is_linked, 100).0
    }

    #[test]
    fn phases_are_recognised() {
        assert_eq!(
            phase("master_link_status:down master_sync_in_progress:0", "loading:0"),
            Phase::Connecting
        );
        let receiving = "master_link_status:down master_sync_in_progress:1 master_sync_read_bytes:5";
        assert_eq!(
            phase(&format!("{receiving} master_sync_total_bytes:9"), ""),
            Phase::Receiving { bytes: 5, total: Some(9) }
        );
        assert_eq!(
            phase(&format!("{receiving} master_sync_total_bytes:-1"), ""),
            Phase::Receiving { bytes: 5, total: None }
        );
        assert_eq!(phase(receiving, "loading:1 loading_loaded_perc:12.70"), Phase::Loading { percent: 12 });
        assert_eq!(
            phase("master_link_status:up slave_repl_offset:90", "loading:0"),
            Phase::Streaming { lag: 10 }
        );
    }

    #[test]
    fn only_a_linked_replica_of_the_same_history_has_all_changes() {
        let at = |history: &str, offset| Position { history: Some(history.to_owned()), offset };
        let address = HostPort { host: "a".into(), port: 1 };
        let replica = |is_linked| Role::Replica { primary: address.clone(), is_linked };
        let gap = |reached: Position, role: &Role| Gap::between(&at("x", 10), &reached, role);
        assert_eq!(gap(at("x", 10), &replica(true)), None);
        assert_eq!(gap(at("x", 7), &replica(true)), Some(Gap::Bytes(3)));
        assert_eq!(gap(at("x", 99), &replica(false)), Some(Gap::NoLink));
        assert_eq!(gap(at("y", 99), &replica(true)), Some(Gap::History { address: address.clone() }));
        assert_eq!(gap(at("x", 99), &Role::Primary), Some(Gap::NoReplica));
        assert_eq!(gap(Position { history: None, offset: 10 }, &replica(true)), None, "before Redis 4");
    }

    #[test]
    fn repeated_failures_and_standstill_are_noticed() {
        let mut watch = Watch::new(Duration::from_secs(1000));
        for _ in 0..2 {
            assert_eq!(watch.note(&Phase::Receiving { bytes: 1, total: None }, 1), Ok(()));
            assert_eq!(watch.note(&Phase::Connecting, 0), Ok(()));
        }
        assert_eq!(watch.note(&Phase::Loading { percent: 1 }, 1), Ok(()));
        assert_eq!(
            watch.note(&Phase::Connecting, 0),
            Err("the full synchronisation failed 3 times".to_owned())
        );
        let mut watch = Watch::new(Duration::ZERO);
        assert_eq!(
            watch.note(&Phase::Connecting, 0),
            Err("it has had no link to its primary for 0.0 s".to_owned())
        );
    }
}
