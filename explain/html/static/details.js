'use strict';
/** The panel that tells all about what is selected. Escape closes it. */
(() => {
  const page = girih.page;
  const { element, format } = page;
  const WAITS = {
    fetch_weights: 'weights of', fetch_data: 'data for', load_weights: 'weights, loaded for', load_data: 'data, loaded for',
    store: 'results stored by', spill: 'results spilled by', engine: 'own engine, busy with', cores: 'other cores, busy with', host: 'the host or scalar engine, busy with',
  };

  const list = (pairs) =>
    element('dl', {}, pairs.filter(([, value]) => value !== null && value !== '').flatMap(([name, value]) => [element('dt', {}, name), element('dd', {}, value)]));
  const links = (kind, names, most = 12) => {
    const shown = names.slice(0, most).map((name) => element('li', {}, page.link({ kind, name }, format.short(name, 38))));
    if (names.length > most) shown.push(element('li', { class: 'quiet' }, `and ${format.number(names.length - most)} more`));
    return names.length ? element('ul', { class: 'plain' }, shown) : '–';
  };
  const segmentLink = (name) => page.link({ kind: 'segment', name }, `segment ${name}`);

  const describe = {
    operator(name) {
      const o = page.operator.get(name);
      if (!o) return null;
      return [
        o.host ? element('p', {}, `Runs on ${o.engine === "scalar" ? "the scalar engine" : "the host"}: ${o.host}`) : null,
        o.losses ? element('p', {}, `Of its cycles, ${o.losses}.`) : null,
        list([
          ['cycles of the run', format.number(Math.round(o.cycles))], ['of them lost', `${format.number(Math.round(o.lost))} (${format.percent(o.lost, o.cycles)})`],
          ['cycles predicted', format.number(o.predicted)], ['limited by', o.limit || '–'], ['engine', o.engine || '–'], ['in', segmentLink(o.segment)],
          ['result', format.extents(o.shape)], ['tile of the result', format.extents(o.tile)], ['tile of the reduction', format.extents(o.reduce)],
          ['versions of buffers', o.depth ? `${o.depth}${o.weight_depth ? `, of weights ${o.weight_depth}` : ''}` : '–'],
          ['multiply-accumulates', format.number(o.macs)], ['element operations', format.number(o.elements)],
          ['bytes over links', element('ul', { class: 'plain' }, Object.entries(o.links).map(([link, bytes]) => element('li', {}, `${link}: ${format.bytes(bytes)}`)))],
          ['waits for', o.waits.length
            ? element('ul', { class: 'plain' }, o.waits.map(([cause, op, engine, cycles]) =>
                element('li', {}, `${format.number(Math.round(cycles))} cycles: ${WAITS[cause] || cause} `, page.link({ kind: 'operator', name: op }, format.short(op, 30)), ` on ${engine}`)))
            : 'nothing'],
          ['reads', links('tensor', o.inputs)], ['writes', links('tensor', o.outputs)], ['ONNX nodes', o.origin.map((n) => format.short(n, 48)).join(', ')],
        ]),
      ];
    },
    tensor(name) {
      const t = page.tensor.get(name);
      if (!t) return null;
      return [
        t.reason ? element('p', {}, `Moved to or from main memory: ${t.reason}.`) : element('p', {}, 'It is never moved to or from main memory.'),
        list([
          ['kind', t.kind], ['shape', format.extents(t.shape)], ['type', t.dtype], ['size', format.bytes(t.bytes)],
          ['fetched', format.bytes(t.fetched)], ['stored', format.bytes(t.stored)], ['by the host', t.by_host ? format.bytes(t.by_host) : ''],
          ['made by', t.producer ? links('operator', [t.producer]) : '–'], ['read by', links('operator', t.readers)],
        ]),
      ];
    },
    segment(name) {
      const s = page.segments.find((row) => row.name === name);
      if (!s) return null;
      return [
        list([
          ['from', page.link({ kind: 'operator', name: s.first })], ['to', page.link({ kind: 'operator', name: s.last })], ['operators', format.number(s.operators)],
          ['instances', s.instances], ['cores', `${s.cores}, ${s.cores_used} used`], ['cycles predicted', `${format.number(s.cycles)} (${format.percent(s.share)})`],
          ['waits before it', format.number(s.waits)], ['limited by', `${s.limit}, ${format.number(s.limit_cycles)} cycles alone`],
          ['contains', links('operator', page.operators.filter((o) => String(o.segment) === name).map((o) => o.name), 60)],
        ]),
        element('p', { class: 'quiet' }, 'Splits are parts@dimension of the last operator’s result.'),
      ];
    },
    memory(name) {
      const m = page.memories.find((row) => row.name === name);
      if (!m) return null;
      return [
        list([
          ['role', m.role], ['capacity', format.bytes(m.capacity)], ['peak', `${format.bytes(m.peak)} (${format.percent(m.peak, m.capacity)})`],
          ['activations, at most', format.bytes(m.activations)], ['constants, at most', format.bytes(m.constants)],
          ['peak at', m.at || '–'], ['highest address', format.bytes(m.extent)], ['buffers', format.number(m.buffers)],
        ]),
      ];
    },
  };

  /** Buttons that lead to the pictures that show the selection over time. */
  const places = (selection) => {
    // Sections that add these functions are drawn later than this.
    const show = (where) => {
      page[where](selection);
      page.closeDetails();
    };
    const button = (words, where) => element('button', { type: 'button', class: 'button', onclick: () => show(where) }, words);
    return element('p', { class: 'panel-places' },
      ['operator', 'segment'].includes(selection.kind) ? button('Show in the timeline', 'showInTimeline') : null,
      ['tensor', 'memory'].includes(selection.kind) ? button('Show in the memory map', 'showInMemory') : null);
  };

  page.addDetails = () => {
    const title = element('h2', { tabindex: '-1' });
    const kind = element('p', { class: 'quiet panel-kind' });
    const content = element('div', { class: 'panel-content', tabindex: '0', role: 'region', 'aria-label': 'Details' });
    const close = element('button', { type: 'button', class: 'button', 'aria-label': 'Close details', onclick: () => page.select(null) }, '✕');
    const panel = element('aside', { id: 'details', class: 'panel', 'aria-label': 'What is selected', 'aria-live': 'polite', hidden: true },
      element('div', { class: 'panel-head' }, element('div', {}, kind, title), close), content);
    document.body.append(panel);
    /** Hides the panel; what is selected stays so. */
    page.closeDetails = () => (panel.hidden = true);
    page.onSelect((selection) => {
      const told = selection && describe[selection.kind] && describe[selection.kind](selection.name);
      panel.hidden = !selection;
      if (!selection) return;
      kind.textContent = selection.kind;
      title.textContent = selection.name;
      content.replaceChildren(...(told ? [places(selection)] : []), ...(told || [element('p', {}, `This report has no ${selection.kind} of that name.`)]).filter(Boolean));
      content.scrollTop = 0;
    });
    document.addEventListener('keydown', (event) => event.key === 'Escape' && page.select(null));
  };
})();
