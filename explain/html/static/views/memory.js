'use strict';
/** Memory maps: buffers by address and cycle, the bytes in use, and the load of the banks. */
girih.view('memory', async (section, data, page) => {
  const { element, format } = page;
  const COLOURS = { activation: '--c0', constant: '--c3', 'input or output': '--c2', scratch: '--c6' };
  const CURVE = 64;
  const MAP = 330;
  const memories = data.memories.map((memory) => memoryRun(memory, data));
  const fullest = memories.reduce((best, each) => (each.role !== 'main' && each.peak.share > best.peak.share ? each : best), memories.find((each) => each.role === 'shared') ?? memories[0]);
  const state = { memory: memories.find((each) => each.role === 'shared') ?? fullest, core: 0, hidden: new Set(), chosen: -1, tensor: null, touched: null };
  const used = (memory) => memory.buffers.name.length > 0;

  const tabs = element('div', { class: 'memory-tabs', role: 'group', 'aria-label': 'Memory' });
  const buttons = memories.filter(used).map((memory) => {
    const button = element('button', { type: 'button', class: 'button', onclick: () => {
      page.select({ kind: 'memory', name: memory.name });
      page.closeDetails();
    } },
      memory.name, element('span', { class: 'quiet' }, ` ${memory.role}, ${format.percent(memory.peak.share)}`));
    tabs.append(button);
    return [memory, button];
  });
  const coreChoice = element('select', { 'aria-label': 'Core', class: 'button', onchange: () => { state.core = Number(coreChoice.value); show(); } },
    Array.from({ length: data.cores }, (_, core) => element('option', { value: String(core) }, `Core ${core}`)));
  const filters = element('div', { class: 'memory-filters', role: 'group', 'aria-label': 'What is shown' });
  const filterButtons = data.roles.map((role, number) => {
    const button = element('button', { type: 'button', class: 'button', onclick: () => {
      if (state.hidden.has(number)) state.hidden.delete(number);
      else state.hidden.add(number);
      show();
    } }, element('span', { class: 'swatch', 'data-role': role }), element('span', {}, role === 'input or output' ? 'inputs, outputs' : role === 'scratch' ? 'scratch' : `${role}s`));
    button.firstChild.style.background = `var(${COLOURS[role]})`;
    filters.append(button);
    return button;
  });
  const follow = element('button', { type: 'button', class: 'button', onclick: () => {
    const { x0, x1 } = page.timeline.plot.ranges;
    plot.show({ x0, x1 });
  } }, 'Cycles of the timeline');
  const toPeak = element('button', { type: 'button', class: 'button', onclick: () => {
    const [begin, end] = state.memory.peak.cycles;
    if (begin !== undefined) plot.show({ x0: begin - (end - begin) * 2, x1: end + (end - begin) * 2 });
  } }, 'Zoom to the peak');
  const note = element('p', { class: 'quiet memory-note' });
  section.append(tabs);

  // The picture: pixels downwards, first the curve, then the map, then the banks.
  const bankHeight = (memory) => Math.max(4, Math.min(12, Math.floor(96 / memory.banks)));
  const geometry = () => {
    const { memory } = state;
    const map = CURVE + 14;
    const banks = map + MAP + 12;
    // What is never used at the top is left out where it would be most of the picture.
    const most = memory.role === 'main' ? memory.extent : memory.extent < 0.7 * memory.capacity ? memory.extent * 1.1 : memory.capacity;
    // Bank 0 is below, as address 0 is.
    const bank = (number) => banks + (memory.banks - 1 - number) * bankHeight(memory);
    return { map, banks, bank, height: banks + memory.banks * bankHeight(memory) + 2, y: (address) => map + MAP * (1 - address / Math.max(1, most)), most };
  };
  let place = geometry();
  const ticks = () => {
    const step = 2 ** Math.ceil(Math.log2(Math.max(1, place.most) / 5));
    const rows = [[CURVE, '0 B in use'], [4, format.bytes(place.most)]];
    for (let address = 0; address <= place.most * 1.001; address += step) rows.push([place.y(address), `0x${Math.round(address).toString(16)}`]);
    const height = bankHeight(state.memory);
    const { banks } = state.memory;
    if (banks === 1) rows.push([place.banks + height / 2, 'load']);
    else for (const bank of banks > 8 ? [0, banks - 1] : [...Array(banks).keys()]) rows.push([place.bank(bank) + height / 2, `bank ${bank}`]);
    return rows;
  };
  let labels = ticks();
  const plot = await page.plot(section, {
    label: 'Memory map: buffers by address and cycle. Arrow keys move, + and - zoom; the largest buffers are in the table below.',
    height: place.height + 46,
    x: { start: 0, end: Math.max(1, data.cycles), title: 'cycles', format: (value) => format.number(Math.round(value)) },
    y: { start: 0, end: place.height, least: 0, most: place.height, reversed: true, ticks: labels.map(([at]) => at), format: (value) => (labels.find(([at]) => Math.abs(at - value) < 0.01) ?? [0, ''])[1] },
    zoom: 'x',
    smallest: 20,
  });
  const canvas = element('canvas', { class: 'timeline-canvas', 'aria-hidden': 'true' });
  plot.frame.append(canvas);
  plot.frame.parentElement.querySelector('.plot-buttons').prepend(element('div', { class: 'memory-tools' }, coreChoice, filters, toPeak, page.timeline ? follow : null));
  const below = element('div', { class: 'memory-below' });
  section.append(note, below);

  const visible = (memory, i) => !state.hidden.has(memory.roleOf(i));
  const isChosen = (memory, i) => {
    if (state.chosen >= 0) return i === state.chosen;
    if (state.tensor !== null) return memory.nameOf(i) === state.tensor;
    return state.touched !== null && state.touched.has(memory.numberOf(i));
  };

  const draw = () => {
    const { memory } = state;
    const { left, top, width, height } = plot.view.frame.bbox;
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    const [w, h] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
    if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
    Object.assign(canvas.style, { left: `${left}px`, top: `${top}px`, width: `${width}px`, height: `${height}px` });
    plot.figure.below[0].ticker.desired_num_ticks = Math.max(2, Math.floor(width / 120));
    const context = canvas.getContext('2d');
    context.clearRect(0, 0, w, h);
    const { x0, x1 } = plot.ranges;
    const at = (cycle) => ((cycle - x0) / (x1 - x0)) * w;
    const vertical = h / place.height;
    const colour = Object.fromEntries(data.roles.map((role) => [role, page.colour(COLOURS[role])]));
    const [ink, paper, card, quiet, select, warn] = ['--ink', '--paper', '--card', '--quiet', '--select', '--warn'].map(page.colour);
    // The map.
    context.fillStyle = card;
    context.fillRect(0, place.map * vertical, w, MAP * vertical);
    if (memory.banks > 1 && !memory.interleave) {
      context.strokeStyle = page.colour('--line');
      context.lineWidth = 1;
      for (let bank = 1; bank < memory.banks; bank++) {
        const y = Math.round(place.y((bank * memory.capacity) / memory.banks) * vertical) + 0.5;
        context.beginPath();
        context.moveTo(0, y);
        context.lineTo(w, y);
        context.stroke();
      }
    }
    const [from, to] = memory.rowsOf(state.core);
    const anyChosen = state.chosen >= 0 || state.tensor !== null || state.touched !== null;
    context.textBaseline = 'middle';
    context.font = `${11 * ratio}px system-ui, sans-serif`;
    for (let i = from; i < to; i++) {
      if (!visible(memory, i)) continue;
      const a = Math.max(-3, at(memory.begin[i]));
      const b = Math.min(w + 3, at(memory.end[i]));
      if (b < 0 || a > w) continue;
      const y = place.y(memory.high(i)) * vertical;
      const tall = Math.max(1, place.y(memory.low(i)) * vertical - y);
      const wide = Math.max(1, b - a);
      const chosen = isChosen(memory, i);
      const buffer = memory.buffer[i];
      context.globalAlpha = chosen ? 1 : anyChosen ? 0.22 : 0.82;
      context.fillStyle = colour[data.roles[memory.roleOf(i)]];
      context.fillRect(a, y, wide, tall);
      const fetched = memory.fetch.get(buffer);
      if (fetched) {
        // While it is fetched, its contents are not all there.
        const arrived = Math.min(w, at(fetched[1]));
        context.fillStyle = card;
        context.globalAlpha *= 0.55;
        if (arrived - a > 1) context.fillRect(a, y, arrived - a, tall);
        context.globalAlpha = chosen ? 1 : anyChosen ? 0.22 : 0.82;
      }
      if (memory.buffers.ring[buffer] && wide > 3 && tall > 3) hatch(context, a, y, wide, tall, card, ratio);
      if (wide > 3 && tall > 3) {
        context.strokeStyle = card;
        context.lineWidth = 1;
        context.strokeRect(a + 0.5, y + 0.5, wide - 1, tall - 1);
      }
      if (wide > 10 * ratio && tall > 8 * ratio) {
        context.fillStyle = ink;
        if (fetched) triangle(context, Math.max(0, a) + 5 * ratio, y + 5 * ratio, ratio, 1);
        const stored = memory.store.get(buffer);
        if (stored) triangle(context, Math.min(w - 4, Math.max(4, at(stored[0]))), y + 5 * ratio, ratio, -1);
      }
      if (chosen) {
        context.strokeStyle = select;
        context.lineWidth = 2 * ratio;
        context.strokeRect(a, y, Math.max(3, wide), tall);
      }
      const room = Math.floor((b - Math.max(0, a) - 20 * ratio) / (6.4 * ratio));
      if (room >= 5 && tall > 13 * ratio) {
        context.globalAlpha = anyChosen && !chosen ? 0.5 : 1;
        context.fillStyle = anyChosen && !chosen ? quiet : '#fff';
        context.shadowColor = 'rgb(0 0 0 / 70%)';
        context.shadowBlur = anyChosen && !chosen ? 0 : 2 * ratio;
        context.fillText(format.short(memory.nameOf(i), room), Math.max(0, a) + 13 * ratio, y + tall / 2);
        context.shadowBlur = 0;
      }
      context.globalAlpha = 1;
    }
    // Bytes in use.
    const full = place.most;
    const level = memory.levels[memory.scope === 'core' ? state.core : 0];
    const curve = (bytes) => (CURVE - (CURVE - 4) * Math.min(1, bytes / Math.max(1, full))) * vertical;
    context.fillStyle = page.colour('--accent');
    for (let column = 0; column < w; column++) {
      const bytes = level.most(x0 + (column / w) * (x1 - x0), x0 + ((column + 1) / w) * (x1 - x0));
      context.fillRect(column, curve(bytes), 1, CURVE * vertical - curve(bytes));
    }
    // The plan's peak.
    const [begin, end] = memory.peak.cycles;
    if (memory.peak.bytes) {
      const y = curve(memory.peak.bytes);
      context.strokeStyle = select;
      context.lineWidth = ratio;
      context.setLineDash([5 * ratio, 4 * ratio]);
      context.beginPath();
      context.moveTo(0, y);
      context.lineTo(w, y);
      context.stroke();
      context.setLineDash([]);
      if (begin !== undefined) {
        context.fillStyle = select;
        context.globalAlpha = 0.13;
        context.fillRect(at(begin), 0, Math.max(2, at(end) - at(begin)), (place.map + MAP) * vertical);
        context.globalAlpha = 1;
        context.fillRect(Math.round(at((begin + end) / 2)), 0, ratio, (place.map + MAP) * vertical);
        const words = `peak ${format.bytes(memory.peak.bytes)}`;
        const wide = context.measureText(words).width;
        const x = Math.max(2, Math.min(w - wide - 8 * ratio, at((begin + end) / 2) + 5 * ratio));
        context.fillStyle = paper;
        context.fillRect(x - 2 * ratio, y + 2 * ratio, wide + 5 * ratio, 15 * ratio);
        context.fillStyle = select;
        context.fillText(words, x, y + 10 * ratio);
      }
    }
    // Banks.
    const tall = bankHeight(memory);
    for (let bank = 0; bank < memory.banks; bank++) {
      const y = place.bank(bank) * vertical;
      context.fillStyle = card;
      context.fillRect(0, y, w, (tall - 1) * vertical);
      const first = Math.max(0, Math.floor((x0 / data.cycles) * data.bins));
      for (let bin = first; bin < data.bins && (bin * data.cycles) / data.bins < x1; bin++) {
        const [load, overload] = memory.load(state.core, bank, bin);
        if (!load && !overload) continue;
        const a = Math.round(at((bin * data.cycles) / data.bins));
        const b = Math.max(a + 1, Math.round(at(((bin + 1) * data.cycles) / data.bins)));
        context.globalAlpha = 0.06 + 0.94 * Math.min(1, load);
        context.fillStyle = warn;
        context.fillRect(a, y, b - a, (tall - 1) * vertical);
        if (overload) {
          context.globalAlpha = 0.25 + 0.75 * Math.min(1, overload * 4);
          context.fillStyle = select;
          context.fillRect(a, y, b - a, (tall - 1) * vertical);
        }
      }
      context.globalAlpha = 1;
    }
  };
  const hatch = (context, x, y, width, height, colour, ratio) => {
    context.save();
    context.beginPath();
    context.rect(x, y, width, height);
    context.clip();
    context.strokeStyle = colour;
    context.lineWidth = 1.5 * ratio;
    context.beginPath();
    for (let at = x - height; at < x + width; at += 7 * ratio) {
      context.moveTo(at, y + height);
      context.lineTo(at + height, y);
    }
    context.stroke();
    context.restore();
  };
  const triangle = (context, x, y, ratio, down) => {
    context.beginPath();
    context.moveTo(x - 3.5 * ratio, y - 3 * ratio * down);
    context.lineTo(x + 3.5 * ratio, y - 3 * ratio * down);
    context.lineTo(x, y + 3.5 * ratio * down);
    context.fill();
  };

  // What is at a place.
  const find = (at) => {
    const { memory } = state;
    if (at.y < place.map || at.y > place.map + MAP) return -1;
    const address = (1 - (at.y - place.map) / MAP) * place.most;
    const { x0, x1 } = plot.ranges;
    const slack = ((x1 - x0) / Math.max(1, plot.view.frame.bbox.width)) * 2;
    const thin = place.most / MAP;
    const [from, to] = memory.rowsOf(state.core);
    let best = -1;
    let off = Infinity;
    for (let i = from; i < to; i++) {
      if (!visible(memory, i) || memory.begin[i] > at.x + slack || memory.end[i] < at.x - slack) continue;
      const distance = Math.max(0, memory.low(i) - address, address - memory.high(i));
      if (distance > 1.5 * thin) continue;
      const score = distance + (memory.high(i) - memory.low(i)) * 1e-6;
      if (score < off) [best, off] = [i, score];
    }
    return best;
  };
  const describe = (i) => {
    const { memory } = state;
    const buffer = memory.buffer[i];
    const lines = [`${data.roles[memory.roleOf(i)]}${memory.buffers.depth[buffer] > 1 ? `, version ${memory.version[i] + 1} of ${memory.buffers.depth[buffer]}` : ''}${memory.buffers.ring[buffer] ? ', in a circular buffer' : ''}`,
      `${format.bytes(memory.high(i) - memory.low(i))} from 0x${memory.low(i).toString(16)} on`,
      `in use from cycle ${format.number(memory.begin[i])} to ${format.number(memory.end[i])}`];
    if (memory.scope === 'core') lines.push(`core ${memory.core[i]}, segment ${memory.buffers.segment[buffer]}, step ${memory.step[i]}`);
    else lines.push(`lives in slots ${memory.buffers.first[buffer]} to ${memory.buffers.last[buffer] - 1} of the plan`);
    const [fetched, stored] = [memory.fetch.get(buffer), memory.store.get(buffer)];
    if (fetched) lines.push(`▼ fetched from main memory in cycles ${format.number(fetched[0])} to ${format.number(fetched[1])}`);
    if (stored) lines.push(`▲ stored in main memory in cycles ${format.number(stored[0])} to ${format.number(stored[1])}`);
    return element('div', {}, element('strong', {}, memory.nameOf(i)), lines.map((line) => element('div', {}, line)));
  };
  plot.hover((at) => {
    if (at.y >= place.banks) {
      const bank = Math.max(0, state.memory.banks - 1 - Math.floor((at.y - place.banks) / bankHeight(state.memory)));
      const bin = Math.max(0, Math.min(data.bins - 1, Math.floor((at.x / data.cycles) * data.bins)));
      const [load, overload] = state.memory.load(state.core, bank, bin);
      const width = data.cycles / data.bins;
      return `bank ${bank}, cycles ${format.number(Math.round(bin * width))} to ${format.number(Math.round((bin + 1) * width))}: ${format.percent(load)} of its ${format.number(state.memory.served)} bytes a cycle used` +
        (overload ? `; more was asked for in ${format.percent(overload)} of these cycles` : '');
    }
    if (at.y <= CURVE) {
      const level = state.memory.levels[state.memory.scope === 'core' ? state.core : 0];
      return `${format.bytes(level.most(at.x, at.x))} in use in cycle ${format.number(Math.round(at.x))}`;
    }
    const i = find(at);
    return i < 0 ? null : describe(i);
  });
  plot.click((at) => {
    const i = find(at);
    if (i >= 0) choose(i);
  });
  /** n and p: the next and the previous buffer of the selected tensor, or of all, in the order of their begins. */
  plot.frame.addEventListener('keydown', (event) => {
    if ((event.key !== 'n' && event.key !== 'p') || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const { memory } = state;
    const [from, to] = memory.rowsOf(state.core);
    const order = Array.from({ length: to - from }, (_, i) => from + i)
      .filter((i) => visible(memory, i) && (state.tensor === null || memory.nameOf(i) === state.tensor))
      .sort((a, b) => memory.begin[a] - memory.begin[b] || a - b);
    const at = order.indexOf(state.chosen);
    const next = order[at < 0 ? 0 : at + (event.key === 'n' ? 1 : -1)];
    if (next !== undefined) choose(next);
  });
  const choose = (i) => {
    const name = state.memory.nameOf(i);
    if (page.tensors.some((tensor) => (tensor.name ?? tensor) === name)) {
      page.select({ kind: 'tensor', name });
      page.closeDetails();
    }
    state.chosen = i;
    renderBelow();
    draw();
  };

  /** Goes to a memory, or to the first buffer of a tensor. */
  page.showInMemory = (selection) => {
    page.select(selection);
    const { memory } = state;
    const [from, to] = memory.rowsOf(state.core);
    let first = -1;
    for (let i = from; i < to && selection.kind === 'tensor'; i++) {
      if (memory.nameOf(i) === selection.name && (first < 0 || memory.begin[i] < memory.begin[first])) first = i;
    }
    if (first >= 0) jump(memory.buffer[first]);
    section.closest('section').scrollIntoView({ block: 'start' });
  };

  const renderBelow = () => {
    const { memory } = state;
    const { buffers, peak, at } = memory;
    const where = memory.scope === 'core' ? 'on each core' : 'in a cluster';
    const best = memory.levels[memory.scope === 'core' ? state.core : 0].peak;
    const conflict = memory.conflicts.reduce((a, b) => a + b, 0);
    note.replaceChildren(
      element('strong', {}, `${memory.name} is fullest with ${format.number(peak.bytes)} B of ${format.number(memory.capacity)} B (${format.percent(peak.share)}) ${where}`),
      at ? ` at ${at.operator}, step ${at.step}, segment ${at.segment}.` : '.',
      ` That counts slots; in the run, which overlaps them, at most ${format.number(best.bytes)} B were in use at once${memory.scope === 'core' ? ` on core ${state.core}` : ''}, in cycle ${format.number(best.time)}.`,
      ` ${conflict ? `Engines lost ${format.plural(conflict, 'cycle')} because they met at a bank${memory.scope === 'core' ? ', all cores added up' : ''}.` : 'No engine lost a cycle at its banks.'}`,
      ` ▼ fetched from main memory (pale until all of it is there), ▲ stored there; hatched: a circular buffer.`);
    const tensors = new Map();
    for (const buffer of peak.buffers) {
      const name = buffers.name[buffer];
      const known = tensors.get(name) ?? { buffer, bytes: 0, count: 0 };
      tensors.set(name, { buffer: known.buffer, bytes: known.bytes + buffers.bytes[buffer], count: known.count + 1 });
    }
    const all = [...tensors].sort((a, b) => b[1].bytes - a[1].bytes);
    const rest = all.slice(10).reduce((sum, [, { bytes }]) => sum + bytes, 0);
    const cell = (value, kind) => element('td', kind ? { class: kind } : {}, value);
    const rows = all.slice(0, 10).map(([name, { buffer, bytes, count }]) => element('tr', {},
      cell(element('button', { type: 'button', class: 'link', onclick: () => jump(buffer) }, data.names[name])),
      cell(data.roles[buffers.role[buffer]]),
      cell(format.number(bytes), 'number'), cell(format.percent(bytes, memory.capacity), 'number'),
      cell(format.number(count), 'number'), cell(`0x${buffers.address[buffer].toString(16)}`, 'number')));
    if (rest) rows.push(element('tr', {}, cell(format.plural(all.length - 10, 'smaller one')), cell(''), cell(format.number(rest), 'number'), cell(format.percent(rest, memory.capacity), 'number'), cell(''), cell('')));
    const shares = peak.buffers.reduce((sum, buffer) => sum + buffers.bytes[buffer], 0) > peak.bytes;
    const titles = ['Tensor', 'Role', 'Bytes', 'Of the memory', 'Buffers', 'Address of the first'];
    const head = element('tr', {}, titles.map((title, n) => element('th', { scope: 'col', class: n > 1 ? 'number' : null }, title)));
    below.replaceChildren(
      ...(state.chosen >= 0 ? [element('div', { class: 'timeline-detail' }, describe(state.chosen))] : []),
      element('div', { class: 'memory-table' }, element('table', {},
        element('caption', {}, `What fills ${memory.name} at its peak, the largest first${shares ? '; what shares addresses counts once in the peak' : ''}`),
        element('thead', {}, head), element('tbody', {}, rows))));
  };
  const jump = (buffer) => {
    const { memory } = state;
    const [from, to] = memory.rowsOf(state.core);
    for (let i = from; i < to; i++) {
      if (memory.buffer[i] !== buffer) continue;
      choose(i);
      const [begin, end] = [memory.begin[i], memory.end[i]];
      const margin = Math.max(20, (end - begin) * 0.4);
      plot.show({ x0: begin - margin, x1: end + margin });
      return;
    }
  };
  const show = () => {
    place = geometry();
    labels = ticks();
    plot.frame.style.height = `${place.height + 46}px`;
    plot.figure.y_range.setv({ start: place.height, end: 0 });
    plot.figure.left[0].ticker.ticks = labels.map(([at]) => at);
    coreChoice.hidden = state.memory.scope !== 'core' || data.cores < 2;
    for (const [memory, button] of buttons) button.setAttribute('aria-pressed', String(memory === state.memory));
    filterButtons.forEach((button, number) => {
      const present = Array.from(state.memory.buffers.role).filter((role) => role === number).length;
      button.hidden = !present;
      button.setAttribute('aria-pressed', String(!state.hidden.has(number)));
    });
    renderBelow();
    draw();
  };
  page.onSelect((selection) => {
    const tensor = selection && selection.kind === 'tensor' ? selection.name : null;
    if (tensor !== state.tensor) state.chosen = -1;
    state.tensor = tensor;
    const operator = selection && selection.kind === 'operator' && Object.hasOwn(data.operators, selection.name) ? data.operators[selection.name] : null;
    state.touched = operator ? new Set(operator) : null;
    if (selection && selection.kind === 'memory') {
      const memory = memories.find((each) => each.name === selection.name && used(each));
      if (memory && memory !== state.memory) Object.assign(state, { memory, chosen: -1 });
    }
    if (tensor !== null && !state.memory.has(tensor)) {
      const memory = ['shared', 'local', 'weights', 'accumulator', 'main'].map((role) => memories.find((each) => each.role === role)).find((each) => each && each.has(tensor));
      if (memory) Object.assign(state, { memory, chosen: -1 });
      else state.tensor = null;
    }
    show();
  });
  page.onTheme(draw);
  plot.onRange(draw);
  new ResizeObserver(() => requestAnimationFrame(draw)).observe(plot.frame);
  page.memory = { plot, state, memories, draw };
});

/** One memory: the columns that memory_view.py coded, as they were. */
function memoryRun(memory, data) {
  const sums = (values) => {
    const result = new Float64Array(values.length);
    for (let i = 0, sum = 0; i < values.length; i++) result[i] = sum += values[i];
    return result;
  };
  const { buffers } = memory;
  const [buffer, version, core, step, begin] = ['buffer', 'version', 'core', 'step', 'begin'].map((name) => sums(memory.lives[name]));
  const end = begin.map((value, i) => value + memory.lives.length[i]);
  const size = (i) => Math.floor(buffers.bytes[buffer[i]] / buffers.depth[buffer[i]]);
  const low = (i) => buffers.address[buffer[i]] + version[i] * size(i);
  const moves = (given) => new Map(given ? Array.from(given.buffer, (number, i) => [number, [given.begin[i], given.begin[i] + given.length[i]]]) : []);
  const above = (values, bound) => {
    let [from, to] = [0, values.length];
    while (from < to) {
      const middle = (from + to) >> 1;
      if (values[middle] > bound) to = middle;
      else from = middle + 1;
    }
    return from;
  };
  const known = new Set(buffers.name);
  const numbers = new Map(data.names.map((name, number) => [name, number]));
  return {
    ...memory, buffer, version, core, step, begin, end, low,
    high: (i) => low(i) + size(i),
    extent: Array.from(buffers.address, (address, i) => address + buffers.bytes[i]).reduce((a, b) => Math.max(a, b), 0),
    numberOf: (i) => buffers.name[buffer[i]],
    nameOf: (i) => data.names[buffers.name[buffer[i]]],
    roleOf: (i) => buffers.role[buffer[i]],
    has: (name) => known.has(numbers.get(name)),
    rowsOf: (number) => (memory.scope === 'core' ? [above(core, number - 1), above(core, number)] : [0, buffer.length]),
    fetch: moves(memory.fetches),
    store: moves(memory.stores),
    load: (number, bank, bin) => {
      const at = ((memory.scope === 'core' ? number : 0) * memory.banks + bank) * data.bins + bin;
      return [memory.used[at] / 200, memory.overloaded[at] / 200];
    },
    levels: memory.levels.map((given) => {
      const [time, bytes] = [sums(given.time), sums(given.bytes)];
      const top = bytes.reduce((best, value, i) => (value > bytes[best] ? i : best), 0);
      return {
        peak: { time: time[top], bytes: bytes[top] },
        /** The most bytes between two cycles. */
        most: (x0, x1) => {
          let at = Math.max(0, above(time, x0) - 1);
          let best = x0 < 0 ? 0 : bytes[at] ?? 0;
          for (at += 1; at < time.length && time[at] < x1; at++) best = Math.max(best, bytes[at]);
          return best;
        },
      };
    }),
  };
}
