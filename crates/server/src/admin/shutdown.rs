//! The end of the server: on a signal or by `SHUTDOWN`, every worker sends its output, closes its connections
//! and ends. The last one wakes the process's first thread, which cleans up.

use commands::error::CommandError;
use commands::host::ShutdownOptions;
use config::ShutdownFlags;

use crate::shared::Shared;

/// The origin of a shutdown.
pub enum Cause {
    /// A signal, with the flags of its directive.
    Signal(ShutdownFlags),
    /// `SHUTDOWN`.
    Command(ShutdownOptions),
}

const CANNOT: CommandError = CommandError::new("ERR Errors trying to SHUTDOWN. Check logs.");

impl Shared {
    /// Begins to end the server, unless the request requires what is not possible.
    pub fn shut_down(&self, cause: Cause) -> Result<(), CommandError> {
        let (must_save, force) = match &cause {
            Cause::Signal(flags) => (flags.save, flags.force),
            Cause::Command(options) => (options.save == Some(true), options.force),
        };
        log::warn!("User requested shutdown...");
        if self.is_loading() {
            log::warn!("Received shutdown during loading, exiting now.");
        } else if must_save && !force {
            log::warn!(
                "Error trying to save the DB, can't exit: nothing is written to disk by this version."
            );
            return Err(CANNOT);
        }
        if self.keyspace.key_count() > 0 {
            log::info!("The data is in memory only, and is lost with the process.");
        }
        crate::process::supervisor::stopping();
        self.stop();
        Ok(())
    }
}

/// Removes the files that the process has created.
pub fn clean_up(shared: &Shared) {
    let config = shared.config.load();
    if let Some(path) = &shared.identity.pid_file {
        log::info!("Removing the pid file.");
        // An error is ignored: the file may be removed already.
        let _ = std::fs::remove_file(path);
    }
    if !config.unixsocket.is_empty() {
        let _ = std::fs::remove_file(&config.unixsocket);
    }
    log::warn!("Broadloom is now ready to exit, bye bye...");
}
