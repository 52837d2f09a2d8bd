//! `INFO`: sections of `name:value` lines, put together from what threads publish, without stopping any.
//!
//! Start reading at [`text`]; `info/figures.rs` has the sections that are mostly counters.

mod figures;

pub use figures::histogram;

use std::fmt::{Display, Write};
use std::sync::atomic::Ordering;

use commands::identity;
use commands::word::Word;
use reactor::{clock, process};

use crate::registry::BLOCKED_WITH_TIMEOUT;
use crate::shared::{Attention, Shared};

/// A text of sections.
#[derive(Default)]
struct Text(String);

impl Text {
    fn section(&mut self, title: &str) {
        if !self.0.is_empty() {
            self.0.push_str("\r\n");
        }
        let _ = write!(self.0, "# {title}\r\n");
    }

    fn line(&mut self, name: &str, value: impl Display) {
        let _ = write!(self.0, "{name}:{value}\r\n");
    }

    fn lines(&mut self, lines: &[(&str, &dyn Display)]) {
        for (name, value) in lines {
            self.line(name, value);
        }
    }

    /// The same number under two names, once as people read it.
    fn size(&mut self, name: &str, size: u64) {
        self.line(name, size);
        self.line(&format!("{name}_human"), human(size));
    }
}

type Write1 = fn(&mut Text, &Shared);

/// Sections in their order: name, whether `INFO` alone shows it, whether `all` does.
const SECTIONS: &[(&str, bool, bool, Write1)] = &[
    ("server", true, true, server),
    ("clients", true, true, clients),
    ("memory", true, true, memory),
    ("persistence", true, true, figures::persistence),
    ("threads", true, true, figures::threads),
    ("stats", true, true, figures::stats),
    ("replication", true, true, figures::replication),
    ("cpu", true, true, figures::cpu),
    ("modules", true, true, |text, _| text.section("Modules")),
    ("commandstats", false, true, figures::command_stats),
    ("errorstats", true, true, figures::error_stats),
    ("latencystats", false, true, figures::latency_stats),
    ("cluster", true, true, |text, _| {
        text.section("Cluster");
        text.line("cluster_enabled", 0);
    }),
    ("keyspace", true, true, figures::keyspace),
    ("debug", false, false, figures::debug),
];

/// The sections with these names; none: the default ones.
pub fn text(shared: &Shared, names: &[&[u8]]) -> String {
    let is_named = |wanted: &str| names.iter().any(|name| name.says(wanted));
    let all = is_named("everything") || is_named("all");
    let default = names.is_empty() || is_named("default");
    let mut text = Text::default();
    for (name, in_default, in_all, write) in SECTIONS {
        let shown = is_named(name)
            || (*name == "modules" && is_named("module_list"))
            || (default && *in_default)
            || (all && *in_all);
        if shown {
            write(&mut text, shared);
        }
    }
    text.0
}

/// A number of bytes as people read it.
fn human(size: u64) -> String {
    let size_f = size as f64;
    match size {
        0..1024 => format!("{size}B"),
        1024..0x10_0000 => format!("{:.2}K", size_f / 1024.0),
        0x10_0000..0x4000_0000 => format!("{:.2}M", size_f / f64::from(1 << 20)),
        _ => format!("{:.2}G", size_f / f64::from(1 << 30)),
    }
}

