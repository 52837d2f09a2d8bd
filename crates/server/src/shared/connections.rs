//! The connections of all workers: their listeners, their limits, and the numbers of closed and refused connections.

use commands::acl::Users;
use config::Config;
use sync::Mutex;
use sync::atomic::{AtomicU64, Ordering};

use crate::connection::listeners::{ListenSockets, Origin};
use crate::connection::reply_buffers::ReplyBufferRules;

/// The state that concerns the connections of all workers.
#[derive(Default)]
pub struct Connections {
    /// The listeners.
    pub listen_sockets: ListenSockets,
    /// The sizes reported for reply buffers.
    pub reply_buffers: ReplyBufferRules,
    /// Held while connections to close are selected, so that two workers don't select too many.
    pub evicting: Mutex<()>,
    /// Connections closed to free memory.
    pub evicted: AtomicU64,
    /// Connections refused because of `maxclients`.
    pub rejected: AtomicU64,
    /// Connections closed because of their output buffer.
    pub over_output_limit: AtomicU64,
    /// Connections closed because of their query buffer.
    pub over_query_limit: AtomicU64,
}

impl Connections {
    /// Resets the counters.
    pub fn reset(&self) {
        let totals = [&self.rejected, &self.evicted, &self.over_output_limit, &self.over_query_limit];
        totals.iter().for_each(|total| total.store(0, Ordering::Relaxed));
    }
}

/// The error sent to a new connection that is not served, because it comes from another machine or, if `is_full`, one too many;
/// `None`: it is served.
#[must_use]
pub fn refusal(config: &Config, users: &Users, is_full: bool, origin: &Origin) -> Option<&'static [u8]> {
    if is_full {
        return Some(b"-ERR max number of clients reached\r\n");
    }
    let is_protected = config.protected_mode && users.default_user().has_no_password();
    (is_protected && !origin.is_local()).then_some(PROTECTED)
}

const PROTECTED: &[u8] = b"-DENIED Broadloom is running in protected mode because protected mode is enabled and no \
password is set for the default user. In this mode connections are only accepted from the loopback interface. To \
connect from other machines: set a password (requirepass), or turn protected mode off with 'CONFIG SET protected-mode \
no' from this machine or 'protected-mode no' in the configuration file, if no other machine can reach this one.\r\n";
