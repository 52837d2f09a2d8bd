/**
 * Parts other than charts: cards, facts, tables, bars, links.
 *
 * - Never: says which parts there are; views.js does.
 */

import { count, text } from './formats.js';
import { element, setText, scrolling, fillBody } from './elements.js';

/** Cards with one value each: rows of `[name, state => value, state => detail]`. */
export function cards(rows) {
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
export function facts(title, rows) {
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
export class SortedTable {
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
export function distributions(rows) {
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

export const heading = (title) => ({ element: element('h2', {}, title), update() {} });

export function links(rows) {
  const link = (path) => element('a', { href: path }, `/${path}`);
  const items = rows.map(([path, meaning]) => element('li', {}, link(path), `: ${meaning}`));
  return { element: element('ul', { class: 'links' }, ...items), update() {} };
}

export function paragraph(words) {
  const node = element('p');
  return { element: node, update: (state) => setText(node, words(state)) };
}