fn server(text: &mut Text, shared: &Shared) {
    let config = shared.config.load();
    let identity = &shared.identity;
    let now_us = clock::unix_micros();
    let uptime = (now_us / 1000 - identity.started_at) / 1000;
    let file = identity.config_file.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
    let system = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    text.section("Server");
    text.lines(&[
        ("redis_version", &identity::REDIS_VERSION),
        ("server_name", &"broadloom"),
        ("valkey_version", &identity::VALKEY_VERSION),
        ("valkey_release_stage", &"ga"),
        ("broadloom_version", &identity::BROADLOOM_VERSION),
        ("redis_git_sha1", &env!("BROADLOOM_COMMIT")),
        ("redis_git_dirty", &0),
        ("redis_build_id", &format!("{:016x}", crate::start::build_number())),
    ]);
    // Under Redis's name for it, Valkey's, or both: some ask for one, and tools that find the first take us for Redis.
    let as_redis = config.extended_redis_compatibility;
    let as_valkey = !as_redis && identity.executable.ends_with("valkey-server");
    let modes = [("redis_mode", !as_valkey), ("server_mode", !as_redis)];
    modes.iter().filter(|(_, is_shown)| *is_shown).for_each(|(name, _)| text.line(name, "standalone"));
    text.lines(&[
        ("os", &format!("Linux {} {}", system.trim(), std::env::consts::ARCH)),
        ("arch_bits", &usize::BITS),
        (
            "monotonic_clock",
            &if clock::uses_counter() { "processor's counter" } else { "POSIX clock_gettime" },
        ),
        ("multiplexing_api", &shared.statistics.thread(0).backend.get().unwrap_or(&"none")),
        ("atomicvar_api", &"rust-builtin"),
        ("gcc_version", &"0.0.0"),
        ("process_id", &process::id()),
        ("process_supervised", &crate::supervisor::word()),
        ("run_id", &identity.run_id),
        ("tcp_port", &config.port),
        ("server_time_usec", &now_us),
        ("uptime_in_seconds", &uptime),
        ("uptime_in_days", &(uptime / 86_400)),
        ("hz", &config.hz.clamp(1, 500)),
        ("configured_hz", &config.hz),
        ("clients_hz", &config.hz),
        ("lru_clock", &((now_us / 1_000_000) & 0xFF_FFFF)),
        ("executable", &identity.executable),
        ("config_file", &file),
        ("io_threads_active", &u8::from(shared.several_threads_work())),
        ("availability_zone", &config.availability_zone),
    ]);
    let mut number = 0;
    if config.port != 0 && !config.bind.0.is_empty() {
        let binds: String = config.bind.0.iter().map(|address| format!(",bind={address}")).collect();
        text.line("listener0", format!("name=tcp{binds},port={}", config.port));
        number = 1;
    }
    if !config.unixsocket.is_empty() {
        text.line(&format!("listener{number}"), format!("name=unix,bind={}", config.unixsocket));
    }
}

fn clients(text: &mut Text, shared: &Shared) {
    let config = shared.config.load();
    let records = shared.clients.all();
    let count = |is: &dyn Fn(&crate::registry::ClientRecord) -> bool| {
        records.iter().filter(|record| is(record)).count()
    };
    let most = |of: &dyn Fn(&crate::registry::ClientRecord) -> u64| {
        records.iter().map(|record| of(record)).max().unwrap_or(0)
    };
    let watched: u64 = records.iter().map(|record| record.watch_count.value()).sum();
    let attention = shared.attention.load();
    let left_ms = shared.pause_until.load(Ordering::Acquire) - clock::unix_millis();
    let actions = match attention {
        _ if left_ms <= 0 => "none",
        attention if attention & Attention::PAUSED != 0 => "all",
        attention if attention & Attention::PAUSED_WRITES != 0 => "write",
        _ => "none",
    };
    let is_paused = actions != "none";
    text.section("Clients");
    text.lines(&[
        ("connected_clients", &records.len()),
        ("cluster_connections", &0),
        ("maxclients", &config.maxclients),
        ("client_recent_max_input_buffer", &most(&|record| record.query_bytes.value())),
        ("client_recent_max_output_buffer", &most(&|record| record.output_bytes.value())),
        ("blocked_clients", &count(&|record| record.blocked.value() != 0)),
        (
            "tracking_clients",
            &count(&|record| record.session_flags().contains(commands::session::SessionFlags::TRACKING)),
        ),
        ("pubsub_clients", &count(&|record| record.is_listener())),
        ("watching_clients", &count(&|record| record.watch_count.value() != 0)),
        ("clients_in_timeout_table", &count(&|record| record.blocked.value() & BLOCKED_WITH_TIMEOUT != 0)),
        ("total_watched_keys", &watched),
        ("total_blocking_keys", &shared.keyspace.counters.sum(|counters| &counters.waited_keys)),
        (
            "total_blocking_keys_on_nokey",
            &shared.keyspace.counters.sum(|counters| &counters.waited_keys_or_none),
        ),
        ("paused_reason", &if is_paused { "client_pause" } else { "none" }),
        ("paused_actions", &actions),
        ("paused_timeout_milliseconds", &if is_paused { left_ms } else { 0 }),
    ]);
}

