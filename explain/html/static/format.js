'use strict';
/** Numbers and names as people read them: the same as in the text report. An absent value is a dash. */
(() => {
  const absent = (value) => value === null || value === undefined || Number.isNaN(value);
  const grouped = (value, digits) => value.toLocaleString('en-GB', { minimumFractionDigits: digits, maximumFractionDigits: digits });

  girih.page.format = Object.freeze({
    /** With thousands separated, whole from 100 on. */
    number(value) {
      if (absent(value)) return '–';
      return grouped(value, Number.isInteger(value) || Math.abs(value) >= 100 ? 0 : 2);
    },
    /** Short, for axes: 1.2 M. */
    compact(value) {
      if (absent(value)) return '–';
      const size = Math.abs(value);
      for (const [unit, scale] of [['G', 1e9], ['M', 1e6], ['k', 1e3]]) {
        if (size >= scale) return `${+(value / scale).toPrecision(3)} ${unit}`;
      }
      return String(+value.toPrecision(3));
    },
    bytes(value) {
      if (absent(value)) return '–';
      if (value >= 1e6) return `${grouped(value / 1e6, 1)} MB`;
      if (value >= 1e3) return `${grouped(value / 1e3, 1)} kB`;
      return `${grouped(value, 0)} B`;
    },
    percent(part, whole = 1) {
      if (absent(part) || !whole) return '–';
      const share = (100 * part) / whole;
      return `${grouped(share, Math.abs(share) < 10 && share !== 0 ? 1 : 0)} %`;
    },
    seconds(value) {
      if (absent(value)) return '–';
      if (value < 1e-3) return `${+(value * 1e6).toPrecision(4)} µs`;
      return value < 1 ? `${+(value * 1e3).toPrecision(4)} ms` : `${+value.toPrecision(4)} s`;
    },
    extents: (values) => (values && values.length ? Array.from(values).join('×') : '–'),
    /** For axes: as many digits as tell ticks apart that are `step` from one another. */
    tick(value, step) {
      const [unit, scale] = [['G', 1e9], ['M', 1e6], ['k', 1e3]].find(([, s]) => Math.abs(value) >= s) || ['', 1];
      const digits = Math.max(0, Math.min(6, Math.ceil(-Math.log10(step / scale) - 1e-9)));
      return `${(value / scale).toFixed(digits)} ${unit}`.trim();
    },
    /** The text with its middle left out where it is longer than `width`. */
    short(text, width = 40) {
      if (text.length <= width) return text;
      const tail = Math.floor(width / 2);
      return `${text.slice(0, width - tail - 1)}…${text.slice(-tail)}`;
    },
    /** The end of the text, which tells names apart that begin alike. */
    tail: (text, width) => (text.length <= width ? text : `…${text.slice(1 - width)}`),
    plural: (count, noun) => `${grouped(count, 0)} ${noun}${count === 1 ? '' : 's'}`,
  });
})();
