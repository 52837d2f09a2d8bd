//! `clients`: the connections, by what they do.

use super::super::figure::{Figure, figures};
use super::super::gathered::Gathered;
use crate::monitoring::statistics::{RecentMax, WorkerStatistics};

pub static FIGURES: &[Figure] = figures! { |all|
    /// The connections, without those of replicas.
    gauge "connected_clients" = all.shared.clients.len().saturating_sub(all.replicas().len());
    /// Always 0: there is no cluster.
    gauge "cluster_connections" = 0;
    /// The directive `maxclients`.
    gauge "maxclients" = all.config.maxclients;
    /// The largest input buffer of the last moments.
    gauge "client_recent_max_input_buffer": Bytes = largest(all, |thread| &thread.input_buffer_max);
    /// The largest output buffer of the last moments.
    gauge "client_recent_max_output_buffer": Bytes = largest(all, |thread| &thread.output_buffer_max);
    /// The connections that wait in a blocking command or for the end of a pause.
    gauge "blocked_clients" = all.shared.clients.sums().blocked();
    /// The connections with client-side caching.
    gauge "tracking_clients" = all.shared.clients.sums().tracking();
    /// The connections with subscriptions.
    gauge "pubsub_clients" = all.shared.clients.sums().listening();
    /// The connections that watch keys.
    gauge "watching_clients" = all.shared.clients.sums().watching();
    /// The waiting connections with a time limit.
    gauge "clients_in_timeout_table" = all.shared.clients.sums().with_timeout();
    /// The keys that connections watch.
    gauge "total_watched_keys" = all.shared.clients.sums().watched_keys();
    /// The keys for which connections wait.
    gauge "total_blocking_keys" = all.counters().sum(|counters| &counters.waited_keys);
    /// The keys for which connections wait that are also served when the key is deleted.
    gauge "total_blocking_keys_on_nokey" = all.counters().sum(|counters| &counters.waited_keys_or_none);
    /// Why requests wait: client_pause, shutdown_in_progress, failover_in_progress or none.
    text "paused_reason" = all.pause().reason;
    /// The requests that wait: all, write or none.
    text "paused_actions" = all.pause().actions;
    /// The time to the end of the pause.
    gauge "paused_timeout_milliseconds": Milliseconds = all.pause().left_ms;
};

/// The largest value over all workers.
fn largest(all: &Gathered<'_>, of: fn(&WorkerStatistics) -> &RecentMax) -> u64 {
    all.shared.monitoring.statistics.threads().map(|(_, thread)| of(thread).value()).max().unwrap_or(0)
}
