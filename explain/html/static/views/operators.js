'use strict';
girih.view('operators', (section, data, page) => {
  const { format } = page;
  const number = (key, title) => ({ key, title, numeric: true, show: (o) => format.number(Math.round(o[key])) });
  page.table(section, {
    label: 'Table of operators', filter: 'Filter operators', rows: page.operators, most: 20, sort: { key: 'lost', descending: true },
    subject: (o) => ({ kind: 'operator', name: o.name }),
    columns: [
      { key: 'name', title: 'operator', show: (o) => format.short(o.name, 34) },
      { key: 'segment', title: 'segment', numeric: true, show: (o) => String(o.segment) },
      { key: 'engine', title: 'engine', show: (o) => o.engine || '–' },
      number('cycles', 'cycles'), number('lost', 'lost'), number('predicted', 'predicted'),
      { key: 'limit', title: 'limited by', show: (o) => o.limit || '–' },
      { key: 'shape', title: 'result', whole: true, show: (o) => format.extents(o.shape) }, { key: 'tile', title: 'tile', whole: true, show: (o) => format.extents(o.tile) },
      { key: 'reduce', title: 'reduced', whole: true, show: (o) => format.extents(o.reduce) },
      { key: 'macs', title: 'MACs', numeric: true, show: (o) => format.compact(o.macs) },
      { key: 'elements', title: 'element ops', numeric: true, show: (o) => format.compact(o.elements) },
    ],
  });
});
