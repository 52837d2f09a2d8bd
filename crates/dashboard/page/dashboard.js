/**
 * The dashboard of the admin port: what it reads from the server, and the parts that show it.
 *
 * - Reads: `api/figures` (all figures), `api/history` and `api/live` (samples), `readyz`; only while the page is visible.
 * - Never: puts text of the server into the page as HTML, and never sends anything but GET.
 * - A part is `{ element, update(state) }`. The tables TABS, CARDS, and those named after a tab say which parts exist;
 *   one more chart, card, fact or column is one more row there.
 * - Order: formats, elements, samples, charts, other parts, what is shown, tabs, reading from the server.
 * - Start reading at TABS, then `state` and `update`.
 */

// ----------------------------------------
// Formats. Each takes a number, and gives MISSING for anything else.

const MISSING = '–';
const COUNT_UNITS = ['', 'k', 'M', 'G', 'T'];
const BYTE_UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
const TIME_UNITS = ['us', 'ms', 's'];

/** A number in the largest unit in which it is at least 1. */
function scaled(value, base, units) {
  if (!Number.isFinite(value)) return MISSING;
  let size = Math.abs(value);
  let unit = 0;
  while (size >= base - 0.5 && unit < units.length - 1) {
    size /= base;
    unit += 1;
  }
  return `${value < 0 ? '-' : ''}${rounded(size)} ${units[unit]}`.trim();
}

function rounded(size) {
  const decimals = size < 1 ? 2 : size < 100 ? 1 : 0;
  return String(Number(size.toFixed(decimals)));
}

const suffixed = (format, suffix) => (value) => (Number.isFinite(value) ? format(value) + suffix : MISSING);

const plain = (value) => (Number.isFinite(value) ? rounded(value) : MISSING);
const count = (value) => scaled(value, 1000, COUNT_UNITS);
const rate = (value) => scaled(value, 1000, COUNT_UNITS.map((unit) => `${unit}/s`));
const bytes = (value) => scaled(value, 1024, BYTE_UNITS);
const byteRate = suffixed(bytes, '/s');
const micros = (value) => scaled(value, 1000, TIME_UNITS);
const millis = (value) => (Number.isFinite(value) ? span(value / 1000) : MISSING);
const percent = suffixed(rounded, ' %');
const processors = suffixed(rounded, ' CPUs');
const text = (value) => (value === undefined || value === null || value === '' ? MISSING : String(value));
const yesNo = (value) => (value === undefined ? MISSING : value ? 'yes' : 'no');

/** A duration in seconds, in its two largest units. */
function span(seconds) {
  if (!Number.isFinite(seconds) || seconds < 0) return MISSING;
  if (seconds === 0) return '0 s';
  if (seconds < 1) return micros(seconds * 1e6);
  const parts = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];
  const first = parts.findIndex(([size]) => seconds >= size);
  const words = parts.slice(first, first + 2).map(([size, unit], index) => {
    const whole = Math.floor(index === 0 ? seconds / size : (seconds % parts[first][0]) / size);
    return whole > 0 ? `${whole} ${unit}` : '';
  });
  return words.join(' ').trim();
}

const CLOCK = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' };
const withMinutes = new Intl.DateTimeFormat([], CLOCK);
const withSeconds = new Intl.DateTimeFormat([], { ...CLOCK, second: '2-digit' });
const withDate = new Intl.DateTimeFormat([], { dateStyle: 'medium', timeStyle: 'medium' });

// What a chart measures: the format of its values, whether its scale has powers of two, and the least top of its axis.
const UNITS = {
  count: { format: count, isBinary: false, least: 2 },
  rate: { format: rate, isBinary: false, least: 1 },
  bytes: { format: bytes, isBinary: true, least: 4 },
  byteRate: { format: byteRate, isBinary: true, least: 4 },
  micros: { format: micros, isBinary: false, least: 2 },
  percent: { format: percent, isBinary: false, least: 1 },
};

// ----------------------------------------
// Elements.

const SVG = 'http://www.w3.org/2000/svg';

function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/** Children that are strings become text, never HTML. */
function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

/** Changes the page only if the text differs, so that a selection stays. */
function setText(node, value) {
  if (node.textContent !== value) node.textContent = value;
}

const byId = (id) => document.getElementById(id);

/** A container that scrolls by itself; it takes the focus so that the keyboard can scroll it. */
function scrolling(label, ...children) {
  return element('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': label }, ...children);
}

