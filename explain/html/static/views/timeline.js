'use strict';
/** The timeline: slots of the plan, links, and the queues of the program, from the whole run to one instruction. */
girih.view('timeline', async (section, data, page) => {
  const { element, format } = page;
  const run = timelineRun(data);
  const state = { all: false, focus: -1, rows: [], height: 0, faded: null };
  const cores = [...new Set(data.queues.map((queue) => queue.core).filter((core) => core !== null))];
  const busiest = cores.length ? cores.reduce((best, core) => (run.coreBusy(core) > run.coreBusy(best) ? core : best)) : null;

  // Rows, from top to bottom, in pixels.
  const layOut = () => {
    const rows = [];
    let top = 4;
    const add = (row, height, gap = 3) => {
      rows.push({ ...row, top, height });
      top += height + gap;
    };
    const space = () => (top += 9);
    for (const [kind, label] of [['predicted', 'Predicted'], ['simulated', 'Simulated']]) {
      const spans = run[kind];
      const lanes = Math.min(8, spans.lanes);
      for (let lane = 0; lane < lanes; lane++) {
        add({ kind, spans, lane, last: lane === lanes - 1, label: lane ? '' : label }, lanes > 3 ? 10 : 18, 2);
      }
      space();
    }
    data.links.forEach((link, number) => run.links[number].total && add({ kind: 'link', number, label: `${link.name} link` }, 24));
    space();
    const shown = (queue) => queue.core === null || state.all || queue.core === busiest;
    const order = [...data.queues.keys()].sort((a, b) => (data.queues[a].core ?? -1) - (data.queues[b].core ?? -1) || a - b);
    let before = null;
    for (const queue of order) {
      const { engine, core } = data.queues[queue];
      if (!shown(data.queues[queue]) || run.first[queue] === run.first[queue + 1]) continue;
      if (before !== null && before !== core) space();
      before = core;
      add({ kind: 'queue', queue, label: core === null ? engine : `${engine} core ${core}` }, state.all ? 14 : 20);
    }
    state.rows = rows;
    state.height = top + 2;
  };
  layOut();

  // What is above and below the picture.
  const text = (value) => element('span', { class: 'quiet' }, value);
  const fold = element('button', { type: 'button', class: 'button', 'aria-pressed': 'false', onclick: () => unfold(!state.all) }, '');
  const goTo = element('button', { type: 'button', class: 'button', hidden: true, onclick: () => showSelected() }, '');
  const tools = element('div', { class: 'timeline-tools' }, cores.length > 1 ? fold : null, goTo);
  const detail = element('div', { class: 'timeline-detail', 'aria-live': 'polite' });
  const plot = await page.plot(section, {
    label: `Timeline of ${format.number(data.cycles)} cycles: slots of the plan, links and engines. Arrow keys move, + and - zoom, n and p go to the next and previous instruction, Enter selects its operator.`,
    height: state.height + 46,
    x: { start: 0, end: Math.max(1, run.horizon), least: 0, most: Math.max(1, run.horizon), title: 'cycles', format: (value) => format.number(Math.round(value)) },
    y: { start: 0, end: state.height, least: 0, most: state.height, reversed: true, ticks: state.rows.map((row) => row.top + row.height / 2), format: (value) => labelAt(value) },
    zoom: 'x',
    smallest: 12,
  });
  plot.frame.parentElement.querySelector('.plot-buttons').prepend(tools);
  section.append(detail);
  const canvas = element('canvas', { class: 'timeline-canvas', 'aria-hidden': 'true' });
  plot.frame.append(canvas);

  function labelAt(value) {
    const row = state.rows.find((each) => Math.abs(each.top + each.height / 2 - value) < 0.01);
    return row ? row.label : '';
  }
  function unfold(all) {
    state.all = all;
    layOut();
    plot.frame.style.height = `${state.height + 46}px`;
    plot.figure.y_range.setv({ start: state.height, end: 0 });
    plot.figure.left[0].ticker.ticks = state.rows.map((row) => row.top + row.height / 2);
    nameFold();
    draw();
  }
  function nameFold() {
    fold.textContent = state.all ? `Show core ${busiest} only` : `Show all ${cores.length} cores`;
    fold.title = `Core ${busiest} computes most cycles of all`;
    fold.setAttribute('aria-pressed', String(state.all));
  }
  nameFold();

  // Colours: of segments, and shades of them for their operators; a table of all degrees of use.
  const LEVELS = 16;
  const shades = { table: new Uint32Array(0), css: [], ink: '', quiet: '', line: '', select: '', accent: [0, 0, 0] };
  const recolour = () => {
    const rgb = (name) => [1, 3, 5].map((at) => parseInt(page.colour(name).slice(at, at + 2), 16));
    const paper = rgb('--paper');
    const palette = Array.from({ length: 8 }, (_, number) => rgb(`--c${number}`));
    const mixed = (a, b, part) => a.map((value, i) => Math.round(value + (b[i] - value) * part));
    const whole = ([r, g, b]) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
    const count = run.operators.length;
    shades.table = new Uint32Array(count * (LEVELS + 1));
    shades.css = new Array(count);
    shades.faint = new Array(count);
    const position = new Map();
    run.operators.forEach((operator, number) => {
      const place = position.get(operator.segment) ?? 0;
      position.set(operator.segment, place + 1);
      let colour = mixed(palette[((operator.segment % 8) + 8) % 8], paper, (place % 4) * 0.13);
      if (state.faded && !state.faded(number)) colour = mixed(colour, paper, 0.78);
      shades.css[number] = `rgb(${colour.join()})`;
      for (let level = 0; level <= LEVELS; level++) {
        const part = level ? 0.25 + (0.75 * level) / LEVELS : 0;
        shades.table[number * (LEVELS + 1) + level] = whole(mixed(paper, colour, part));
      }
    });
    shades.ink = page.colour('--ink');
    shades.quiet = page.colour('--quiet');
    shades.line = page.colour('--line');
    shades.select = page.colour('--select');
    shades.paper = page.colour('--paper');
    shades.accent = page.colour('--accent');
    shades.soft = page.colour('--accent-soft');
    shades.row = page.colour('--card');
  };

  // Drawing: columns of pixels where instructions are many, rectangles where they are few.
  let cover = new Float32Array(0);
  let most = new Float32Array(0);
  let owner = new Int32Array(0);
  const draw = () => {
    const { left, top, width, height } = plot.view.frame.bbox;
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    const [w, h] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
    if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
    Object.assign(canvas.style, { left: `${left}px`, top: `${top}px`, width: `${width}px`, height: `${height}px` });
    if (cover.length !== w) [cover, most, owner] = [new Float32Array(w), new Float32Array(w), new Int32Array(w)];
    plot.figure.below[0].ticker.desired_num_ticks = Math.max(2, Math.floor(width / 120));
    const context = canvas.getContext('2d');
    context.clearRect(0, 0, w, h);
    const { x0, x1 } = plot.ranges;
    const scale = w / (x1 - x0);
    const vertical = h / state.height;
    const scene = { context, w, x0, x1, scale, ratio };
    for (const row of state.rows) {
      const box = { y: Math.round(row.top * vertical), height: Math.max(2, Math.round(row.height * vertical)) };
      context.fillStyle = shades.row;
      context.fillRect(0, box.y, w, box.height);
      if (row.kind === 'queue') drawQueue(scene, row, box);
      else if (row.kind === 'link') drawLink(scene, row, box);
      else drawSpans(scene, row, box);
    }
    drawFocus(scene, vertical);
  };
  const drawQueue = ({ context, w, x0, x1, scale, ratio }, row, box) => {
    const { start, end, operator } = run;
    const [from, to] = run.within(row.queue, x0, x1);
    if (to - from > w / 4) {
      cover.fill(0);
      most.fill(0);
      for (let i = from; i < to; i++) {
        const a = Math.max(0, (start[i] - x0) * scale);
        const b = Math.min(w, (end[i] - x0) * scale);
        const last = Math.min(w - 1, Math.floor(b));
        for (let column = Math.floor(a); column <= last; column++) {
          const part = Math.min(b, column + 1) - Math.max(a, column);
          cover[column] += part;
          if (part >= most[column]) {
            most[column] = part;
            owner[column] = operator[i];
          }
        }
      }
      const image = context.createImageData(w, 1);
      const pixels = new Uint32Array(image.data.buffer);
      for (let column = 0; column < w; column++) {
        const level = cover[column] > 0 ? Math.max(1, Math.min(LEVELS, Math.round(cover[column] * LEVELS))) : 0;
        if (level) pixels[column] = shades.table[owner[column] * (LEVELS + 1) + level];
      }
      for (let y = 0; y < box.height; y++) context.putImageData(image, 0, box.y + y);
      return;
    }
    context.font = `${11 * ratio}px system-ui, sans-serif`;
    context.textBaseline = 'middle';
    for (let i = from; i < to; i++) {
      const a = Math.max(-2, (start[i] - x0) * scale);
      const b = Math.min(w + 2, (end[i] - x0) * scale);
      context.fillStyle = shades.css[operator[i]];
      context.fillRect(a, box.y, Math.max(1, b - a - (b - a > 4 ? 1 : 0)), box.height);
      if (b - a > 54 * ratio && box.height >= 12 * ratio) label(context, run.classes[run.classOf[i]].mnemonic, operator[i], a, b, box, ratio);
    }
  };
  const label = (context, words, operator, a, b, box, ratio) => {
    const room = Math.floor((b - Math.max(0, a) - 8 * ratio) / (6.2 * ratio));
    if (room < 4) return;
    const faded = state.faded && !state.faded(operator);
    context.save();
    context.fillStyle = faded ? shades.quiet : '#fff';
    if (!faded) {
      context.shadowColor = 'rgb(0 0 0 / 65%)';
      context.shadowBlur = 2 * ratio;
    }
    context.fillText(format.short(words, room), Math.max(0, a) + 4 * ratio, box.y + box.height / 2 + 0.5 * ratio);
    context.restore();
  };
  const drawLink = ({ context, w, x0, scale }, row, box) => {
    const link = run.links[row.number];
    let before = link.moved(x0);
    context.fillStyle = shades.accent;
    for (let column = 0; column < w; column++) {
      const after = link.moved(x0 + (column + 1) / scale);
      const part = Math.min(1, ((after - before) * scale) / data.links[row.number].rate);
      if (part > 0) context.fillRect(column, box.y + box.height * (1 - part), 1, box.height * part);
      before = after;
    }
  };
  const drawSpans = ({ context, w, x0, x1, scale, ratio }, row, box) => {
    const { spans } = row;
    context.font = `${11 * ratio}px system-ui, sans-serif`;
    context.textBaseline = 'middle';
    const from = spans.firstAfter(x0);
    for (let i = from; i < spans.slot.length && spans.start[i] < x1; i++) {
      if (spans.lane[i] !== row.lane && !(row.last && spans.lane[i] > row.lane)) continue;
      const a = Math.max(-2, (spans.start[i] - x0) * scale);
      const b = Math.min(w + 2, (spans.stop[i] - x0) * scale);
      if (b < 0) continue;
      const operator = run.slotOperator[spans.slot[i]];
      context.fillStyle = shades.css[operator];
      context.fillRect(a, box.y, Math.max(1, b - a - (b - a > 4 ? 1 : 0)), box.height);
      if (b - a > 46 * ratio && box.height >= 12 * ratio) label(context, run.operators[operator].name, operator, a, b, box, ratio);
    }
  };
  const rowOf = (instruction) => state.rows.find((row) => row.kind === 'queue' && row.queue === run.queueOf(instruction));
  const drawFocus = ({ context, w, x0, scale, ratio }, vertical) => {
    if (state.focus < 0) return;
    const at = (cycle) => (cycle - x0) * scale;
    const outline = (instruction, colour) => {
      const row = rowOf(instruction);
      if (!row) return null;
      const [a, b] = [at(run.start[instruction]), at(run.end[instruction])];
      context.strokeStyle = colour;
      context.lineWidth = 2 * ratio;
      context.strokeRect(Math.max(-4, a), row.top * vertical, Math.max(3, Math.min(w + 4, b) - Math.max(-4, a)), row.height * vertical);
      return row;
    };
    const row = outline(state.focus, shades.select);
    const releaser = run.releaser[state.focus];
    if (releaser < 0) return;
    const from = outline(releaser, shades.ink);
    if (!row || !from || row === from) return;
    const [sx, sy] = [at(run.end[releaser]), (from.top + from.height / 2) * vertical];
    const [tx, ty] = [at(run.start[state.focus]), (row.top + row.height / 2) * vertical];
    context.beginPath();
    context.moveTo(sx, sy);
    context.bezierCurveTo(sx + 24 * ratio, sy, tx - 24 * ratio, ty, tx, ty);
    context.moveTo(tx - 7 * ratio, ty - 4 * ratio);
    context.lineTo(tx, ty);
    context.lineTo(tx - 7 * ratio, ty + 4 * ratio);
    context.strokeStyle = shades.select;
    context.stroke();
  };

  // What is at a place of the picture.
  const find = (place) => {
    const row = state.rows.find((each) => place.y >= each.top - 1 && place.y <= each.top + each.height + 1);
    if (!row) return null;
    const { x0, x1 } = plot.ranges;
    const slack = ((x1 - x0) / Math.max(1, plot.view.frame.bbox.width)) * 3;
    if (row.kind === 'queue') return { row, instruction: run.nearest(row.queue, place.x, slack) };
    if (row.kind === 'link') return { row };
    const { spans } = row;
    for (let i = spans.firstAfter(place.x - slack); i < spans.slot.length && spans.start[i] <= place.x + slack; i++) {
      if ((spans.lane[i] === row.lane || (row.last && spans.lane[i] > row.lane)) && spans.stop[i] >= place.x - slack) return { row, span: i };
    }
    return null;
  };
  const cycles = (count) => format.plural(count, 'cycle');
  const described = (place) => {
    const found = find(place);
    if (!found) return null;
    if (found.row.kind === 'link') {
      const { x0, x1 } = plot.ranges;
      const pixel = (x1 - x0) / Math.max(1, plot.view.frame.bbox.width);
      const { rate, name } = data.links[found.row.number];
      const moved = run.links[found.row.number].moved(place.x + pixel / 2) - run.links[found.row.number].moved(place.x - pixel / 2);
      return `${name} link: ${format.percent(Math.min(1, moved / pixel / rate))} of ${format.number(rate)} bytes a cycle, around cycle ${format.number(Math.round(place.x))}`;
    }
    if (found.span !== undefined) {
      const { spans } = found.row;
      const slot = spans.slot[found.span];
      const operator = run.operators[run.slotOperator[slot]];
      const [start, stop] = [spans.start[found.span], spans.stop[found.span]];
      return element('div', {}, element('strong', {}, operator.name), element('br'),
        `${found.row.kind}, segment ${operator.segment}, step ${run.slotStep[slot]}`, element('br'),
        `cycles ${format.number(start)} to ${format.number(stop)}, ${format.number(stop - start)} in all`);
    }
    if (found.instruction < 0) return null;
    const i = found.instruction;
    const waited = run.waited(i);
    return element('div', {}, element('strong', {}, run.operators[run.operator[i]].name), element('br'),
      `${run.name(i)}, ${run.classes[run.classOf[i]].mnemonic}`, element('br'),
      `cycles ${format.number(run.start[i])} to ${format.number(run.end[i])}`, element('br'),
      waited ? `started after ${cycles(waited)} of waiting` : 'started as soon as its engine was free');
  };
  plot.hover(described);
  /** Selects; what the panel would tell is told below the picture, which it would hide. */
  const select = (selection) => {
    page.select(selection);
    page.closeDetails();
  };
  plot.click((place) => {
    const found = find(place);
    if (!found) return;
    if (found.span !== undefined) {
      select({ kind: 'operator', name: run.operators[run.slotOperator[found.row.spans.slot[found.span]]].name });
    } else if (found.instruction >= 0) {
      focus(found.instruction);
      select({ kind: 'operator', name: run.operators[run.operator[found.instruction]].name });
    }
  });

  // One instruction.
  const link = (words, act, title) => element('button', { type: 'button', class: 'link', title: title ?? null, onclick: act }, words);
  const focus = (instruction, move = false) => {
    state.focus = instruction;
    if (instruction >= 0 && !rowOf(instruction)) unfold(true);
    describe();
    if (move) reveal(instruction);
    draw();
  };
  const reveal = (instruction) => {
    const { x0, x1 } = plot.ranges;
    const [start, end] = [run.start[instruction], run.end[instruction]];
    const width = x1 - x0;
    const needed = Math.max(12, end - start);
    // Near enough to see it, far enough to see what it waited for.
    const releaser = run.releaser[instruction];
    const since = releaser < 0 ? start : Math.max(run.start[releaser], start - 12 * needed);
    const wanted = Math.min(width, Math.max(needed * 24, (end - since) * 1.3));
    if (start < x0 || end > x1 || needed < width / 60) {
      const middle = (Math.min(since, start) + end) / 2;
      plot.show({ x0: middle - wanted / 2, x1: middle + wanted / 2 });
    }
  };
  const chosenOperator = () => (page.selection && page.selection.kind === 'operator' ? run.number.get(page.selection.name) : undefined);
  /** What the selected operator waited for, as the report says. */
  const summary = () => {
    const number = chosenOperator();
    if (number === undefined) return null;
    const operator = run.operators[number];
    const { account } = operator;
    const longest = run.longestWait(number, busiest);
    const words = account
      ? [`On ${data.bounding}, mean of its instances, it took ${cycles(Math.round(account.cycles))}: ${format.number(Math.round(account.busy))} busy and ${format.number(Math.round(account.cycles - account.busy))} waiting.`]
      : [`It has no instructions on ${data.bounding}, the engine or link that bounds the run.`];
    return element('div', { class: 'timeline-summary' },
      element('h3', { class: 'timeline-heading' }, operator.name),
      element('p', {}, ...words),
      account && account.waits.length ? element('ul', { class: 'timeline-waits' }, account.waits.map(([cause, other, engine, count]) => element('li', {},
        element('strong', {}, format.number(Math.round(count))), ` ${Math.round(count) === 1 ? 'cycle' : 'cycles'}: ${data.causes[cause]}`, text(` (${engine}, for ${other})`)))) : null,
      element('div', { class: 'timeline-steps' },
        element('button', { type: 'button', class: 'button', onclick: () => showSelected() }, 'Zoom to the operator'),
        longest >= 0 ? element('button', { type: 'button', class: 'button', onclick: () => focus(longest, true) }, `Its longest wait: ${cycles(run.waited(longest))}`) : null));
  };
  const describe = () => {
    const about = summary();
    if (state.focus < 0) {
      detail.replaceChildren(...(about ? [about] : []), element('p', { class: 'quiet' }, 'Press an instruction to see what it is and what it waited for; with the keyboard, focus the picture and press n.'));
      return;
    }
    const i = state.focus;
    const kind = run.classes[run.classOf[i]];
    const operator = run.operators[run.operator[i]];
    const [start, end] = [run.start[i], run.end[i]];
    const row = (name, ...values) => [element('dt', {}, name), element('dd', {}, ...values)];
    const slowed = end - start - kind.alone;
    const facts = element('dl', { class: 'timeline-facts' },
      row('Operator', link(operator.name, () => page.select({ kind: 'operator', name: operator.name })), operator.segment < 0 ? '' : text(` segment ${operator.segment}`)),
      operator.nodes.length ? row('ONNX nodes', operator.nodes.slice(0, 6).join(', '), operator.nodes.length > 6 ? ` and ${operator.nodes.length - 6} more` : '') : [],
      row('Time', `cycle ${format.number(start)} to ${format.number(end)}, ${format.number(end - start)} in all`,
        text(slowed > 0 ? ` (${format.number(kind.alone)} alone; ${format.number(slowed)} more by sharing links or banks)` : ' (as long as it takes alone)')),
      kind.bytes ? row('Moves', format.bytes(kind.bytes), text(run.tensor[i] >= 0 ? ' of ' : ''),
        run.tensor[i] >= 0 ? link(data.tensors[run.tensor[i]].name, () => page.select({ kind: 'tensor', name: data.tensors[run.tensor[i]].name })) : '') : [],
      kind.operands.length ? row('Operands', kind.operands.map((operand, n) => element('div', {}, `${operand.name}: ${operand.memory} `,
        element('code', {}, `0x${(run.base(n, i) + operand.low).toString(16)}`), text(` ${format.bytes(operand.high - operand.low)} covered`)))) : [],
      row('Means', text(kind.meaning)));
    const chain = run.attribution(i);
    const waited = run.waited(i);
    const waits = element('div', {},
      element('h3', {}, waited ? `Waited ${cycles(waited)} for these, the last first` : 'Did not wait'),
      waited
        ? element('ol', { class: 'timeline-waits' }, chain.slice(0, 6).map(([node, span, cause]) => element('li', {},
          element('strong', {}, format.number(span)), ` ${span === 1 ? 'cycle' : 'cycles'}: `,
          link(`${run.name(node)} ${run.classes[run.classOf[node]].mnemonic}`, () => focus(node, true), 'Go to this instruction'),
          ' of ', link(run.operators[run.operator[node]].name, () => page.select({ kind: 'operator', name: run.operators[run.operator[node]].name })),
          run.tensor[node] >= 0 ? ` (${data.tensors[run.tensor[node]].name})` : '',
          text(` – ${data.causes[cause] ?? cause}`))),
        chain.length > 6 ? element('li', {}, `and ${chain.length - 6} earlier`) : null)
        : element('p', { class: 'quiet' }, run.releaser[i] < 0 ? 'It could start at once.' : 'Its engine took it as soon as the one before it had ended.'),
      element('div', { class: 'timeline-steps' },
        element('button', { type: 'button', class: 'button', onclick: () => step(-1) }, '← Previous (p)'),
        element('button', { type: 'button', class: 'button', onclick: () => step(1) }, 'Next (n) →'),
        element('button', { type: 'button', class: 'button', onclick: () => { reveal(i); } }, 'Zoom to it')));
    detail.replaceChildren(...(about ? [about] : []),
      element('h3', { class: 'timeline-heading' }, `${run.name(i)} `, element('code', {}, kind.mnemonic)),
      element('div', { class: 'timeline-columns' }, facts, waits));
  };
  /** The next instruction of the selected operator, or else of the queue. */
  const step = (by) => {
    const chosen = chosenOperator();
    const next = state.focus < 0 ? run.firstOf(chosen, plot.ranges.x0, busiest) : run.beside(state.focus, by, chosen);
    if (next >= 0) focus(next, true);
  };
  plot.frame.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === 'n' || event.key === 'p') step(event.key === 'n' ? 1 : -1);
    else if (event.key === 'Enter' && state.focus >= 0) select({ kind: 'operator', name: run.operators[run.operator[state.focus]].name });
    else return;
    event.preventDefault();
  });

  // Selection, here and elsewhere.
  const showSelected = () => {
    const span = run.span(state.faded);
    if (span) {
      const margin = Math.max(4, (span[1] - span[0]) * 0.04);
      plot.show({ x0: span[0] - margin, x1: span[1] + margin });
    }
    section.closest('section').scrollIntoView({ block: 'start' });
  };
  page.showInTimeline = (selection) => {
    page.select(selection);
    showSelected();
  };
  page.onSelect((selection) => {
    const chosen = selection && (selection.kind === 'operator' || selection.kind === 'segment') ? selection : null;
    if (!chosen) state.faded = null;
    else if (chosen.kind === 'operator') state.faded = (number) => run.operators[number].name === chosen.name;
    else state.faded = (number) => String(run.operators[number].segment) === chosen.name;
    const other = state.focus >= 0 && state.faded && !state.faded(run.operator[state.focus]);
    if (other) state.focus = -1;
    goTo.hidden = !chosen;
    goTo.textContent = chosen ? `Zoom to ${chosen.kind === 'segment' ? 'segment ' : ''}${format.short(chosen.name, 32)}` : '';
    describe();
    recolour();
    draw();
  });
  page.onTheme(() => {
    recolour();
    draw();
  });
  plot.onRange(draw);
  new ResizeObserver(() => requestAnimationFrame(draw)).observe(plot.frame);
  /** Where the middle of an instruction is in the picture, in pixels. */
  const placeOf = (instruction) => {
    const row = rowOf(instruction);
    return plot.screen((run.start[instruction] + run.end[instruction]) / 2, row.top + row.height / 2);
  };
  page.timeline = { plot, run, focus, draw, place: placeOf };
});

