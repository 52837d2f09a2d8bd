/**
 * The dashboard of the admin port: what it reads from the server, and the parts that show it. It starts here.
 *
 * - Reads: `api/figures` (all figures), `api/history` and `api/live` (samples), `readyz`; only while the page is visible.
 * - Never: puts text of the server into the page as HTML, and never sends anything but GET.
 * - A part is `{ element, update(state) }`. The tables in views.js and rows.js say which parts exist.
 * - Each file imports only earlier ones of: formats, elements, figures, samples, charts, parts, rows, views, page,
 *   reading, dashboard.
 * - Start reading at TABS in views.js, then `state` and `update` in page.js.
 */

import { byId } from './elements.js';
import { buildTabs, state, planUpdate } from './page.js';
import { readFigures, refreshHistory, readReadiness, live, whileVisible, poll } from './reading.js';

const FIGURES_SECONDS = 2;
const READINESS_SECONDS = 5;
const HISTORY_SECONDS = 30;

function chooseRange(event) {
  state.range = event.target.value;
  planUpdate();
  refreshHistory();
}

function start() {
  buildTabs();
  byId('ranges').addEventListener('change', chooseRange);
  poll(FIGURES_SECONDS, readFigures);
  poll(READINESS_SECONDS, readReadiness);
  poll(HISTORY_SECONDS, refreshHistory);
  whileVisible(() => {
    live.stop();
    live.start();
  }, () => live.stop());
}

start();
