//! `stats`: totals over all workers since the start or `CONFIG RESETSTAT`, and rates of the last moments.

use commands::subscriptions::SubscriptionKind;
use os::clock::Uptime;
use sync::atomic::{AtomicU64, Ordering};

use super::super::figure::Value::Hundredths;
use super::super::figure::{Figure, Value, figures};
use super::super::gathered::Gathered;

pub static FIGURES: &[Figure] = figures! { |all|
    /// The connections that were accepted.
    counter "total_connections_received" = all.sum(|thread| &thread.sockets.accepted);
    /// The commands that were run.
    counter "total_commands_processed" = all.sum(|thread| &thread.commands_processed);
    /// The commands of the last moments.
    gauge "instantaneous_ops_per_sec": PerSecond = all.rates().commands;
    /// The bytes received from connections.
    counter "total_net_input_bytes": Bytes = all.sum(|thread| &thread.sockets.received_bytes);
    /// The bytes sent to connections.
    counter "total_net_output_bytes": Bytes = all.sum(|thread| &thread.sockets.sent_bytes);
    /// Always 0: bytes of the primary count among those of connections.
    counter "total_net_repl_input_bytes": Bytes = 0;
    /// The bytes sent to replicas: snapshots, and the stream.
    counter "total_net_repl_output_bytes": Bytes = of(&all.shared.replication.replicas.sent_bytes);
    /// Always 0: there is no cluster.
    counter "total_net_cluster_slot_import_bytes": Bytes = 0;
    /// Always 0: there is no cluster.
    counter "total_net_cluster_slot_export_bytes": Bytes = 0;
    /// The input of the last moments.
    gauge "instantaneous_input_kbps": KibibytesPerSecond = kilo(all.rates().received_bytes);
    /// The output of the last moments.
    gauge "instantaneous_output_kbps": KibibytesPerSecond = kilo(all.rates().sent_bytes);
    /// Always 0.00: bytes of the primary count among those of connections.
    gauge "instantaneous_input_repl_kbps": KibibytesPerSecond = Hundredths(0.0);
    /// Always 0.00: bytes to replicas count among those of connections.
    gauge "instantaneous_output_repl_kbps": KibibytesPerSecond = Hundredths(0.0);
    /// The connections that were refused because of `maxclients`.
    counter "rejected_connections" = of(&all.shared.connections.rejected);
    /// The synchronisations of replicas with a snapshot.
    counter "sync_full" = of(&all.shared.replication.replicas.full_count);
    /// The synchronisations of replicas that continued.
    counter "sync_partial_ok" = of(&all.shared.replication.replicas.partial_count);
    /// The requests of replicas to continue that could not be met.
    counter "sync_partial_err" = of(&all.shared.replication.replicas.refused_count);
    /// The keys that expired.
    counter "expired_keys" = all.counters().sum(|counters| &counters.expired_keys);
    /// The expired keys that periodic work deleted.
    counter "expired_keys_active" = all.counters().sum(|counters| &counters.expired_keys_active);
    /// The fields of hashes that expired.
    counter "expired_fields" = all.counters().sum(|counters| &counters.expired_fields);
    /// The expired fields that periodic work deleted.
    counter "expired_fields_active" = all.counters().sum(|counters| &counters.expired_fields_active);
    /// The fields of hashes that expired, under Redis's name.
    counter "expired_subkeys" = all.counters().sum(|counters| &counters.expired_fields);
    /// The expired fields that periodic work deleted, under Redis's name.
    counter "expired_subkeys_active" = all.counters().sum(|counters| &counters.expired_fields_active);
    /// Always 0.00.
    gauge "expired_stale_perc": Percent = Hundredths(0.0);
    /// Always 0.00.
    gauge "expired_keys_with_volatile_items_stale_perc": Percent = Hundredths(0.0);
    /// The cycles of active expiry that ended because their time was over.
    counter "expired_time_cap_reached_count" = all.sum(|thread| &thread.expiry.cut_short);
    /// The time of active expiry.
    counter "expire_cycle_cpu_milliseconds": Milliseconds = all.sum(|thread| &thread.expiry.ns) / 1_000_000;
    /// The keys that were evicted because of `maxmemory`.
    counter "evicted_keys" = all.counters().sum(|counters| &counters.evicted_keys);
    /// The connections that were closed because of `maxmemory-clients`.
    counter "evicted_clients" = of(&all.shared.connections.evicted);
    /// The cached scripts that were removed because of their number.
    counter "evicted_scripts" = all.shared.scripts.cache.evicted_count();
    /// The runs of scripts that accessed keys that they had not declared.
    counter "scripts_with_undeclared_keys" = of(&all.shared.scripts.totals.undeclared);
    /// The runs of scripts that were abandoned before they wrote, and run again with other latches.
    counter "scripts_run_again" = of(&all.shared.scripts.totals.repeated);
    /// The runs of scripts that held all latches.
    counter "scripts_with_all_latches" = of(&all.shared.scripts.totals.exclusive);
    /// The time in which the memory was over `maxmemory`.
    counter "total_eviction_exceeded_time": Milliseconds = exceeded_time(all).1;
    /// The time since the memory is over `maxmemory`; 0: it is not.
    gauge "current_eviction_exceeded_time": Milliseconds = exceeded_time(all).0;
    /// The lookups by commands that found their key.
    counter "keyspace_hits" = all.counters().sum(|counters| &counters.hits);
    /// The lookups by commands that did not find their key.
    counter "keyspace_misses" = all.counters().sum(|counters| &counters.misses);
    /// The channels with subscribers.
    gauge "pubsub_channels" = all.shared.hub.name_count(SubscriptionKind::Channel);
    /// The patterns with subscribers.
    gauge "pubsub_patterns" = all.shared.hub.name_count(SubscriptionKind::Pattern);
    /// The shard channels with subscribers.
    gauge "pubsubshard_channels" = all.shared.hub.name_count(SubscriptionKind::ShardChannel);
    /// Always 0: snapshots do not fork.
    gauge "latest_fork_usec": Microseconds = 0;
    /// The snapshots that were begun in the background, for files and for replicas: Redis and Valkey fork for each.
    counter "total_forks" = all.shared.snapshots.background_count();
    /// The open connections to targets of `MIGRATE`.
    gauge "migrate_cached_sockets" = all.shared.migration_sockets.len();
    /// The keys with an expiry that clients of a writable replica have set.
    gauge "slave_expires_tracked_keys" = all.shared.keyspace.local_expiries.count();
    /// The values that defragmentation moved.
    counter "active_defrag_hits" = all.sum(|thread| &thread.defrag.moved);
    /// The values that defragmentation left in place.
    counter "active_defrag_misses" = defragmentation_misses(all);
    /// The values that defragmentation moved, counted as keys.
    counter "active_defrag_key_hits" = all.sum(|thread| &thread.defrag.moved);
    /// The values that defragmentation left in place, counted as keys.
    counter "active_defrag_key_misses" = defragmentation_misses(all);
    /// The time of defragmentation.
    counter "total_active_defrag_time": Milliseconds = all.sum(|thread| &thread.defrag.ns) / 1_000_000;
    /// The time since defragmentation runs; 0: it does not.
    gauge "current_active_defrag_time": Milliseconds = defragmentation_ms(all);
    /// The keys of client-side caching.
    gauge "tracking_total_keys" = all.shared.keyspace.reader_totals.key_count();
    /// The pairs of such a key and a connection that has read it.
    gauge "tracking_total_items" = all.shared.keyspace.reader_totals.reader_count();
    /// The prefixes of client-side caching in broadcasting mode.
    gauge "tracking_total_prefixes" = all.shared.hub.name_count(SubscriptionKind::Prefix);
    /// The requests of an append-only file that replied with an error when it was loaded.
    counter "unexpected_error_replies" = of(&all.shared.loading.unexpected_error_count);
    /// The error replies.
    counter "total_error_replies" = all.sum(|thread| &thread.errors);
    /// Always 0.
    counter "dump_payload_sanitizations" = 0;
    /// The reads from connections.
    counter "total_reads_processed" = all.sum(|thread| &thread.sockets.reads);
    /// The writes to connections.
    counter "total_writes_processed" = all.sum(|thread| &thread.sockets.writes);
    /// Always 0: workers read and write for themselves.
    counter "io_threaded_reads_processed" = 0;
    /// Always 0: workers read and write for themselves.
    counter "io_threaded_writes_processed" = 0;
    /// Always 0: workers read and write for themselves.
    counter "io_threaded_accept_processed" = 0;
    /// Always 0: workers read and write for themselves.
    counter "io_threaded_freed_objects" = 0;
    /// Always 0: workers read and write for themselves.
    counter "io_threaded_poll_processed" = 0;
    /// Always 0: workers read and write for themselves.
    counter "io_threaded_total_prefetch_batches" = 0;
    /// Always 0: workers read and write for themselves.
    counter "io_threaded_total_prefetch_entries" = 0;
    /// How often a session waited for a latch.
    counter "sessions_parked" = all.sum(|thread| &thread.parked);
    /// The connections that were closed because of the size of their input.
    counter "client_query_buffer_limit_disconnections" = of(&all.shared.connections.over_query_limit);
    /// The connections that were closed because of the size of their output.
    counter "client_output_buffer_limit_disconnections" = of(&all.shared.connections.over_output_limit);
    /// Always 0.
    counter "reply_buffer_shrinks" = 0;
    /// Always 0.
    counter "reply_buffer_expands" = 0;
    /// The turns of the event loops.
    counter "eventloop_cycles" = all.sum(|thread| &thread.turn.count);
    /// The time in which the event loops did not wait.
    counter "eventloop_duration_sum": Microseconds = busy_ns(all) / 1000;
    /// The time that commands took.
    counter "eventloop_duration_cmd_sum": Microseconds = command_ns(all) / 1000;
    /// The turns of the last moments, for each worker.
    gauge "instantaneous_eventloop_cycles_per_sec": PerSecond = all.rates().turns / all.shared.pool.wanted().max(1) as u64;
    /// The mean duration of these turns.
    gauge "instantaneous_eventloop_duration_usec": Microseconds = all.rates().turn_ns / 1000;
    /// The failed authentications.
    counter "acl_access_denied_auth" = of(&all.shared.monitoring.denials.authentications);
    /// The requests that were denied because of their command.
    counter "acl_access_denied_cmd" = of(&all.shared.monitoring.denials.commands);
    /// The requests that were denied because of a key.
    counter "acl_access_denied_key" = of(&all.shared.monitoring.denials.keys);
    /// The requests that were denied because of a channel.
    counter "acl_access_denied_channel" = of(&all.shared.monitoring.denials.channels);
    /// The certificates that named no user.
    counter "acl_access_denied_tls_cert" = of(&all.shared.monitoring.denials.certificates);
    /// The requests that were denied because of their database.
    counter "acl_access_denied_db" = of(&all.shared.monitoring.denials.databases);
};

