//! The admin port: what the crate `dashboard` serves over HTTP, read from the shared state on its thread.

use std::net::TcpListener;
use std::sync::Arc;

use dashboard::{Coarse, Encryption, MetricsFormat, Obstacle, Sample, Series, Source};
use sync::Mutex;
use sync::atomic::Ordering;

use crate::admin::info;
use crate::monitoring::statistics::WorkerStatistics;
use crate::persistence::saving;
use crate::shared::Shared;
use crate::shared::modes::GlobalFlags;

/// Begins to serve the listeners on a thread of its own, which lives as long as the process.
///
/// # Errors
/// The thread can't be started.
pub fn start(shared: &'static Shared, listeners: Vec<TcpListener>) -> std::io::Result<()> {
    let encryption = if shared.config.load().admin_tls { Encryption::Tls } else { Encryption::None };
    let source: &'static Reports = Box::leak(Box::new(Reports { shared, durations: Mutex::new(Vec::new()) }));
    for listener in &listeners {
        if let Ok(address) = listener.local_addr() {
            log::info!("Admin port on {address}");
        }
    }
    let body = move || {
        let _handler_stack = os::fault::prepare_thread();
        if let Err(error) = dashboard::serve(listeners, encryption, source) {
            log::error!("The admin port has failed: {error}");
        }
    };
    sync::thread::Builder::new().name("broadloom-admin".to_owned()).spawn(body).map(drop)
}

/// The numbers of a sample.
const SERIES: &[Series] = &[
    of_last("commands"),
    of_last("errors"),
    of_last("hits"),
    of_last("misses"),
    of_last("received_bytes"),
    of_last("sent_bytes"),
    of_last("expired_keys"),
    of_last("evicted_keys"),
    of_last("connections"),
    of_last("parked_sessions"),
    of_last("used_memory"),
    of_last("resident_memory"),
    of_last("clients"),
    of_last("blocked_clients"),
    of_last("keys"),
    of_last("unsaved_changes"),
    Series { name: "p50_us", coarse: Coarse::Max },
    Series { name: "p99_us", coarse: Coarse::Max },
    Series { name: "p999_us", coarse: Coarse::Max },
];

const fn of_last(name: &'static str) -> Series {
    Series { name, coarse: Coarse::Last }
}

/// What the server reports on its admin port.
struct Reports {
    shared: &'static Shared,
    /// The executions of all commands by duration, at the last sample.
    durations: Mutex<Vec<u64>>,
}

impl Source for Reports {
    fn metrics(&self, format: MetricsFormat) -> String {
        info::metrics(self.shared, format)
    }

    fn figures(&self) -> String {
        info::json(self.shared)
    }

    fn series(&self) -> &'static [Series] {
        SERIES
    }

    fn sample(&self) -> Sample {
        let mut before = self.durations.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        sample(self.shared, &mut before)
    }

    fn obstacles(&self) -> Vec<Obstacle> {
        obstacles(self.shared)
    }

    fn password(&self) -> Option<Vec<u8>> {
        self.shared.config.load().admin_password.reveal().map(<[u8]>::to_vec)
    }

    fn certificates(&self) -> Option<Arc<tls::Context>> {
        self.shared.certificates.context()
    }

    fn note_denial(&self) {
        self.shared.monitoring.denials.authentications.fetch_add(1, Ordering::Relaxed);
    }

    fn note_failed_handshake(&self) {
        self.shared.certificates.failed_handshakes.fetch_add(1, Ordering::Relaxed);
    }
}

/// The numbers now. Replaces the durations of the last sample.
fn sample(shared: &Shared, durations_before: &mut Vec<u64>) -> Sample {
    let statistics = &shared.monitoring.statistics;
    let counters = &shared.keyspace.counters;
    let memory = shared.memory_use(0);
    let durations = info::all_durations(shared);
    let before = durations_before.iter().copied().chain(std::iter::repeat(0));
    // CONFIG RESETSTAT sets the counts to zero.
    let since: Vec<u64> =
        durations.iter().zip(before).map(|(now, before)| now.saturating_sub(before)).collect();
    *durations_before = durations;
    let percentile_us = |percentile: f64| info::percentile_ns(&since, percentile) as f64 / 1000.0;
    let clients = shared.clients.len().saturating_sub(shared.replication.replicas.listed().len());
    let numbers = vec![
        statistics.sum(|thread| &thread.commands_processed) as f64,
        statistics.sum(|thread| &thread.errors) as f64,
        counters.sum(|counters| &counters.hits) as f64,
        counters.sum(|counters| &counters.misses) as f64,
        statistics.sum(|thread| &thread.sockets.received_bytes) as f64,
        statistics.sum(|thread| &thread.sockets.sent_bytes) as f64,
        counters.sum(|counters| &counters.expired_keys) as f64,
        counters.sum(|counters| &counters.evicted_keys) as f64,
        statistics.sum(|thread| &thread.sockets.accepted) as f64,
        statistics.sum(|thread| &thread.parked) as f64,
        memory.used as f64,
        memory.resident as f64,
        clients as f64,
        shared.clients.sums().blocked() as f64,
        memory.key_count as f64,
        saving::unsaved_changes(shared) as f64,
        percentile_us(50.0),
        percentile_us(99.0),
        percentile_us(99.9),
    ];
    let cpu_seconds =
        |thread: &WorkerStatistics| (thread.cpu.user_us.value() + thread.cpu.system_us.value()) as f64 / 1e6;
    Sample {
        at_ms: os::clock::unix_millis(),
        numbers,
        worker_cpu_seconds: statistics.threads().map(|(_, thread)| cpu_seconds(thread)).collect(),
    }
}

/// The reasons why the server is not ready: it has not all of its data, or can't keep its promises for them.
fn obstacles(shared: &Shared) -> Vec<Obstacle> {
    let mut obstacles = Vec::new();
    let mut add = |text, details| obstacles.push(Obstacle { text, details });
    if shared.modes.is_stopping() {
        add("the server is shutting down", String::new());
    }
    let now = os::clock::unix_millis() / 1000;
    // A load beside the present data does not keep these from being served.
    if shared.modes.flags.is_set(GlobalFlags::LOADING) {
        let progress = shared.loading.progress(now);
        let (percent, seconds) = (progress.percent, progress.left_seconds);
        add("the data are being loaded", format!(": {percent:.1} %, {seconds} s left"));
    }
    let replication = &shared.replication;
    if let Some(link) = replication.role.figures(now, replication.feed.end_offset())
        && !link.is_up
    {
        let primary = &link.primary;
        let progress = link.transfer.map_or_else(String::new, |transfer| {
            format!(", a full synchronisation is under way: {:.1} %", transfer.percent())
        });
        add("the link to the primary is down", format!(": {}:{}{progress}", primary.host, primary.port));
    }
    if let Some(failure) = shared.persistence.append_only.failure() {
        add("the append-only file can't be written", format!(": {failure}"));
    }
    if shared.modes.flags.is_set(GlobalFlags::UNSAVED) {
        add("writes are refused because the last snapshot has failed", String::new());
    }
    obstacles
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_names_of_series_are_unique() {
        let names: HashSet<&str> = SERIES.iter().map(|series| series.name).collect();
        assert_eq!(names.len(), SERIES.len());
    }
}
