/**
 * Formats of numbers and times, and the units of charts.
 *
 * - A format takes a number, and gives MISSING for anything else.
 * - Never: reads figures, or changes the page.
 */

export const MISSING = '–';
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

export const suffixed = (format, suffix) => (value) => (Number.isFinite(value) ? format(value) + suffix : MISSING);

export const plain = (value) => (Number.isFinite(value) ? rounded(value) : MISSING);
export const count = (value) => scaled(value, 1000, COUNT_UNITS);
export const rate = (value) => scaled(value, 1000, COUNT_UNITS.map((unit) => `${unit}/s`));
export const bytes = (value) => scaled(value, 1024, BYTE_UNITS);
const byteRate = suffixed(bytes, '/s');
export const micros = (value) => scaled(value, 1000, TIME_UNITS);
export const millis = (value) => (Number.isFinite(value) ? span(value / 1000) : MISSING);
export const percent = suffixed(rounded, ' %');
export const processors = suffixed(rounded, ' CPUs');
export const text = (value) => (value === undefined || value === null || value === '' ? MISSING : String(value));
export const yesNo = (value) => (value === undefined ? MISSING : value ? 'yes' : 'no');

/** A duration in seconds, in its two largest units. */
export function span(seconds) {
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
export const withMinutes = new Intl.DateTimeFormat([], CLOCK);
export const withSeconds = new Intl.DateTimeFormat([], { ...CLOCK, second: '2-digit' });
export const withDate = new Intl.DateTimeFormat([], { dateStyle: 'medium', timeStyle: 'medium' });

// What a chart measures: the format of its values, whether its scale has powers of two, and the least top of its axis.
export const UNITS = {
  count: { format: count, isBinary: false, least: 2 },
  rate: { format: rate, isBinary: false, least: 1 },
  bytes: { format: bytes, isBinary: true, least: 4 },
  byteRate: { format: byteRate, isBinary: true, least: 4 },
  micros: { format: micros, isBinary: false, least: 2 },
  percent: { format: percent, isBinary: false, least: 1 },
};
