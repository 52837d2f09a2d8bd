//! `FAILOVER`: writes are paused; when a replica has everything, this server becomes its replica, and asks it to become the
//! primary with `PSYNC id offset FAILOVER`. So no write that was acknowledged is lost, unless the failover is forced.
//!
//! | event | then |
//! |---|---|
//! | the target replies with `+CONTINUE` or `+FULLRESYNC` | complete: waiting requests run again, and are refused or redirected |
//! | it refuses, or the connection ends before its reply | aborted: this server is a primary again |
//! | it can't be reached | another attempt, until `FAILOVER ABORT` |

use commands::error::CommandError;
use commands::host::FailoverPlan;
use os::clock::Uptime;

use super::change;
use crate::connection::replica::{Replica, ReplicaState};
use crate::connection::token::Token;
use crate::mail::{BarrierRequest, Mail};
use crate::shared::Shared;
use crate::shared::failover::{FailoverPhase, FailoverRequest, FailoverStep};
use crate::shared::modes::GlobalFlags;
use crate::shared::pause::{ENDLESS_MS, PauseReason};
use crate::shared::role::PrimaryName;

const UNDER_WAY: CommandError = CommandError::new("ERR FAILOVER already in progress.");
const IS_REPLICA: CommandError = CommandError::new("ERR FAILOVER is not valid when server is a replica.");
const NO_REPLICAS: CommandError = CommandError::new("ERR FAILOVER requires connected replicas.");
const INCOMPLETE_FORCE: CommandError =
    CommandError::new("ERR FAILOVER with force option requires both a timeout and target HOST and IP.");
const UNKNOWN_TARGET: CommandError = CommandError::new("ERR FAILOVER target HOST and PORT is not a replica.");
const TARGET_NOT_ONLINE: CommandError = CommandError::new("ERR FAILOVER target replica is not online.");

/// The reason of `FAILOVER ABORT`, in the log.
pub const ABORTED_BY_COMMAND: &str = "Failover manually aborted";
/// The reason if the target does not become a primary, in the log.
pub const REFUSED: &str = "Failover target rejected psync request";

impl Shared {
    /// Begins a failover.
    ///
    /// # Errors
    /// One is under way, the server is a replica, or the target is not a replica that receives the stream.
    pub fn begin_failover(&'static self, plan: FailoverPlan<'_>) -> Result<(), CommandError> {
        let FailoverPlan { target, timeout, is_forced } = plan;
        let replication = &self.replication;
        let replicas = replication.replicas.all();
        if replication.failover.phase() != FailoverPhase::None {
            return Err(UNDER_WAY);
        }
        if replication.is_replica() {
            return Err(IS_REPLICA);
        }
        if replicas.is_empty() {
            return Err(NO_REPLICAS);
        }
        if is_forced && (timeout.is_none() || target.is_none()) {
            return Err(INCOMPLETE_FORCE);
        }
        let target = target.map(|(host, port)| (String::from_utf8_lossy(host).into_owned(), port));
        let target = match target {
            None => None,
            Some((host, port)) => {
                let is_target = |replica: &&std::sync::Arc<Replica>| {
                    i64::from(replica.declared.port) == port && replica.address().eq_ignore_ascii_case(&host)
                };
                let replica = replicas.iter().find(is_target).ok_or(UNKNOWN_TARGET)?;
                if replica.state() != ReplicaState::Online {
                    return Err(TARGET_NOT_ONLINE);
                }
                Some(PrimaryName { host, port: replica.declared.port })
            }
        };
        let requested = match &target {
            Some(target) => format!("FAILOVER requested to {}:{}.", target.host, target.port),
            None => "FAILOVER requested to any replica.".to_owned(),
        };
        let now = Uptime::now();
        let deadline = timeout.map(|timeout| now.plus(timeout));
        let request = FailoverRequest { target, deadline, is_forced };
        let _transition = replication.failover.hold_transition();
        let number = replication.failover.begin(request).ok_or(UNDER_WAY)?;
        log::info!("{requested}");
        let until = now.plus_ms(ENDLESS_MS);
        self.modes.pause.begin(&self.modes.flags, PauseReason::Failover, now, until, true);
        replication.failover.await_turns(number, self.workers.occupied());
        self.request_turns();
        Ok(())
    }

