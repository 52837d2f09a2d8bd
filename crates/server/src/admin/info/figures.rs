//! The sections of `INFO` that are mostly counters.

use collections::Kind;
use commands::subscriptions::SubscriptionKind;
use commands::table::{CommandId, NUMBERED};
use os::clock::{self, Uptime};
use os::process::{self, UsageOf};
use sync::ThreadCounter;
use sync::atomic::{AtomicU64, Ordering};

use super::text::{Hundredths, Millionths, Text};
use crate::monitoring::statistics::{BUCKET_COUNT, CommandStatistics, WorkerStatistics, bucket_max_ns};
use crate::persistence::saving;
use crate::shared::Shared;

pub(super) fn persistence(text: &mut Text, shared: &Shared) {
    let loading = &shared.loading;
    let append_only = &shared.persistence.append_only;
    let aof = &append_only.figures;
    let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let ok_or_err = |has_failed| if has_failed { "err" } else { "ok" };
    let is_on = shared.config.load().appendonly;
    // A rewrite that waits for no other snapshot, or for one that was cancelled, begins soon.
    let is_wanted = aof.is_rewrite_requested() || aof.is_rewrite_scheduled.load(Ordering::Relaxed);
    let begins_soon = is_wanted && !shared.snapshots.is_going_on();
    let is_rewriting = aof.is_rewriting.load(Ordering::Relaxed) || begins_soon;
    let is_scheduled = is_wanted && !is_rewriting;
    let unwritten = shared.keyspace.log.end().0.saturating_sub(of(&aof.written));
    let rewriting_seconds = match aof.is_rewriting.load(Ordering::Relaxed) {
        true => clock::unix_millis() / 1000 - aof.rewrite_began.load(Ordering::Relaxed),
        false => -1,
    };
    text.section("Persistence");
    let saves = shared.snapshots.status.figures();
    let status = |is_ok: bool| if is_ok { "ok" } else { "err" };
    text.lines(&[
        ("loading", &u8::from(shared.modes.is_loading())),
        ("async_loading", &0),
        ("current_cow_peak", &0),
        ("current_cow_size", &shared.snapshots.preserved_bytes()),
        ("current_cow_size_age", &0),
        ("current_fork_perc", &"0.00"),
        ("current_save_keys_processed", &saves.keys_processed),
        ("current_save_keys_total", &saves.keys_total),
        ("rdb_changes_since_last_save", &saving::unsaved_changes(shared)),
        ("rdb_bgsave_in_progress", &u8::from(saves.is_saving)),
        ("rdb_last_save_time", &saves.last_save),
        ("rdb_last_bgsave_status", &status(saves.last_ok)),
        ("rdb_last_bgsave_time_sec", &saves.last_seconds),
        ("rdb_current_bgsave_time_sec", &saves.current_seconds),
        ("rdb_saves", &saves.save_count),
        ("rdb_saves_consecutive_failures", &saves.failure_count),
        ("rdb_last_cow_size", &0),
        ("rdb_last_load_keys_expired", &loading.expired_key_count.load(Ordering::Relaxed)),
        ("rdb_last_load_keys_loaded", &loading.loaded_key_count.load(Ordering::Relaxed)),
        ("aof_enabled", &u8::from(is_on)),
        ("aof_rewrite_in_progress", &u8::from(is_rewriting)),
        ("aof_rewrite_scheduled", &u8::from(is_scheduled)),
        ("aof_last_rewrite_time_sec", &aof.rewrite_seconds.load(Ordering::Relaxed)),
        ("aof_current_rewrite_time_sec", &rewriting_seconds),
        ("aof_last_bgrewrite_status", &ok_or_err(aof.rewrite_failed.load(Ordering::Relaxed))),
        ("aof_rewrites", &of(&aof.rewrites)),
        ("aof_rewrites_consecutive_failures", &of(&aof.rewrite_failures)),
        ("aof_last_write_status", &ok_or_err(append_only.failure().is_some())),
        ("aof_last_cow_size", &0),
        ("module_fork_in_progress", &0),
        ("module_fork_last_cow_size", &0),
        ("slot_migration_fork_in_progress", &0),
    ]);
    if is_on {
        let is_sync_pending = u8::from(aof.syncing.is_under_way() || aof.is_unsynced.load(Ordering::Relaxed));
        text.lines(&[
            ("aof_current_size", &of(&aof.size)),
            ("aof_base_size", &of(&aof.base_size)),
            ("aof_pending_rewrite", &0),
            ("aof_buffer_length", &unwritten),
            ("aof_pending_bio_fsync", &is_sync_pending),
            ("aof_delayed_fsync", &of(&aof.delayed_syncs)),
        ]);
    }
    if shared.modes.is_loading() {
        let progress = loading.progress(clock::unix_millis() / 1000);
        text.lines(&[
            ("loading_start_time", &progress.started_at),
            ("loading_total_bytes", &progress.total_bytes),
            ("loading_rdb_used_mem", &loading.written_memory.load(Ordering::Relaxed)),
            ("loading_loaded_bytes", &progress.loaded_bytes),
            ("loading_loaded_perc", &Hundredths(progress.percent)),
            ("loading_eta_seconds", &progress.left_seconds),
        ]);
    }
}

