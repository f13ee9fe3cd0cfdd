'use strict';
/** Light or dark: as the system says, until the button is pressed; that is remembered where storage is possible. */
(() => {
  const page = girih.page;
  const system = matchMedia('(prefers-color-scheme: dark)');
  const listeners = [];
  const KEY = 'girih-theme';
  let chosen = null;
  try {
    chosen = localStorage.getItem(KEY);
  } catch {
    /* Pages from disk may have no storage. */
  }
  const apply = () => {
    page.theme = chosen || (system.matches ? 'dark' : 'light');
    document.documentElement.dataset.theme = page.theme;
    const button = document.getElementById('theme');
    button.setAttribute('aria-label', `Change to ${page.theme === 'dark' ? 'light' : 'dark'} colours`);
    listeners.forEach((listener) => listener(page.theme));
  };
  page.onTheme = (listener) => listeners.push(listener);
  /** The value of a custom property of page.css, such as "--accent", in the current theme. */
  page.colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  document.getElementById('theme').addEventListener('click', () => {
    chosen = page.theme === 'dark' ? 'light' : 'dark';
    try {
      localStorage.setItem(KEY, chosen);
    } catch {
      /* Not remembered, then. */
    }
    apply();
  });
  system.addEventListener('change', apply);
  apply();
})();