/** The instructions of the run as columns; see timeline_view.py for how they are coded. */
function timelineRun(data) {
  const columns = data.instructions;
  const { first } = columns;
  const count = columns.gap.length;
  const start = new Float64Array(count);
  const end = new Float64Array(count);
  const index = new Int32Array(count);
  for (let queue = 0; queue + 1 < first.length; queue++) {
    let [time, place] = [0, 0];
    for (let i = first[queue]; i < first[queue + 1]; i++) {
      start[i] = time + columns.gap[i];
      time = end[i] = start[i] + columns.busy[i];
      index[i] = place += columns.index[i];
    }
  }
  const sums = (values) => {
    const result = new Float64Array(values.length);
    for (let i = 0, sum = 0; i < values.length; i++) result[i] = sum += values[i];
    return result;
  };
  const bases = [0, 1, 2, 3].map((n) => sums(columns[`base${n}`]));
  const releaser = new Int32Array(count);
  for (let i = 0; i < count; i++) releaser[i] = columns.releaser[i] ? i - columns.releaser[i] : -1;
  const { classes, operators } = data;
  const operator = columns.operator;
  const classOf = columns.class;
  /** The first of `from <= i < to` with `values[i] > bound`. */
  const above = (values, bound, from, to) => {
    while (from < to) {
      const middle = (from + to) >> 1;
      if (values[middle] > bound) to = middle;
      else from = middle + 1;
    }
    return from;
  };
  const spansOf = ({ slot, start: starts, length, lane }) => {
    const begin = sums(starts);
    const stop = begin.map((value, i) => value + length[i]);
    // The latest end so far tells where those that reach a cycle begin.
    const reach = new Float64Array(stop.length);
    stop.forEach((value, i) => (reach[i] = Math.max(value, i ? reach[i - 1] : 0)));
    return { slot, lane, start: begin, stop, lanes: lane.reduce((a, b) => Math.max(a, b + 1), 0), firstAfter: (cycle) => above(reach, cycle, 0, reach.length) };
  };
  const [predicted, simulated] = [spansOf(data.predicted), spansOf(data.simulated)];
  /** Bytes that crossed a link before a cycle: each transfer's evenly, from the end of its issue to its own end. */
  const links = data.links.map((_, number) => {
    const bytesOf = classes.map((each) => each.links.filter(([link]) => link === number).reduce((sum, [, bytes]) => sum + bytes, 0));
    const events = [];
    let total = 0;
    for (let i = 0; i < count; i++) {
      const bytes = bytesOf[classOf[i]];
      if (!bytes) continue;
      total += bytes;
      const begin = start[i] + classes[classOf[i]].issue;
      const rate = bytes / Math.max(1, end[i] - begin);
      events.push([begin, rate], [Math.max(begin + 1, end[i]), -rate]);
    }
    events.sort((a, b) => a[0] - b[0]);
    const times = new Float64Array(events.length);
    const moved = new Float64Array(events.length);
    const rates = new Float64Array(events.length);
    for (let i = 0, rate = 0, sum = 0; i < events.length; i++) {
      if (i) sum += rate * (events[i][0] - events[i - 1][0]);
      rate += events[i][1];
      [times[i], moved[i], rates[i]] = [events[i][0], sum, rate];
    }
    return {
      total,
      moved: (cycle) => {
        const at = above(times, cycle, 0, times.length) - 1;
        return at < 0 ? 0 : moved[at] + rates[at] * (cycle - times[at]);
      },
    };
  });
  const queueOf = (i) => above(first, i, 0, first.length) - 1;
  const busy = data.queues.map((_, queue) => {
    let sum = 0;
    for (let i = first[queue]; i < first[queue + 1]; i++) sum += end[i] - start[i];
    return sum;
  });
  const compute = new Set(data.engines.filter((e) => e.classes.includes('matrix') || e.classes.includes('vector')).map((e) => e.name));
  const waited = (i) => {
    const queue = queueOf(i);
    return start[i] - (i > first[queue] ? end[i - 1] : 0);
  };
  const causeOf = (node, core) => {
    const { cause } = classes[classOf[node]];
    if (cause === 'compute') return core !== null && data.queues[queueOf(node)].core === core ? 'engine' : 'cores';
    if (cause === 'fetch') return columns.tensor[node] && data.tensors[columns.tensor[node] - 1].constant ? 'fetch_weights' : 'fetch_data';
    return cause;
  };
  return {
    first, start, end, index, operator, classOf, classes, operators, releaser, predicted, simulated, links, busy, queueOf, waited,
    tensor: Int32Array.from(columns.tensor, (number) => number - 1),
    number: new Map(operators.map((each, number) => [each.name, number])),
    slotOperator: data.slots.operator,
    slotStep: data.slots.step,
    horizon: Math.max(data.cycles, predicted.stop.reduce((a, b) => Math.max(a, b), 0)),
    base: (operand, i) => bases[operand][i],
    name: (i) => {
      const { engine, core } = data.queues[queueOf(i)];
      return `${engine}${core === null ? '' : core} #${index[i]}`;
    },
    coreBusy: (core) => data.queues.reduce((sum, queue, number) => sum + (queue.core === core && compute.has(queue.engine) ? busy[number] : 0), 0),
    /** The instructions of a queue that run between two cycles, half-open. */
    within: (queue, x0, x1) => [above(end, x0, first[queue], first[queue + 1]), above(start, x1, first[queue], first[queue + 1])],
    nearest: (queue, cycle, slack) => {
      const i = above(end, cycle, first[queue], first[queue + 1]);
      if (i < first[queue + 1] && start[i] <= cycle) return i;
      const before = i > first[queue] ? cycle - end[i - 1] : Infinity;
      const after = i < first[queue + 1] ? start[i] - cycle : Infinity;
      return Math.min(before, after) > slack ? -1 : before < after ? i - 1 : i;
    },
    /** [instruction, cycles, cause]: what the idle cycles before an instruction are attributed to, the latest first. */
    attribution: (i) => {
      const core = data.queues[queueOf(i)].core;
      const since = start[i] - waited(i);
      const spans = [];
      for (let node = releaser[i], until = start[i]; node >= 0 && until > since; node = releaser[node]) {
        const begin = Math.max(start[node], since);
        if (begin < until) {
          spans.push([node, until - begin, causeOf(node, core)]);
          until = begin;
        }
      }
      return spans;
    },
    /** The next instruction (`by` 1, -1): of an operator in the order of starts, or of the queue. */
    beside: (i, by, wanted) => {
      if (wanted === undefined) {
        const queue = queueOf(i);
        const next = i + by;
        return next >= first[queue] && next < first[queue + 1] ? next : -1;
      }
      let best = -1;
      for (let other = 0; other < count; other++) {
        if (operator[other] !== wanted || other === i) continue;
        const later = start[other] - start[i] || other - i;
        if (later * by <= 0) continue;
        if (best < 0 || (start[other] - start[best] || other - best) * by < 0) best = other;
      }
      return best;
    },
    /** The instruction of an operator that waited longest: on the bounding engine, or else a compute engine, of a core if it can be. */
    longestWait: (wanted, core) => {
      let [best, rank, most] = [-1, -1, 0];
      for (let queue = 0; queue + 1 < first.length; queue++) {
        const { engine, core: own } = data.queues[queue];
        const mine = (engine === data.bounding ? 4 : compute.has(engine) ? 2 : 0) + (own === core);
        for (let i = first[queue]; i < first[queue + 1]; i++) {
          if (operator[i] !== wanted) continue;
          const wait = start[i] - (i > first[queue] ? end[i - 1] : 0);
          if (wait > 0 && (mine > rank || (mine === rank && wait > most))) [best, rank, most] = [i, mine, wait];
        }
      }
      return best;
    },
    firstOf: (wanted, since, core) => {
      let best = -1;
      for (let i = 0; i < count; i++) {
        if (start[i] < since || (wanted !== undefined && operator[i] !== wanted)) continue;
        if (wanted === undefined && data.queues[queueOf(i)].core !== core) continue;
        if (best < 0 || start[i] < start[best]) best = i;
      }
      return best;
    },
    /** From the first to the last cycle of the operators that pass. */
    span: (passes) => {
      if (!passes) return null;
      let [low, high] = [Infinity, -Infinity];
      for (let i = 0; i < count; i++) {
        if (!passes(operator[i])) continue;
        low = Math.min(low, start[i]);
        high = Math.max(high, end[i]);
      }
      return low < high ? [low, high] : null;
    },
  };
}
