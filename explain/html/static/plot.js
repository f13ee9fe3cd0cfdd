'use strict';
/**
 * Plots that are zoomed and moved by buttons, keys, wheel and fingers alike, in the colours of the page.
 *
 *     const plot = await page.plot(element, {
 *       label: 'Roofline: ...',            what the picture shows, for those who cannot see it
 *       height: 420,                       in pixels
 *       x: {start, end, least, most, log, title, format, ticks},   `least`/`most`: how far one can move; default: start/end
 *       y: {...},                                          `format`: number -> text of a tick; `reversed`: grows downwards
 *                                                          `ticks`: false for no axis, or a list of values for fixed ones;
 *                                                          `count`: about how many ticks
 *       zoom: 'x' | 'xy' | '',             which ranges zooming changes; '' for none
 *       smallest: 10,                      the narrowest range of x, in its units (not for log)
 *     });
 *
 * `plot.figure` is Bokeh's, with all its methods for glyphs; `plot.source(columns)` makes a column data source.
 * `plot.coloured(fn)`: fn(colour), called at once and whenever the theme changes, sets the colours of glyphs;
 * `colour("--accent")` is page.colour. `plot.data(event)` is {x, y, sx, sy} of a mouse event, or null outside of the
 * frame; `plot.screen(x, y)` is [sx, sy], in pixels of the picture. `plot.onRange(fn)`: fn({x0, x1, y0, y1}), after each
 * zoom or move, at most once a frame. `plot.show({x0, x1, y0, y1})` sets the ranges. `plot.hover(fn)`: fn({x, y, sx, sy}) is
 * the text or element to show at the pointer, or null; `plot.click(fn)` is called for clicks that are no drags.
 */
