'use strict';
girih.view('convergence', async (section, data, page) => {
  const { element, format } = page;
  section.append(element('p', {}, `The search ended with status “${data.status}”: ${data.reason}.`));
  const holder = element('div', { class: 'multiples' });
  // A run that has its answer at once is no curve.
  const takesWork = (curve) => {
    const span = Math.max(...curve.work) - Math.min(...curve.work);
    return curve.work.some((work, i) => i > 0 && (curve.model === 'plan' || curve.run[i] === curve.run[i - 1]) && work - curve.work[i - 1] > 0.02 * span);
  };
  const searched = data.curves.filter((curve) => curve.work.length > 1 && takesWork(curve));
  if (searched.length) {
    section.append(
      element('ul', { class: 'legend' }, element('li', {}, element('span', { class: 'swatch part-0' }), 'incumbent'), element('li', {}, element('span', { class: 'swatch part-3' }), 'bound')),
      holder,
    );
  }
  /** Steps: a value holds until the next point of its run. Runs are apart, but for those of the whole plan. */
  const steps = (curve, values) => {
    const [xs, ys] = [[], []];
    let last = -1;
    values.forEach((value, i) => {
      if (value === null) return;
      const joined = last >= 0 && (curve.model === 'plan' || curve.run[last] === curve.run[i]);
      xs.push(joined ? curve.work[i] : NaN, curve.work[i]);
      ys.push(joined ? values[last] : NaN, value);
      last = i;
    });
    return { x: xs, y: ys };
  };
  for (const curve of searched.slice(0, 12)) {
    const box = element('figure', {}, element('figcaption', {}, element('strong', {}, curve.model === 'plan' ? 'the whole plan' : curve.model), element('span', { class: 'quiet' }, ` ${curve.unit}`)));
    holder.append(box);
    const values = [...curve.incumbent, ...curve.bound].filter((value) => value !== null);
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const margin = (high - low || Math.abs(high) || 1) * 0.08;
    const [first, end] = [Math.min(...curve.work), Math.max(...curve.work)];
    const room = (end - first) * 0.03;
    const plot = await page.plot(box, {
      label: `Convergence of ${curve.model}: incumbent from ${format.number(curve.incumbent.find((v) => v !== null))}, bound to ${format.number(curve.bound.filter((v) => v !== null).pop())} ${curve.unit}.`,
      height: 200, zoom: '',
      x: { start: first - room, end: end + room, title: 'deterministic seconds', format: (value) => String(+value.toPrecision(3)), count: 5 },
      y: { start: low - margin, end: high + margin, format: (value) => format.tick(value, (high - low + 2 * margin) / 8), count: 4 },
    });
    const line = (values_, name, dash) => {
      const source = plot.source(steps(curve, values_));
      const made = plot.figure.line({ field: 'x' }, { field: 'y' }, { source, line_width: 2, line_dash: dash });
      const dots = plot.figure.scatter({ field: 'x' }, { field: 'y' }, { source: plot.source({ x: curve.work.filter((w, i) => values_[i] !== null), y: values_.filter((v) => v !== null) }), size: 5 });
      plot.coloured((colour) => {
        made.glyph.setv({ line_color: colour(name) });
        dots.glyph.setv({ fill_color: colour(name), line_color: null });
      });
    };
    line(curve.bound, '--p3', [5, 3]);
    line(curve.incumbent, '--p0', []);
    plot.hover(({ x }) => {
      const i = curve.work.reduce((best, work, k) => (Math.abs(work - x) < Math.abs(curve.work[best] - x) ? k : best), 0);
      return element('div', {}, element('div', {}, `incumbent ${format.number(curve.incumbent[i])}`), element('div', {}, `bound ${format.number(curve.bound[i])}`), element('div', { class: 'quiet' }, `after ${+curve.work[i].toPrecision(3)} deterministic s`));
    });
  }
  const table = element('div', { class: 'below' });
  section.append(table);
  page.table(table, {
    label: 'Answers of the models', rows: data.models,
    columns: [
      { key: 'name', title: 'model' }, { key: 'status', title: 'status' }, { key: 'objective', title: 'objective', numeric: true, show: (m) => format.number(m.objective) },
      { key: 'bound', title: 'bound', numeric: true, show: (m) => format.number(m.bound) }, { key: 'gap', title: 'gap', numeric: true, show: (m) => format.percent(m.gap) },
      { key: 'unit', title: 'unit', prose: true }, { key: 'runs', title: 'runs', numeric: true, show: (m) => format.number(m.runs) },
      { key: 'work', title: 'work, s', numeric: true, show: (m) => m.work.toFixed(2) }, { key: 'notes', title: 'notes', prose: true, show: (m) => m.notes.slice(0, 2).join('; ') || '–' },
    ],
  });
});
