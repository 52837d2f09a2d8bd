//! The waits of clients as numbers, as other threads read them.

use commands::session::{BlockReason, Blocked};

/// Waits for the end of a pause.
pub const BY_PAUSE: u64 = 1;
/// Waits for replicas' acknowledgements.
pub const FOR_REPLICAS: u64 = 2;
/// Waits for the end of the server.
pub const BY_SHUTDOWN: u64 = 3;
/// Waits for data.
pub const FOR_KEYS: u64 = 4;
/// Added if the wait has a time limit.
pub const WITH_TIMEOUT: u64 = 1 << 8;

/// The number of a wait, from those above.
#[must_use]
pub fn of(blocked: &Blocked) -> u64 {
    let reason = match blocked.reason {
        // These waits are internal: clients see the connection as not blocked.
        BlockReason::Congestion
        | BlockReason::Log
        | BlockReason::Turns
        | BlockReason::Barrier
        | BlockReason::Free
        | BlockReason::Transfer { .. }
        | BlockReason::Reload(_) => return 0,
        BlockReason::Pause => BY_PAUSE,
        BlockReason::Replicas { .. } | BlockReason::Disk { .. } => FOR_REPLICAS,
        BlockReason::Shutdown | BlockReason::Save => BY_SHUTDOWN,
        BlockReason::Keys(_) => FOR_KEYS,
    };
    let has_end = blocked.timeout.is_some() && blocked.reason != BlockReason::Pause;
    reason + if has_end { WITH_TIMEOUT } else { 0 }
}