const heading = (title) => ({ element: element('h2', {}, title), update() {} });

/** Makes the body have these rows, by changing the cells that exist. A cell is a string, or `{ bar }` from 0 to 1. */
function fillBody(body, rows, classes = []) {
  while (body.rows.length > rows.length) body.deleteRow(-1);
  rows.forEach((cells, index) => {
    const row = body.rows[index] ?? body.insertRow();
    while (row.cells.length > cells.length) row.deleteCell(-1);
    cells.forEach((cell, column) => setCell(row.cells[column] ?? newCell(row, column, classes[column]), cell));
  });
}

function newCell(row, column, className) {
  const cell = column === 0 ? element('th', { scope: 'row' }) : element('td');
  if (className) cell.className = className;
  row.append(cell);
  return cell;
}

function setCell(cell, value) {
  if (typeof value === 'string') {
    setText(cell, value);
    return;
  }
  if (!cell.firstChild) cell.append(element('div', { class: 'bar', 'aria-hidden': 'true' }));
  cell.firstChild.style.width = `${100 * value.bar}%`;
}

// ----------------------------------------
// Figures: read by their path, such as `memory.used_memory`.

/** @returns the figure, or undefined if any part of the path is missing. */
function read(figures, path) {
  return path.split('.').reduce((value, name) => value?.[name], figures);
}

/** The growth of a counter per second between the last two polls; null if it is unknown, or the counter was reset. */
function growth({ figures, previous, elapsed }, counter) {
  if (!previous || !(elapsed > 0)) return null;
  const difference = counter(figures) - counter(previous);
  return difference >= 0 ? difference / elapsed : null;
}

const workersOf = (figures) => read(figures, 'workers.worker') ?? {};
const databasesOf = (figures) => read(figures, 'keyspace.db') ?? {};

/** The part of a total from 0 to 1; undefined if one is unknown. */
function share(part, total) {
  return total > 0 && Number.isFinite(part) ? Math.min(Math.max(part / total, 0), 1) : undefined;
}

/** A function from figures to the part of one in another. */
const shareOf = (part, total) => (figures) => share(read(figures, part), read(figures, total));

/** A time in Unix seconds, and how long before the report it was. */
function moment(figures, path) {
  const seconds = read(figures, path);
  if (!(seconds > 0)) return MISSING;
  const now = read(figures, 'server.server_time_usec') / 1e6;
  const ago = now >= seconds ? ` (${span(Math.floor(now - seconds))} ago)` : '';
  return withDate.format(seconds * 1000) + ago;
}

// ----------------------------------------
// Samples. One is [time in ms, numbers in the order of `series`, CPU seconds of each worker].

/** The samples of one range, as columns of numbers. null in a column is a gap. */
class View {
  #columns = new Map();

  constructor(series, samples, { seconds, span }) {
    this.series = series;
    this.samples = samples;
    this.times = samples.map(([at]) => at);
    this.seconds = seconds;
    this.span = 1000 * span;
    /** The time between neighbours from which on samples are missing between them. */
    this.gap = 2500 * seconds;
  }

  /** The values of a gauge. */
  gauge(name) {
    return this.#once(`gauge ${name}`, () => {
      const index = this.series.indexOf(name);
      return this.samples.map(([, numbers]) => numberOrNull(numbers?.[index]));
    });
  }

  /** The values of a gauge that is 0 where there was nothing to measure. */
  measured(name) {
    return this.gauge(name).map((value) => value || null);
  }

  /** The growth of a counter per second. */
  rate(name) {
    return this.#once(`rate ${name}`, () => this.#slopes(this.gauge(name)));
  }

  /** Lookups that found their key, in percent. */
  hitRate() {
    const misses = this.rate('misses');
    return this.rate('hits').map((hits, index) => {
      const lookups = hits === null || misses[index] === null ? 0 : hits + misses[index];
      return lookups > 0 ? (100 * hits) / lookups : null;
    });
  }

  /** For each worker the CPU time that it took, in percent of a CPU. */
  workers() {
    return this.#once('workers', () => {
      const number = this.samples.reduce((most, [, , workers]) => Math.max(most, workers?.length ?? 0), 0);
      return Array.from({ length: number }, (_, worker) => {
        const seconds = this.samples.map(([, , workers]) => numberOrNull(workers?.[worker]));
        return this.#slopes(seconds).map((slope) => (slope === null ? null : 100 * slope));
      });
    });
  }

  /** The CPU time of all workers, in percent of a CPU. */
  cpu() {
    return this.times.map((_, index) => {
      const known = this.workers().map((values) => values[index]).filter((value) => value !== null);
      return known.length > 0 ? known.reduce((sum, value) => sum + value, 0) : null;
    });
  }

  #slopes(values) {
    return values.map((value, index) => {
      const before = values[index - 1] ?? null;
      const time = this.times[index] - this.times[index - 1];
      const isUnknown = value === null || before === null || value < before || !(time > 0) || time > this.gap;
      return isUnknown ? null : (1000 * (value - before)) / time;
    });
  }

  #once(key, make) {
    if (!this.#columns.has(key)) this.#columns.set(key, make());
    return this.#columns.get(key);
  }
}

