'use strict';
/** The layers of the network, broken into lines as text is, so that boxes are large enough to be read. */
girih.view('network', async (section, data, page) => {
  const { element, format } = page;
  const count = data.layer.length;
  const width = Math.max(280, section.clientWidth);
  const deepest = count ? Math.max(...chunkedMax(data.layer)) + 1 : 0;
  const widths = new Array(deepest).fill(0);
  for (let i = 0; i < count; i++) widths[data.layer[i]] = Math.max(widths[data.layer[i]], data.place[i] + 1);

  function chunkedMax(values) {
    const maxima = [];
    for (let i = 0; i < values.length; i += 10000) maxima.push(Math.max(...values.slice(i, i + 10000)));
    return maxima;
  }

  /** Tops of the lines in cells, and their sum, if a line has so many layers. */
  const broken = (columns) => {
    const tops = [];
    let top = 0;
    for (let first = 0; first < deepest; first += columns) {
      tops.push(top + 0.8);
      top += Math.max(...widths.slice(first, first + columns)) + 0.8;
    }
    return { columns, tops, total: top + 0.3 };
  };
  const cellHeight = (columns) => Math.max(5, Math.min(44, (0.46 * width) / columns));
  let lines = broken(Math.max(1, Math.min(deepest, Math.floor(width / 88))));
  while (lines.total * cellHeight(lines.columns) > 1100 && lines.columns < deepest) lines = broken(Math.ceil(lines.columns * 1.2));
  const [cw, ch] = [width / lines.columns, cellHeight(lines.columns)];
  const [bw, bh] = [cw * 0.8, ch * 0.62];
  const tall = Math.max(60, lines.total * ch);

  const x = Float64Array.from(data.layer, (layer) => ((layer % lines.columns) + 0.5) * cw);
  const y = Float64Array.from(data.layer, (layer, i) => (lines.tops[Math.floor(layer / lines.columns)] + data.place[i] + 0.5) * ch);

  const modes = { segment: 'segment', engine: 'engine', lost: 'cycles lost' };
  const chooser = element('div', { class: 'choices', role: 'group', 'aria-label': 'Colour by' });
  const legend = element('ul', { class: 'legend' });
  section.append(element('div', { class: 'toolbar' }, element('span', { class: 'quiet' }, 'Colour by'), chooser), legend);
  const plot = await page.plot(section, {
    label: `Graph of ${format.plural(count, 'operator')} in ${format.plural(deepest, 'layer')}. The table of operators has the same ones.`,
    height: Math.min(tall + 10, 900),
    x: { start: 0, end: width, ticks: false },
    y: { start: 0, end: tall, ticks: false, reversed: true },
  });
  const { figure } = plot;
  figure.center.forEach((grid) => grid.setv({ visible: false }));

  const curves = { x0: [], y0: [], x1: [], y1: [], cx0: [], cy0: [], cx1: [], cy1: [] };
  for (let e = 0; e < data.edges.length; e += 2) {
    const [a, b] = [data.edges[e], data.edges[e + 1]];
    const near = data.layer[b] - data.layer[a] <= 1;
    const sameLine = Math.floor(data.layer[a] / lines.columns) === Math.floor(data.layer[b] / lines.columns);
    // Lines that pass over boxes do so above them.
    const lift = near || data.place[a] !== data.place[b] ? 0 : 0.75 * ch;
    if (!sameLine) {
      // To another line: between both, not over boxes.
      const gap = (lines.tops[Math.floor(data.layer[b] / lines.columns)] - 0.4) * ch;
      curves.x0.push(x[a]); curves.y0.push(y[a] + bh / 2); curves.x1.push(x[b]); curves.y1.push(y[b] - bh / 2);
      curves.cx0.push(x[a]); curves.cy0.push(gap); curves.cx1.push(x[b]); curves.cy1.push(gap);
      continue;
    }
    const [x0, x1] = [x[a] + bw / 2, x[b] - bw / 2];
    const bend = Math.max((x1 - x0) / 2, 2);
    curves.x0.push(x0); curves.y0.push(y[a]); curves.x1.push(x1); curves.y1.push(y[b]);
    curves.cx0.push(x0 + (lift ? 0.15 * (x1 - x0) : bend)); curves.cy0.push(y[a] - lift * 1.3);
    curves.cx1.push(x1 - (lift ? 0.15 * (x1 - x0) : bend)); curves.cy1.push(y[b] - lift * 1.3);
  }
  const field = (name) => ({ field: name });
  const edges = figure.bezier({ x0: field('x0'), y0: field('y0'), x1: field('x1'), y1: field('y1'), cx0: field('cx0'), cy0: field('cy0'), cx1: field('cx1'), cy1: field('cy1'), source: plot.source(curves), line_width: 1 });
  const source = plot.source({ x, y, fill: new Array(count).fill('#000'), alpha: new Array(count).fill(1) });
  const small = bw < 30;
  const backs = figure.rect(field('x'), field('y'), bw, bh, { source, line_color: null, border_radius: small ? 0 : 4 });
  const boxes = figure.rect(field('x'), field('y'), bw, bh, { source, fill_color: field('fill'), fill_alpha: field('alpha'), line_color: field('fill'), line_width: small ? 0 : 1, border_radius: small ? 0 : 4 });
  const names = plot.source({ x: [], y: [], text: [] });
  const texts = figure.text(field('x'), field('y'), field('text'), { source: names, text_align: 'center', text_baseline: 'middle', text_font_size: '11px', text_font: 'system-ui, sans-serif' });
  const chosen = plot.source({ x: [], y: [] });
  figure.rect(field('x'), field('y'), bw, bh, { source: chosen, fill_alpha: 0, line_width: 3, line_color: '#d0005f' });

  let mode = 'segment';
  const worst = Math.max(1, ...chunkedMax(page.operators.map((o) => o.lost)));
  const engines = [...new Set(page.operators.map((o) => o.engine || 'none'))].sort();
  const look = (o) => {
    if (mode === 'lost') return ['--warn', 0.06 + 0.6 * Math.sqrt(Math.max(0, o.lost) / worst)];
    const index = mode === 'engine' ? engines.indexOf(o.engine || 'none') : o.segment;
    return [`--c${index % 8}`, small ? 0.85 : 0.24];
  };
  const swatch = (colour, alpha, text) => {
    const box = element('span', { class: 'swatch' });
    box.style.background = `color-mix(in srgb, var(${colour}) ${Math.round(100 * alpha)}%, transparent)`;
    box.style.borderColor = `var(${colour})`;
    return element('li', {}, box, text);
  };
  const describeColours = () => {
    if (mode === 'lost') return [0, 0.25, 1].map((part) => swatch('--warn', 0.06 + 0.6 * Math.sqrt(part), `${format.number(Math.round(part * worst))} cycles lost`));
    if (mode === 'engine') return engines.map((name, i) => swatch(`--c${i % 8}`, 0.5, name));
    const shown = page.segments.slice(0, 8).map((s, i) => swatch(`--c${i % 8}`, 0.5, page.link({ kind: 'segment', name: s.name }, `segment ${s.name}`)));
    if (page.segments.length > 8) shown.push(element('li', { class: 'quiet' }, `and ${format.number(page.segments.length - 8)} more, whose colours repeat`));
    return shown;
  };
  const paint = () => {
    const known = new Map();
    const looks = page.operators.map(look);
    for (const [name] of looks) if (!known.has(name)) known.set(name, page.colour(name));
    source.data = { x, y, fill: looks.map(([name]) => known.get(name)), alpha: looks.map(([, alpha]) => alpha) };
    legend.replaceChildren(...describeColours());
    [...chooser.children].forEach((button) => button.setAttribute('aria-pressed', String(button.dataset.mode === mode)));
  };
  chooser.append(...Object.entries(modes).map(([key, title]) => element('button', { type: 'button', class: 'button', 'data-mode': key, onclick: () => ((mode = key), paint()) }, title)));
  plot.coloured((colour) => {
    edges.glyph.setv({ line_color: colour('--edge') });
    backs.glyph.setv({ fill_color: colour('--paper') });
    texts.glyph.setv({ text_color: colour('--ink') });
    paint();
  });

  let lettered = '';
  plot.onRange(({ x0, x1, y0, y1 }) => {
    const pixels = ((plot.view.frame.bbox.width || width) / (x1 - x0)) * bw;
    const letters = Math.floor((pixels - 6) / 6.1);
    const key = letters < 6 ? 'none' : `${letters} ${x0} ${x1} ${y0} ${y1}`;
    if (key === lettered) return;
    lettered = key;
    const shown = { x: [], y: [], text: [] };
    if (letters >= 6) {
      for (let i = 0; i < count && shown.x.length < 600; i++) {
        if (x[i] < x0 - bw || x[i] > x1 + bw || y[i] < y0 - bh || y[i] > y1 + bh) continue;
        shown.x.push(x[i]); shown.y.push(y[i]); shown.text.push(format.tail(page.operators[i].name, Math.min(letters, 40)));
      }
    }
    names.data = shown;
  });
  page.onSelect((selection) => {
    const marked = { x: [], y: [] };
    page.operators.forEach((o, i) => {
      if (!selection || !((selection.kind === 'operator' && o.name === selection.name) || (selection.kind === 'segment' && String(o.segment) === selection.name) || (selection.kind === 'tensor' && (o.outputs.includes(selection.name) || o.inputs.includes(selection.name))))) return;
      marked.x.push(x[i]); marked.y.push(y[i]);
    });
    chosen.data = marked;
  });
  page.networkPlace = (index) => plot.screen(x[index], y[index]);
  const at = (place) => {
    for (let i = 0; i < count; i++) if (Math.abs(x[i] - place.x) <= bw / 2 && Math.abs(y[i] - place.y) <= bh / 2) return page.operators[i];
    return null;
  };
  plot.hover((place) => {
    const o = at(place);
    return o && element('div', {}, element('strong', {}, format.short(o.name)), element('div', {}, `segment ${o.segment}, ${o.engine || 'no engine'}`), element('div', {}, `${format.number(Math.round(o.cycles))} cycles, ${format.number(Math.round(o.lost))} lost`));
  });
  plot.click((place) => {
    const o = at(place);
    if (o) page.select({ kind: 'operator', name: o.name });
  });

  const holder = element('div', { class: 'below' }, element('h3', {}, 'Segments'));
  section.append(holder);
  page.table(holder, {
    label: 'Segments', most: 8,
    rows: page.segments.map((s) => ({ ...s, index: Number(s.name) })),
    subject: (s) => ({ kind: 'segment', name: s.name }),
    sort: { key: 'index', descending: false },
    columns: [
      { key: 'index', title: 'segment', show: (s) => s.name },
      { key: 'first', title: 'from', show: (s) => format.short(s.first, 26) }, { key: 'last', title: 'to', show: (s) => format.short(s.last, 26) },
      { key: 'operators', title: 'operators', numeric: true, show: (s) => format.number(s.operators) },
      { key: 'instances', title: 'instances', whole: true }, { key: 'cores', title: 'cores', whole: true },
      { key: 'cycles', title: 'cycles, predicted', numeric: true, show: (s) => format.number(s.cycles) },
      { key: 'share', title: 'share', numeric: true, show: (s) => format.percent(s.share) },
      { key: 'waits', title: 'waits before', numeric: true, show: (s) => format.number(s.waits) },
      { key: 'limit', title: 'limited by' },
    ],
  });
});
