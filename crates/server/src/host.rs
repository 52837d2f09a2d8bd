//! The server as commands see it: [`Host`], implemented on the shared state, on behalf of one worker.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use base::Millis;
use commands::command::Flags;
use commands::error::CommandError;
use commands::host::{
    ClientFilter, CommandHistogram, CommandLog, Crash, Host, LatencyEvent, LoggedCommand, MemoryStat,
    QueuedCost, ReplyBufferSetting, ShutdownOptions,
};
use commands::session::{Queued, Session, SessionFlags};
use commands::subscriptions::SubscriptionKind;
use commands::table::NUMBERED;
use commands::tracking::Redirection;
use config::Config;
use os::clock::Ticks;
use os::{clock, process};
use sync::atomic::Ordering;
use wire::reply::ReplyBuffer;

use crate::command_log::{self, Cost};
use crate::mail::Mail;
use crate::pubsub::LocalSubscriptions;
use crate::shared::{GlobalFlags, Shared};
use crate::shutdown::Cause;
use crate::statistics::bucket_max_ns;

/// The host for the commands of one worker.
pub struct ThreadHost {
    shared: &'static Shared,
    thread: usize,
    subscriptions: Rc<LocalSubscriptions>,
}

impl ThreadHost {
    /// Returns the host for a worker.
    #[must_use]
    pub fn new(shared: &'static Shared, thread: usize, subscriptions: Rc<LocalSubscriptions>) -> Self {
        Self { shared, thread, subscriptions }
    }

    /// Removes the state of a connection that is gone.
    pub fn remove(&self, session: &Session) {
        if session.flags.contains(SessionFlags::MONITOR) {
            self.monitor(session, false);
        }
    }
}

impl Host for ThreadHost {
    fn unix_micros(&self) -> i64 {
        clock::unix_micros()
    }

    fn uptime_ns(&self) -> u64 {
        Ticks::now().uptime_ns()
    }

    fn started_at(&self) -> Millis {
        Millis(self.shared.identity.started_at)
    }

    fn info(&self, sections: &[&[u8]]) -> String {
        crate::info::text(self.shared, sections)
    }

    fn config_matching(&self, patterns: &[&[u8]]) -> Vec<(String, Vec<u8>)> {
        let config = self.shared.config.load();
        config.matching(patterns).into_iter().map(|(name, value)| (name.into_owned(), value)).collect()
    }

    fn config_set(&self, arguments: &[&[u8]], own: &Session) -> Result<(), CommandError> {
        self.shared.set_config(arguments, own)
    }

    fn config_rewrite(&self, everything: bool) -> Result<(), CommandError> {
        self.shared.rewrite_config(everything)
    }

    fn reset_stats(&self) {
        self.shared.reset_statistics();
    }

    fn client_list(&self, filter: &ClientFilter, _own: &Session) -> Vec<u8> {
        self.shared.client_lines(filter)
    }

    fn client_info(&self, session: &Session) -> String {
        self.publish(session);
        self.shared.client_line(session.id).unwrap_or_default()
    }

    fn client_kill(&self, filter: &ClientFilter, own: &Session) -> (u64, bool) {
        self.shared.kill_clients(filter, own.id)
    }

    fn client_unblock(&self, id: u64, with_error: bool) -> bool {
        self.shared.unblock_client(id, with_error)
    }

    fn client_pause(&self, time: Duration, writes_only: bool) {
        self.shared.pause_clients(time, writes_only);
    }

    fn client_unpause(&self) {
        self.shared.end_pause();
    }

    fn is_expiry_paused(&self) -> bool {
        self.shared.global_flags.is_set(GlobalFlags::ANY_PAUSE)
    }

    fn command_log(&self, log: CommandLog, count: usize) -> Vec<LoggedCommand> {
        self.shared.command_logs.newest(log, count)
    }

    fn command_log_len(&self, log: CommandLog) -> usize {
        self.shared.command_logs.len(log)
    }

    fn command_log_reset(&self, log: CommandLog) {
        self.shared.command_logs.reset(log);
    }

    fn latency_events(&self) -> Vec<LatencyEvent> {
        self.shared.latency.all()
    }

    fn latency_reset(&self, events: &[&[u8]]) -> usize {
        self.shared.latency.reset(events)
    }

    fn latency_add(&self, event: &'static str, ms: u64) {
        self.shared.latency.add(event, (clock::unix_millis() / 1000) as u32, ms);
    }

    fn latency_histograms(&self) -> Vec<CommandHistogram> {
        let all = NUMBERED.iter().enumerate();
        all.filter_map(|(id, (name, _))| histogram_of(name, &crate::info::histogram(self.shared, id)))
            .collect()
    }

    fn memory_stats(&self) -> Vec<(String, MemoryStat)> {
        self.shared.memory_stats()
    }

    fn used_memory(&self) -> usize {
        self.shared.used_memory()
    }

    fn allocator_report(&self) -> String {
        self.shared.allocator_report()
    }

    fn memory_purge(&self) {
        self.shared.give_memory_back();
        self.shared.post_all(|| Mail::ReleaseFreeMemory);
    }

