//! Sending keys to another server.

use commands::error::CommandError;
use commands::host::{Migrations, Transfer, TransferTarget};
use commands::session::Session;

use super::WorkerHost;

impl Migrations for WorkerHost {
    fn begin_transfer(
        &self,
        target: TransferTarget,
        session: &Session,
    ) -> Result<Box<dyn Transfer>, CommandError> {
        crate::admin::migration::begin(self.shared, self.thread, target, session.id)
    }
}
