'use strict';
girih.view('hosts', (section, data, page) => {
  if (!data.rows.length) {
    section.append(page.element('p', {}, 'None: matrix and vector engines run every operator.'));
    return;
  }
  page.table(section, {
    label: 'Operators on the host or the scalar engine', rows: data.rows, subject: (row) => ({ kind: 'operator', name: row.name }),
    columns: [{ key: 'name', title: 'operator', show: (row) => page.format.short(row.name, 34) }, { key: 'origin', title: 'from' }, { key: 'engine', title: 'runs on' }, { key: 'reason', title: 'why', prose: true }],
  });
});
