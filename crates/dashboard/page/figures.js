/**
 * Figures: read by their path, such as `memory.used_memory`.
 *
 * - Never: assumes that a figure is there.
 */

import { MISSING, span, withDate } from './formats.js';

/** @returns the figure, or undefined if any part of the path is missing. */
export function read(figures, path) {
  return path.split('.').reduce((value, name) => value?.[name], figures);
}

/** The growth of a counter per second between the last two polls; null if it is unknown, or the counter was reset. */
export function growth({ figures, previous, elapsed }, counter) {
  if (!previous || !(elapsed > 0)) return null;
  const difference = counter(figures) - counter(previous);
  return difference >= 0 ? difference / elapsed : null;
}

export const workersOf = (figures) => read(figures, 'workers.worker') ?? {};
export const databasesOf = (figures) => read(figures, 'keyspace.db') ?? {};

/** The part of a total from 0 to 1; undefined if one is unknown. */
export function share(part, total) {
  return total > 0 && Number.isFinite(part) ? Math.min(Math.max(part / total, 0), 1) : undefined;
}

/** A function from figures to the part of one in another. */
export const shareOf = (part, total) => (figures) => share(read(figures, part), read(figures, total));

/** A time in Unix seconds, and how long before the report it was. */
export function moment(figures, path) {
  const seconds = read(figures, path);
  if (!(seconds > 0)) return MISSING;
  const now = read(figures, 'server.server_time_usec') / 1e6;
  const ago = now >= seconds ? ` (${span(Math.floor(now - seconds))} ago)` : '';
  return withDate.format(seconds * 1000) + ago;
}
