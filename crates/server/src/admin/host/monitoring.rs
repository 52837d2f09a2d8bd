//! Statistics, command logs and latencies.

use commands::command::Flags;
use commands::error::CommandError;
use commands::host::{
    CommandHistogram, CommandLog, CommandLogs, LatencyEvent, LatencyEvents, LoggedCommand, QueuedCost,
    ServerReport,
};
use commands::session::{Queued, Session};
use commands::table::NUMBERED;
use config::Config;
use os::clock;

use super::WorkerHost;
use crate::monitoring::command_log::{self, Cost};
use crate::monitoring::statistics::bucket_max_ns;
use crate::shared::modes::GlobalFlags;

impl ServerReport for WorkerHost {
    fn info(&self, sections: &[&[u8]]) -> String {
        crate::admin::info::text(self.shared, sections)
    }

    fn reset_stats(&self) {
        self.shared.reset_statistics();
    }

    fn record_queued_call(
        &self,
        session: &Session,
        config: &Config,
        queued: Queued<'_>,
        cost: QueuedCost,
        error: Option<&CommandError>,
    ) {
        let command = queued.found.command;
        let statistics = self.shared.monitoring.statistics.thread(self.thread);
        statistics.ran(queued.found.id, 1, cost.ns);
        if let Some(error) = error {
            self.shared.monitoring.count_failed(statistics, queued.found.id, error);
        }
        let args = queued.args;
        let cost = Cost { ns: cost.ns, reply_size: cost.reply_size, request_size: args.wire_size() };
        if command_log::is_wanted(config, cost) {
            self.shared.monitoring.log_command(config, session, queued.found, args, cost);
        }
        let unshown = Flags::SKIP_MONITOR | Flags::ADMIN;
        if self.shared.modes.flags.is_set(GlobalFlags::MONITORED) && !command.flags.intersects(unshown) {
            self.shared.hub.show_to_monitors(self.thread, session, queued.found, args);
        }
    }

    fn record_queued_denial(&self, error: &CommandError) {
        let monitoring = &self.shared.monitoring;
        monitoring.count_error(monitoring.statistics.thread(self.thread), error.code());
    }

    fn monitor(&self, _session: &Session, enabled: bool) {
        self.shared.modes.count_monitor(enabled);
    }
}

impl CommandLogs for WorkerHost {
    fn command_log(&self, log: CommandLog, count: usize) -> Vec<LoggedCommand> {
        self.shared.monitoring.command_logs.newest(log, count)
    }

    fn command_log_len(&self, log: CommandLog) -> usize {
        self.shared.monitoring.command_logs.len(log)
    }

    fn command_log_reset(&self, log: CommandLog) {
        self.shared.monitoring.command_logs.reset(log);
    }
}

impl LatencyEvents for WorkerHost {
    fn latency_events(&self) -> Vec<LatencyEvent> {
        self.shared.monitoring.latency.all()
    }

    fn latency_reset(&self, events: &[&[u8]]) -> usize {
        self.shared.monitoring.latency.reset(events)
    }

    fn latency_add(&self, event: &'static str, ms: u64) {
        self.shared.monitoring.latency.add(event, (clock::unix_millis() / 1000) as u32, ms);
    }

    fn latency_histograms(&self) -> Vec<CommandHistogram> {
        let all = NUMBERED.iter().enumerate();
        all.filter_map(|(id, (name, _))| histogram_of(name, &crate::admin::info::histogram(self.shared, id)))
            .collect()
    }
}

/// A histogram by powers of two of microseconds, cumulative, without the empty ends; `None`: the command never ran.
fn histogram_of(name: &str, buckets: &[u64]) -> Option<CommandHistogram> {
    let calls: u64 = buckets.iter().sum();
    if calls == 0 {
        return None;
    }
    let mut buckets_us: Vec<(u64, u64)> = Vec::new();
    let mut seen = 0;
    for (bucket, count) in buckets.iter().enumerate().filter(|(_, count)| **count > 0) {
        seen += count;
        let bound = bucket_max_ns(bucket).div_ceil(1000).next_power_of_two();
        match buckets_us.last_mut() {
            Some((last, total)) if *last == bound => *total = seen,
            _ => buckets_us.push((bound, seen)),
        }
    }
    Some(CommandHistogram { name: name.to_owned(), calls, buckets_us })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitoring::statistics::{BUCKET_COUNT, bucket_of};

    #[test]
    fn histograms_by_powers_of_two() {
        let mut buckets = vec![0; BUCKET_COUNT];
        assert!(histogram_of("get", &buckets).is_none());
        buckets[bucket_of(500)] = 3;
        buckets[bucket_of(3_000)] = 2;
        buckets[bucket_of(3_900)] = 1;
        let histogram = histogram_of("get", &buckets).expect("it ran");
        assert_eq!(histogram.calls, 6);
        assert_eq!(histogram.buckets_us, [(1, 3), (4, 6)]);
    }
}