/// A line for each worker, in the form of Redis 8.
pub(super) fn threads(text: &mut Text, shared: &Shared) {
    text.section("Threads");
    let occupied = shared
        .monitoring
        .statistics
        .threads()
        .filter(|(thread, _)| shared.workers.handle(*thread).is_occupied());
    for (thread, statistics) in occupied {
        text.line(
            &format!("io_thread_{thread}"),
            format!(
                "clients={},reads={},writes={},commands={},busy_permille={}",
                shared.workers.handle(thread).connection_count.value(),
                statistics.reads.value(),
                statistics.writes.value(),
                statistics.commands_processed.value(),
                shared.workers.handle(thread).busy_permille(),
            ),
        );
    }
}

pub(super) fn stats(text: &mut Text, shared: &Shared) {
    let (statistics, counters) = (&shared.monitoring.statistics, &shared.keyspace.counters);
    let rates = shared.monitoring.metrics.rates();
    let (exceeded_now_ms, exceeded_ms) = shared.memory.exceeded_time.millis();
    let kilo = |bytes: u64| Hundredths(bytes as f64 / 1024.0);
    let sum = |of: fn(&WorkerStatistics) -> &ThreadCounter| statistics.sum(of);
    let since_reset =
        |thread: &WorkerStatistics| thread.busy_ns.value().saturating_sub(thread.busy_ns_at_reset.value());
    let busy_ns: u64 = statistics.threads().map(|(_, thread)| since_reset(thread)).sum();
    let denials = &shared.monitoring.denials;
    let of_clients = |counter: &sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    let defrag_misses = sum(|thread| &thread.defrag_seen).saturating_sub(sum(|thread| &thread.defrag_moved));
    let defrag_since = statistics.threads().map(|(_, thread)| thread.defrag_since_ms.value());
    let defrag_since = defrag_since.filter(|since| *since > 0).min().unwrap_or(u64::MAX);
    let defrag_now_ms = (Uptime::now().to_raw() as u64).saturating_sub(defrag_since);
    text.section("Stats");
    text.lines(&[
        ("total_connections_received", &sum(|thread| &thread.connections_received)),
        ("total_commands_processed", &sum(|thread| &thread.commands_processed)),
        ("instantaneous_ops_per_sec", &rates.commands),
        ("total_net_input_bytes", &sum(|thread| &thread.received_bytes)),
        ("total_net_output_bytes", &sum(|thread| &thread.sent_bytes)),
        ("total_net_repl_input_bytes", &0),
        ("total_net_repl_output_bytes", &0),
        ("total_net_cluster_slot_import_bytes", &0),
        ("total_net_cluster_slot_export_bytes", &0),
        ("instantaneous_input_kbps", &kilo(rates.received_bytes)),
        ("instantaneous_output_kbps", &kilo(rates.sent_bytes)),
        ("instantaneous_input_repl_kbps", &"0.00"),
        ("instantaneous_output_repl_kbps", &"0.00"),
        ("rejected_connections", &of_clients(&shared.connections.rejected)),
        ("sync_full", &0),
        ("sync_partial_ok", &0),
        ("sync_partial_err", &0),
        ("expired_keys", &counters.sum(|counters| &counters.expired_keys)),
        ("expired_keys_active", &counters.sum(|counters| &counters.expired_keys_active)),
        ("expired_fields", &counters.sum(|counters| &counters.expired_fields)),
        ("expired_fields_active", &counters.sum(|counters| &counters.expired_fields_active)),
        ("expired_subkeys", &counters.sum(|counters| &counters.expired_fields)),
        ("expired_subkeys_active", &counters.sum(|counters| &counters.expired_fields_active)),
        ("expired_stale_perc", &"0.00"),
        ("expired_keys_with_volatile_items_stale_perc", &"0.00"),
        ("expired_time_cap_reached_count", &sum(|thread| &thread.expire_cut_short)),
        ("expire_cycle_cpu_milliseconds", &(sum(|thread| &thread.expire_ns) / 1_000_000)),
        ("evicted_keys", &counters.sum(|counters| &counters.evicted_keys)),
        ("evicted_clients", &of_clients(&shared.connections.evicted)),
        ("evicted_scripts", &shared.scripts.cache.evicted_count()),
        ("scripts_with_undeclared_keys", &of_clients(&shared.scripts.totals.undeclared)),
        ("scripts_run_again", &of_clients(&shared.scripts.totals.repeated)),
        ("scripts_with_all_latches", &of_clients(&shared.scripts.totals.exclusive)),
        ("total_eviction_exceeded_time", &exceeded_ms),
        ("current_eviction_exceeded_time", &exceeded_now_ms),
        ("keyspace_hits", &counters.sum(|counters| &counters.hits)),
        ("keyspace_misses", &counters.sum(|counters| &counters.misses)),
        ("pubsub_channels", &shared.hub.name_count(SubscriptionKind::Channel)),
        ("pubsub_patterns", &shared.hub.name_count(SubscriptionKind::Pattern)),
        ("pubsubshard_channels", &shared.hub.name_count(SubscriptionKind::ShardChannel)),
        ("latest_fork_usec", &0),
        ("total_forks", &0),
        ("migrate_cached_sockets", &shared.migration_sockets.len()),
        ("slave_expires_tracked_keys", &0),
        ("active_defrag_hits", &sum(|thread| &thread.defrag_moved)),
        ("active_defrag_misses", &defrag_misses),
        ("active_defrag_key_hits", &sum(|thread| &thread.defrag_moved)),
        ("active_defrag_key_misses", &defrag_misses),
        ("total_active_defrag_time", &(sum(|thread| &thread.defrag_ns) / 1_000_000)),
        ("current_active_defrag_time", &defrag_now_ms),
        ("tracking_total_keys", &shared.keyspace.reader_totals.key_count()),
        ("tracking_total_items", &shared.keyspace.reader_totals.reader_count()),
        ("tracking_total_prefixes", &shared.hub.name_count(SubscriptionKind::Prefix)),
        ("unexpected_error_replies", &shared.loading.unexpected_error_count.load(Ordering::Relaxed)),
        ("total_error_replies", &sum(|thread| &thread.errors)),
        ("dump_payload_sanitizations", &0),
        ("total_reads_processed", &sum(|thread| &thread.reads)),
        ("total_writes_processed", &sum(|thread| &thread.writes)),
        ("io_threaded_reads_processed", &0),
        ("io_threaded_writes_processed", &0),
        ("io_threaded_accept_processed", &0),
        ("io_threaded_freed_objects", &0),
        ("io_threaded_poll_processed", &0),
        ("io_threaded_total_prefetch_batches", &0),
        ("io_threaded_total_prefetch_entries", &0),
        ("sessions_parked", &sum(|thread| &thread.parked)),
        ("client_query_buffer_limit_disconnections", &of_clients(&shared.connections.over_query_limit)),
        ("client_output_buffer_limit_disconnections", &of_clients(&shared.connections.over_output_limit)),
        ("reply_buffer_shrinks", &0),
        ("reply_buffer_expands", &0),
        ("eventloop_cycles", &sum(|thread| &thread.turns)),
        ("eventloop_duration_sum", &(busy_ns / 1000)),
        ("eventloop_duration_cmd_sum", &(command_ns(shared) / 1000)),
        ("instantaneous_eventloop_cycles_per_sec", &(rates.turns / shared.pool.wanted().max(1) as u64)),
        ("instantaneous_eventloop_duration_usec", &(rates.turn_ns / 1000)),
        ("acl_access_denied_auth", &of_clients(&denials.authentications)),
        ("acl_access_denied_cmd", &of_clients(&denials.commands)),
        ("acl_access_denied_key", &of_clients(&denials.keys)),
        ("acl_access_denied_channel", &of_clients(&denials.channels)),
        ("acl_access_denied_tls_cert", &of_clients(&denials.certificates)),
        ("acl_access_denied_db", &of_clients(&denials.databases)),
    ]);
}

