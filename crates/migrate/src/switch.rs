//! Making one server the primary in place of the other.
//!
//! Order of the steps: writes to the old primary are held back; the new one gets all changes; both are compared; the old one
//! is fenced; the new one gets what has come until then; it becomes a primary; the old one becomes its replica if that is
//! wanted; the pause ends. Up to the promotion, a failure or Ctrl-C leaves everything as before. If the tool is killed after
//! the fence, the old primary refuses writes: no write is accepted that the new primary does not get.
//!
//! Invariant: from the beginning of the pause to the promotion, no connection is opened again, and the old primary is one
//! start of one server. Otherwise writes could have been accepted in between.

use tool::interrupt;

use crate::compare;
use crate::error::{MigrateError, in_seconds};
use crate::fence::{self, Hold};
use crate::info::Role;
use crate::record::{Side, Stage};
use crate::replication::{self, is_login};
use crate::servers::Link;
use crate::session::Session;

/// Keys that are compared while writes are paused.
const PAUSED_SAMPLE_MAX: u64 = 100;

/// How a server takes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// The old primary.
    pub old: Side,
    /// Whether the new primary is a replica until then.
    pub is_replica: bool,
    /// Whether the old primary becomes a replica of the new one.
    pub is_reversed: bool,
    /// Whether the old primary refuses writes afterwards, unless it becomes a replica.
    pub is_fenced: bool,
}

impl Switch {
    /// Switches.
    ///
    /// # Errors
    /// Before the promotion: nothing is changed. After it: the state is described by the roles and the record.
    pub fn run(self, session: &mut Session<'_>, link: &mut dyn Link) -> Result<(), MigrateError> {
        let mut hold = Hold::new(session, self.old, session.cli.pause_max)?;
        let started = hold.start(session);
        let prepared = started.and_then(|()| self.prepare(session, link));
        let closed = prepared.and_then(|()| self.close(session, link, &hold));
        session.servers.wait_until(None);
        if let Err(error) = closed {
            let error = in_time(error, session, &hold);
            self.take_back(session, &hold);
            return Err(error);
        }
        let promoted = self.promote(session);
        let ended = hold.end(session);
        let held = in_seconds(hold.elapsed());
        session.progress.line(&format!("writes were held back for {held}"));
        promoted.and(ended)
    }

    /// Everything that changes nothing.
    fn prepare(self, session: &mut Session<'_>, link: &mut dyn Link) -> Result<(), MigrateError> {
        link.settle(&mut session.servers)?;
        let sample = session.cli.sample.min(PAUSED_SAMPLE_MAX);
        let comparison = compare::run(&mut session.servers, link, sample, &mut session.progress)?;
        if !comparison.is_equal() {
            let differences = comparison.lines.join("\n");
            return Err(MigrateError::refused(format!("not switched: with writes paused,\n{differences}")));
        }
        Ok(interrupt::check()?)
    }

    /// The last step that can be taken back. Afterwards the new server has every write that was accepted: a write that the
    /// fence let through, or another role of a server since the comparison, is noticed here. The record tells of the promotion
    /// before it is made, so that one whose reply is lost can be undone.
    fn close(self, session: &mut Session<'_>, link: &mut dyn Link, hold: &Hold) -> Result<(), MigrateError> {
        if self.is_fenced || self.is_reversed {
            hold.fence(session)?;
        }
        link.settle_all(&mut session.servers)?;
        if let Some((_, text)) = link.refused().first() {
            return Err(MigrateError::refused(format!("not switched: with writes paused, refused {text}")));
        }
        let new = session.server(self.old.other());
        if !self.is_replica && new.info("replication")?.role() != Role::Primary {
            let reason = "it is a replica now: something else has changed its role";
            return Err(MigrateError::server(new.name(), reason));
        }
        // The connection is the one on which it had everything.
        let run_id = new.run_id()?;
        hold.check(session)?;
        let stage = match self.old {
            Side::Source => Stage::Switched,
            Side::Target => Stage::Returning,
        };
        session.record.announce(stage, run_id)
    }

    /// Lets the old primary accept writes again.
    fn take_back(self, session: &mut Session<'_>, hold: &Hold) {
        let name = session.server(self.old).name();
        // A fence that was there before stays.
        let restored = session.restore(self.old, fence::is_fence);
        let lifted = hold.end(session).and(restored);
        session.progress.line(&match lifted {
            Ok(()) => format!("{name} accepts writes as before"),
            Err(error) => format!(
                "{name} may still hold writes back, because that can't be ended ({error}): a pause ends by itself, --undo \
                 restores the settings"
            ),
        });
    }

    /// Everything from the promotion on.
    fn promote(self, session: &mut Session<'_>) -> Result<(), MigrateError> {
        let new = self.old.other();
        if self.is_replica {
            replication::detach(session.server(new))?;
        }
        session.restore(new, is_login)?;
        fence::lift(session, new)?;
        let name = session.server(new).name();
        session.progress.line(&format!("{name} is the primary now"));
        if self.is_reversed {
            replication::attach(session, self.old, Stage::Reversed)?;
            finish_reversal(session, self.old)
        } else if !self.is_fenced {
            fence::lift(session, self.old)
        } else {
            Ok(())
        }
    }
}

/// Waits until the old primary follows the new one, and lifts its fence.
pub fn finish_reversal(session: &mut Session<'_>, old: Side) -> Result<(), MigrateError> {
    let followed = replication::follow(session, old);
    let name = session.server(old).name();
    if let Err(error @ MigrateError::Refused(_)) = followed {
        // It follows another server.
        replication::detach(session.server(old))?;
        session.restore(old, is_login)?;
        session.record.set_stage(Stage::Switched)?;
        session.progress.line(&format!("{name} is detached; its data may be those of the other server now"));
        return Err(error);
    }
    followed?;
    session.progress.line(&format!("{name} is its replica now"));
    fence::lift(session, old)
}

/// Names the limit in an error of a server after it has passed.
fn in_time(error: MigrateError, session: &Session<'_>, hold: &Hold) -> MigrateError {
    let is_of_server = matches!(error, MigrateError::Server { .. } | MigrateError::Connection { .. });
    if !is_of_server || hold.has_time() {
        return error;
    }
    let time = in_seconds(session.cli.pause_max);
    MigrateError::refused(format!("not switched within the pause of writes ({time}, --pause-max): {error}"))
}
