//! Holding writes to a primary back: a pause while the other server gets the last changes, and a fence afterwards.
//!
//! The pause delays writes and ends by itself. The fence refuses them, by a number of replicas that no server has
//! (`min-replicas-to-write`), until it is lifted. Servers that can't pause writes alone (Redis before 6.2) are fenced at
//! once: a pause of all commands would also stop this tool.

use std::time::{Duration, Instant};

use crate::error::MigrateError;
use crate::record::Side;
use crate::session::Session;

/// More replicas than a server has.
const UNREACHABLE_COUNT: &str = "1000000";

/// The names of the settings, now and before Redis 5.
const NAMES: [(&str, &str); 2] =
    [("min-replicas-to-write", "min-replicas-max-lag"), ("min-slaves-to-write", "min-slaves-max-lag")];

/// Time that a switch leaves before the pause ends.
const MARGIN: Duration = Duration::from_millis(500);

/// Writes to a primary that are held back.
pub struct Hold {
    side: Side,
    /// Whether the server pauses writes; it is fenced instead if not.
    is_pause: bool,
    started: Instant,
    time_max: Duration,
}

impl Hold {
    /// Holds writes to a server back, for at most `time_max` until [`Hold::end`] or the fence.
    pub fn begin(session: &mut Session<'_>, side: Side, time_max: Duration) -> Result<Self, MigrateError> {
        let started = Instant::now();
        let server = session.server(side);
        let time_ms = time_max.as_millis().to_string();
        if !server.try_call(&["CLIENT", "PAUSE", &time_ms, "WRITE"])?.is_error() {
            return Ok(Self { side, is_pause: true, started, time_max });
        }
        let name = server.name();
        raise(session, side)?;
        session.progress.line(&format!("{name} can't pause writes alone: it refuses them instead"));
        Ok(Self { side, is_pause: false, started, time_max })
    }

    /// Returns how long writes have been held back.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns the time until which the next step can be made. A pause ends a little later.
    pub fn deadline(&self) -> Instant {
        self.started + self.time_max.saturating_sub(MARGIN)
    }

    /// Whether the next step can be made.
    pub fn has_time(&self) -> bool {
        Instant::now() < self.deadline()
    }

    /// Ends the pause. A fence stays.
    pub fn end(&self, session: &mut Session<'_>) -> Result<(), MigrateError> {
        if self.is_pause {
            session.server(self.side).call(&["CLIENT", "UNPAUSE"])?;
        }
        Ok(())
    }
}

/// Makes a primary refuse writes.
pub fn raise(session: &mut Session<'_>, side: Side) -> Result<(), MigrateError> {
    for (count, lag) in NAMES {
        if session.server(side).setting(count)?.is_none() {
            continue;
        }
        // With a lag of 0, the number has no effect.
        if session.server(side).setting(lag)?.as_deref() == Some("0") {
            session.change(side, lag, "10")?;
        }
        return session.change(side, count, UNREACHABLE_COUNT);
    }
    let name = session.server(side).name();
    Err(MigrateError::refused(format!(
        "{name} can't be made to refuse writes (CONFIG GET {} has no reply); --no-fence switches without that",
        NAMES[0].0
    )))
}

/// Lifts the fence of a server, if it has one.
pub fn lift(session: &mut Session<'_>, side: Side) -> Result<(), MigrateError> {
    session.restore(side, is_fence)
}

/// Whether a setting belongs to the fence.
pub fn is_fence(name: &str) -> bool {
    NAMES.iter().any(|(count, lag)| [*count, *lag].contains(&name))
}
