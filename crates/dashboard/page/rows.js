/**
 * What is shown in lists of facts and in tables, by tab. One more fact or column is one more row here.
 *
 * - Never: makes elements.
 */

import { suffixed, plain, count, rate, bytes, micros, millis, percent, text, yesNo, span } from './formats.js';
import { read, growth, workersOf, databasesOf, share, shareOf, moment } from './figures.js';

// Commands.

export const COMMAND_COLUMNS = [
  ['Command', 'name', text],
  ['Calls/s', 'rate', rate],
  ['Calls', 'calls', count],
  ['Share of time', 'share', percent],
  ['Mean', 'mean', micros],
  ['p50', 'p50', micros],
  ['p99', 'p99', micros],
  ['p99.9', 'p999', micros],
  ['Failed', 'failed', count],
  ['Refused', 'refused', count],
];

export function commandRows(state) {
  const commands = read(state.figures, 'commandstats.cmdstat') ?? {};
  const percentiles = read(state.figures, 'latencystats.latency_percentiles_usec') ?? {};
  const time = Object.values(commands).reduce((sum, command) => sum + (command.usec ?? 0), 0);
  return Object.entries(commands).map(([name, command]) => ({
    name,
    rate: growth(state, (figures) => figures.commandstats?.cmdstat?.[name]?.calls),
    calls: command.calls,
    share: time > 0 ? (100 * command.usec) / time : null,
    mean: command.usec_per_call,
    p50: percentiles[name]?.p50,
    p99: percentiles[name]?.p99,
    p999: percentiles[name]?.['p99.9'],
    failed: command.failed_calls,
    refused: command.rejected_calls,
  }));
}

export const ERROR_COLUMNS = [['Error', 'name', text], ['Replies/s', 'rate', rate], ['Replies', 'count', count]];

export function errorRows(state) {
  return Object.entries(read(state.figures, 'errorstats.errorstat') ?? {}).map(([name, error]) => ({
    name,
    rate: growth(state, (figures) => figures.errorstats?.errorstat?.[name]?.count),
    count: error.count,
  }));
}

// Memory and keys.

/** A fact that is one figure; not shown where the figure is missing. */
function fact(name, path, format) {
  return [name, (figures) => (read(figures, path) === undefined ? undefined : format(read(figures, path)))];
}

export const MEMORY_FACTS = [
  fact('Used', 'memory.used_memory', bytes),
  fact('Highest use', 'memory.used_memory_peak', bytes),
  fact('Resident', 'memory.used_memory_rss', bytes),
  ['Limit (maxmemory)', memoryLimit, shareOf('memory.used_memory', 'memory.maxmemory')],
  fact('Policy at the limit', 'memory.maxmemory_policy', text),
  fact('Data', 'memory.used_memory_dataset', bytes),
  fact('Not data', 'memory.used_memory_overhead', bytes),
  fact('Resident / used', 'memory.mem_fragmentation_ratio', plain),
  fact('Connections of clients', 'memory.mem_clients_normal', bytes),
  fact('Connections of replicas', 'memory.mem_clients_slaves', bytes),
  fact('Replication backlog', 'memory.mem_replication_backlog', bytes),
  fact('Lua interpreters', 'memory.used_memory_vm_total', bytes),
  fact('Defragmentation, share of time', 'memory.active_defrag_running', percent),
  fact('Memory of the machine', 'memory.total_system_memory', bytes),
];

export function memoryLimit(figures) {
  const limit = read(figures, 'memory.maxmemory');
  if (limit === 0) return 'no limit';
  const part = share(read(figures, 'memory.used_memory'), limit);
  return part === undefined ? undefined : `${percent(100 * part)} of ${bytes(limit)}`;
}

export const DATABASE_COLUMNS = [
  ['Database', 'name', text],
  ['Keys', 'keys', count],
  ['With expiry', 'expires', count],
  ['Mean TTL', 'ttl', millis],
];

export function databaseRows({ figures }) {
  return Object.entries(databasesOf(figures)).map(([name, database]) => ({
    name,
    keys: database.keys,
    expires: database.expires,
    ttl: database.avg_ttl > 0 ? database.avg_ttl : null,
  }));
}

export const DISTRIBUTIONS = [
  ['Strings', 'db_distrib_strings_sizes', 'Length from', bytes],
  ['Lists', 'db_distrib_lists_items', 'Elements from', String],
  ['Sets', 'db_distrib_sets_items', 'Members from', String],
  ['Sorted sets', 'db_distrib_zsets_items', 'Members from', String],
  ['Hashes', 'db_distrib_hashes_items', 'Fields from', String],
];

// Workers.

export const WORKER_COLUMNS = [
  ['Worker', 'name', text],
  ['Clients', 'clients', count],
  ['Commands/s', 'commands', rate],
  ['CPU', 'cpu', percent],
  ['Busy', 'busy', percent],
  ['Parked/s', 'parked', rate],
  ['Longest turn', 'longest', micros],
];

export function workerRows(state) {
  return Object.entries(workersOf(state.figures)).map(([name, worker]) => {
    const grown = (counter) => growth(state, (figures) => counter(workersOf(figures)[name] ?? {}));
    return {
      name,
      clients: worker.clients,
      commands: grown((figures) => figures.commands),
      cpu: percentOfMicros(grown((figures) => figures.cpu_user_usec + figures.cpu_system_usec)),
      busy: percentOfMicros(grown((figures) => figures.busy_usec)),
      parked: grown((figures) => figures.parked_sessions),
      longest: worker.turn_max_usec,
    };
  });
}