pub(super) fn tls(text: &mut Text, shared: &Shared) {
    let certificates = &shared.certificates;
    let context = certificates.context();
    let context = context.as_deref();
    let now = os::clock::unix_millis() / 1000;
    text.section("TLS");
    for (name, certificate) in [
        ("server", context.and_then(|context| context.server_certificate())),
        ("client", context.and_then(|context| context.client_certificate())),
        ("ca", context.and_then(|context| context.authority())),
    ] {
        let serial = certificate.map_or("none", |certificate| &certificate.serial);
        let seconds = certificate.map_or(0, |certificate| (certificate.expires_at - now).max(0));
        text.line(&format!("tls_{name}_cert_serial"), serial);
        text.line(&format!("tls_{name}_cert_expires_in_seconds"), seconds);
    }
    text.line("tls_failed_handshakes", certificates.failed_handshakes.load(Ordering::Relaxed));
}

pub(super) fn replication(text: &mut Text, shared: &Shared) {
    text.section("Replication");
    text.lines(&[
        ("role", &"master"),
        ("connected_slaves", &0),
        ("replicas_waiting_psync", &0),
        ("master_failover_state", &"no-failover"),
        ("master_replid", &**shared.identity.replication_id.load()),
        ("master_replid2", &"0000000000000000000000000000000000000000"),
        ("master_repl_offset", &0),
        ("second_repl_offset", &-1),
        ("repl_backlog_active", &0),
        ("repl_backlog_size", &shared.config.load().repl_backlog_size),
        ("repl_backlog_first_byte_offset", &0),
        ("repl_backlog_histlen", &0),
    ]);
    let config = shared.config.load();
    if config.min_replicas_to_write > 0 && config.min_replicas_max_lag > 0 {
        text.line("min_slaves_good_slaves", 0);
    }
}

