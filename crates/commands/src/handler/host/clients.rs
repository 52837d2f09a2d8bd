//! The interface through which commands read and administer connections.

use std::time::Duration;

use super::criteria::Criteria;
use crate::error::{CommandError, up_to_nul};
use crate::session::Session;

/// The connections: listing, closing, pausing and unblocking them.
pub trait ClientAdmin {
    /// `CLIENT LIST`: one line, with line end, for each connection that matches the filter, by ascending ID.
    fn client_list(&self, filter: &ClientFilter, own: &Session) -> Vec<u8>;
    /// `CLIENT INFO`: the line of one connection.
    fn client_info(&self, session: &Session) -> String;
    /// Requests that the workers close the connections that match the filter. Returns their number, and
    /// whether the calling session is one of them.
    fn client_kill(&self, filter: &ClientFilter, own: &Session) -> (u64, bool);
    /// `CLIENT UNBLOCK`: returns whether the connection was blocked.
    fn client_unblock(&self, id: u64, with_error: bool) -> bool;
    /// `CLIENT PAUSE`
    ///
    /// # Errors
    /// A script runs too long that may write: the pause would begin only at its end.
    fn client_pause(&self, time: Duration, writes_only: bool) -> Result<(), CommandError>;
    /// `CLIENT UNPAUSE`
    fn client_unpause(&self);
    /// Whether expired keys are not deleted because writes are paused.
    fn is_expiry_paused(&self) -> bool;
    /// Whether a connection with this ID exists.
    fn client_exists(&self, id: u64) -> bool;
    /// Called after a handler changed session state that other workers may read.
    fn publish(&self, session: &Session);
}

/// A filter of `CLIENT LIST` or `CLIENT KILL`: matches connections that meet all of `keep` and none of
/// `drop`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ClientFilter {
    pub keep: Criteria,
    pub drop: Criteria,
    pub idle_seconds_min: Option<u64>,
    pub age_seconds_min: Option<u64>,
    /// Excludes the calling connection.
    pub skip_id: Option<u64>,
}

/// The properties of a connection that filters use.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct ClientFacts {
    pub id: u64,
    pub kind: ClientKind,
    pub peer: String,
    pub local: String,
    pub user: Vec<u8>,
    pub name: Vec<u8>,
    pub lib_name: Vec<u8>,
    pub lib_version: Vec<u8>,
    pub db: u16,
    pub flags: String,
    pub capa: String,
    pub idle_seconds: u64,
    pub age_seconds: u64,
}

impl ClientFacts {
    /// Whether the peer has this IP address; unix socket connections have none.
    #[must_use]
    pub fn has_ip(&self, ip: &[u8]) -> bool {
        let Some((host, port)) = self.peer.rsplit_once(':') else { return false };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        host.as_bytes() == ip && port != "0"
    }
}

/// Connection classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ClientKind {
    Normal,
    Replica,
    Pubsub,
    Primary,
}

impl ClientKind {
    /// Returns the class with this name, in any of its spellings.
    #[must_use]
    pub fn from_name(name: &[u8]) -> Option<Self> {
        match up_to_nul(name).to_ascii_lowercase().as_slice() {
            b"normal" => Some(Self::Normal),
            b"slave" | b"replica" => Some(Self::Replica),
            b"pubsub" => Some(Self::Pubsub),
            b"master" | b"primary" => Some(Self::Primary),
            _ => None,
        }
    }
}
