//! The users, and the requests that were denied to them.

use std::sync::Arc;

use crate::acl::{DenialEvent, LoggedDenial, Users};
use crate::error::CommandError;
use crate::session::Session;

/// The users in force, and the denial log (`ACL LOG`).
pub trait UserAdmin {
    /// Returns the users in force.
    fn users(&self) -> Arc<Users>;
    /// Returns the version of the users in force.
    fn users_version(&self) -> u64;
    /// Replaces the users by the result of `change`, which runs exclusively. The connections of all workers are updated.
    fn change_users(
        &self,
        change: &dyn Fn(&Users) -> Result<Users, CommandError>,
    ) -> Result<(), CommandError>;
    /// Replaces the users by the users of the ACL file (`ACL LOAD`).
    fn load_users(&self) -> Result<(), CommandError>;
    /// Writes the users to the ACL file (`ACL SAVE`).
    fn save_users(&self) -> Result<(), CommandError>;
    /// Records that a request was denied.
    fn record_denial(&self, session: &Session, event: &DenialEvent<'_>);
    /// Returns the newest entries of the denial log, at most `count`.
    fn denials(&self, count: usize) -> Vec<LoggedDenial>;
    /// Deletes the entries of the denial log.
    fn clear_denials(&self);
}
