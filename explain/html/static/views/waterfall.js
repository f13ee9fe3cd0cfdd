'use strict';
girih.view('waterfall', (section, data, page) => {
  const { element, format } = page;
  const total = data.rows.reduce((sum, row) => sum + row.cycles, 0);
  let reached = 0;
  let widest = total;
  const rows = data.rows.map((row) => {
    const from = Math.min(reached, reached + row.cycles);
    reached += row.cycles;
    widest = Math.max(widest, reached);
    return { ...row, from };
  });
  const bar = (from, cycles, kind) => {
    const inner = element('span', { class: `bar-part ${kind}` });
    inner.style.left = `${(100 * from) / widest}%`;
    inner.style.width = `${Math.max(0.2, (100 * Math.abs(cycles)) / widest)}%`;
    return element('td', { class: 'bar-cell' }, element('span', { class: 'bar-track' }, inner));
  };
  const sign = (row) => (row.cause === 'bound' ? '' : row.cycles < 0 ? '−' : '+');
  const line = (row) =>
    element(
      'tr',
      {},
      element('th', { scope: 'row' }, row.title, element('small', { class: 'quiet' }, row.note)),
      element('td', { class: 'numeric' }, `${sign(row)}${format.number(Math.abs(row.cycles))}`, element('small', { class: 'quiet' }, format.percent(row.cycles, total))),
      bar(row.from, row.cycles, row.cause === 'bound' ? 'bound' : row.cycles < 0 ? 'less' : 'loss'),
      element(
        'td',
        { class: 'losers' },
        row.operators.length ? element('ul', { class: 'plain' }, row.operators.map((o) => element('li', {}, page.link({ kind: 'operator', name: o.name }, format.short(o.name, 26)), element('span', { class: 'quiet' }, ` ${format.number(o.cycles)}`)))) : '',
      ),
    );
  const last = element(
    'tr',
    { class: 'total' },
    element('th', { scope: 'row' }, 'cycles of the run'), element('td', { class: 'numeric' }, format.number(total)), bar(0, total, 'total'), element('td', {}),
  );
  const head = element('tr', {}, ['cause', 'cycles', 'from the bound to the run', 'most by'].map((text, i) => element('th', { scope: 'col', class: i === 1 ? 'numeric' : null }, text)));
  section.append(element('table', { class: 'waterfall' }, element('caption', { class: 'unseen' }, 'From the lower bound to the cycles of the run'), element('thead', {}, head), element('tbody', {}, rows.map(line), last)));
});
