'use strict';
girih.view('traffic', (section, data, page) => {
  const { element, format } = page;
  const moved = page.tensors.map((t) => ({ ...t, moved: t.fetched + t.stored + t.by_host })).filter((t) => t.moved);
  const largest = Math.max(1, ...data.kinds.map((row) => row.fetched + row.stored + row.by_host));
  const part = (kind, bytes) => {
    const piece = element('span', { class: `traffic-${kind}` });
    piece.style.width = `${(100 * bytes) / largest}%`;
    return bytes ? piece : null;
  };
  section.append(
    element('ul', { class: 'legend' }, [['fetched', 'fetched'], ['stored', 'stored'], ['host', 'by the host']].map(([kind, text]) => element('li', {}, element('span', { class: `swatch traffic-${kind}` }), text))),
    element(
      'table',
      { class: 'engines' },
      element('caption', { class: 'unseen' }, 'Bytes by kind of tensor'),
      element('tbody', {}, data.kinds.map((row) =>
        element('tr', {}, element('th', { scope: 'row' }, `${row.kind}s`), element('td', { class: 'numeric' }, format.bytes(row.fetched + row.stored + row.by_host)),
          element('td', { class: 'bar-cell' }, element('span', { class: 'bar-track stack', role: 'img', 'aria-label': `${row.kind}s: ${format.bytes(row.fetched)} fetched, ${format.bytes(row.stored)} stored, ${format.bytes(row.by_host)} by the host` }, part('fetched', row.fetched), part('stored', row.stored), part('host', row.by_host)))))),
    ),
  );
  const table = element('div', { class: 'below' });
  section.append(table);
  page.table(table, {
    label: `Tensors that are moved to or from ${data.main}`, filter: 'Filter tensors', most: 12, rows: moved, sort: { key: 'moved', descending: true },
    subject: (t) => ({ kind: 'tensor', name: t.name }),
    columns: [
      { key: 'name', title: 'tensor', show: (t) => format.short(t.name, 40) }, { key: 'kind', title: 'kind' },
      { key: 'bytes', title: 'size', numeric: true, show: (t) => format.bytes(t.bytes) }, { key: 'fetched', title: 'fetched', numeric: true, show: (t) => format.bytes(t.fetched) },
      { key: 'stored', title: 'stored', numeric: true, show: (t) => format.bytes(t.stored) }, { key: 'moved', title: 'moved', numeric: true, show: (t) => format.bytes(t.moved) },
      { key: 'reason', title: 'why', prose: true },
    ],
  });
  const memories = element('div', { class: 'below' }, element('h3', {}, 'How full memories get'));
  section.append(memories);
  page.table(memories, {
    label: 'Memories', rows: page.memories.map((m) => ({ ...m, share: m.peak / m.capacity })), subject: (m) => ({ kind: 'memory', name: m.name }),
    columns: [
      { key: 'name', title: 'memory' }, { key: 'role', title: 'role' }, { key: 'capacity', title: 'capacity', numeric: true, show: (m) => format.bytes(m.capacity) },
      { key: 'peak', title: 'peak', numeric: true, show: (m) => format.bytes(m.peak) }, { key: 'share', title: 'full', numeric: true, show: (m) => format.percent(m.share) },
      { key: 'activations', title: 'activations', numeric: true, show: (m) => format.bytes(m.activations) }, { key: 'constants', title: 'constants', numeric: true, show: (m) => format.bytes(m.constants) },
      { key: 'buffers', title: 'buffers', numeric: true, show: (m) => format.number(m.buffers) }, { key: 'at', title: 'peak at', prose: true },
    ],
  });
});
