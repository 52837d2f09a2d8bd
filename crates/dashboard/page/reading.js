/**
 * Reading from the server, and when.
 *
 * - Never: sends anything but GET, or reads while the page is hidden.
 */

import { read } from './figures.js';
import { history } from './samples.js';
import { state, planUpdate, report, showReadiness } from './page.js';

const TIMEOUT_MS = 10_000;
const LIVE_RETRY_MS = 3000;

/** The address without a password that is in that of the page: `fetch` refuses such addresses. */
function address(path) {
  return new URL(path, location.origin + location.pathname).href;
}

function get(path) {
  return fetch(address(path), { cache: 'no-store', signal: AbortSignal.timeout(TIMEOUT_MS) });
}

async function getJson(path) {
  const response = await get(path);
  if (!response.ok) throw new Error(`${path}: status ${response.status}`);
  return response.json();
}

export async function readFigures() {
  try {
    takeFigures(await getJson('api/figures'));
    report('figures', '');
  } catch {
    report('figures', 'the figures cannot be read');
  }
}

function takeFigures(figures) {
  const readAt = performance.now();
  const time = (of) => read(of, 'server.server_time_usec');
  const byServer = (time(figures) - time(state.figures)) / 1e6;
  state.elapsed = byServer > 0 ? byServer : (readAt - state.readAt) / 1000;
  state.previous = state.readAt > 0 ? state.figures : null;
  state.readAt = readAt;
  state.figures = figures;
  planUpdate();
}

async function readHistory() {
  try {
    history.replace(await getJson('api/history'));
    report('history', '');
    planUpdate();
  } catch {
    report('history', 'the history cannot be read');
  }
}

/** Live samples continue the last minutes only; the hour is read again, as is a history that is still missing. */
export async function refreshHistory() {
  if (state.range === 'coarse' || history.series.length === 0) await readHistory();
}

export async function readReadiness() {
  try {
    const response = await get('readyz');
    const lines = (await response.text()).split('\n').filter((line) => line !== '');
    showReadiness(response.ok ? [] : lines.length > 0 ? lines : [`status ${response.status}`]);
  } catch {
    showReadiness(null);
  }
}

/** The stream of live samples. The history is read at each start of it, for what was missed before. */
export const live = {
  source: null,
  retry: 0,

  start() {
    this.source = new EventSource(address('api/live'));
    this.source.addEventListener('open', () => {
      report('live', '');
      readHistory();
    });
    this.source.addEventListener('message', ({ data }) => {
      history.add(JSON.parse(data));
      planUpdate();
    });
    this.source.addEventListener('error', () => this.lose());
  },

  stop() {
    clearTimeout(this.retry);
    this.source?.close();
  },

  /** The browser tries again by itself, except after a reply that is no stream. */
  lose() {
    report('live', 'connection lost, trying again');
    if (this.source.readyState !== EventSource.CLOSED) return;
    clearTimeout(this.retry);
    this.retry = setTimeout(() => this.start(), LIVE_RETRY_MS);
  },
};

/** Calls `start` when the page becomes visible, also now, and `stop` when it is hidden. */
export function whileVisible(start, stop) {
  const isVisible = () => document.visibilityState === 'visible';
  if (isVisible()) start();
  document.addEventListener('visibilitychange', () => (isVisible() ? start() : stop()));
}

/** Runs a task at once, and again some seconds after it has ended, while the page is visible. */
export function poll(seconds, task) {
  let timer = 0;
  let turn = 0;
  const run = async (own) => {
    await task();
    // Another turn has begun if the page was hidden meanwhile.
    if (own === turn) timer = setTimeout(run, 1000 * seconds, own);
  };
  const stop = () => {
    turn += 1;
    clearTimeout(timer);
  };
  whileVisible(() => {
    stop();
    run(turn);
  }, stop);
}