const numberOrNull = (value) => (Number.isFinite(value) ? value : null);
const last = (values) => values[values.length - 1] ?? null;

// The ranges of charts: seconds between samples, and seconds in all.
const RANGES = {
  fine: { seconds: 1, span: 300 },
  coarse: { seconds: 10, span: 3600 },
};

/** The samples that the page has. */
const history = {
  series: [],
  fine: [],
  coarse: [],

  /** Takes the reply of `api/history`, and keeps live samples that are newer. */
  replace({ series = [], fine, coarse }) {
    const samples = fine?.samples ?? [];
    const end = samples.at(-1)?.[0] ?? 0;
    this.fine = [...samples, ...this.fine.filter(([at]) => at > end)];
    this.coarse = coarse?.samples ?? [];
    this.series = series;
  },

  /** Takes a live sample. */
  add(sample) {
    const [at] = sample;
    if (at <= (this.fine.at(-1)?.[0] ?? 0)) return;
    this.fine.push(sample);
    while (this.fine[0][0] < at - 1000 * RANGES.fine.span) this.fine.shift();
  },

  view(range) {
    return new View(this.series, this[range], RANGES[range]);
  },
};

// ----------------------------------------
// Charts.

const HEIGHT = 170;
const MARGIN = { left: 66, right: 10, top: 8, bottom: 22 };
const COLOURS = 8;
// With the colour and the width, which changes after as many lines, each of 16 lines has a look of its own.
const DASHES = ['none', '7 4', '2 4', '10 4 2 4', '14 5', '5 3 5 8', '2 7', '12 4 2 4 2 4'];
const TIME_STEPS = [60, 120, 300, 900, 1800, 3600];
const TIME_LABEL_WIDTH = 75;

/** The attributes that tell the lines of a chart apart. */
function look(index) {
  return {
    class: index < COLOURS ? 'line' : 'line wide',
    stroke: `var(--line-${index % COLOURS})`,
    'stroke-dasharray': DASHES[index % DASHES.length],
  };
}

/** The marks of an axis from 0: at most four, the last of them not below the highest value. */
function marks(highest, isBinary) {
  const step = niceStep(highest / 3, isBinary);
  const number = Math.ceil(highest / step - 1e-9);
  return Array.from({ length: number + 1 }, (_, index) => index * step);
}

function niceStep(least, isBinary) {
  if (isBinary) return 2 ** Math.ceil(Math.log2(least));
  const power = 10 ** Math.floor(Math.log10(least));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= least * (1 - 1e-9));
}

/** A line chart over time, with a readout for pointer and keyboard, and its values as a table. */
class Chart {
  /**
   * @param title what is shown
   * @param unit a key of UNITS
   * @param lines see CHARTS
   * @param top the fixed top of the axis; otherwise it follows the values
   */
  constructor({ title, unit, lines, top }) {
    this.title = title;
    this.unit = UNITS[unit];
    this.source = lines;
    /** `[name, values]` for each line. */
    this.lines = [];
    this.top = top;
    this.view = null;
    /** The time of the readout; null: the latest. */
    this.cursor = null;
    this.#build();
  }

  update({ view }) {
    this.view = view;
    this.lines = this.#linesOf(view);
    this.#draw();
  }

