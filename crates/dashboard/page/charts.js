/**
 * Charts over time.
 *
 * - Never: says which charts there are; views.js does.
 */

import { withMinutes, withSeconds, UNITS } from './formats.js';
import { element, svg, setText, scrolling, fillBody } from './elements.js';
import { last } from './samples.js';

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

export function charts(specifications) {
  const all = specifications.map((specification) => new Chart(specification));
  const figures = element('div', { class: 'charts' }, ...all.map((chart) => chart.element));
  return {
    element: element('section', {}, element('h2', { class: 'unseen' }, 'Charts'), figures),
    update: (state) => all.forEach((chart) => chart.update(state)),
  };
}
