//! `memory`: the memory of the process, by what uses it.

use super::super::figure::Value::{Human, Hundredths, Percent};
use super::super::figure::{Figure, Value, figures};
use super::super::gathered::Gathered;

pub static FIGURES: &[Figure] = figures! { |all|
    /// The allocated memory.
    gauge "used_memory": Bytes = all.memory().used;
    /// The allocated memory, for human readers.
    text "used_memory_human" = Human(all.memory().used);
    /// The resident memory of the process.
    gauge "used_memory_rss": Bytes = all.memory().resident;
    /// The resident memory, for human readers.
    text "used_memory_rss_human" = Human(all.memory().resident);
    /// The peak of the allocated memory.
    gauge "used_memory_peak": Bytes = all.memory().peak;
    /// The peak, for human readers.
    text "used_memory_peak_human" = Human(all.memory().peak);
    /// When the peak was measured.
    gauge "used_memory_peak_time": UnixSeconds = all.memory().peak_at;
    /// The allocated memory in percent of its peak.
    gauge "used_memory_peak_perc": Percent = percent(all.memory().used, all.memory().peak);
    /// The allocated memory that is no data: buffers, tables, connections, and what the start allocated.
    gauge "used_memory_overhead": Bytes = all.memory().overhead();
    /// The memory that the start allocated.
    gauge "used_memory_startup": Bytes = all.memory().startup;
    /// The memory of data.
    gauge "used_memory_dataset": Bytes = all.memory().dataset();
    /// The memory of data in percent of what was allocated since the start.
    gauge "used_memory_dataset_perc": Percent = percent(all.memory().dataset(), since_start(all));
    /// The allocated memory.
    gauge "allocator_allocated": Bytes = all.memory().used;
    /// The allocated memory, and the gaps between it.
    gauge "allocator_active": Bytes = all.gaps().active;
    /// The resident memory.
    gauge "allocator_resident": Bytes = all.memory().resident;
    /// Always 0.
    gauge "allocator_muzzy": Bytes = 0;
    /// The memory of the machine.
    gauge "total_system_memory": Bytes = all.shared.identity.system_memory;
    /// The memory of the machine, for human readers.
    text "total_system_memory_human" = Human(all.shared.identity.system_memory);
    /// The memory of the Lua interpreters.
    gauge "used_memory_lua": Bytes = all.scripts().interpreters;
    /// The memory of the Lua interpreters, for human readers.
    text "used_memory_lua_human" = Human(all.scripts().interpreters);
    /// The text of cached scripts and of functions.
    gauge "used_memory_scripts": Bytes = all.scripts().script_size + all.scripts().library_size;
    /// The text of cached scripts and of functions, for human readers.
    text "used_memory_scripts_human" = Human(all.scripts().script_size + all.scripts().library_size);
    /// The memory of the interpreters without what loading functions took.
    gauge "used_memory_vm_eval": Bytes = all.scripts().interpreters - all.scripts().of_functions;
    /// The text of cached scripts.
    gauge "used_memory_scripts_eval": Bytes = all.scripts().script_size;
    /// The cached scripts.
    gauge "number_of_cached_scripts" = all.scripts().script_count;
    /// The functions.
    gauge "number_of_functions" = all.scripts().function_count;
    /// The libraries of functions.
    gauge "number_of_libraries" = all.scripts().library_count;
    /// The memory that loading functions took in the interpreters.
    gauge "used_memory_vm_functions": Bytes = all.scripts().of_functions;
    /// The memory of the Lua interpreters.
    gauge "used_memory_vm_total": Bytes = all.scripts().interpreters;
    /// The memory of the Lua interpreters, for human readers.
    text "used_memory_vm_total_human" = Human(all.scripts().interpreters);
    /// The text of functions.
    gauge "used_memory_functions": Bytes = all.scripts().library_size;
    /// The directive `maxmemory`; 0: no limit.
    gauge "maxmemory": Bytes = all.config.maxmemory;
    /// The directive `maxmemory`, for human readers.
    text "maxmemory_human" = Human(all.config.maxmemory);
    /// The directive `maxmemory-policy`.
    text "maxmemory_policy" = all.config.maxmemory_policy.word();
    /// The allocated memory with the gaps between it, divided by the allocated memory.
    gauge "allocator_frag_ratio": Ratio = Hundredths(all.gaps().fragmentation_ratio);
    /// The gaps between allocated memory.
    gauge "allocator_frag_bytes": Bytes = all.gaps().fragmentation;
    /// The resident memory divided by the allocated memory with the gaps between it.
    gauge "allocator_rss_ratio": Ratio = Hundredths(all.gaps().resident_ratio);
    /// The resident memory that is neither allocated nor a gap.
    gauge "allocator_rss_bytes": Bytes = all.gaps().resident;
    /// Always 1.00: all resident memory counts as the allocator's.
    gauge "rss_overhead_ratio": Ratio = Hundredths(1.0);
    /// Always 0: all resident memory counts as the allocator's.
    gauge "rss_overhead_bytes": Bytes = 0;
    /// The resident memory divided by the allocated memory.
    gauge "mem_fragmentation_ratio": Ratio = Hundredths(all.memory().fragmentation());
    /// The resident memory without the allocated memory.
    gauge "mem_fragmentation_bytes": Bytes = all.memory().resident as i64 - all.memory().used as i64;
    /// The buffers that do not count for `maxmemory`.
    gauge "mem_not_counted_for_evict": Bytes = all.shared.uncounted_memory();
    /// The backlog, with what is kept for replicas that are behind.
    gauge "mem_replication_backlog": Bytes = all.feed().memory_bytes;
    /// The same, with the stream that is kept until the snapshot is loaded.
    gauge "mem_total_replication_buffers": Bytes =
        all.feed().memory_bytes + all.shared.kept_stream_size();
    /// The stream that is kept until the snapshot is loaded, on a replica with a connection for each.
    gauge "mem_replicas_repl_buffer": Bytes = all.shared.kept_stream_size();
    /// The same, by the name that Redis has for it.
    gauge "mem_replica_full_sync_buffer": Bytes = all.shared.kept_stream_size();
    /// The memory of the connections of replicas, with what is to be sent of snapshots.
    gauge "mem_clients_slaves": Bytes =
        all.replicas().iter().map(|replica| replica.memory_bytes()).sum::<u64>();
    /// The memory of other connections.
    gauge "mem_clients_normal": Bytes = all.memory().clients;
    /// Always 0: there is no cluster.
    gauge "mem_cluster_links": Bytes = 0;
    /// Always 0: there is no cluster.
    gauge "mem_cluster_slot_import": Bytes = 0;
    /// Always 0: there is no cluster.
    gauge "mem_cluster_slot_export": Bytes = 0;
    /// Always 0: there is no cluster.
    gauge "mem_cluster_slot_migration_output_buffer": Bytes = 0;
    /// Always 0: there is no cluster.
    gauge "mem_cluster_slot_migration_input_buffer": Bytes = 0;
    /// Always 0: there is no cluster.
    gauge "mem_cluster_slot_migration_input_buffer_peak": Bytes = 0;
    /// The memory of the write log.
    gauge "mem_aof_buffer": Bytes = all.shared.keyspace.log.memory_bytes();
    /// The allocator.
    text "mem_allocator" = "mimalloc";
    /// Always 0: tables grow by segments.
    gauge "mem_overhead_db_hashtable_rehashing": Bytes = 0;
    /// The share of the workers' time that defragmentation takes; 0: it does not run.
    gauge "active_defrag_running": Percent = defragmentation(all);
    /// The deleted keys whose memory the background thread has not freed yet.
    gauge "lazyfree_pending_objects" = all.shared.memory.background.pending_key_count();
    /// The keys whose memory the background thread has freed.
    counter "lazyfreed_objects" = all.shared.memory.background.freed_key_count();
};

fn percent(part: u64, of: u64) -> Value<'static> {
    Percent(100.0 * part as f64 / of.max(1) as f64)
}

/// Bytes allocated since the start.
fn since_start(all: &Gathered<'_>) -> u64 {
    all.memory().used.saturating_sub(all.memory().startup).max(1)
}

fn defragmentation(all: &Gathered<'_>) -> u64 {
    let running = all.shared.monitoring.statistics.threads().map(|(_, thread)| thread.defrag.percent.value());
    running.max().unwrap_or(0)
}
