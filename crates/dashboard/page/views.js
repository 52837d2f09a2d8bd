/**
 * What is shown: charts, cards, and the parts of each tab. One more of them is one more row here.
 *
 * - Never: shows or updates a tab; page.js does.
 */

import { count, rate, bytes, micros, percent, processors } from './formats.js';
import { last } from './samples.js';
import { charts } from './charts.js';
import { cards, facts, SortedTable, distributions, heading, links, paragraph } from './parts.js';
import {
  COMMAND_COLUMNS, commandRows, ERROR_COLUMNS, errorRows, MEMORY_FACTS, memoryLimit, DATABASE_COLUMNS, databaseRows,
  DISTRIBUTIONS, WORKER_COLUMNS, workerRows, activeWorkers, SNAPSHOT_FACTS, APPEND_ONLY_FACTS, LOADING_FACTS,
  ROLE_FACTS, BACKLOG_FACTS, REPLICA_COLUMNS, replicaRows,
} from './rows.js';

// Charts.

const WORKER_LINES = 16;

/** A line for each worker; with more of them than lines can be told apart, their sum. */
function workerLines(view) {
  const workers = view.workers();
  if (workers.length > WORKER_LINES) return [[`sum of ${workers.length} workers`, view.cpu()]];
  return workers.map((values, worker) => [`worker ${worker}`, values]);
}

/** The lines of a chart are rows of `[name, method of View, series]`, or a function from the view. */
const CHARTS = {
  commands: {
    title: 'Commands per second',
    unit: 'rate',
    lines: [['commands', 'rate', 'commands'], ['error replies', 'rate', 'errors']],
  },
  latency: {
    title: 'Duration of commands',
    unit: 'micros',
    lines: [['p50', 'measured', 'p50_us'], ['p99', 'measured', 'p99_us'], ['p99.9', 'measured', 'p999_us']],
  },
  cpu: { title: 'CPU by worker, percent of one CPU', unit: 'percent', lines: workerLines },
  memory: {
    title: 'Memory',
    unit: 'bytes',
    lines: [['used', 'gauge', 'used_memory'], ['resident', 'gauge', 'resident_memory']],
  },
  network: {
    title: 'Network, bytes per second',
    unit: 'byteRate',
    lines: [['in', 'rate', 'received_bytes'], ['out', 'rate', 'sent_bytes']],
  },
  clients: {
    title: 'Clients',
    unit: 'count',
    lines: [['connected', 'gauge', 'clients'], ['blocked', 'gauge', 'blocked_clients']],
  },
  keys: { title: 'Keys', unit: 'count', lines: [['keys', 'gauge', 'keys']] },
  removals: {
    title: 'Expired and evicted keys per second',
    unit: 'rate',
    lines: [['expired', 'rate', 'expired_keys'], ['evicted', 'rate', 'evicted_keys']],
  },
  hitRate: { title: 'Hit rate', unit: 'percent', top: 100, lines: [['hit rate', 'hitRate']] },
  parked: { title: 'Parked sessions per second', unit: 'rate', lines: [['parked', 'rate', 'parked_sessions']] },
  changes: { title: 'Unsaved changes', unit: 'count', lines: [['changes', 'gauge', 'unsaved_changes']] },
};

// Overview.

/** The latest value of a method of View and a series, in words. */
const latest = (format, method, series, before = '') => ({ recent }) => before + format(last(recent[method](series)));

const CARDS = [
  ['Commands', latest(rate, 'rate', 'commands'), latest(rate, 'rate', 'errors', 'errors ')],
  ['Duration p99', latest(micros, 'measured', 'p99_us'), latest(micros, 'measured', 'p50_us', 'p50 ')],
  ['CPU', ({ recent }) => processors(usedProcessors(recent)), ({ recent }) => `of ${recent.workers().length} workers`],
  ['Used memory', latest(bytes, 'gauge', 'used_memory'), ({ figures }) => memoryLimit(figures)],
  ['Clients', latest(count, 'gauge', 'clients'), latest(count, 'gauge', 'blocked_clients', 'blocked ')],
  ['Keys', latest(count, 'gauge', 'keys'), latest(rate, 'rate', 'expired_keys', 'expired ')],
  ['Hit rate', latest(percent, 'hitRate'), latest(rate, 'rate', 'misses', 'misses ')],
];

function usedProcessors(view) {
  const cpu = last(view.cpu());
  return cpu === null ? null : cpu / 100;
}

// Links.

const LINKS = [
  ['metrics', 'all figures for Prometheus'],
  ['api/figures', 'all figures as JSON'],
  ['healthz', 'whether the process runs'],
  ['readyz', 'whether the server can serve its data'],
];

// Tabs.

export const TABS = [
  {
    id: 'overview',
    title: 'Overview',
    parts: [
      cards(CARDS),
      charts([CHARTS.commands, CHARTS.latency, CHARTS.cpu, CHARTS.memory, CHARTS.network, CHARTS.clients]),
    ],
  },
  {
    id: 'commands',
    title: 'Commands',
    parts: [
      new SortedTable({
        title: 'Commands',
        columns: COMMAND_COLUMNS,
        rows: commandRows,
        sort: 'share',
        filter: 'Filter by name',
        empty: 'No commands.',
      }),
      new SortedTable({
        title: 'Error replies',
        columns: ERROR_COLUMNS,
        rows: errorRows,
        sort: 'count',
        empty: 'No error replies.',
      }),
    ],
  },
  {
    id: 'memory',
    title: 'Memory and keys',
    parts: [
      charts([CHARTS.keys, CHARTS.removals, CHARTS.hitRate, CHARTS.memory]),
      facts('Memory', MEMORY_FACTS),
      new SortedTable({
        title: 'Databases',
        columns: DATABASE_COLUMNS,
        rows: databaseRows,
        sort: 'name',
        empty: 'No database has keys.',
      }),
      heading('Sizes of values, all databases'),
      distributions(DISTRIBUTIONS),
    ],
  },
  {
    id: 'workers',
    title: 'Workers',
    parts: [
      paragraph(activeWorkers),
      charts([CHARTS.cpu, CHARTS.parked]),
      new SortedTable({
        title: 'Workers',
        columns: WORKER_COLUMNS,
        rows: workerRows,
        sort: 'name',
        empty: 'No figures of workers.',
      }),
    ],
  },
  {
    id: 'persistence',
    title: 'Persistence',
    parts: [
      charts([CHARTS.changes]),
      facts('Snapshot', SNAPSHOT_FACTS),
      facts('Append-only file', APPEND_ONLY_FACTS),
      facts('Loading', LOADING_FACTS),
    ],
  },
  {
    id: 'replication',
    title: 'Replication',
    parts: [
      facts('Role', ROLE_FACTS),
      facts('Backlog', BACKLOG_FACTS),
      new SortedTable({
        title: 'Replicas',
        columns: REPLICA_COLUMNS,
        rows: replicaRows,
        sort: 'name',
        empty: 'No replicas.',
      }),
    ],
  },
  { id: 'links', title: 'Links', parts: [heading('Pages of the admin port'), links(LINKS)] },
];
