'use strict';
/** What is selected on the page: one operator, tensor, segment or memory, which the address names, too. */
(() => {
  const KINDS = ['operator', 'tensor', 'segment', 'memory'];
  const page = girih.page;
  const listeners = [];
  page.selection = null;

  const fromAddress = () => {
    const [kind, ...rest] = location.hash.slice(1).split('=');
    if (!KINDS.includes(kind) || !rest.length) return null;
    try {
      return { kind, name: decodeURIComponent(rest.join('=')) };
    } catch {
      return null;
    }
  };
  const same = (a, b) => a === b || (a && b && a.kind === b.kind && a.name === b.name);
  const tell = () => listeners.forEach((listener) => listener(page.selection));

  /** Select, everywhere on the page; `null` selects nothing. */
  page.select = (selection) => {
    const chosen = selection && { kind: selection.kind, name: String(selection.name) };
    if (same(chosen, page.selection)) return;
    page.selection = chosen;
    const hash = chosen ? `#${chosen.kind}=${encodeURIComponent(chosen.name)}` : ' ';
    // A file's address may not be allowed to change; the selection holds without it.
    try {
      history.replaceState(null, '', chosen ? hash : location.pathname + location.search);
    } catch {
      /* empty */
    }
    tell();
  };
  page.isSelected = (kind, name) => same({ kind, name: String(name) }, page.selection);
  page.onSelect = (listener) => {
    listeners.push(listener);
    listener(page.selection);
  };
  page.selectFromAddress = () => {
    page.selection = fromAddress() || page.selection;
    tell();
  };
  window.addEventListener('hashchange', () => fromAddress() && page.selectFromAddress());
})();
