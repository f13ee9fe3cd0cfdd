'use strict';
girih.view('roofline', async (section, data, page) => {
  const { element, format } = page;
  if (!data.points.length || !data.links.length) {
    section.append(element('p', { class: 'quiet' }, 'No operator of this network computes anything on an engine.'));
    return;
  }
  const links = data.links.filter((link) => data.points.some((point) => point.bytes[link.name]));
  const achieved = data.points.map((point) => point.ops / point.cycles);
  const top = Math.max(...data.peaks.map((peak) => peak.ops), ...achieved);
  const low = Math.min(...achieved);
  const all = links.flatMap((link) => data.points.map((p) => p.ops / p.bytes[link.name]).filter(Number.isFinite));
  const most = Math.max(...all, ...links.map((link) => (4 * top) / link.rate), 10) * 4;
  const least = Math.min(...all, 1) / 2;

  const chooser = element('div', { class: 'choices', role: 'group', 'aria-label': 'Bytes over which link' });
  section.append(element('div', { class: 'toolbar' }, element('span', { class: 'quiet' }, 'Bytes over'), chooser));
  const plot = await page.plot(section, {
    label: 'Roofline: operations a cycle of each operator against its operations for each byte moved. The table of operators has the same figures.',
    height: 440,
    x: { start: least, end: most, log: true, title: 'operations for each byte (log scale)', format: format.compact },
    y: { start: low / 2, end: top * 2.5, log: true, title: 'operations a cycle (log scale)', format: format.compact },
  });
  const { figure } = plot;
  const roofs = plot.source({ x: [], y: [] });
  const roof = figure.line({ field: 'x' }, { field: 'y' }, { source: roofs, line_width: 2 });
  const flat = data.peaks.map((peak) => ({ peak, line: figure.line([least, most], [peak.ops, peak.ops], { line_width: 1.5, line_dash: [6, 4] }) }));
  const words = plot.source({
    x: data.peaks.map(() => least * 1.15), y: data.peaks.map((peak) => peak.ops), text: data.peaks.map((peak) => `peak of ${peak.name}: ${format.number(peak.ops)} operations a cycle`),
  });
  const texts = figure.text({ field: 'x' }, { field: 'y' }, { field: 'text' }, { source: words, text_font_size: '12px', text_font: 'system-ui, sans-serif', y_offset: -5 });
  const source = plot.source({ x: [], y: [], size: [] });
  const dots = figure.scatter({ field: 'x' }, { field: 'y' }, { source, size: { field: 'size' }, line_width: 1, fill_alpha: 0.75 });
  const chosen = plot.source({ x: [], y: [] });
  const ring = figure.scatter({ field: 'x' }, { field: 'y' }, { source: chosen, size: 22, fill_alpha: 0, line_width: 3 });
  plot.coloured((colour) => {
    roof.glyph.setv({ line_color: colour('--ink') });
    flat.forEach(({ line }) => line.glyph.setv({ line_color: colour('--quiet') }));
    texts.glyph.setv({ text_color: colour('--quiet') });
    dots.glyph.setv({ fill_color: colour('--accent'), line_color: colour('--paper') });
    ring.glyph.setv({ line_color: colour('--select') });
  });

  const total = data.points.reduce((sum, point) => sum + point.cycles, 0);
  const size = data.points.map((point) => 8 + 36 * Math.sqrt(point.cycles / total));
  let link = links[0];
  let x = [];
  const place = (index) => [x[index], achieved[index]];
  const mark = () => {
    const index = page.selection && page.selection.kind === 'operator' ? data.points.findIndex((p) => p.name === page.selection.name) : -1;
    chosen.data = index < 0 ? { x: [], y: [] } : { x: [x[index]], y: [achieved[index]] };
  };
  const show = (next) => {
    link = next;
    // What moves nothing over the link stands at the right edge.
    x = data.points.map((p) => (p.bytes[link.name] ? p.ops / p.bytes[link.name] : most / 1.1));
    source.data = { x, y: achieved, size };
    const knee = Math.max(...data.peaks.map((peak) => peak.ops), 1) / link.rate;
    roofs.data = { x: [least, knee, most], y: [least * link.rate, knee * link.rate, knee * link.rate] };
    [...chooser.children].forEach((button) => button.setAttribute('aria-pressed', String(button.dataset.link === link.name)));
    mark();
  };
  chooser.append(...links.map((l) => element('button', { type: 'button', class: 'button', 'data-link': l.name, onclick: () => show(l) }, l.name, element('span', { class: 'quiet' }, ` ${format.number(l.rate)} B a cycle`))));
  show(link);
  page.onSelect(mark);

  const nearest = ({ sx, sy }) => {
    let best = -1;
    let distance = 24;
    data.points.forEach((point, i) => {
      const [px, py] = plot.screen(...place(i));
      const d = Math.hypot(px - sx, py - sy) - size[i] / 2;
      if (d < distance) [best, distance] = [i, d];
    });
    return best;
  };
  plot.hover((place) => {
    const i = nearest(place);
    if (i < 0) return null;
    const point = data.points[i];
    return element('div', {}, element('strong', {}, format.short(point.name)), element('div', {}, `${format.number(achieved[i])} operations a cycle`),
      element('div', {}, point.bytes[link.name] ? `${format.number(x[i])} operations for each byte` : `no bytes over ${link.name}`), element('div', { class: 'quiet' }, `${format.number(Math.round(point.cycles))} cycles`));
  });
  plot.click((place) => {
    const i = nearest(place);
    if (i >= 0) page.select({ kind: 'operator', name: data.points[i].name });
  });
});
