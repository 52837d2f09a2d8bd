//! `INFO`: sections of `name:value` lines, made from published figures of the workers, without stopping any.
//!
//! Start reading at [`text`]; `info/figures.rs` has the sections that are mostly counters.

mod figures;
mod text;

pub use figures::histogram;

use commands::identity;
use commands::word::Word;
use os::clock::Uptime;
use os::{clock, process};

use crate::monitoring::statistics::{RecentMax, WorkerStatistics};
use crate::shared::Shared;
use crate::shared::modes::GlobalFlags;
use text::{Figure, Human, Hundredths, Text};

type Write1 = fn(&mut Text, &Shared);

/// Sections in order: name, whether plain `INFO` shows it, whether `all` does.
const SECTIONS: &[(&str, bool, bool, Write1)] = &[
    ("server", true, true, server),
    ("tls", false, true, figures::tls),
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
    ("keysizes", true, true, figures::key_sizes),
    ("debug", false, false, figures::debug),
];

/// Returns the sections with these names; with no names, the default ones.
pub fn text(shared: &Shared, names: &[&[u8]]) -> String {
    let is_named = |wanted: &str| names.iter().any(|name| name.eq_token(wanted));
    let all = is_named("everything") || is_named("all");
    let default = names.is_empty() || is_named("default");
    let mut text = Text::new();
    for (name, in_default, in_all, write) in SECTIONS {
        let shown = is_named(name)
            || (*name == "modules" && is_named("module_list"))
            || (default && *in_default)
            || (all && *in_all);
        if shown {
            write(&mut text, shared);
        }
    }
    text.into_string()
}

