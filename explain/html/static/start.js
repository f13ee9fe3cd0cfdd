'use strict';
/** Unpacks the data and draws the sections, from the first to the last; the page can be used in between. */
(async () => {
  const page = girih.page;
  const rest = () => new Promise((resolve) => setTimeout(resolve));
  const data = await page.unpack(document.getElementById('data').textContent);
  for (const name of ['operators', 'tensors', 'segments', 'memories']) page[name] = data[name];
  page.operator = new Map(data.operators.map((operator) => [operator.name, operator]));
  page.tensor = new Map(data.tensors.map((tensor) => [tensor.name, tensor]));
  page.addSearch();
  page.addDetails();
  page.selectFromAddress();
  for (const [name, draw] of girih.views) {
    const section = document.getElementById(name);
    try {
      await draw(section.querySelector('.body'), data.views[name], page);
    } catch (error) {
      // One section that cannot be drawn does not take the others with it.
      section.querySelector('.body').append(page.element('p', { class: 'warning' }, `This section cannot be drawn: ${error.message}`));
      console.error(name, error);
    }
    section.dataset.ready = 'true';
    await rest();
  }
  // Sections have their height only now.
  const target = /^#[a-z]+$/.test(location.hash) && document.querySelector(location.hash);
  if (target) target.scrollIntoView();
  page.drawn = performance.now();
  document.documentElement.dataset.ready = 'true';
})();