  #linesOf(view) {
    if (typeof this.source === 'function') return this.source(view);
    return this.source.map(([name, method, series]) => [name, view[method](series)]);
  }

  #build() {
    this.drawing = svg('svg', { 'aria-hidden': 'true' });
    const slider = { class: 'plot', tabindex: 0, role: 'slider', 'aria-label': `${this.title}: time` };
    this.plot = element('div', slider, this.drawing);
    this.time = element('span', { class: 'time' });
    this.words = element('p', { class: 'unseen' });
    this.legend = element('ul', { class: 'legend', 'aria-hidden': 'true' });
    this.table = element('table');
    const values = scrolling(`${this.title}: values`, this.table);
    this.details = element('details', {}, element('summary', {}, 'Values as a table'), values);
    this.element = element(
      'figure', { class: 'chart' },
      element('figcaption', {}, element('h3', {}, this.title), this.time, this.words),
      this.plot, this.legend, this.details,
    );
    this.plot.addEventListener('pointermove', (event) => this.#point(event));
    this.plot.addEventListener('pointerdown', (event) => this.#point(event));
    this.plot.addEventListener('pointerleave', () => this.#moveTo(null));
    this.plot.addEventListener('focus', () => this.#describeCursor());
    this.plot.addEventListener('blur', () => this.#moveTo(null));
    this.plot.addEventListener('keydown', (event) => this.#press(event));
    this.details.addEventListener('toggle', () => this.#fillTable());
    this.#describeCursor();
    new ResizeObserver(() => this.#draw()).observe(this.plot);
  }

  #draw() {
    const width = this.plot.clientWidth;
    if (!this.view || width <= MARGIN.left + MARGIN.right) return;
    this.#scale(width);
    const lines = this.lines.map((_, index) => this.#path(index));
    this.drawing.setAttribute('viewBox', `0 0 ${width} ${HEIGHT}`);
    this.drawing.replaceChildren(...this.#valueAxis(), ...this.#timeAxis(), ...lines, ...this.#cursorLine());
    this.#readOut();
  }

  /** Fixes how times and values become places. */
  #scale(width) {
    const values = this.lines.flatMap(([, column]) => column);
    const highest = values.reduce((most, value) => Math.max(most, value ?? 0), this.unit.least);
    this.marks = marks(this.top ?? highest, this.unit.isBinary);
    this.end = last(this.view.times) ?? Date.now();
    this.width = width;
  }

  #x(time) {
    const inner = this.width - MARGIN.left - MARGIN.right;
    return MARGIN.left + inner * (1 - (this.end - time) / this.view.span);
  }

  #y(value) {
    const inner = HEIGHT - MARGIN.top - MARGIN.bottom;
    return MARGIN.top + inner * (1 - value / last(this.marks));
  }

  #valueAxis() {
    return this.marks.flatMap((value) => {
      const y = this.#y(value);
      return [
        svg('line', { class: 'grid', x1: MARGIN.left, x2: this.width - MARGIN.right, y1: y, y2: y }),
        svg('text', { x: MARGIN.left - 6, y: y + 4, 'text-anchor': 'end' }, value === 0 ? '0' : this.unit.format(value)),
      ];
    });
  }

  #timeAxis() {
    const most = Math.max(1, (this.width - MARGIN.left) / TIME_LABEL_WIDTH);
    const step = 1000 * (TIME_STEPS.find((seconds) => this.view.span / 1000 / seconds <= most) ?? last(TIME_STEPS));
    const labels = [];
    for (let time = Math.floor(this.end / step) * step; time >= this.end - this.view.span; time -= step) {
      const x = this.#x(time);
      // Labels stay within the drawing.
      const anchor = x > this.width - 30 ? 'end' : 'middle';
      labels.push(
        svg('line', { class: 'grid', x1: x, x2: x, y1: HEIGHT - MARGIN.bottom, y2: HEIGHT - MARGIN.bottom + 4 }),
        svg('text', { x, y: HEIGHT - 5, 'text-anchor': anchor }, withMinutes.format(time)),
      );
    }
    return labels;
  }

  /** The line of one column. It is interrupted where values or samples are missing. */
  #path(index) {
    const { times, gap, span } = this.view;
    let steps = '';
    let before = -Infinity;
    this.lines[index][1].forEach((value, at) => {
      const time = times[at];
      if (value === null || time < this.end - span) return;
      // A point without neighbours is a line of no length, drawn as a dot.
      const isJoined = time - before <= gap && this.lines[index][1][at - 1] !== null;
      steps += `${isJoined ? 'L' : 'M'}${this.#x(time).toFixed(1)} ${this.#y(value).toFixed(1)}${isJoined ? '' : 'h0'}`;
      before = time;
    });
    return svg('path', { ...look(index), d: steps });
  }

  #cursorLine() {
    if (this.cursor === null || this.view.times.length === 0) return [];
    const x = this.#x(this.view.times[this.#index()]);
    return [svg('line', { class: 'cursor', x1: x, x2: x, y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom })];
  }

  /** The index of the sample that is read out; -1: there is none. */
  #index() {
    const { times } = this.view;
    if (this.cursor === null || times.length === 0) return times.length - 1;
    const distance = (index) => Math.abs(times[index] - this.cursor);
    return times.reduce((nearest, _, index) => (distance(index) < distance(nearest) ? index : nearest), 0);
  }

  #readOut() {
    const index = this.#index();
    this.#fitLegend();
    this.lines.forEach(([, values], line) => {
      setText(this.legend.children[line].lastChild, this.unit.format(values[index]));
    });
    setText(this.time, index < 0 ? 'no samples yet' : withSeconds.format(this.view.times[index]));
    setText(this.words, `Latest: ${this.#inWords(this.view.times.length - 1)}`);
    if (document.activeElement !== this.plot) this.#describeCursor();
  }

  #inWords(index) {
    return this.lines.map(([name, values]) => `${name} ${this.unit.format(values[index])}`).join(', ');
  }

  #fitLegend() {
    const names = this.lines.map(([name]) => name);
    if (names.join('\n') === this.legendNames) return;
    this.legendNames = names.join('\n');
    this.legend.replaceChildren(...names.map((name, index) => element(
      'li', {},
      svg('svg', { viewBox: '0 0 36 10' }, svg('path', { ...look(index), d: 'M2 5H34' })),
      `${name} `,
      element('span', { class: 'value' }),
    )));
  }

  #point(event) {
    if (!this.view || !this.width) return;
    const inner = this.width - MARGIN.left - MARGIN.right;
    const x = event.clientX - this.plot.getBoundingClientRect().left - MARGIN.left;
    this.#moveTo(this.end - this.view.span * (1 - x / inner));
  }

  #press(event) {
    const index = this.view ? this.#index() : -1;
    const end = (this.view?.times.length ?? 0) - 1;
    const targets = {
      ArrowLeft: index - 1, ArrowDown: index - 1, ArrowRight: index + 1, ArrowUp: index + 1,
      PageDown: index - 10, PageUp: index + 10, Home: 0, End: end,
    };
    if (event.key === 'Escape') this.#moveTo(null);
    if (!(event.key in targets) || end < 0) return;
    event.preventDefault();
    this.#moveTo(this.view.times[Math.min(Math.max(targets[event.key], 0), end)]);
    this.#describeCursor();
  }

  #moveTo(time) {
    this.cursor = this.view?.times.length ? time : null;
    this.#draw();
  }

  /** Tells a screen reader the values at the cursor. Not called each second for a plot that has the focus. */
  #describeCursor() {
    const index = this.view ? this.#index() : -1;
    const words = index < 0 ? 'no samples yet' : `${withSeconds.format(this.view.times[index])}: ${this.#inWords(index)}`;
    this.plot.setAttribute('aria-valuemin', 0);
    this.plot.setAttribute('aria-valuemax', Math.max(0, (this.view?.times.length ?? 0) - 1));
    this.plot.setAttribute('aria-valuenow', Math.max(0, index));
    this.plot.setAttribute('aria-valuetext', words);
  }

  /** The values when the table was opened, latest first. It stays as it is while it is read. */
  #fillTable() {
    if (!this.details.open || !this.view) {
      this.table.replaceChildren();
      return;
    }
    const head = ['Time', ...this.lines.map(([name]) => name)].map((name) => element('th', { scope: 'col' }, name));
    const rows = this.view.times.map((time, index) => [
      withSeconds.format(time), ...this.lines.map(([, values]) => this.unit.format(values[index])),
    ]);
    const body = element('tbody');
    fillBody(body, rows.reverse());
    const caption = element('caption', {}, 'As of when it was opened. Open it again for newer values.');
    this.table.replaceChildren(caption, element('thead', {}, element('tr', {}, ...head)), body);
  }
}

