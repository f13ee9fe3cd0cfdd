'use strict';
girih.view('verdict', (section, data, page) => {
  section.append(...data.sentences.map((sentence) => page.element('p', {}, sentence)));
});