fn memory(text: &mut Text, shared: &Shared) {
    let config = shared.config.load();
    let memory = shared.memory_use();
    let total = total_system_memory();
    let net = memory.used.saturating_sub(memory.startup).max(1);
    let percent = |part: u64, of: u64| format!("{:.2}%", 100.0 * part as f64 / of.max(1) as f64);
    let running = shared.statistics.threads().map(|(_, thread)| thread.defrag_percent.value());
    let defrag_percent = running.max().unwrap_or(0);
    let gaps = &memory.gaps();
    text.section("Memory");
    text.size("used_memory", memory.used);
    text.size("used_memory_rss", memory.resident);
    text.size("used_memory_peak", memory.peak);
    text.lines(&[
        ("used_memory_peak_perc", &percent(memory.used, memory.peak)),
        ("used_memory_overhead", &memory.overhead()),
        ("used_memory_startup", &memory.startup),
        ("used_memory_dataset", &memory.dataset()),
        ("used_memory_dataset_perc", &percent(memory.dataset(), net)),
        ("allocator_allocated", &memory.used),
        ("allocator_active", &gaps.active),
        ("allocator_resident", &memory.resident),
        ("allocator_muzzy", &0),
    ]);
    text.size("total_system_memory", total);
    text.size("used_memory_lua", 0);
    text.size("used_memory_scripts", 0);
    text.lines(&[
        ("used_memory_vm_eval", &0),
        ("used_memory_scripts_eval", &0),
        ("number_of_cached_scripts", &0),
        ("number_of_functions", &0),
        ("number_of_libraries", &0),
        ("used_memory_vm_functions", &0),
        ("used_memory_vm_total", &0),
        ("used_memory_vm_total_human", &human(0)),
        ("used_memory_functions", &0),
    ]);
    text.size("maxmemory", config.maxmemory);
    text.lines(&[
        ("maxmemory_policy", &config.maxmemory_policy.word()),
        ("allocator_frag_ratio", &format!("{:.2}", gaps.fragmentation_ratio)),
        ("allocator_frag_bytes", &gaps.fragmentation),
        ("allocator_rss_ratio", &format!("{:.2}", gaps.resident_ratio)),
        ("allocator_rss_bytes", &gaps.resident),
        ("rss_overhead_ratio", &"1.00"),
        ("rss_overhead_bytes", &0),
        ("mem_fragmentation_ratio", &format!("{:.2}", memory.fragmentation())),
        ("mem_fragmentation_bytes", &(memory.resident as i64 - memory.used as i64)),
        ("mem_not_counted_for_evict", &0),
        ("mem_replication_backlog", &0),
        ("mem_total_replication_buffers", &0),
        ("mem_replicas_repl_buffer", &0),
        ("mem_replica_full_sync_buffer", &0),
        ("mem_clients_slaves", &0),
        ("mem_clients_normal", &memory.clients),
        ("mem_cluster_links", &0),
        ("mem_cluster_slot_import", &0),
        ("mem_cluster_slot_export", &0),
        ("mem_aof_buffer", &0),
        ("mem_allocator", &"mimalloc"),
        ("mem_overhead_db_hashtable_rehashing", &0),
        ("active_defrag_running", &defrag_percent),
        ("lazyfree_pending_objects", &shared.background.pending_key_count()),
        ("lazyfreed_objects", &shared.background.freed_key_count()),
    ]);
}

/// Bytes of memory of the machine.
fn total_system_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}
