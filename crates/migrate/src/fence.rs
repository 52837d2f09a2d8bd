//! Holding writes to a primary back: a pause while the other server gets the last changes, and a fence afterwards.
//!
//! The pause delays writes and ends by itself. The fence refuses them, by a number of replicas that no server has
//! (`min-replicas-to-write`), until it is lifted. Servers that can't pause writes alone (Redis before 6.2) are fenced at
//! once: a pause of all commands would also stop this tool.

use std::time::{Duration, Instant};

use crate::error::{MigrateError, in_seconds};
use crate::record::Side;
use crate::server::Server;
use crate::session::Session;

/// More replicas than a server has.
const UNREACHABLE_COUNT: &str = "1000000";

/// The fence in a configuration file.
pub const SETTING: &str = "min-replicas-to-write 1000000";

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
    /// The start of the server that is told to hold them back.
    run_id: Option<String>,
    started: Instant,
    time_max: Duration,
}

impl Hold {
    /// Prepares to hold writes to a server back, for at most `time_max` from [`Hold::start`] until [`Hold::end`] or the fence.
    pub fn new(session: &mut Session<'_>, side: Side, time_max: Duration) -> Result<Self, MigrateError> {
        let run_id = session.server(side).run_id()?;
        Ok(Self { side, is_pause: true, run_id, started: Instant::now(), time_max })
    }

    /// Holds writes back. After an error they may be held back, too. From now on no connection is opened again, and a
    /// server that does not reply does not hold the clients back for longer.
    pub fn start(&mut self, session: &mut Session<'_>) -> Result<(), MigrateError> {
        self.started = Instant::now();
        session.servers.wait_until(Some(self.deadline()));
        let time_ms = self.time_max.as_millis().to_string();
        let server = session.server(self.side);
        if server.try_call(&["CLIENT", "PAUSE", &time_ms, "WRITE"])?.is_error() {
            let name = server.name();
            self.is_pause = false;
            self.fence(session)?;
            session.progress.line(&format!("{name} can't pause writes alone: it refuses them instead"));
        }
        Ok(())
    }

    /// Fences the server, and checks that it has held writes back without a gap since [`Hold::start`].
    pub fn fence(&self, session: &mut Session<'_>) -> Result<(), MigrateError> {
        if !self.has_time() {
            return Err(self.too_late());
        }
        // A reply that is not awaited would leave it open whether there is a fence: a later request could overtake the
        // change.
        let time_max = session.server(self.side).wait_limit().reply_time_max;
        session.servers.wait_until(Some(Instant::now() + time_max));
        raise(session, self.side)?;
        self.check(session)
    }

    /// Checks that writes have been held back without a gap up to now.
    pub fn check(&self, session: &mut Session<'_>) -> Result<(), MigrateError> {
        session.servers.wait_until(Some(self.deadline()));
        if !self.has_time() {
            return Err(self.too_late());
        }
        let server = session.server(self.side);
        if server.run_id()? != self.run_id {
            let reason = "it has restarted, or is another server, since writes were held back";
            return Err(MigrateError::server(server.name(), reason));
        }
        Ok(())
    }

    fn too_late(&self) -> MigrateError {
        let time = in_seconds(self.time_max);
        MigrateError::refused(format!(
            "not switched: it took longer than the pause of writes ({time}, --pause-max)"
        ))
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

/// Lifts the fence of a server, if it has one; also that of an earlier move, of which another record may have the value
/// before it.
pub fn lift(session: &mut Session<'_>, side: Side) -> Result<(), MigrateError> {
    session.restore(side, is_fence)?;
    if let Some(line) = lift_unrecorded(session.server(side))? {
        session.progress.line(&line);
    }
    Ok(())
}

/// Lifts a fence of which the value before it is not known, and says so.
pub fn lift_unrecorded(server: &mut Server) -> Result<Option<String>, MigrateError> {
    let Some((name, _)) = limit(server)?.filter(|(_, count)| count == UNREACHABLE_COUNT) else {
        return Ok(None);
    };
    server.set(name, "0")?;
    Ok(Some(format!("{}: the fence of an earlier move is lifted ({name} 0)", server.name())))
}

/// Whether a server has a fence, of whichever move.
pub fn is_raised(server: &mut Server) -> Result<bool, MigrateError> {
    Ok(limit(server)?.is_some_and(|(_, count)| count == UNREACHABLE_COUNT))
}

/// Returns the number of replicas without which a server refuses writes, with the name of the setting, if it can be read.
fn limit(server: &mut Server) -> Result<Option<(&'static str, String)>, MigrateError> {
    for (name, _) in NAMES {
        if let Some(count) = server.setting(name)? {
            return Ok(Some((name, count)));
        }
    }
    Ok(None)
}

/// Returns the name and value of the setting if a server that has this many replicas refuses writes by it, without a fence.
pub fn replicas_missing(
    server: &mut Server,
    count: u64,
) -> Result<Option<(&'static str, String)>, MigrateError> {
    let Some((name, least)) = limit(server)?.filter(|(_, least)| least != UNREACHABLE_COUNT) else {
        return Ok(None);
    };
    for (_, lag) in NAMES {
        // With a lag of 0, the number has no effect.
        if server.setting(lag)?.as_deref() == Some("0") {
            return Ok(None);
        }
    }
    Ok(least.parse().is_ok_and(|least: u64| least > count).then_some((name, least)))
}

/// Whether a setting belongs to the fence.
pub fn is_fence(name: &str) -> bool {
    NAMES.iter().any(|(count, lag)| [*count, *lag].contains(&name))
}