/// CPU time of the process, of the first thread by Redis's name for it, and of each worker.
pub(super) fn cpu(text: &mut Text, shared: &Shared) {
    let seconds = |duration: std::time::Duration| Millionths(duration.as_secs_f64());
    let micros = |us: u64| Millionths(us as f64 / 1e6);
    let process = process::usage(UsageOf::Process);
    let children = process::usage(UsageOf::Children);
    let first = shared.monitoring.statistics.thread(0);
    text.section("CPU");
    text.lines(&[
        ("used_cpu_sys", &seconds(process.system)),
        ("used_cpu_user", &seconds(process.user)),
        ("used_cpu_sys_children", &seconds(children.system)),
        ("used_cpu_user_children", &seconds(children.user)),
        ("used_cpu_sys_main_thread", &micros(first.cpu_system_us.value())),
        ("used_cpu_user_main_thread", &micros(first.cpu_user_us.value())),
        ("used_active_time_main_thread", &micros(first.busy_ns.value() / 1000)),
    ]);
    // All wanted workers, even if one has not started yet.
    for thread in 1..shared.pool.wanted() {
        let statistics = shared.monitoring.statistics.thread(thread);
        text.line(&format!("used_active_time_io_thread_{thread}"), micros(statistics.busy_ns.value() / 1000));
        text.line(&format!("used_cpu_sys_io_thread_{thread}"), micros(statistics.cpu_system_us.value()));
        text.line(&format!("used_cpu_user_io_thread_{thread}"), micros(statistics.cpu_user_us.value()));
    }
}