fn of(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn kilo(bytes: u64) -> Value<'static> {
    Hundredths(bytes as f64 / 1024.0)
}

/// How long the memory has been over `maxmemory` now, and in total, in milliseconds.
fn exceeded_time(all: &Gathered<'_>) -> (u64, u64) {
    all.shared.memory.exceeded_time.millis()
}

fn defragmentation_misses(all: &Gathered<'_>) -> u64 {
    all.sum(|thread| &thread.defrag.left)
}

/// Milliseconds since defragmentation runs.
fn defragmentation_ms(all: &Gathered<'_>) -> u64 {
    let since = all.shared.monitoring.statistics.threads().map(|(_, thread)| thread.defrag.since_ms.value());
    let first = since.filter(|since| *since > 0).min().unwrap_or(u64::MAX);
    (Uptime::now().to_raw() as u64).saturating_sub(first)
}

/// Nanoseconds in which the event loops did not wait, since `CONFIG RESETSTAT`.
fn busy_ns(all: &Gathered<'_>) -> u64 {
    let threads = all.shared.monitoring.statistics.threads();
    threads
        .map(|(_, thread)| thread.turn.busy_ns.value().saturating_sub(thread.turn.busy_ns_at_reset.value()))
        .sum()
}

fn command_ns(all: &Gathered<'_>) -> u64 {
    all.shared.monitoring.statistics.threads().map(|(_, thread)| thread.command_ns()).sum()
}
