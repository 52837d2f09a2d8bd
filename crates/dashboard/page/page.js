/**
 * The page: its tabs, its state, and what follows from it.
 *
 * - Never: reads from the server.
 */

import { text, span } from './formats.js';
import { element, setText, byId } from './elements.js';
import { read } from './figures.js';
import { history } from './samples.js';
import { roleOf } from './rows.js';
import { TABS } from './views.js';

// ----------------------------------------
// Tabs. The chosen one is in the hash of the address. Panels have other ids, so that the browser does not scroll to them.

let current = TABS[0];

export function buildTabs() {
  for (const tab of TABS) {
    const panel = `panel-${tab.id}`;
    const attributes = { type: 'button', role: 'tab', id: `tab-${tab.id}`, 'aria-controls': panel };
    tab.button = element('button', attributes, tab.title);
    tab.button.addEventListener('click', () => choose(tab));
    tab.panel = element('section', { role: 'tabpanel', id: panel, 'aria-labelledby': tab.button.id });
    tab.panel.append(...tab.parts.map((part) => part.element));
    byId('tabs').append(tab.button);
    byId('panels').append(tab.panel);
  }
  byId('tabs').addEventListener('keydown', moveBetweenTabs);
  addEventListener('hashchange', showChosen);
  showChosen();
}

function choose(tab) {
  location.hash = tab.id;
  showChosen();
}

/** Shows the tab of the hash; the first if there is no such tab. */
function showChosen() {
  current = TABS.find((tab) => tab.id === location.hash.slice(1)) ?? TABS[0];
  for (const tab of TABS) {
    tab.panel.hidden = tab !== current;
    tab.button.setAttribute('aria-selected', String(tab === current));
    tab.button.tabIndex = tab === current ? 0 : -1;
  }
  update();
}

function moveBetweenTabs(event) {
  const index = TABS.indexOf(current);
  const targets = { ArrowLeft: index - 1, ArrowRight: index + 1, Home: 0, End: TABS.length - 1 };
  if (!(event.key in targets)) return;
  event.preventDefault();
  const tab = TABS[(targets[event.key] + TABS.length) % TABS.length];
  choose(tab);
  tab.button.focus();
}

// ----------------------------------------
// State of the page, and what follows from it.

/** What parts are shown from; `recent` is the view of the last minutes, `view` that of the chosen range. */
export const state = { figures: {}, previous: null, elapsed: 0, readAt: 0, range: 'fine', recent: null, view: null };

let isUpdatePlanned = false;

/** Updates the page once, however many changes there were before it is drawn. */
export function planUpdate() {
  if (isUpdatePlanned) return;
  isUpdatePlanned = true;
  requestAnimationFrame(update);
}

function update() {
  isUpdatePlanned = false;
  state.recent = history.view('fine');
  state.view = state.range === 'fine' ? state.recent : history.view(state.range);
  setText(byId('version'), read(state.figures, 'server.broadloom_version') ?? '');
  setText(byId('role'), text(roleOf(state.figures)));
  setText(byId('uptime'), span(read(state.figures, 'server.uptime_in_seconds')));
  for (const part of current.parts) part.update(state);
}

/** What is wrong with each source: figures, history, live samples. */
const problems = { live: 'connecting' };

/** Shows the state of the connection. The words are empty if the source works. */
export function report(source, words) {
  problems[source] = words;
  const all = Object.values(problems).filter((problem) => problem !== '');
  setText(byId('status'), all.join('; ') || 'connected');
  byId('status').classList.toggle('lost', all.length > 0);
}

/** @param reasons why the server is not ready; empty: it is; null: not known */
export function showReadiness(reasons) {
  const words = reasons === null ? 'unknown' : reasons.length === 0 ? 'ready' : 'not ready';
  setText(byId('readiness'), words);
  byId('readiness').className = words.replace(' ', '-');
  byId('obstacles').replaceChildren(...(reasons ?? []).map((reason) => element('li', {}, reason)));
  byId('obstacles').hidden = !reasons?.length;
}
