//! The role of the server.

use commands::error::CommandError;
use commands::host::{FailoverPlan, PrimaryLink, ReplicaRole};
use replication::ReplicationId;
use sync::atomic::Ordering;

use super::WorkerHost;
use crate::replication::{change, failover};
use crate::scripts::errors;
use crate::shared::failover::FailoverPhase;
use crate::shared::role::PrimaryName;

impl PrimaryLink for WorkerHost {
    fn replicate(&self, host: &[u8], port: u16) -> bool {
        let primary = PrimaryName { host: String::from_utf8_lossy(host).into_owned(), port };
        let was_already = change::replicate(self.shared, primary);
        if !was_already {
            self.shared.configure_role();
        }
        was_already
    }

    fn promote(&self) {
        if change::promote(self.shared) {
            self.shared.configure_role();
        }
    }

    fn replica_role(&self) -> Option<ReplicaRole> {
        let state = self.shared.replication.role.lock();
        let primary = state.primary.as_ref()?;
        let offset = state.link.stream().map_or(-1, |stream| stream.applied.load(Ordering::Relaxed) as i64);
        Some(ReplicaRole { host: primary.host.clone(), port: primary.port, state: state.link.word(), offset })
    }

    fn acknowledge(&self) {
        self.shared.replication.role.is_asked.store(true, Ordering::Relaxed);
    }

    fn check_role_change(&self) -> Result<(), CommandError> {
        match self.shared.replication.failover.phase() {
            FailoverPhase::None => Ok(()),
            _ => Err(CommandError::new("ERR REPLICAOF not allowed while failing over.")),
        }
    }

    fn fail_over(&self, plan: FailoverPlan<'_>) -> Result<(), CommandError> {
        let threshold_ms = self.shared.config.load().busy_reply_threshold;
        if let Some(kind) = self.shared.scripts.running.busy_writer(threshold_ms) {
            return Err(errors::busy(kind));
        }
        self.shared.begin_failover(plan)
    }

    fn abort_failover(&self) -> bool {
        self.shared.abort_failover(failover::ABORTED_BY_COMMAND)
    }

    fn take_over(&self, id: &[u8]) -> Result<(), CommandError> {
        log::info!("Failover request received for replid {}.", String::from_utf8_lossy(id));
        self.check_role_change()?;
        if !self.shared.replication.is_replica() {
            return Err(CommandError::new("ERR PSYNC FAILOVER can't be sent to a master."));
        }
        if ReplicationId::parse(id) != Some(self.shared.history().id()) {
            return Err(CommandError::new("ERR PSYNC FAILOVER replid must match my replid."));
        }
        self.promote();
        Ok(())
    }
}