/// The counters of a command, over all workers.
struct Totals {
    calls: u64,
    ns: u64,
    rejected: u64,
    failed: u64,
}

fn per_thread(shared: &Shared, id: usize) -> impl Iterator<Item = &CommandStatistics> {
    shared
        .monitoring
        .statistics
        .threads()
        .filter_map(move |(_, thread)| thread.command_if_used(CommandId(id as u16)))
}

fn totals(shared: &Shared, id: usize) -> Totals {
    let mut totals = Totals { calls: 0, ns: 0, rejected: 0, failed: 0 };
    for command in per_thread(shared, id) {
        totals.calls += command.calls.value();
        totals.ns += command.ns.value();
        totals.rejected += command.rejected.value();
        totals.failed += command.failed.value();
    }
    totals
}

fn command_ns(shared: &Shared) -> u64 {
    shared.monitoring.statistics.threads().map(|(_, thread)| thread.command_ns()).sum()
}

pub(super) fn command_stats(text: &mut Text, shared: &Shared) {
    text.section("Commandstats");
    for (id, (name, _)) in NUMBERED.iter().enumerate() {
        let Totals { calls, ns, rejected, failed } = totals(shared, id);
        if calls + rejected + failed == 0 {
            continue;
        }
        let us = ns / 1000;
        let per_call = us as f64 / calls.max(1) as f64;
        text.line(
            &format!("cmdstat_{name}"),
            format!(
                "calls={calls},usec={us},usec_per_call={per_call:.2},rejected_calls={rejected},failed_calls={failed}"
            ),
        );
    }
}

pub(super) fn error_stats(text: &mut Text, shared: &Shared) {
    text.section("Errorstats");
    for (code, count) in shared.monitoring.errors.all() {
        // As in Redis, characters that structure the text of INFO are replaced.
        let shown = code.replace(['#', ':', '\n', '\r'], "_");
        text.line(&format!("errorstat_{shown}"), format!("count={count}"));
    }
}

/// A command's executions by duration, over all workers.
pub fn histogram(shared: &Shared, id: usize) -> Vec<u64> {
    let mut sum = vec![0; BUCKET_COUNT];
    for command in per_thread(shared, id) {
        for (total, bucket) in sum.iter_mut().zip(command.histogram.get().into_iter().flatten()) {
            *total += bucket.value();
        }
    }
    sum
}

/// The duration within which `percentile` hundredths of the executions stayed, in nanoseconds.
fn percentile_ns(histogram: &[u64], percentile: f64) -> u64 {
    let count: u64 = histogram.iter().sum();
    let wanted = ((percentile / 100.0) * count as f64).ceil().max(1.0) as u64;
    let mut seen = 0;
    for (bucket, calls) in histogram.iter().enumerate() {
        seen += calls;
        if seen >= wanted {
            return bucket_max_ns(bucket);
        }
    }
    0
}

