'use strict';
girih.view('verdict', (section, data, page) => {
  const { element, format } = page;
  const figure = (value, name, note) =>
    element('div', { class: 'figure' }, element('strong', {}, value), element('span', {}, name), note ? element('small', { class: 'quiet' }, note) : null);
  section.append(
    ...data.sentences.map((sentence, i) => element('p', { class: i ? 'second' : 'lead' }, sentence)),
    element(
      'div',
      { class: 'figures' },
      figure(format.number(data.cycles), 'cycles', `${format.number(data.predicted)} predicted`),
      figure(data.ratio === null ? '–' : `${data.ratio.toFixed(2)} ×`, 'the lower bound', `of ${format.number(data.bound)} cycles`),
      figure(format.seconds(data.seconds), 'at the clock', data.batch === null ? '' : `${format.number(data.batch / data.seconds)} items a second`),
      figure(format.number(data.operators), data.operators === 1 ? 'operator' : 'operators', `in ${format.plural(data.segments, 'segment')}, ${data.hosts}`),
    ),
  );
  if (data.warnings.length) {
    section.append(element('div', { class: 'warning', role: 'note' }, element('h3', {}, 'Warnings'), element('ul', {}, data.warnings.map((text) => element('li', {}, text)))));
  }
  if (data.steps.length) {
    section.append(
      element('h3', {}, 'Where to look next'),
      element('ol', { class: 'steps' }, data.steps.map((step) => element('li', {}, element('span', {}, step.text), ' ', element('code', {}, step.command)))),
    );
  }
  if (data.losses.length) {
    section.append(element('h3', {}, 'The operators that lose most'), element('ul', {}, data.losses.map((text) => element('li', {}, `${text}.`))));
  }
});