function charts(specifications) {
  const all = specifications.map((specification) => new Chart(specification));
  const figures = element('div', { class: 'charts' }, ...all.map((chart) => chart.element));
  return {
    element: element('section', {}, element('h2', { class: 'unseen' }, 'Charts'), figures),
    update: (state) => all.forEach((chart) => chart.update(state)),
  };
}

// ----------------------------------------
// Other parts.

/** Cards with one value each: rows of `[name, state => value, state => detail]`. */
function cards(rows) {
  const all = rows.map(([name, value, detail]) => {
    const nodes = [element('dd', { class: 'value' }), element('dd', { class: 'detail' })];
    return { value, detail, nodes, element: element('div', {}, element('dt', {}, name), ...nodes) };
  });
  return {
    element: element('dl', { class: 'cards' }, ...all.map((card) => card.element)),
    update(state) {
      for (const { value, detail, nodes } of all) {
        setText(nodes[0], value(state));
        setText(nodes[1], detail?.(state) ?? '');
      }
    },
  };
}

/**
 * A list of facts: rows of `[name, figures => words, figures => progress]`. A row without words is not shown. The progress
 * is from 0 to 1; without it there is no bar.
 */
function facts(title, rows) {
  const all = rows.map(([name, words, progress]) => {
    const value = element('span');
    const bar = progress && element('progress', { max: 1, 'aria-label': name });
    const definition = element('dd', {}, value, ...(bar ? [bar] : []));
    return { words, progress, value, bar, element: element('div', {}, element('dt', {}, name), definition) };
  });
  const list = element('dl', { class: 'facts' }, ...all.map((fact) => fact.element));
  return {
    element: element('section', {}, element('h2', {}, title), list),
    update: ({ figures }) => all.forEach((fact) => updateFact(fact, figures)),
  };
}

