'use strict';
/** Unpacks the data and draws the sections, from the first to the last; the page can be used in between. */
(async () => {
  const page = girih.page;
  const rest = () => new Promise((resolve) => setTimeout(resolve));
  const data = await page.unpack(document.getElementById('data').textContent);
  page.operators = data.operators;
  page.operator = new Map(data.operators.map((operator) => [operator.name, operator]));
  page.tensors = data.tensors;
  page.selectFromAddress();
  for (const [name, draw] of girih.views) {
    const section = document.getElementById(name);
    await draw(section.querySelector('.body'), data.views[name], page);
    section.dataset.ready = 'true';
    await rest();
  }
  document.documentElement.dataset.ready = 'true';
})();
