//! The process: its clocks and secrets, its configuration, its end, and its changes by `DEBUG`.

use std::time::Duration;

use base::{Lsn, Millis};
use commands::error::CommandError;
use commands::host::{
    Clock, ConfigAdmin, Crash, Debugging, Lifecycle, Reload, ReplyBufferSetting, Secrets, ShutdownOptions,
    SyncPoint,
};
use commands::session::Session;
use os::clock::Ticks;
use os::{clock, process};
use sync::atomic::Ordering;

use super::WorkerHost;
use crate::admin::shutdown::Cause;
use crate::shared::loading::Loading;

impl Clock for WorkerHost {
    fn unix_micros(&self) -> i64 {
        clock::unix_micros()
    }

    fn uptime_ns(&self) -> u64 {
        Ticks::now().uptime_ns()
    }

    fn started_at(&self) -> Millis {
        Millis(self.shared.identity.started_at)
    }
}

impl Secrets for WorkerHost {
    fn fill_with_secrets(&self, bytes: &mut [u8]) -> Result<(), CommandError> {
        process::fill_with_secrets(bytes)
            .map_err(|error| CommandError::owned(format!("ERR No random numbers from the system: {error}")))
    }
}

impl ConfigAdmin for WorkerHost {
    fn config_matching(&self, patterns: &[&[u8]]) -> Vec<(String, Vec<u8>)> {
        let config = self.shared.config.load();
        config.matching(patterns).into_iter().map(|(name, value)| (name.into_owned(), value)).collect()
    }

    fn config_set(&self, arguments: &[&[u8]], own: &Session) -> Result<Lsn, CommandError> {
        self.shared.set_config(arguments, own)
    }

    fn config_rewrite(&self, everything: bool) -> Result<(), CommandError> {
        self.shared.rewrite_config(everything)
    }
}

impl Lifecycle for WorkerHost {
    fn shutdown(&self, options: ShutdownOptions, session: &Session) -> Result<bool, CommandError> {
        self.shared.shut_down(Cause::Command(options, session.id))
    }

    fn shutdown_abort(&self) -> Result<(), CommandError> {
        self.shared.abort_shutdown()
    }
}

const SHUTDOWN_PENDING: CommandError = CommandError::new(
    "ERR The data can't be loaded while a shutdown waits or saves them. SHUTDOWN ABORT ends that.",
);

impl Debugging for WorkerHost {
    fn prepare_reload(&self, _: Reload) -> Result<(), CommandError> {
        let modes = &self.shared.modes;
        // Before, as a shutdown that finds a load ends at once; and again, as it may have begun meanwhile.
        if modes.shutdown.is_pending() {
            return Err(SHUTDOWN_PENDING);
        }
        Loading::prepare_reload(&modes.flags)?;
        if modes.shutdown.is_pending() {
            Loading::end(&modes.flags);
            return Err(SHUTDOWN_PENDING);
        }
        Ok(())
    }

    fn set_active_expire(&self, enabled: bool) {
        self.shared.modes.active_expire.store(enabled, Ordering::Relaxed);
    }

    fn pause_cron(&self, paused: bool) {
        self.shared.modes.cron_paused.store(paused, Ordering::Relaxed);
    }

    fn set_reply_buffers(&self, setting: ReplyBufferSetting) {
        let rules = &self.shared.connections.reply_buffers;
        match setting {
            ReplyBufferSetting::PeakReset(milliseconds) => rules.set_peak_reset_ms(milliseconds),
            ReplyBufferSetting::Resizing(enabled) => rules.set_resizing(enabled),
            ReplyBufferSetting::CountsBlocks(enabled) => rules.set_counts_blocks(enabled),
        }
    }

    fn sleep(&self, micros: u64) {
        sync::thread::sleep(Duration::from_micros(micros));
    }

    fn stall_others(&self, micros: u64) {
        self.shared.modes.stall(Duration::from_micros(micros));
    }

    fn set_checksum_validation(&self, enabled: bool) {
        self.shared.modes.skips_checksums.store(!enabled, Ordering::Relaxed);
    }

    fn validates_checksums(&self) -> bool {
        !self.shared.modes.skips_checksums.load(Ordering::Relaxed)
    }

    fn set_scripts_unrestricted(&self, enabled: bool) {
        self.shared.modes.scripts_run_all.store(enabled, Ordering::Relaxed);
    }

    fn delay_append_only(&self, micros: u64) {
        self.shared.persistence.append_only.figures.write_delay_us.store(micros, Ordering::Relaxed);
    }

    fn stop_at(&self, point: SyncPoint, enabled: bool) {
        self.shared.modes.sync_stops.set(point, enabled);
    }

    fn set_stream_grace(&self, seconds: i64) {
        self.shared.replication.replicas.expected.set_grace(seconds);
    }

    fn change_replication_id(&self) {
        log::info!("The replication id changes, as DEBUG CHANGE-REPL-ID demands");
        self.shared.change_replication_id();
    }

    fn write_server_log(&self, text: &str) {
        log::warn!("{text}");
    }

    fn crash(&self, how: Crash) -> ! {
        match how {
            Crash::Panic => panic!("crash by request of a client"),
            Crash::Segfault => os::fault::provoke(),
        }
    }
}
