/**
 * Samples that the page has. One is [time in ms, numbers in the order of `series`, CPU seconds of each worker].
 *
 * - Never: reads from the server, or fills gaps between samples.
 */

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
export const last = (values) => values[values.length - 1] ?? null;

// The ranges of charts: seconds between samples, and seconds in all.
const RANGES = {
  fine: { seconds: 1, span: 300 },
  coarse: { seconds: 10, span: 3600 },
};

/** The samples that the page has. */
export const history = {
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
