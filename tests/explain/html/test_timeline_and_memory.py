"""The timeline and the memory maps in a browser: figures of the report, keys, selection, hostile names."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from girih.explain import explain
from girih.explain.compilation import Compilation
from girih.explain.cycles.breakdown import CAUSES
from girih.explain.html.page import page
from girih.explain.html.views.memory_view import memory_view
from girih.explain.html.views.timeline_view import timeline_view
from girih.explain.report import Report
from girih.ir.plan import Prediction
from tests.support.browser import opened
from tests.support.compilations import random_compilation
from tests.support.graphs import Net, residual, with_host

HOSTILE = "</script><img src=x onerror=alert(1)>"


@lru_cache
def example(name: str) -> tuple[Compilation, Report]:
    if name == "hostile":
        net = Net("hostile")
        x = net.input("x", 1, 8, 8, 16)
        x = net.conv(HOSTILE, x, 16)
        net.conv("b", x, 16)
        graph = net.graph()
    else:
        graph = {"residual": residual, "host": with_host, "staged": residual}[name]()
    given = random_compilation(graph, 1, machine="ascend310" if name == "staged" else "stcp920")
    predictions = tuple(Prediction(step, op, 90 * n, 90 * n + 100) for n, (step, op) in enumerate(given.plan.slots))
    given = replace(given, plan=replace(given.plan, predictions=predictions))
    return given, explain(given)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("pages")

    @lru_cache
    def path(name: str) -> Path:
        target = folder / f"{name}.html"
        target.write_text(page(example(name)[1]), encoding="utf-8")
        return target

    return path


def drawn(tab: Any, view: str) -> int:
    """Pixels of a picture that differ from its most frequent colour, which is that of its background."""
    return tab.evaluate(
        """(view) => {
          const canvas = document.querySelector(`#${view} .timeline-canvas`);
          const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
          const counts = new Map();
          for (const pixel of new Uint32Array(data.buffer)) counts.set(pixel, (counts.get(pixel) ?? 0) + 1);
          return data.length / 4 - Math.max(...counts.values());
        }""",
        view,
    )


@pytest.mark.parametrize("name", ["residual", "host", "hostile"])
@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (390, "dark")])
def test_both_are_drawn_in_every_theme_and_width(files: Any, name: str, width: int, theme: str) -> None:
    with opened(files(name), width=width, theme=theme) as tab:
        for view in ("timeline", "memory"):
            assert drawn(tab, view) > 10_000
            assert not tab.query_selector(f"#{view} img")
        assert tab.evaluate("document.documentElement.scrollWidth") <= width


def test_the_figures_are_those_of_the_report(files: Any) -> None:
    given, report = example("residual")
    with opened(files("residual")) as tab:
        busy, links = tab.evaluate(
            "() => { const { run } = girih.page.timeline;"
            "return [Array.from(run.busy), run.links.map((l) => [l.total, l.moved(1e12)])]; }"
        )
        for row in report.breakdown.totals:
            mine = [b for b, q in zip(busy, given.program.queues, strict=True) if q.engine == row.resource]
            assert not mine or sum(mine) / row.units == pytest.approx(row.busy)
        for (total, moved), link in zip(links, given.machine.links, strict=True):
            assert total == pytest.approx(moved) == given.trace.counters[f"{link.name}_link_byte"]
        predicted = tab.evaluate("() => Array.from(girih.page.timeline.run.predicted.slot)")
        assert sorted(predicted) == list(range(len(given.plan.slots)))
        peaks = tab.evaluate("() => girih.page.memory.memories.map((m) => [m.name, m.peak.bytes, m.peak.share])")
        assert peaks == [[m.memory, m.peak, pytest.approx(m.share)] for m in report.memories]


def cause(given: Compilation, data: dict[str, Any], row: int, core: int | None) -> str:
    """The cause of a wait of ``core`` for the instruction of a row, from what the page is given."""
    columns = given.execution.columns
    described = data["classes"][columns.class_of[row]]["cause"]
    if described == "compute":
        return "engine" if core is not None and given.program.queues[columns.queue[row]].core == core else "cores"
    if described == "fetch":
        tensor = int(columns.tensor[row])
        return "fetch_weights" if tensor >= 0 and data["tensors"][tensor]["constant"] else "fetch_data"
    return described


@pytest.mark.parametrize("name", ["residual", "staged"])
def test_waits_are_attributed_as_the_critical_path_is(files: Any, name: str) -> None:
    given, report = example(name)
    columns, path = given.execution.columns, given.run.path
    data: dict[str, Any] = timeline_view(report, given).data  # type: ignore[assignment]
    row_of = {(int(q), int(i)): r for r, (q, i) in enumerate(zip(columns.queue, columns.index, strict=True))}
    with opened(files(name)) as tab:
        shown = tab.evaluate(
            "() => { const { run } = girih.page.timeline; return Array.from(run.start, (_, i) => run.attribution(i)); }"
        )
    for row, spans in enumerate(shown):
        node = int(columns.queue[row]), int(columns.index[row])
        core = given.program.queues[node[0]].core
        fresh = row == columns.first[node[0]]
        since = 0 if fresh else int(columns.end[row - 1])
        expected = path.attribute(path.releaser(node), since, int(columns.start[row]))
        rows = [(row_of[n], end - begin) for n, begin, end in expected]
        assert spans == [[other, cycles, cause(given, data, other, core)] for other, cycles in rows]


@pytest.mark.parametrize("name", ["residual", "host", "staged"])
def test_waits_of_the_page_have_the_causes_of_the_report(name: str) -> None:
    given, report = example(name)
    columns, queues = given.execution.columns, given.program.queues
    data: dict[str, Any] = timeline_view(report, given).data  # type: ignore[assignment]
    waits: dict[str, Counter[str]] = defaultdict(Counter)
    for number, queue in enumerate(queues):
        idle_since = 0
        rows = range(columns.first[number], columns.first[number + 1])
        starts = [(int(columns.start[row]), int(columns.end[row]), int(columns.releaser[row])) for row in rows]
        for start, end, releaser in (*starts, (given.trace.cycles, 0, columns.last)):
            until = start
            while releaser >= 0 and until > idle_since:
                begin = min(until, max(int(columns.start[releaser]), idle_since))
                waits[queue.engine][cause(given, data, releaser, queue.core)] += until - begin
                until, releaser = begin, int(columns.releaser[releaser])
            idle_since = end
    compared = 0
    for row in report.breakdown.totals:
        engine = given.machine.engine.get(row.resource)
        if engine is None or sum(queue.engine == row.resource for queue in queues) < row.units:
            continue
        expected, shown = Counter(row.waits), waits[row.resource]
        # The report divides the cycles in which other cores compute by whether the own core does, too.
        for causes in (expected, shown):
            causes["engine"] += causes.pop("cores", 0)
        for each in CAUSES:
            assert shown[each] / row.units == pytest.approx(expected[each]), (row.resource, each)
        compared += 1
    assert compared >= 4


def ranges(tab: Any, view: str) -> tuple[float, float]:
    low, high = tab.evaluate(f"() => {{ const r = girih.page.{view}.plot.ranges; return [r.x0, r.x1]; }}")
    return low, high


def test_keys_zoom_move_and_step_from_instruction_to_instruction(files: Any) -> None:
    given, _ = example("residual")
    with opened(files("residual")) as tab:
        tab.evaluate("() => girih.page.timeline.plot.frame.focus()")
        whole = ranges(tab, "timeline")
        tab.keyboard.press("+")
        assert ranges(tab, "timeline")[1] - ranges(tab, "timeline")[0] < whole[1] - whole[0]
        before = ranges(tab, "timeline")
        tab.keyboard.press("ArrowRight")
        assert ranges(tab, "timeline")[0] > before[0]
        tab.keyboard.press("0")
        assert ranges(tab, "timeline") == pytest.approx(whole)
        tab.keyboard.press("n")
        first = tab.inner_text("#timeline .timeline-detail")
        tab.keyboard.press("n")
        second = tab.inner_text("#timeline .timeline-detail")
        assert "#" in first and first != second
        tab.keyboard.press("p")
        assert tab.inner_text("#timeline .timeline-detail") == first
        tab.keyboard.press("Enter")
        selection = tab.evaluate("() => girih.page.selection")
        assert selection["kind"] == "operator" and selection["name"] in given.graph.op


def test_an_operator_that_is_selected_elsewhere_can_be_gone_to(files: Any) -> None:
    given, _ = example("residual")
    columns = given.execution.columns
    name = given.graph.ops[3].name
    mine = columns.work_for == [op.name for op in given.program.ops].index(name)
    with opened(files("residual")) as tab:
        tab.evaluate("(name) => girih.page.select({ kind: 'operator', name })", name)
        tab.click(f"#timeline .timeline-tools >> text=Zoom to {name}")
        low, high = ranges(tab, "timeline")
        assert low <= columns.start[mine].min() and high >= columns.end[mine].max()
        assert high - low < 1.5 * (columns.end[mine].max() - columns.start[mine].min()) + 20
        tab.click("#timeline >> text=Its longest wait")
        assert "Waited" in tab.inner_text("#timeline .timeline-detail")


def test_pressing_an_instruction_selects_its_operator(files: Any) -> None:
    given, _ = example("residual")
    columns = given.execution.columns
    with opened(files("residual")) as tab:
        tab.click("#timeline >> text=Show all")
        row = int((columns.end - columns.start).argmax())
        tab.evaluate("(row) => girih.page.timeline.focus(row, true)", row)
        tab.evaluate("() => girih.page.timeline.plot.frame.scrollIntoView({ block: 'center', behavior: 'instant' })")
        tab.wait_for_timeout(300)
        x, y = tab.evaluate(
            """(row) => {
              const { left, top } = girih.page.timeline.plot.frame.getBoundingClientRect();
              const [x, y] = girih.page.timeline.place(row);
              return [left + x, top + y];
            }""",
            row,
        )
        tab.evaluate("() => girih.page.select(null)")
        tab.mouse.click(x, y)
        assert tab.evaluate("() => girih.page.selection.name") == given.program.ops[columns.work_for[row]].name


def test_the_table_names_what_fills_a_memory_at_its_peak(files: Any) -> None:
    given, report = example("residual")
    data: dict[str, Any] = memory_view(report, given).data  # type: ignore[assignment]
    with opened(files("residual")) as tab:
        for memory in data["memories"]:
            buffers, sizes = memory["buffers"], dict[str, int]()
            for number in memory["peak"]["buffers"]:
                name = data["names"][buffers["name"][number]]
                sizes[name] = sizes.get(name, 0) + int(buffers["bytes"][number])
            tab.evaluate("(name) => girih.page.select({ kind: 'memory', name })", memory["name"])
            cells = tab.locator("#memory .memory-table tbody tr").first.locator("td").all_inner_texts()
            assert sizes[cells[0]] == max(sizes.values()) == int(cells[2].replace(",", ""))
            assert f"{memory['peak']['bytes']:,} B" in tab.inner_text("#memory .memory-note")


def test_filters_hide_and_tensors_are_found_in_the_memory_that_has_them(files: Any) -> None:
    given, _ = example("residual")
    constant = sorted(given.graph.constant_names)[0]
    with opened(files("residual")) as tab:
        tab.evaluate("(name) => girih.page.select({ kind: 'memory', name })", given.machine.levels.home.name)
        tab.evaluate("(name) => girih.page.select({ kind: 'tensor', name })", constant)
        assert tab.evaluate("() => girih.page.memory.state.memory.name") == given.machine.levels.home.name
        tab.evaluate("() => girih.page.memory.plot.frame.focus()")
        tab.keyboard.press("n")
        assert constant in tab.inner_text("#memory .memory-below")
        tab.evaluate("() => girih.page.select(null)")
        tab.wait_for_timeout(200)
        before = drawn(tab, "memory")
        tab.click("#memory .memory-filters >> text=constants")
        tab.wait_for_timeout(200)
        assert tab.get_attribute("#memory .memory-filters >> role=button[name='constants']", "aria-pressed") == "false"
        assert 0 < drawn(tab, "memory") < before


def test_hostile_names_are_texts(files: Any) -> None:
    with opened(files("hostile")) as tab:
        tab.evaluate("(name) => girih.page.select({ kind: 'operator', name })", HOSTILE)
        tab.evaluate("() => girih.page.timeline.plot.frame.focus()")
        tab.keyboard.press("n")
        assert HOSTILE in tab.inner_text("#timeline .timeline-detail")
        assert not tab.query_selector("main img")


@pytest.mark.parametrize("name", ["residual", "host"])
def test_equal_runs_give_equal_data(name: str) -> None:
    given, report = example(name)
    again = replace(given)
    for view in (timeline_view, memory_view):
        one, two = (json.dumps(view(report, c).data, default=lambda a: a.tolist()) for c in (given, again))
        assert one == two
