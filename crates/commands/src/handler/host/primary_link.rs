//! The role of the server, and its link to a primary (`REPLICAOF`, `ROLE`, `FAILOVER`).

use std::time::Duration;

use crate::error::CommandError;

/// The role of the server.
pub trait PrimaryLink {
    /// Makes the server a replica of another one. Returns whether it was one already.
    fn replicate(&self, host: &[u8], port: u16) -> bool;
    /// Makes the server a primary.
    fn promote(&self);
    /// What `ROLE` shows of a replica; `None`: the server is a primary.
    fn replica_role(&self) -> Option<ReplicaRole>;
    /// The primary asks for the offset that is applied (`REPLCONF GETACK`).
    fn acknowledge(&self);
    /// Whether the directive of the primary may be changed now.
    ///
    /// # Errors
    /// A failover is under way.
    fn check_role_change(&self) -> Result<(), CommandError>;
    /// Begins to change the roles with a replica.
    ///
    /// # Errors
    /// The server is no primary, or has no such replica, or a failover is under way.
    fn fail_over(&self, plan: FailoverPlan<'_>) -> Result<(), CommandError>;
    /// Aborts a failover. Returns whether there was one.
    fn abort_failover(&self) -> bool;
    /// Makes the server a primary in place of its own one, which has data with this id.
    ///
    /// # Errors
    /// The server is a primary, or its data have another id.
    fn take_over(&self, id: &[u8]) -> Result<(), CommandError>;
}

/// The options of `FAILOVER`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FailoverPlan<'a> {
    /// The host and the port of the replica that becomes the primary; `None`: any.
    pub target: Option<(&'a [u8], i64)>,
    /// How long the replica may take to receive everything; `None`: any time.
    pub timeout: Option<Duration>,
    /// Whether it then becomes the primary nevertheless.
    pub is_forced: bool,
}

/// A replica, as `ROLE` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaRole {
    /// The name or address of its primary.
    pub host: String,
    /// The port of its primary.
    pub port: u16,
    /// The state of the link.
    pub state: &'static str,
    /// The offset that is applied; -1: none is known.
    pub offset: i64,
}