function updateFact(fact, figures) {
  const words = fact.words(figures);
  fact.element.hidden = words === undefined;
  setText(fact.value, words ?? '');
  if (!fact.bar) return;
  const progress = fact.progress(figures);
  fact.bar.hidden = progress === undefined;
  if (progress !== undefined) fact.bar.value = progress;
}

/** A table whose columns can be sorted, with an optional filter by the first column. */
class SortedTable {
  /**
   * @param columns rows of `[title, field, format]`
   * @param rows a function from the state to objects with the fields
   * @param sort the field by which the table is sorted at first
   * @param filter the label of the filter; without it there is none
   * @param empty what is shown instead of a table without rows
   */
  constructor({ title, columns, rows, sort, filter, empty }) {
    this.columns = columns;
    this.rowsOf = rows;
    this.rows = [];
    this.field = sort;
    this.isDescending = !this.#isText(sort);
    this.#build(title, filter, empty);
  }

  update(state) {
    this.rows = this.rowsOf(state);
    this.#show();
  }

  #build(title, filter, empty) {
    this.heads = this.columns.map(([name, field]) => {
      const button = element('button', { type: 'button' }, name);
      button.addEventListener('click', () => this.#sortBy(field));
      return element('th', { scope: 'col', class: this.#classOf(field) }, button);
    });
    this.body = element('tbody');
    this.input = filter && element('input', { type: 'search', autocomplete: 'off', spellcheck: 'false' });
    this.input?.addEventListener('input', () => this.#show());
    this.empty = element('p', { hidden: '' }, empty);
    const head = element('thead', {}, element('tr', {}, ...this.heads));
    this.container = scrolling(title, element('table', {}, head, this.body));
    this.element = element(
      'section', {},
      element('h2', {}, title),
      ...(filter ? [element('label', { class: 'filter' }, filter, this.input)] : []),
      this.empty, this.container,
    );
  }

  #isText(field) {
    return this.columns.find(([, name]) => name === field)[2] === text;
  }

  #classOf(field) {
    return this.#isText(field) ? 'of-text' : undefined;
  }

  /** Sorts by a field: text from its start, numbers from the largest; a second time the other way. */
  #sortBy(field) {
    this.isDescending = this.field === field ? !this.isDescending : !this.#isText(field);
    this.field = field;
    this.#show();
  }