/** Microseconds of a second, in percent of it. */
const percentOfMicros = (value) => (value === null ? null : value / 1e4);

export function activeWorkers({ figures }) {
  const active = read(figures, 'server.io_threads_active_count');
  return `${text(active)} of ${Object.keys(workersOf(figures)).length} workers serve connections.`;
}

// Persistence.

export const SNAPSHOT_FACTS = [
  ['Last complete', (figures) => moment(figures, 'persistence.rdb_last_save_time')],
  fact('Status of the last', 'persistence.rdb_last_bgsave_status', text),
  fact('Duration of the last', 'persistence.rdb_last_bgsave_time_sec', span),
  fact('Running', 'persistence.rdb_bgsave_in_progress', yesNo),
  ['Keys written', savedKeys, shareOf('persistence.current_save_keys_processed', 'persistence.current_save_keys_total')],
  fact('Memory that it preserves', 'persistence.current_cow_size', bytes),
  fact('Unsaved changes', 'persistence.rdb_changes_since_last_save', count),
];

function savedKeys(figures) {
  const total = read(figures, 'persistence.current_save_keys_total');
  return total > 0 ? `${count(read(figures, 'persistence.current_save_keys_processed'))} of ${count(total)}` : undefined;
}

export const APPEND_ONLY_FACTS = [
  fact('Enabled', 'persistence.aof_enabled', yesNo),
  fact('Size', 'persistence.aof_current_size', bytes),
  fact('Size after the last rewrite', 'persistence.aof_base_size', bytes),
  fact('Not written yet', 'persistence.aof_buffer_length', bytes),
  fact('Status of writes', 'persistence.aof_last_write_status', text),
  fact('Status of the last rewrite', 'persistence.aof_last_bgrewrite_status', text),
  fact('Rewrite running', 'persistence.aof_rewrite_in_progress', yesNo),
];

export const LOADING_FACTS = [
  fact('Running', 'persistence.loading', yesNo),
  [
    'Loaded',
    (figures) => (isLoading(figures) ? percent(read(figures, 'persistence.loading_loaded_perc')) : undefined),
    (figures) => share(read(figures, 'persistence.loading_loaded_perc'), 100),
  ],
  fact('Size of the files', 'persistence.loading_total_bytes', bytes),
  fact('Time left', 'persistence.loading_eta_seconds', span),
];

const isLoading = (figures) => read(figures, 'persistence.loading_loaded_perc') !== undefined;

// Replication.

const ROLES = { master: 'primary', slave: 'replica' };
export const roleOf = (figures) => ROLES[read(figures, 'replication.role')];

export const ROLE_FACTS = [
  ['Role', (figures) => text(roleOf(figures))],
  ['Primary', primaryOf],
  fact('Link to the primary', 'replication.master_link_status', text),
  fact('Time since data of the primary', 'replication.master_last_io_seconds_ago', span),
  fact('Link down for', 'replication.master_link_down_since_seconds', span),
  ['Snapshot received', receivedSnapshot, (figures) => share(read(figures, 'replication.master_sync_perc'), 100)],
  fact('Offset received', 'replication.slave_read_repl_offset', text),
  fact('Offset applied', 'replication.slave_repl_offset', text),
  fact('Offset of the stream', 'replication.master_repl_offset', text),
  fact('Replicas', 'replication.connected_slaves', count),
  fact('Failover', 'replication.master_failover_state', text),
];

function primaryOf(figures) {
  const host = read(figures, 'replication.master_host');
  return host === undefined ? undefined : `${host}:${text(read(figures, 'replication.master_port'))}`;
}

function receivedSnapshot(figures) {
  const part = read(figures, 'replication.master_sync_perc');
  return part === undefined ? undefined : `${percent(part)}, ${bytes(read(figures, 'replication.master_sync_read_bytes'))}`;
}

export const BACKLOG_FACTS = [
  fact('Active', 'replication.repl_backlog_active', yesNo),
  fact('Size', 'replication.repl_backlog_size', bytes),
  ['In use', backlogUse, shareOf('replication.repl_backlog_histlen', 'replication.repl_backlog_size')],
];

function backlogUse(figures) {
  const used = read(figures, 'replication.repl_backlog_histlen');
  return used === undefined ? undefined : bytes(used);
}

export const REPLICA_COLUMNS = [
  ['Replica', 'name', text],
  ['Address', 'address', text],
  ['State', 'state', text],
  ['Connection', 'type', text],
  ['Offset', 'offset', plain],
  ['Lag', 'lag', suffixed(plain, ' s')],
  ['Behind', 'behind', bytes],
];

export function replicaRows({ figures }) {
  const end = read(figures, 'replication.master_repl_offset');
  return Object.entries(read(figures, 'replication.slave') ?? {}).map(([name, replica]) => ({
    name,
    address: `${text(replica.ip)}:${text(replica.port)}`,
    state: replica.state,
    type: replica.type,
    offset: replica.offset,
    lag: replica.lag,
    behind: Math.max(0, end - replica.offset),
  }));
}
