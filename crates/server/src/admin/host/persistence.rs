//! Saving the data.

use base::Lsn;
use commands::error::CommandError;
use commands::host::Persistence;
use commands::session::{Session, SessionFlags};
use keyspace::Latched;

use super::WorkerHost;
use crate::persistence::{append_only, saving};
use crate::shared::modes::GlobalFlags;

impl Persistence for WorkerHost {
    fn last_save(&self) -> i64 {
        self.shared.snapshots.status.figures().last_save
    }

    fn save(&self, data: &mut Latched<'_>, session: &Session) -> Result<(), CommandError> {
        saving::save(self.shared, data, session)
    }

    fn save_in_background(
        &self,
        data: &mut Latched<'_>,
        session: &Session,
        may_wait: bool,
    ) -> Result<&'static str, CommandError> {
        saving::save_in_background(self.shared, data, session, may_wait)
    }

    fn cancel_saving(&self) -> Result<&'static str, CommandError> {
        saving::cancel(self.shared)
    }

    fn rewrite_append_only(&self, session: &Session) -> Result<&'static str, CommandError> {
        append_only::request_rewrite(self.shared, session.flags.contains(SessionFlags::IN_EXEC))
    }

    fn is_durable(&self, lsn: Lsn) -> bool {
        self.shared.persistence.append_only.is_durable(lsn)
    }

    fn append_only_fails(&self) -> bool {
        self.shared.modes.flags.is_set(GlobalFlags::APPEND_FAILED)
    }

    fn flushed_all(&self, data: &mut Latched<'_>, session: &Session, frees_first: bool) -> bool {
        saving::flushed_all(self.shared, data, session, frees_first)
    }
}
