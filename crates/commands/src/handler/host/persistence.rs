//! The data on disk.

use base::Lsn;
use keyspace::Latched;

use crate::error::CommandError;
use crate::session::Session;

/// Saving the data.
pub trait Persistence {
    /// Unix time of the last successful save, or of the start, in seconds.
    fn last_save(&self) -> i64;
    /// `SAVE`: begins to save the state under the latches, which are those of all slots. The session is answered when it
    /// is saved, and waits until then.
    fn save(&self, data: &mut Latched<'_>, session: &Session) -> Result<(), CommandError>;
    /// `BGSAVE`: saves the state under the latches, which are those of all slots, or later. Returns the status.
    fn save_in_background(
        &self,
        data: &mut Latched<'_>,
        session: &Session,
        may_wait: bool,
    ) -> Result<&'static str, CommandError>;
    /// `BGSAVE CANCEL`: returns the status.
    fn cancel_saving(&self) -> Result<&'static str, CommandError>;
    /// `BGREWRITEAOF`: returns the status.
    fn rewrite_append_only(&self, session: &Session) -> Result<&'static str, CommandError>;
    /// The end of what is durable of the write log.
    fn durable_end(&self) -> Lsn;
    /// Called when `FLUSHALL` has emptied all databases.
    fn flushed_all(&self);
}