  #show() {
    const wanted = this.input?.value.trim().toLowerCase() ?? '';
    const [, first] = this.columns[0];
    const rows = this.rows.filter((row) => String(row[first]).toLowerCase().includes(wanted));
    rows.sort((a, b) => compare(a[this.field], b[this.field], this.isDescending));
    const cells = rows.map((row) => this.columns.map(([, field, format]) => format(row[field])));
    fillBody(this.body, cells, this.columns.map(([, field]) => this.#classOf(field)));
    this.container.hidden = rows.length === 0;
    this.empty.hidden = rows.length > 0;
    this.heads.forEach((head, index) => this.#markHead(head, this.columns[index][1]));
  }

  #markHead(head, field) {
    if (field === this.field) head.setAttribute('aria-sort', this.isDescending ? 'descending' : 'ascending');
    else head.removeAttribute('aria-sort');
  }
}

/** The order of two values; unknown ones are last in either direction. */
function compare(a, b, isDescending) {
  const isUnknown = (value) => value === undefined || value === null || Number.isNaN(value);
  if (isUnknown(a) || isUnknown(b)) return isUnknown(a) - isUnknown(b);
  const areNumbers = typeof a === 'number' && typeof b === 'number';
  const order = areNumbers ? a - b : String(a).localeCompare(String(b), 'en', { numeric: true });
  return isDescending ? -order : order;
}

/** A table of bars for each histogram of sizes: rows of `[title, figure, title of sizes, format of a size]`. */
function distributions(rows) {
  const all = rows.map((row) => distribution(...row));
  return {
    element: element('div', { class: 'distributions' }, ...all.map((part) => part.element)),
    update: (state) => all.forEach((part) => part.update(state)),
  };
}

function distribution(title, figure, sizes, format) {
  const body = element('tbody');
  const head = element('tr', {}, ...[sizes, 'Keys', 'Share'].map((name) => element('th', { scope: 'col' }, name)));
  const table = scrolling(`Sizes: ${title}`, element('table', {}, element('thead', {}, head), body));
  const whole = element('section', {}, element('h3', {}, title), table);
  return {
    element: whole,
    update({ figures }) {
      const bins = sumOfBins(figures.keysizes?.[figure]);
      const most = bins.reduce((highest, [, keys]) => Math.max(highest, keys), 1);
      const rows = bins.map(([size, keys]) => [format(size), count(keys), { bar: keys / most }]);
      fillBody(body, rows, ['', '', 'bar-cell']);
      whole.hidden = bins.length === 0;
    },
  };
}

/** The histograms of all databases in one, as `[smallest size, keys]` by size. */
function sumOfBins(databases = {}) {
  const sums = new Map();
  for (const bins of Object.values(databases)) {
    for (const [label, keys] of Object.entries(bins ?? {})) {
      const size = sizeOfLabel(label);
      if (Number.isFinite(size) && Number.isFinite(keys)) sums.set(size, (sums.get(size) ?? 0) + keys);
    }
  }
  return [...sums].sort(([a], [b]) => a - b);
}

/** The number of a label such as `16` or `1K`. */
function sizeOfLabel(label) {
  const power = ' KMGT'.indexOf(label.at(-1));
  return power > 0 ? Number(label.slice(0, -1)) * 1024 ** power : Number(label);
}

function links(rows) {
  const link = (path) => element('a', { href: path }, `/${path}`);
  const items = rows.map(([path, meaning]) => element('li', {}, link(path), `: ${meaning}`));
  return { element: element('ul', { class: 'links' }, ...items), update() {} };
}

function paragraph(words) {
  const node = element('p');
  return { element: node, update: (state) => setText(node, words(state)) };
}

// ----------------------------------------
// What is shown: charts.

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

function memoryLimit(figures) {
  const limit = read(figures, 'memory.maxmemory');
  if (limit === 0) return 'no limit';
  const part = share(read(figures, 'memory.used_memory'), limit);
  return part === undefined ? undefined : `${percent(100 * part)} of ${bytes(limit)}`;
}

// Commands.

const COMMAND_COLUMNS = [
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

function commandRows(state) {
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

const ERROR_COLUMNS = [['Error', 'name', text], ['Replies/s', 'rate', rate], ['Replies', 'count', count]];

function errorRows(state) {
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

const MEMORY_FACTS = [
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

const DATABASE_COLUMNS = [
  ['Database', 'name', text],
  ['Keys', 'keys', count],
  ['With expiry', 'expires', count],
  ['Mean TTL', 'ttl', millis],
];

function databaseRows({ figures }) {
  return Object.entries(databasesOf(figures)).map(([name, database]) => ({
    name,
    keys: database.keys,
    expires: database.expires,
    ttl: database.avg_ttl > 0 ? database.avg_ttl : null,
  }));
}

const DISTRIBUTIONS = [
  ['Strings', 'db_distrib_strings_sizes', 'Length from', bytes],
  ['Lists', 'db_distrib_lists_items', 'Elements from', String],
  ['Sets', 'db_distrib_sets_items', 'Members from', String],
  ['Sorted sets', 'db_distrib_zsets_items', 'Members from', String],
  ['Hashes', 'db_distrib_hashes_items', 'Fields from', String],
];

// Workers.

const WORKER_COLUMNS = [
  ['Worker', 'name', text],
  ['Clients', 'clients', count],
  ['Commands/s', 'commands', rate],
  ['CPU', 'cpu', percent],
  ['Busy', 'busy', percent],
  ['Parked/s', 'parked', rate],
  ['Longest turn', 'longest', micros],
];

function workerRows(state) {
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

function activeWorkers({ figures }) {
  const active = read(figures, 'server.io_threads_active_count');
  return `${text(active)} of ${Object.keys(workersOf(figures)).length} workers serve connections.`;
}

// Persistence.

const SNAPSHOT_FACTS = [
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

const APPEND_ONLY_FACTS = [
  fact('Enabled', 'persistence.aof_enabled', yesNo),
  fact('Size', 'persistence.aof_current_size', bytes),
  fact('Size after the last rewrite', 'persistence.aof_base_size', bytes),
  fact('Not written yet', 'persistence.aof_buffer_length', bytes),
  fact('Status of writes', 'persistence.aof_last_write_status', text),
  fact('Status of the last rewrite', 'persistence.aof_last_bgrewrite_status', text),
  fact('Rewrite running', 'persistence.aof_rewrite_in_progress', yesNo),
];

const LOADING_FACTS = [
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
const roleOf = (figures) => ROLES[read(figures, 'replication.role')];

const ROLE_FACTS = [
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

const BACKLOG_FACTS = [
  fact('Active', 'replication.repl_backlog_active', yesNo),
  fact('Size', 'replication.repl_backlog_size', bytes),
  ['In use', backlogUse, shareOf('replication.repl_backlog_histlen', 'replication.repl_backlog_size')],
];

function backlogUse(figures) {
  const used = read(figures, 'replication.repl_backlog_histlen');
  return used === undefined ? undefined : bytes(used);
}

const REPLICA_COLUMNS = [
  ['Replica', 'name', text],
  ['Address', 'address', text],
  ['State', 'state', text],
  ['Connection', 'type', text],
  ['Offset', 'offset', plain],
  ['Lag', 'lag', suffixed(plain, ' s')],
  ['Behind', 'behind', bytes],
];

function replicaRows({ figures }) {
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

// Links.

const LINKS = [
  ['metrics', 'all figures for Prometheus'],
  ['api/figures', 'all figures as JSON'],
  ['healthz', 'whether the process runs'],
  ['readyz', 'whether the server can serve its data'],
];

const TABS = [
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

// ----------------------------------------
// Tabs. The chosen one is in the hash of the address. Panels have other ids, so that the browser does not scroll to them.

let current = TABS[0];

function buildTabs() {
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
const state = { figures: {}, previous: null, elapsed: 0, readAt: 0, range: 'fine', recent: null, view: null };

let isUpdatePlanned = false;

/** Updates the page once, however many changes there were before it is drawn. */
function planUpdate() {
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
function report(source, words) {
  problems[source] = words;
  const all = Object.values(problems).filter((problem) => problem !== '');
  setText(byId('status'), all.join('; ') || 'connected');
  byId('status').classList.toggle('lost', all.length > 0);
}

/** @param reasons why the server is not ready; empty: it is; null: not known */
function showReadiness(reasons) {
  const words = reasons === null ? 'unknown' : reasons.length === 0 ? 'ready' : 'not ready';
  setText(byId('readiness'), words);
  byId('readiness').className = words.replace(' ', '-');
  byId('obstacles').replaceChildren(...(reasons ?? []).map((reason) => element('li', {}, reason)));
  byId('obstacles').hidden = !reasons?.length;
}

// ----------------------------------------
// Reading from the server.

const TIMEOUT_MS = 10_000;
const FIGURES_SECONDS = 2;
const READINESS_SECONDS = 5;
const HISTORY_SECONDS = 30;
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

async function readFigures() {
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
async function refreshHistory() {
  if (state.range === 'coarse' || history.series.length === 0) await readHistory();
}

async function readReadiness() {
  try {
    const response = await get('readyz');
    const lines = (await response.text()).split('\n').filter((line) => line !== '');
    showReadiness(response.ok ? [] : lines.length > 0 ? lines : [`status ${response.status}`]);
  } catch {
    showReadiness(null);
  }
}

/** The stream of live samples. The history is read at each start of it, for what was missed before. */
const live = {
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
function whileVisible(start, stop) {
  const isVisible = () => document.visibilityState === 'visible';
  if (isVisible()) start();
  document.addEventListener('visibilitychange', () => (isVisible() ? start() : stop()));
}

/** Runs a task at once, and again some seconds after it has ended, while the page is visible. */
function poll(seconds, task) {
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