(() => {
  const page = girih.page;
  const { element } = page;
  const FONT = 'system-ui, sans-serif';
  Bokeh.set_log_level('warn');

  /** A range of one axis, in the space in which zooming is linear. */
  class Axis {
    constructor(range, options) {
      this.range = range;
      this.to = options.log ? Math.log10 : (value) => value;
      this.from = options.log ? (value) => 10 ** value : (value) => value;
      const ends = [options.least ?? options.start, options.most ?? options.end].map(this.to);
      this.least = Math.min(...ends);
      this.most = Math.max(...ends);
      this.home = [this.to(options.start), this.to(options.end)];
      this.reversed = Boolean(options.reversed);
      this.smallest = options.log ? 0.2 : (options.smallest ?? (this.most - this.least) / 1e6);
      this.set(...this.home);
    }

    get ends() {
      const ends = [this.to(this.range.start), this.to(this.range.end)];
      return this.reversed ? ends.reverse() : ends;
    }

    set(low, high) {
      const width = Math.min(Math.max(high - low, this.smallest), this.most - this.least);
      const middle = (low + high) / 2;
      const begin = Math.min(Math.max(middle - width / 2, this.least), this.most - width);
      const ends = [begin, begin + width].map(this.from);
      if (this.reversed) ends.reverse();
      this.range.setv({ start: ends[0], end: ends[1] });
    }

    /** `at`: 0 is the low end, 1 the high one. */
    zoom(factor, at = 0.5) {
      const [low, high] = this.ends;
      const fixed = low + (high - low) * at;
      this.set(fixed - (fixed - low) / factor, fixed + (high - fixed) / factor);
    }

    move(part) {
      const [low, high] = this.ends;
      const by = (high - low) * part;
      const kept = Math.min(Math.max(by, this.least - low), this.most - high);
      this.set(low + kept, high + kept);
    }

    reset() {
      this.set(...this.home);
    }
  }

  page.plots = new Map();

  page.plot = async (parent, options) => {
    const zoomed = options.zoom ?? 'xy';
    const frame = element('div', { class: 'plot-frame', tabindex: '0', role: 'img', 'aria-label': options.label });
    frame.style.height = `${options.height}px`;
    const tip = element('div', { class: 'plot-tip', hidden: true });
    const box = element('div', { class: 'plot' }, frame, tip);
    parent.append(box);
    const section = parent.closest('section.view');

    const scale = (axis) => (axis.log ? 'log' : 'linear');
    const figure = Bokeh.Plotting.figure({
      tools: '', toolbar_location: null, sizing_mode: 'stretch_both', min_border: 4,
      x_range: new Bokeh.Range1d({ start: options.x.start, end: options.x.end }),
      y_range: new Bokeh.Range1d({ start: options.y.start, end: options.y.end }),
      x_axis_type: scale(options.x), y_axis_type: scale(options.y),
      background_fill_color: null, border_fill_color: null, outline_line_color: null,
    });
    const axes = { x: new Axis(figure.x_range, options.x), y: new Axis(figure.y_range, options.y) };
    const drawn = { x: figure.below[0], y: figure.left[0] };
    for (const name of ['x', 'y']) {
      const axis = drawn[name];
      const { title, format, ticks } = options[name];
      axis.setv({
        axis_label: title ?? null, axis_line_color: null, minor_tick_line_color: null, major_tick_line_color: null,
        axis_label_text_font_style: 'normal', axis_label_text_font: FONT, major_label_text_font: FONT,
        axis_label_text_font_size: '12px', major_label_text_font_size: '12px', visible: ticks !== false,
      });
      if (options[name].count) axis.ticker.setv({ desired_num_ticks: options[name].count });
      if (Array.isArray(ticks)) axis.ticker = new Bokeh.FixedTicker({ ticks, minor_ticks: [] });
      // A formatter of its own would be code in a text, which the page forbids itself.
      if (format) {
        axis.formatter = new Bokeh.BasicTickFormatter();
        axis.formatter.doFormat = (values) => values.map(format);
      }
    }
    const view = await Bokeh.Plotting.show(figure, frame);

    const recolour = [];
    const coloured = (fn) => {
      recolour.push(fn);
      fn(page.colour);
    };
    coloured((colour) => {
      for (const axis of Object.values(drawn)) {
        axis.setv({ axis_label_text_color: colour('--quiet'), major_label_text_color: colour('--quiet') });
      }
      figure.center.forEach((grid) => 'grid_line_color' in grid && grid.setv({ grid_line_color: colour('--grid') }));
    });
    page.onTheme(() => recolour.forEach((fn) => fn(page.colour)));

    const rangeListeners = [];
    let pending = false;
    const changed = () => {
      if (pending) return;
      pending = true;
      requestAnimationFrame(() => {
        pending = false;
        const [x0, x1] = axes.x.ends.map(axes.x.from);
        const [y0, y1] = axes.y.ends.map(axes.y.from);
        rangeListeners.forEach((listener) => listener({ x0, x1, y0, y1 }));
      });
    };
    const each = (fn) => {
      for (const name of zoomed) fn(axes[name], name);
      tip.hidden = true;
      changed();
    };

    const locate = (event) => {
      const outer = frame.getBoundingClientRect();
      const { left, top, width, height } = view.frame.bbox;
      const [sx, sy] = [event.clientX - outer.left, event.clientY - outer.top];
      return { sx, sy, at: { x: (sx - left) / width, y: 1 - (sy - top) / height }, width, height };
    };
    const plot = {
      figure, view, frame, coloured,
      source: (columns) => new Bokeh.ColumnDataSource({ data: columns }),
      data(event) {
        const { sx, sy, at } = locate(event);
        if (at.x < 0 || at.x > 1 || at.y < 0 || at.y > 1) return null;
        return { x: view.frame.x_scale.invert(sx), y: view.frame.y_scale.invert(sy), sx, sy };
      },
      screen: (x, y) => [view.frame.x_scale.compute(x), view.frame.y_scale.compute(y)],
      get ranges() {
        const [x0, x1] = axes.x.ends.map(axes.x.from);
        const [y0, y1] = axes.y.ends.map(axes.y.from);
        return { x0, x1, y0, y1 };
      },
      onRange(listener) {
        rangeListeners.push(listener);
        changed();
      },
      show({ x0, x1, y0, y1 }) {
        if (x0 !== undefined) axes.x.set(axes.x.to(x0), axes.x.to(x1));
        if (y0 !== undefined) axes.y.set(axes.y.to(y0), axes.y.to(y1));
        changed();
      },
      zoom: (factor) => each((axis) => axis.zoom(factor)),
      reset: () => each((axis) => axis.reset()),
      hover: (fn) => (describe = fn),
      click: (fn) => (clicked = fn),
    };
    let describe = () => null;
    let clicked = () => {};

    const point = (event) => {
      const place = plot.data(event);
      const said = place && describe(place);
      tip.hidden = !said;
      frame.style.cursor = said ? 'pointer' : '';
      if (!said) return;
      tip.replaceChildren(said);
      const room = frame.clientWidth - tip.offsetWidth - 8;
      tip.style.left = `${Math.max(0, Math.min(place.sx + 14, room))}px`;
      const below = place.sy + 18;
      tip.style.top = `${below + tip.offsetHeight > frame.clientHeight ? Math.max(0, place.sy - tip.offsetHeight - 10) : below}px`;
    };

    const pointers = new Map();
    let travelled = 0;
    frame.addEventListener('pointerdown', (event) => {
      if (event.button) return;
      pointers.set(event.pointerId, event);
      travelled = 0;
      if (zoomed) frame.setPointerCapture(event.pointerId);
    });
    frame.addEventListener('pointermove', (event) => {
      const before = pointers.get(event.pointerId);
      if (!before) {
        point(event);
        return;
      }
      const { width, height } = locate(event);
      const [dx, dy] = [event.clientX - before.clientX, event.clientY - before.clientY];
      travelled += Math.abs(dx) + Math.abs(dy);
      if (pointers.size === 1 && travelled > 4) {
        each((axis, name) => axis.move(name === 'x' ? -dx / width : ((axis.reversed ? -1 : 1) * dy) / height));
      } else if (pointers.size === 2) {
        const other = [...pointers].find(([id]) => id !== event.pointerId)[1];
        const distance = (a) => Math.max(10, Math.hypot(a.clientX - other.clientX, a.clientY - other.clientY));
        each((axis) => axis.zoom(distance(event) / distance(before)));
      }
      pointers.set(event.pointerId, event);
    });
    const released = (event) => {
      const known = pointers.delete(event.pointerId);
      if (known && event.type === 'pointerup' && travelled <= 4) {
        const place = plot.data(event);
        if (place) clicked(place);
      }
    };
    frame.addEventListener('pointerup', released);
    frame.addEventListener('pointercancel', released);
    frame.addEventListener('pointerleave', () => (tip.hidden = true));

    if (zoomed) {
      frame.style.touchAction = 'pan-y';
      frame.addEventListener(
        'wheel',
        (event) => {
          // Without Ctrl or focus, the wheel scrolls the page.
          if (!event.ctrlKey && !event.metaKey && document.activeElement !== frame) return;
          event.preventDefault();
          const { at } = locate(event);
          const factor = 1.0015 ** -event.deltaY;
          each((axis, name) => axis.zoom(factor, axis.reversed && name === 'y' ? 1 - at.y : at[name]));
        },
        { passive: false },
      );
      const keys = {
        ArrowLeft: () => axes.x.move(-0.1),
        ArrowRight: () => axes.x.move(0.1),
        ArrowUp: () => axes.y.move(axes.y.reversed ? -0.1 : 0.1),
        ArrowDown: () => axes.y.move(axes.y.reversed ? 0.1 : -0.1),
        '+': () => plot.zoom(1.5),
        '=': () => plot.zoom(1.5),
        '-': () => plot.zoom(1 / 1.5),
        0: () => plot.reset(),
      };
      frame.addEventListener('keydown', (event) => {
        const act = keys[event.key];
        if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
        if ((event.key === 'ArrowUp' || event.key === 'ArrowDown') && !zoomed.includes('y')) return;
        event.preventDefault();
        act();
        changed();
      });
      const button = (text, label, act) =>
        element('button', { type: 'button', class: 'button', 'aria-label': label, title: label, onclick: act }, text);
      box.prepend(
        element(
          'div',
          { class: 'plot-buttons' },
          button('+', 'Zoom in', () => plot.zoom(1.5)),
          button('−', 'Zoom out', () => plot.zoom(1 / 1.5)),
          button('Reset', 'Show all again', () => plot.reset()),
        ),
      );
    }
    // By section, the first of each: for tests, and for those who look into a page.
    if (section && !page.plots.has(section.id)) page.plots.set(section.id, plot);
    return plot;
  };
})();
