//! The users, and the denied requests.

use std::sync::Arc;

use crate::faults;
use commands::acl::{DenialEvent, LoggedDenial, Users};
use commands::error::CommandError;
use commands::host::UserAdmin;
use commands::session::Session;
use sync::simulation;

use super::WorkerHost;

impl UserAdmin for WorkerHost {
    fn users(&self) -> Arc<Users> {
        self.shared.users.load_full()
    }

    fn users_version(&self) -> u64 {
        if simulation::planted(faults::UNCHECKED_EXEC) {
            return 0;
        }
        self.shared.users.version()
    }

    fn change_users(
        &self,
        change: &dyn Fn(&Users) -> Result<Users, CommandError>,
    ) -> Result<(), CommandError> {
        self.shared.change_users(change)
    }

    fn load_users(&self) -> Result<(), CommandError> {
        self.shared.load_users()
    }

    fn save_users(&self) -> Result<(), CommandError> {
        self.shared.save_users()
    }

    fn record_denial(&self, session: &Session, event: &DenialEvent<'_>) {
        self.shared.publish_for_denial(session);
        self.shared.record_denial(session.id, event);
    }

    fn denials(&self, count: usize) -> Vec<LoggedDenial> {
        self.shared.monitoring.denials.newest(count)
    }

    fn clear_denials(&self) {
        self.shared.monitoring.denials.clear();
    }
}
