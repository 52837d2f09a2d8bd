//! The data on disk.

use base::Lsn;
use keyspace::Latched;

use crate::error::CommandError;
use crate::session::Session;

/// Saving the data.
pub trait Persistence {
    /// Unix time of the last successful save, or of the start, in seconds.
    fn last_save(&self) -> i64;
    /// `SAVE`: begins to save the current state. All slots must be latched. The session waits and gets its reply when
    /// the state is saved.
    fn save(&self, data: &mut Latched<'_>, session: &Session) -> Result<(), CommandError>;
    /// `BGSAVE`: saves the current state, or a later one. All slots must be latched. Returns the status.
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
    /// Whether all changes up to an LSN are durable, including changes made before the write log was switched on.
    fn is_durable(&self, lsn: Lsn) -> bool;
    /// Whether writing the append-only file fails, so that nothing becomes durable for now.
    fn append_only_fails(&self) -> bool;
    /// Called when `FLUSHALL` has emptied all databases. All slots must be latched. Returns whether the session waits and gets
    /// its reply when the dump file is replaced by an empty one: a crash after the reply must not bring the data back. With
    /// `frees_first`, the reply also follows what was to be freed later.
    fn flushed_all(&self, data: &mut Latched<'_>, session: &Session, frees_first: bool) -> bool;
}
