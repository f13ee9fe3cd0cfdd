'use strict';
girih.view('repeat', (section, data, page) => {
  const { element } = page;
  const table = (title, rows) =>
    element('div', {}, element('h3', {}, title), element('dl', { class: 'wide' }, rows.flatMap(([name, value]) => [element('dt', {}, name), element('dd', {}, value)])));
  const status = element('span', { class: 'quiet', role: 'status' });
  const copy = element('button', { type: 'button', class: 'button', onclick: async () => {
    try {
      await navigator.clipboard.writeText(data.command);
      status.textContent = 'copied';
    } catch {
      status.textContent = 'select the line to copy it';
    }
  } }, 'Copy');
  section.append(
    element('pre', { class: 'command', tabindex: '0', role: 'region', 'aria-label': 'Command line' }, data.command), element('p', {}, copy, ' ', status),
    element('div', { class: 'columns' }, table('Options', data.options), table('Versions', data.versions)), table('SHA-256', data.digests),
  );
});
