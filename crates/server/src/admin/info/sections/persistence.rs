//! `persistence`: dumps, the append-only file, and loading.

use persist::append_only::Figures;
use sync::atomic::{AtomicU64, Ordering};

use super::super::figure::Value::Hundredths;
use super::super::figure::{Figure, Value, figures};
use super::super::gathered::Gathered;
use crate::persistence::saving;

pub static FIGURES: &[Figure] = figures! { |all|
    /// Whether data are being loaded, and none are shown meanwhile.
    gauge "loading" = all.is_loading && !all.loads_beside;
    /// Whether data are being loaded beside those that are shown.
    gauge "async_loading" = all.loads_beside;
    /// Always 0: no snapshot forks.
    gauge "current_cow_peak": Bytes = 0;
    /// The memory that the running snapshot preserves.
    gauge "current_cow_size": Bytes = all.shared.snapshots.preserved_bytes();
    /// Always 0: no snapshot forks.
    gauge "current_cow_size_age": Seconds = 0;
    /// Always 0.00: no snapshot forks.
    gauge "current_fork_perc": Percent = Hundredths(0.0);
    /// The keys that the running snapshot has written.
    gauge "current_save_keys_processed" = all.saves().keys_processed;
    /// The keys of the running snapshot.
    gauge "current_save_keys_total" = all.saves().keys_total;
    /// The changes since the last dump.
    gauge "rdb_changes_since_last_save" = saving::unsaved_changes(all.shared);
    /// Whether a dump is being written, or a snapshot for replicas.
    gauge "rdb_bgsave_in_progress" = all.saves().is_saving;
    /// When the last dump was complete.
    gauge "rdb_last_save_time": UnixSeconds = all.saves().last_save;
    /// Whether the last dump succeeded: ok or err.
    text "rdb_last_bgsave_status" = Value::ok_unless(!all.saves().last_ok);
    /// The duration of the last dump; -1: there was none.
    gauge "rdb_last_bgsave_time_sec": Seconds = Value::unless_negative(all.saves().last_seconds);
    /// The time since the running dump or snapshot for replicas began; -1: none runs.
    gauge "rdb_current_bgsave_time_sec": Seconds = Value::unless_negative(all.saves().current_seconds);
    /// The dumps.
    counter "rdb_saves" = all.saves().save_count;
    /// The failed dumps since the last that succeeded.
    gauge "rdb_saves_consecutive_failures" = all.saves().failure_count;
    /// Always 0: no snapshot forks.
    gauge "rdb_last_cow_size": Bytes = 0;
    /// The expired keys that the last load of a dump skipped.
    gauge "rdb_last_load_keys_expired" = all.shared.loading.expired_key_count.load(Ordering::Relaxed);
    /// The keys that the last load of a dump has loaded.
    gauge "rdb_last_load_keys_loaded" = all.shared.loading.loaded_key_count.load(Ordering::Relaxed);
    /// Whether changes are written to an append-only file.
    gauge "aof_enabled" = all.config.appendonly;
    /// Whether the append-only file is being rewritten.
    gauge "aof_rewrite_in_progress" = all.rewriting().is_going_on;
    /// Whether a rewrite begins once a snapshot has ended.
    gauge "aof_rewrite_scheduled" = all.rewriting().is_scheduled;
    /// The duration of the last rewrite; -1: there was none.
    gauge "aof_last_rewrite_time_sec": Seconds = Value::unless_negative(aof(all).rewrite_seconds.load(Ordering::Relaxed));
    /// The time since the running rewrite began; -1: none runs.
    gauge "aof_current_rewrite_time_sec": Seconds = Value::unless_negative(all.rewriting().seconds);
    /// Whether the last rewrite succeeded: ok or err.
    text "aof_last_bgrewrite_status" = Value::ok_unless(aof(all).rewrite_failed.load(Ordering::Relaxed));
    /// The rewrites.
    counter "aof_rewrites" = of(&aof(all).rewrites);
    /// The failed rewrites since the last that succeeded.
    gauge "aof_rewrites_consecutive_failures" = of(&aof(all).rewrite_failures);
    /// Whether the append-only file can be written: ok or err.
    text "aof_last_write_status" = Value::ok_unless(all.shared.persistence.append_only.failure().is_some());
    /// Always 0: no rewrite forks.
    gauge "aof_last_cow_size": Bytes = 0;
    /// Always 0: there are no modules.
    gauge "module_fork_in_progress" = 0;
    /// Always 0: there are no modules.
    gauge "module_fork_last_cow_size": Bytes = 0;
    /// Always 0: there is no cluster.
    gauge "slot_migration_fork_in_progress" = 0;
    /// The size of the append-only files; shown with `appendonly yes`, as are the next five.
    gauge "aof_current_size": Bytes = of(&aof(all).size), when all.config.appendonly;
    /// The size of the append-only files at the start or after the last rewrite.
    gauge "aof_base_size": Bytes = of(&aof(all).base_size), when all.config.appendonly;
    /// Always 0.
    gauge "aof_pending_rewrite" = 0, when all.config.appendonly;
    /// The bytes of the write log that are not in the append-only file yet.
    gauge "aof_buffer_length": Bytes = unwritten(all), when all.config.appendonly;
    /// Whether the append-only file is being synchronised, or needs it.
    gauge "aof_pending_bio_fsync" = is_sync_pending(all), when all.config.appendonly;
    /// The synchronisations that took longer than two seconds.
    counter "aof_delayed_fsync" = of(&aof(all).delayed_syncs), when all.config.appendonly;
    /// When the load began; shown while files are loaded, as are the next five.
    gauge "loading_start_time": UnixSeconds = all.loading().started_at, when all.is_loading;
    /// The size of all files to load.
    gauge "loading_total_bytes": Bytes = all.loading().total_bytes, when all.is_loading;
    /// The memory that the writer of the dump used.
    gauge "loading_rdb_used_mem": Bytes = of(&all.shared.loading.written_memory), when all.is_loading;
    /// The bytes of the files that are loaded.
    gauge "loading_loaded_bytes": Bytes = all.loading().loaded_bytes, when all.is_loading;
    /// The part of the files that is loaded.
    gauge "loading_loaded_perc": Percent = Hundredths(all.loading().percent), when all.is_loading;
    /// The expected time to the end of the load.
    gauge "loading_eta_seconds": Seconds = all.loading().left_seconds, when all.is_loading;
};

fn aof<'a>(all: &Gathered<'a>) -> &'a Figures {
    &all.shared.persistence.append_only.figures
}

fn of(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn unwritten(all: &Gathered<'_>) -> u64 {
    all.shared.keyspace.log.end().0.saturating_sub(of(&aof(all).written))
}

fn is_sync_pending(all: &Gathered<'_>) -> bool {
    aof(all).syncing.is_under_way() || aof(all).is_unsynced.load(Ordering::Relaxed)
}