pub(super) fn latency_stats(text: &mut Text, shared: &Shared) {
    text.section("Latencystats");
    let config = shared.config.load();
    if !config.latency_tracking {
        return;
    }
    for (id, (name, _)) in NUMBERED.iter().enumerate() {
        // Most commands have never run: nothing is summed for them.
        if per_thread(shared, id).all(|command| command.histogram.get().is_none()) {
            continue;
        }
        let histogram = histogram(shared, id);
        if histogram.iter().all(|calls| *calls == 0) {
            continue;
        }
        let shown: Vec<String> = config
            .latency_tracking_info_percentiles
            .0
            .iter()
            .map(|wanted| format!("p{wanted}={:.3}", percentile_ns(&histogram, *wanted) as f64 / 1000.0))
            .collect();
        text.line(&format!("latency_percentiles_usec_{name}"), shown.join(","));
    }
}

pub(super) fn keyspace(text: &mut Text, shared: &Shared) {
    text.section("Keyspace");
    let now = clock::unix_millis() as u64;
    for db in 0..shared.keyspace.db_count() {
        let population = shared.keyspace.counters.population(db);
        if population.keys == 0 {
            continue;
        }
        let mean_ttl = match population.volatile {
            0 => 0,
            count => (population.expiry_sum / count).saturating_sub(now),
        };
        text.line(
            &format!("db{db}"),
            format!(
                "keys={},expires={},avg_ttl={mean_ttl},keys_with_volatile_items={}",
                population.keys, population.volatile, population.volatile_members
            ),
        );
    }
}

/// The histograms of the sizes of values: for each type the smallest size of each bin, and the number of its values.
pub(super) fn key_sizes(text: &mut Text, shared: &Shared) {
    const NAMES: [(Kind, &str); 5] = [
        (Kind::String, "strings_sizes"),
        (Kind::List, "lists_items"),
        (Kind::Set, "sets_items"),
        (Kind::SortedSet, "zsets_items"),
        (Kind::Hash, "hashes_items"),
    ];
    text.section("Keysizes");
    for db in 0..shared.keyspace.db_count() {
        let sizes = shared.keyspace.counters.sizes(db);
        for (kind, name) in NAMES {
            let bins: Vec<String> =
                sizes.bins(kind).map(|(size, count)| format!("{}={count}", label(size))).collect();
            if !bins.is_empty() {
                text.line(&format!("db{db}_distrib_{name}"), bins.join(","));
            }
        }
    }
}

/// A power of two in the form of Redis: `1K` for 1024.
fn label(size: u64) -> String {
    const UNITS: [&str; 5] = ["", "K", "M", "G", "T"];
    let unit = size.checked_ilog2().map_or(0, |power| power as usize / 10).min(UNITS.len() - 1);
    format!("{}{}", size >> (10 * unit), UNITS[unit])
}

pub(super) fn debug(text: &mut Text, shared: &Shared) {
    text.section("Debug");
    let statistics = &shared.monitoring.statistics;
    text.lines(&[
        ("eventloop_duration_aof_sum", &0),
        ("eventloop_duration_cron_sum", &(statistics.sum(|thread| &thread.cron_ns) / 1000)),
        ("eventloop_duration_max", &(statistics.max(|thread| &thread.turn_ns_max) / 1000)),
        ("eventloop_cmd_per_cycle_max", &statistics.max(|thread| &thread.turn_commands_max)),
    ]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitoring::statistics::bucket_of;

    #[test]
    fn percentiles_of_a_histogram() {
        let mut histogram = vec![0; BUCKET_COUNT];
        histogram[bucket_of(1_000)] = 98;
        histogram[bucket_of(50_000)] = 1;
        histogram[bucket_of(900_000)] = 1;
        assert!((1_000..1_100).contains(&percentile_ns(&histogram, 50.0)));
        assert!((50_000..54_000).contains(&percentile_ns(&histogram, 99.0)));
        assert!((900_000..960_000).contains(&percentile_ns(&histogram, 100.0)));
        assert_eq!(percentile_ns(&vec![0; BUCKET_COUNT], 50.0), 0);
    }
}
