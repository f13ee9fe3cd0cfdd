'use strict';
girih.view('engines', (section, data, page) => {
  const { element, format } = page;
  section.append(
    element('ul', { class: 'legend' }, data.parts.map((text, i) => element('li', {}, element('span', { class: `swatch part-${i}` }), text))),
    element(
      'table',
      { class: 'engines' },
      element('caption', { class: 'unseen' }, 'Cycles of engines and links by what they do'),
      element('thead', {}, element('tr', {}, ['engine or link', 'busy', 'all cycles of the run', 'waits most for'].map((text, i) => element('th', { scope: 'col', class: i === 1 ? 'numeric' : null }, text)))),
      element(
        'tbody',
        {},
        data.rows.map((row) => {
          const sum = row.parts.reduce((all, part) => all + Math.max(0, part), 0) || 1;
          const said = data.parts.map((text, i) => `${text} ${format.percent(row.parts[i], sum)}`).join(', ');
          const track = element('span', { class: 'bar-track stack', role: 'img', 'aria-label': `${row.name}: ${said}`, title: said });
          row.parts.forEach((part, i) => {
            if (part <= 0) return;
            const piece = element('span', { class: `part-${i}` });
            piece.style.width = `${(100 * part) / sum}%`;
            track.append(piece);
          });
          return element(
            'tr',
            {},
            element('th', { scope: 'row' }, row.name, row.units > 1 ? element('small', { class: 'quiet' }, `mean of ${row.units}`) : null),
            element('td', { class: 'numeric' }, format.percent(row.busy, row.cycles)),
            element('td', { class: 'bar-cell' }, track),
            element('td', { class: 'losers' }, row.reasons.slice(0, 2).join('; ')),
          );
        }),
      ),
    ),
  );
});