fn server(text: &mut Text, shared: &Shared) {
    let config = shared.config.load();
    let identity = &shared.identity;
    let now_us = clock::unix_micros();
    let uptime = (now_us / 1000 - identity.started_at) / 1000;
    let file = identity.config_file.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
    text.section("Server");
    text.lines(&[
        ("redis_version", &identity::REDIS_VERSION),
        ("server_name", &"broadloom"),
        ("valkey_version", &identity::VALKEY_VERSION),
        ("valkey_release_stage", &"ga"),
        ("broadloom_version", &identity::BROADLOOM_VERSION),
        ("redis_git_sha1", &env!("BROADLOOM_COMMIT")),
        ("redis_git_dirty", &0),
        ("redis_build_id", &format!("{:016x}", crate::process::identity::build_number())),
    ]);
    // Under Redis's name for it, Valkey's, or both: some clients require one, and tools that find the first
    // detect Redis.
    let as_redis = config.extended_redis_compatibility;
    let as_valkey = !as_redis && identity.executable.ends_with("valkey-server");
    let modes = [("redis_mode", !as_valkey), ("server_mode", !as_redis)];
    modes.iter().filter(|(_, is_shown)| *is_shown).for_each(|(name, _)| text.line(name, "standalone"));
    text.lines(&[
        ("os", &identity.system),
        ("arch_bits", &usize::BITS),
        (
            "monotonic_clock",
            &if clock::uses_counter() { "processor's counter" } else { "POSIX clock_gettime" },
        ),
        (
            "multiplexing_api",
            &shared.monitoring.statistics.thread(0).backend.get().copied().unwrap_or("none"),
        ),
        ("atomicvar_api", &"rust-builtin"),
        ("gcc_version", &"0.0.0"),
        ("process_id", &process::id()),
        ("process_supervised", &crate::process::supervisor::word()),
        ("run_id", &identity.run_id),
        ("tcp_port", &if config.port != 0 { config.port } else { config.tls_port }),
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
    let binds: String = config.bind.0.iter().map(|address| format!(",bind={address}")).collect();
    let mut line = |value: String| {
        text.line(&format!("listener{number}"), value);
        number += 1;
    };
    if config.port != 0 && !binds.is_empty() {
        line(format!("name=tcp{binds},port={}", config.port));
    }
    if !config.unixsocket.is_empty() {
        line(format!("name=unix,bind={}", config.unixsocket));
    }
    if config.tls_port != 0 && !binds.is_empty() {
        line(format!("name=tls{binds},port={}", config.tls_port));
    }
}

fn clients(text: &mut Text, shared: &Shared) {
    let config = shared.config.load();
    let sums = shared.clients.sums();
    let largest = |of: fn(&WorkerStatistics) -> &RecentMax| {
        shared.monitoring.statistics.threads().map(|(_, thread)| of(thread).value()).max().unwrap_or(0)
    };
    let global_flags = shared.modes.flags.load();
    let left_ms = shared.modes.pause.until().ms_since(Uptime::now());
    let actions = match global_flags {
        _ if left_ms <= 0 => "none",
        global_flags if global_flags & GlobalFlags::PAUSED != 0 => "all",
        global_flags if global_flags & GlobalFlags::PAUSED_WRITES != 0 => "write",
        _ => "none",
    };
    let is_paused = actions != "none";
    text.section("Clients");
    text.lines(&[
        ("connected_clients", &shared.clients.len()),
        ("cluster_connections", &0),
        ("maxclients", &config.maxclients),
        ("client_recent_max_input_buffer", &largest(|thread| &thread.input_buffer_max)),
        ("client_recent_max_output_buffer", &largest(|thread| &thread.output_buffer_max)),
        ("blocked_clients", &sums.blocked()),
        ("tracking_clients", &sums.tracking()),
        ("pubsub_clients", &sums.listening()),
        ("watching_clients", &sums.watching()),
        ("clients_in_timeout_table", &sums.with_timeout()),
        ("total_watched_keys", &sums.watched_keys()),
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

/// Hundredths, shown with two decimals.
struct Percent(f64);

impl Figure for Percent {
    fn write(&self, out: &mut Vec<u8>) {
        Hundredths(self.0).write(out);
        out.push(b'%');
    }
}

/// The memory of scripts and functions. Both run in the same interpreters: to functions belongs what loading them took.
fn write_scripts(text: &mut Text, shared: &Shared) {
    let interpreters = shared.scripts.memory.used();
    let of_functions = shared.scripts.function_memory.used().min(interpreters);
    let (script_count, script_bytes) = shared.scripts.cache.count_and_size();
    let libraries = shared.scripts.libraries.all();
    let function_bytes: usize = libraries.libraries.values().map(|library| library.code.len()).sum();
    text.size("used_memory_lua", interpreters);
    text.size("used_memory_scripts", script_bytes + function_bytes as u64);
    text.lines(&[
        ("used_memory_vm_eval", &(interpreters - of_functions)),
        ("used_memory_scripts_eval", &script_bytes),
        ("number_of_cached_scripts", &script_count),
        ("number_of_functions", &libraries.functions.size()),
        ("number_of_libraries", &libraries.libraries.size()),
        ("used_memory_vm_functions", &of_functions),
        ("used_memory_vm_total", &interpreters),
        ("used_memory_vm_total_human", &Human(interpreters)),
        ("used_memory_functions", &function_bytes),
    ]);
}

fn memory(text: &mut Text, shared: &Shared) {
    let config = shared.config.load();
    let memory = shared.memory_use(text.allocated_size());
    let net = memory.used.saturating_sub(memory.startup).max(1);
    let percent = |part: u64, of: u64| Percent(100.0 * part as f64 / of.max(1) as f64);
    let running = shared.monitoring.statistics.threads().map(|(_, thread)| thread.defrag_percent.value());
    let defrag_percent = running.max().unwrap_or(0);
    let gaps = &memory.gaps();
    text.section("Memory");
    text.size("used_memory", memory.used);
    text.size("used_memory_rss", memory.resident);
    text.size("used_memory_peak", memory.peak);
    text.lines(&[
        ("used_memory_peak_time", &memory.peak_at),
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
    text.size("total_system_memory", shared.identity.system_memory);
    write_scripts(text, shared);
    text.size("maxmemory", config.maxmemory);
    text.lines(&[
        ("maxmemory_policy", &config.maxmemory_policy.word()),
        ("allocator_frag_ratio", &Hundredths(gaps.fragmentation_ratio)),
        ("allocator_frag_bytes", &gaps.fragmentation),
        ("allocator_rss_ratio", &Hundredths(gaps.resident_ratio)),
        ("allocator_rss_bytes", &gaps.resident),
        ("rss_overhead_ratio", &"1.00"),
        ("rss_overhead_bytes", &0),
        ("mem_fragmentation_ratio", &Hundredths(memory.fragmentation())),
        ("mem_fragmentation_bytes", &(memory.resident as i64 - memory.used as i64)),
        ("mem_not_counted_for_evict", &shared.uncounted_memory()),
        ("mem_replication_backlog", &0),
        ("mem_total_replication_buffers", &0),
        ("mem_replicas_repl_buffer", &0),
        ("mem_replica_full_sync_buffer", &0),
        ("mem_clients_slaves", &0),
        ("mem_clients_normal", &memory.clients),
        ("mem_cluster_links", &0),
        ("mem_cluster_slot_import", &0),
        ("mem_cluster_slot_export", &0),
        ("mem_cluster_slot_migration_output_buffer", &0),
        ("mem_cluster_slot_migration_input_buffer", &0),
        ("mem_cluster_slot_migration_input_buffer_peak", &0),
        ("mem_aof_buffer", &shared.keyspace.log.memory_bytes()),
        ("mem_allocator", &"mimalloc"),
        ("mem_overhead_db_hashtable_rehashing", &0),
        ("active_defrag_running", &defrag_percent),
        ("lazyfree_pending_objects", &shared.memory.background.pending_key_count()),
        ("lazyfreed_objects", &shared.memory.background.freed_key_count()),
    ]);
}
