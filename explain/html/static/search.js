'use strict';
/** Finds operators, tensors, segments and memories by parts of their names; "/" leads here. */
(() => {
  const page = girih.page;
  const { element } = page;
  const MOST = 12;

  page.addSearch = () => {
    const subjects = [
      ...page.operators.map((o) => ({ kind: 'operator', name: o.name, more: o.origin.join(' ') })),
      ...page.memories.map((m) => ({ kind: 'memory', name: m.name, more: m.role })),
      ...page.tensors.map((t) => ({ kind: 'tensor', name: t.name, more: '' })),
      ...page.segments.map((s) => ({ kind: 'segment', name: s.name, more: `segment ${s.name}` })),
    ].map((subject) => ({ ...subject, text: `${subject.name} ${subject.more}`.toLowerCase() }));
    const list = element('ul', { id: 'search-list', role: 'listbox', 'aria-label': 'Found', hidden: true });
    const input = element('input', {
      type: 'search', class: 'input', role: 'combobox', placeholder: 'Search  /', 'aria-label': 'Search operators, tensors, segments and memories',
      'aria-expanded': 'false', 'aria-controls': 'search-list', 'aria-autocomplete': 'list', autocomplete: 'off', spellcheck: 'false',
    });
    const status = element('span', { class: 'unseen', role: 'status' });
    document.getElementById('search').append(input, list, status);
    let found = [];
    let active = -1;

    const close = () => {
      list.hidden = true;
      input.setAttribute('aria-expanded', 'false');
      input.removeAttribute('aria-activedescendant');
    };
    const choose = (subject) => {
      close();
      input.value = '';
      input.blur();
      page.select(subject);
    };
    const mark = () => {
      [...list.children].forEach((item, i) => item.setAttribute('aria-selected', String(i === active)));
      if (active >= 0) {
        input.setAttribute('aria-activedescendant', `found-${active}`);
        list.children[active].scrollIntoView({ block: 'nearest' });
      }
    };
    const rank = (subject, wanted) => {
      const name = subject.name.toLowerCase();
      return name === wanted ? 0 : name.startsWith(wanted) ? 1 : name.includes(wanted) ? 2 : 3;
    };
    const show = () => {
      const wanted = input.value.trim().toLowerCase();
      const matching = wanted ? subjects.filter((subject) => subject.text.includes(wanted)) : [];
      found = matching.map((s, i) => [rank(s, wanted), i, s]).sort((a, b) => a[0] - b[0] || a[1] - b[1]).slice(0, MOST).map((entry) => entry[2]);
      active = found.length ? 0 : -1;
      list.replaceChildren(
        ...found.map((subject, i) =>
          element(
            'li',
            { id: `found-${i}`, role: 'option', 'aria-selected': 'false', onmousedown: (event) => (event.preventDefault(), choose(subject)) },
            element('span', { class: 'found-name' }, page.format.short(subject.name, 48)), element('span', { class: 'quiet' }, ` ${subject.kind}`),
          ),
        ),
      );
      list.hidden = !found.length;
      input.setAttribute('aria-expanded', String(!list.hidden));
      status.textContent = wanted ? page.format.plural(matching.length, 'match').replace(/matchs$/, 'matches') : '';
      mark();
    };
    input.addEventListener('input', show);
    input.addEventListener('blur', close);
    input.addEventListener('keydown', (event) => {
      if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
        event.preventDefault();
        if (!found.length) return;
        active = (active + (event.key === 'ArrowDown' ? 1 : found.length - 1)) % found.length;
        mark();
      } else if (event.key === 'Enter' && found[active]) {
        choose(found[active]);
      } else if (event.key === 'Escape') {
        event.stopPropagation();
        input.value = '';
        close();
        input.blur();
      }
    });
    document.addEventListener('keydown', (event) => {
      const typing = event.target.closest('input, textarea, select');
      if (event.key !== '/' || typing || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      input.focus();
    });
  };
})();
