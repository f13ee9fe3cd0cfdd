'use strict';
/**
 * The one global name. A view registers how it is drawn:
 *
 *     girih.view("roofline", (section, data, page) => { ... });
 *
 * `section` is the empty element below the section's heading and caption, `data` what the Python side of the view sent
 * (arrays are typed arrays), and `page` is shared by all views; every other file here adds to it:
 *
 * - page.operators, page.tensors, page.segments, page.memories: rows as in subjects.py;
 *   page.operator.get(name), page.tensor.get(name)                            (start.js)
 * - page.select({kind: "operator" | "tensor" | "segment" | "memory", name}) or page.select(null); page.selection;
 *   page.onSelect(fn): fn(selection or null), also called once at once        (selection.js)
 * - page.theme "light" | "dark", page.onTheme(fn), page.colour("--accent")     (theme.js)
 * - page.format.number, .bytes, .percent, .short, ...                          (format.js)
 * - page.plot(element, options): a plot with keys and buttons                  (plot.js)
 * - page.table(element, options): a table that is sorted and filtered; page.link({kind, name})   (table.js)
 * - page.element("p", {class: "quiet"}, "text", child, ...): a new element
 *
 * A view may return a promise: what follows waits for it.
 */
const girih = (() => {
  const views = new Map();
  const page = {};

  /** Creates an element; texts are never parsed as HTML. Properties beginning with "on" are listeners. */
  page.element = (tag, properties, ...children) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(properties || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name.startsWith('on')) made.addEventListener(name.slice(2), value);
      else made.setAttribute(name, value === true ? '' : value);
    }
    made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ''));
    return made;
  };

  return Object.freeze({
    page,
    views,
    view(name, draw) {
      views.set(name, draw);
    },
  });
})();
