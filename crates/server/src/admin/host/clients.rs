//! The connections.

use std::time::Duration;

use commands::error::CommandError;
use commands::host::{ClientAdmin, ClientFilter};
use commands::session::Session;

use super::WorkerHost;
use crate::scripts::errors;
use crate::shared::modes::GlobalFlags;
use crate::shared::pause::PauseReason;

impl ClientAdmin for WorkerHost {
    fn client_list(&self, filter: &ClientFilter, _own: &Session) -> Vec<u8> {
        self.shared.client_lines(filter)
    }

    fn client_info(&self, session: &Session) -> String {
        self.publish(session);
        self.shared.client_line(session.id).unwrap_or_default()
    }

    fn client_kill(&self, filter: &ClientFilter, own: &Session) -> (u64, bool) {
        self.shared.kill_clients(filter, own.id)
    }

    fn client_unblock(&self, id: u64, with_error: bool) -> bool {
        self.shared.unblock_client(id, with_error)
    }

    fn client_pause(&self, time: Duration, writes_only: bool) -> Result<(), CommandError> {
        let threshold_ms = self.shared.config.load().busy_reply_threshold;
        if let Some(kind) = self.shared.scripts.running.busy_writer(threshold_ms) {
            return Err(errors::busy(kind));
        }
        self.shared.pause_clients(time, writes_only);
        Ok(())
    }

    fn client_unpause(&self) {
        self.shared.end_pause(PauseReason::Command);
    }

    fn is_expiry_paused(&self) -> bool {
        self.shared.modes.flags.is_set(GlobalFlags::ANY_PAUSE | GlobalFlags::REPLICA)
    }

    fn client_exists(&self, id: u64) -> bool {
        self.shared.clients.find(id).is_some()
    }

    fn publish(&self, session: &Session) {
        self.shared.publish_session(session);
    }
}