    fn fill_with_secrets(&self, bytes: &mut [u8]) -> Result<(), CommandError> {
        process::fill_with_secrets(bytes)
            .map_err(|error| CommandError::owned(format!("ERR No random numbers from the system: {error}")))
    }

    fn ran_queued(
        &self,
        session: &Session,
        config: &Config,
        queued: Queued<'_>,
        cost: QueuedCost,
        error: Option<&CommandError>,
    ) {
        let command = queued.found.command;
        let statistics = self.shared.statistics.thread(self.thread);
        let of_command = statistics.command(queued.found.id);
        statistics.ran(queued.found.id, 1, cost.ns);
        statistics.commands_processed.add(1);
        if let Some(error) = error {
            of_command.failed.add(1);
            statistics.errors.add(1);
            self.shared.errors.count(error.code());
        }
        let args = queued.args;
        let cost = Cost { ns: cost.ns, reply_size: cost.reply_size, request_size: args.wire_size() };
        if command_log::is_wanted(config, cost) {
            command_log::log(self.shared, config, session, queued.found, args, cost);
        }
        let unshown = Flags::SKIP_MONITOR | Flags::ADMIN;
        if self.shared.global_flags.is_set(GlobalFlags::MONITORED) && !command.flags.intersects(unshown) {
            let line = crate::monitor::line(session, queued.found, args, clock::unix_micros());
            let line: Arc<[u8]> = line.into();
            self.shared.post_to_monitors(self.thread, &line);
        }
    }

    fn free_later(&self, key_count: u64, free: Box<dyn FnOnce() + Send>) {
        self.shared.background.free(key_count, free);
    }

    fn shutdown(&self, options: ShutdownOptions) -> Result<(), CommandError> {
        self.shared.shut_down(Cause::Command(options))
    }

    fn shutdown_abort(&self) -> Result<(), CommandError> {
        Err(CommandError::new("ERR No shutdown in progress."))
    }

    fn set_active_expire(&self, enabled: bool) {
        self.shared.active_expire.store(enabled, Ordering::Relaxed);
    }

    fn pause_cron(&self, paused: bool) {
        self.shared.cron_paused.store(paused, Ordering::Relaxed);
    }

    fn set_reply_buffers(&self, setting: ReplyBufferSetting) {
        let rules = &self.shared.reply_buffers;
        match setting {
            ReplyBufferSetting::PeakReset(milliseconds) => rules.set_peak_reset_ms(milliseconds),
            ReplyBufferSetting::Resizing(enabled) => rules.set_resizing(enabled),
            ReplyBufferSetting::CountsBlocks(enabled) => rules.set_counts_blocks(enabled),
        }
    }

    fn sleep(&self, micros: u64) {
        sync::thread::sleep(Duration::from_micros(micros));
    }

    fn log(&self, text: &str) {
        log::warn!("{text}");
    }

    fn crash(&self, how: Crash) -> ! {
        match how {
            Crash::Panic => panic!("crash by request of a client"),
            Crash::Segfault => os::fault::provoke(),
        }
    }

    fn monitor(&self, _session: &Session, enabled: bool) {
        let count = &self.shared.monitor_count;
        if enabled {
            count.fetch_add(1, Ordering::AcqRel);
            self.shared.global_flags.set(GlobalFlags::MONITORED, true);
        } else if count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.shared.global_flags.set(GlobalFlags::MONITORED, false);
        }
    }

    fn listen(&self, session: &mut Session, kind: SubscriptionKind, name: &[u8]) {
        self.subscriptions.begin(session, kind, name);
        if kind == SubscriptionKind::Prefix {
            self.shared.follow_prefixes();
        }
    }

    fn unlisten(
        &self,
        session: &mut Session,
        kind: SubscriptionKind,
        name: &[u8],
        out: &mut ReplyBuffer<'_>,
    ) {
        self.subscriptions.end(session, kind, name, out);
        if kind == SubscriptionKind::Prefix {
            self.shared.follow_prefixes();
        }
    }

    fn catch_up(&self, session: &mut Session, out: &mut ReplyBuffer<'_>) {
        self.subscriptions.catch_up(session, out);
    }

    fn publish_message(&self, kind: SubscriptionKind, channel: &[u8], message: &[u8]) -> u64 {
        self.shared.hub.publish(self.thread, kind, channel, message)
    }

    fn names(&self, kind: SubscriptionKind) -> Vec<Arc<[u8]>> {
        self.shared.hub.names(kind)
    }

    fn name_count(&self, kind: SubscriptionKind) -> usize {
        self.shared.hub.name_count(kind)
    }

    fn listener_count(&self, kind: SubscriptionKind, name: &[u8]) -> u64 {
        self.shared.hub.listener_count(kind, name)
    }

    fn client_exists(&self, id: u64) -> bool {
        self.shared.clients.find(id).is_some()
    }

    fn redirect(&self, session: &Session, redirection: Option<Redirection>) {
        self.shared.hub.set_redirection(session.id, redirection);
    }

    fn invalidate_all(&self) {
        self.shared.hub.invalidate_all();
    }

    fn publish(&self, session: &Session) {
        self.shared.publish_session(session);
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
    use crate::statistics::{BUCKET_COUNT, bucket_of};

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
