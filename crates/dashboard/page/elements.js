/**
 * Elements of the page: how they are made and changed.
 *
 * - Never: puts text into the page as HTML.
 */

const SVG = 'http://www.w3.org/2000/svg';

export function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
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
export function setText(node, value) {
  if (node.textContent !== value) node.textContent = value;
}

export const byId = (id) => document.getElementById(id);

/** A container that scrolls by itself; it takes the focus so that the keyboard can scroll it. */
export function scrolling(label, ...children) {
  return element('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': label }, ...children);
}

/** Makes the body have these rows, by changing the cells that exist. A cell is a string, or `{ bar }` from 0 to 1. */
export function fillBody(body, rows, classes = []) {
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