    /// Requests the ends of the turns that are awaited.
    fn request_turns(&self) {
        let exists = |worker| self.workers.handle(worker).is_occupied();
        let Some((number, workers)) = self.replication.failover.awaited(exists) else { return };
        let request = BarrierRequest { connection: Token::FAILOVER, number };
        self.workers.request_turns(workers, Mail::PauseRequest, request);
    }

    /// Notes that a worker has ended a turn since a failover began, and the scripts that may write.
    pub fn note_turn_for_failover(&'static self, number: u64, worker: usize) {
        if self.replication.failover.note_turn(number, worker) {
            self.continue_failover();
        }
    }

    /// The periodic work for a failover.
    pub fn care_for_failover(&'static self) {
        if self.replication.failover.phase() == FailoverPhase::Waiting {
            self.request_turns();
            self.continue_failover();
        }
    }

    /// Continues with a failover that waits, if a replica has everything or the time is over. Called when a replica
    /// acknowledges, and each tick.
    pub fn continue_failover(&'static self) {
        let replication = &self.replication;
        if replication.failover.phase() != FailoverPhase::Waiting {
            return;
        }
        let _transition = replication.failover.hold_transition();
        if replication.is_replica() && replication.failover.phase() == FailoverPhase::Waiting {
            self.abort_in_transition("The server has become a replica");
            return;
        }
        // No message may come between the comparison and the change of the role: the offsets are those with which this server
        // continues from the target.
        let unlatched = self.keyspace.log.hold_unlatched();
        let end = replication.feed.move_now();
        let has_all = |replica: &Replica| replica.has_applied(end) && replica.applied() == end;
        let step = replication.failover.advance(Uptime::now(), |target| {
            let replicas = replication.replicas.all();
            let names = replicas
                .iter()
                .filter(|replica| has_all(replica))
                .map(|replica| PrimaryName { host: replica.address(), port: replica.declared.port });
            let is_target = |name: &PrimaryName| match target {
                Some(target) => name.port == target.port && name.host.eq_ignore_ascii_case(&target.host),
                // One that listens nowhere can't be a primary.
                None => name.port != 0,
            };
            names.into_iter().find(is_target)
        });
        let target = match step {
            FailoverStep::Wait => return,
            FailoverStep::TimedOut => {
                drop(unlatched);
                self.abort_in_transition("Replica never caught up before timeout");
                return;
            }
            FailoverStep::Synced(target) => {
                log::info!("Failover target {}:{} is synced, failing over.", target.host, target.port);
                target
            }
            FailoverStep::Forced(target) => {
                log::info!("FAILOVER to {}:{} time out exceeded, failing over.", target.host, target.port);
                target
            }
        };
        self.modes.flags.set(GlobalFlags::FAILING_OVER, true);
        change::demote(self, target);
        drop(unlatched);
        self.configure_role();
    }

    /// Notes that the target is the primary now: requests that wait run again. Returns `false` if the failover was aborted
    /// before.
    #[must_use]
    pub fn complete_failover(&'static self) -> bool {
        let _transition = self.replication.failover.hold_transition();
        if self.replication.failover.take(Some(FailoverPhase::InProgress)).is_none() {
            return false;
        }
        change::unblock_clients(self);
        self.end_failover();
        true
    }

    /// Aborts a failover: the server is a primary as before. Returns whether there was one.
    pub fn abort_failover(&'static self, reason: &str) -> bool {
        let _transition = self.replication.failover.hold_transition();
        self.abort_in_transition(reason)
    }

    fn abort_in_transition(&'static self, reason: &str) -> bool {
        let Some((request, phase)) = self.replication.failover.take(None) else { return false };
        match request.target {
            Some(target) => log::info!("FAILOVER to {}:{} aborted: {reason}", target.host, target.port),
            None => log::info!("FAILOVER to any replica aborted: {reason}"),
        }
        if phase == FailoverPhase::InProgress && change::promote(self) {
            self.configure_role();
        }
        self.end_failover();
        true
    }

    fn end_failover(&self) {
        self.modes.flags.set(GlobalFlags::FAILING_OVER, false);
        self.end_pause(PauseReason::Failover);
    }
}
