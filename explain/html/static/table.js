'use strict';
/**
 * Tables that are sorted by the buttons in their heads, filtered, and as long as one wants.
 *
 *     const table = page.table(element, {
 *       label: 'Operators',
 *       columns: [{key, title, numeric, whole, show: (row) => text or element}],   sorted by row[key]; `whole`: in one line,
 *                                                          `prose`: wide enough for sentences
 *       rows, sort: {key, descending},
 *       filter: 'Filter operators',       the label of the filter, none without it; it looks in all texts of a row
 *       subject: (row) => ({kind, name}), what a row selects; its first cell is a button then
 *       most: 20,                         rows shown at first
 *     });
 */
(() => {
  const page = girih.page;
  const { element } = page;

  page.table = (parent, options) => {
    const { columns, rows } = options;
    const order = { ...(options.sort || { key: null, descending: false }) };
    const most = options.most ?? 20;
    let shown = most;
    let wanted = '';

    const texts = new Map(
      rows.map((row) => [row, Object.values(row).filter((v) => typeof v === 'string' || Array.isArray(v)).join(' ').toLowerCase()]),
    );
    const heads = columns.map((column) => {
      const button = element('button', { type: 'button', onclick: () => sortBy(column) }, column.title);
      return element('th', { scope: 'col', class: column.numeric ? 'numeric' : null }, button);
    });
    const body = element('tbody');
    const more = element('button', { type: 'button', class: 'button', onclick: () => ((shown += 10 * most), draw()) });
    const count = element('p', { class: 'quiet table-count', role: 'status' });
    const scroller = element(
      'div',
      { class: 'table-scroll', tabindex: '0', role: 'region', 'aria-label': options.label },
      element('table', {}, element('caption', { class: 'unseen' }, options.label), element('thead', {}, element('tr', {}, heads)), body),
    );
    if (options.filter) {
      const input = element('input', { type: 'search', placeholder: options.filter, 'aria-label': options.filter, class: 'input' });
      input.addEventListener('input', () => {
        wanted = input.value.trim().toLowerCase();
        shown = most;
        draw();
      });
      parent.append(element('div', { class: 'table-filter' }, input));
    }
    parent.append(scroller, element('div', { class: 'table-end' }, count, more));

    const value = (row, key) => row[key] ?? (typeof row[key] === 'number' ? 0 : -Infinity);
    const compare = (a, b) => {
      const [x, y] = [value(a, order.key), value(b, order.key)];
      return typeof x === 'string' && typeof y === 'string' ? x.localeCompare(y, 'en', { numeric: true }) : x < y ? -1 : x > y ? 1 : 0;
    };
    const sortBy = (column) => {
      order.descending = order.key === column.key ? !order.descending : Boolean(column.numeric);
      order.key = column.key;
      draw();
    };

    const rowOf = (row) => {
      const subject = options.subject && options.subject(row);
      const cells = columns.map((column, i) => {
        const content = column.show ? column.show(row) : String(row[column.key] ?? '–');
        const inner = i === 0 && subject ? page.link(subject, content) : content;
        return element(i === 0 ? 'th' : 'td', { scope: i === 0 ? 'row' : null, class: column.numeric ? 'numeric' : column.whole || i === 0 ? 'whole' : column.prose ? 'prose' : null }, inner);
      });
      const made = element('tr', {}, cells);
      if (subject) {
        made.dataset.kind = subject.kind;
        made.dataset.name = subject.name;
      }
      return made;
    };
    const isSelected = (row) => {
      const subject = page.selection && options.subject && options.subject(row);
      return Boolean(subject) && page.isSelected(subject.kind, subject.name);
    };
    const mark = () => {
      for (const tr of body.children) {
        const selected = tr.dataset.kind && page.isSelected(tr.dataset.kind, tr.dataset.name);
        if (selected) tr.setAttribute('aria-current', 'true');
        else tr.removeAttribute('aria-current');
      }
    };
    const draw = () => {
      const found = rows.filter((row) => texts.get(row).includes(wanted));
      if (order.key !== null) found.sort((a, b) => (order.descending ? -compare(a, b) : compare(a, b)));
      // What is selected is shown, even if it is further down.
      const below = found.slice(shown).find(isSelected);
      body.replaceChildren(...found.slice(0, shown).map(rowOf), ...(below ? [rowOf(below)] : []));
      body.dataset.below = below ? 'true' : 'false';
      columns.forEach((column, i) => {
        if (column.key === order.key) heads[i].setAttribute('aria-sort', order.descending ? 'descending' : 'ascending');
        else heads[i].removeAttribute('aria-sort');
      });
      const left = found.length - Math.min(shown, found.length);
      count.textContent = left || wanted ? `${page.format.number(Math.min(shown, found.length))} of ${page.format.number(wanted ? found.length : rows.length)} shown` : '';
      more.hidden = !left;
      more.textContent = `Show ${page.format.number(Math.min(left, 10 * most))} more`;
      mark();
    };
    draw();
    page.onSelect(() => {
      const marked = page.selection && [...body.children].some((tr) => page.isSelected(tr.dataset.kind, tr.dataset.name));
      const others = body.dataset.below === 'true' || (!marked && page.selection && rows.some(isSelected));
      (others ? draw : mark)();
    });
    return { draw };
  };

  /** A button that selects something everywhere on the page. */
  page.link = (subject, content) =>
    element('button', { type: 'button', class: 'link', onclick: () => page.select(subject) }, content ?? page.format.short(subject.name, 44));
})();
