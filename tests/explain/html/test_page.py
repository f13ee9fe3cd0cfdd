"""The page in a browser: every section, search, tables, selection, themes, keys, widths, accessibility, hostile names."""

from __future__ import annotations

import gzip
import json
from base64 import b64decode
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from girih.explain import explain
from girih.explain.compilation import Provenance
from girih.explain.html.layered_layout import layered_layout
from girih.explain.html.page import VIEWS, page
from girih.explain.html.payload import packed
from girih.explain.html.views.repeat_view import command_line
from girih.explain.report import Report
from girih.ir.errors import UsageError
from girih.ir.plan import Prediction
from tests.support.browser import browser_library, opened
from tests.support.compilations import random_compilation
from tests.support.graphs import Net, residual, with_host

HOSTILE = "</script><img src=x onerror=alert(1)>"
LONG = 9 * "name_without_a_place_to_break_it_"
OPTIONS = {"network": "net", "target": "stcp920", "precision": "fp16", "dim N": "4", "seed": "0"}


@lru_cache
def report(name: str) -> Report:
    if name == "hostile":
        net = Net(HOSTILE)
        net.conv(LONG, net.conv(HOSTILE, net.input("x", 1, 8, 8, 16), 16), 16)
        graph = net.graph()
    else:
        graph = {"residual": residual, "host": with_host}[name]()
    given = random_compilation(graph, 1)
    predictions = tuple(Prediction(step, op, 90 * n, 90 * n + 100) for n, (step, op) in enumerate(given.plan.slots))
    given = replace(given, plan=replace(given.plan, predictions=predictions), provenance=Provenance(OPTIONS, {}))
    return explain(given)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("pages")

    @lru_cache
    def path(name: str) -> Path:
        target = folder / f"{name}.html"
        report(name).save(target)
        return target

    return path


def test_equal_reports_give_equal_bytes() -> None:
    assert page(report("residual")) == page(report("residual"))


def test_a_report_from_json_has_no_pictures() -> None:
    with pytest.raises(UsageError, match="read from JSON"):
        Report.from_json(report("residual").to_json()).to_html()


def test_arrays_arrive_as_the_smallest_type_that_holds_them() -> None:
    data = {"a": np.array([1, 2, 3]), "b": np.array([-1, 5]), "c": np.array([2**40]), "d": np.array([True]), "e": [0.5]}
    block = gzip.decompress(b64decode(packed(data)))
    size = int.from_bytes(block[:4], "little")
    shown = json.loads(block[4 : 4 + size])
    assert {key: shown[key]["$array"][0] for key in "abcd"} == {"a": "u4", "b": "i4", "c": "f8", "d": "u1"}
    begin = -(-(4 + size) // 8) * 8
    kind, offset, count = shown["b"]["$array"]
    assert np.frombuffer(block, f"<{kind}", count, begin + offset).tolist() == [-1, 5]
    assert shown["e"] == [0.5]
    with pytest.raises(TypeError, match="cannot be sent"):
        packed(np.array(["text"]))


def test_layers_are_behind_all_predecessors() -> None:
    edges = [(0, 1), (0, 2), (1, 3), (2, 3), (0, 3), (4, 3)]
    layer, place = layered_layout(5, edges)
    assert all(layer[a] < layer[b] for a, b in edges)
    assert layer[4] == layer[3] - 1
    assert len(set(zip(layer.tolist(), place.tolist(), strict=True))) == 5
    assert layered_layout(0, [])[0].size == 0


def test_the_command_line_quotes_what_a_shell_would_read() -> None:
    assert command_line({"network": "a b;rm", "batch": "2", "dim N": "4"}) == (
        "girih compile 'a b;rm.onnx' --batch 2 --dim N=4"
    )


@pytest.mark.parametrize("name", ["residual", "host", "hostile"])
@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (390, "dark")])
def test_every_section_is_drawn_and_fits(files: Any, name: str, width: int, theme: str) -> None:
    with opened(files(name), width=width, theme=theme) as tab:
        sections = tab.locator("section.view")
        assert sections.count() == len(VIEWS)
        for section in sections.all():
            assert section.locator(".body").inner_text().strip()
        assert not tab.query_selector("img")
        assert tab.get_by_text("cannot be drawn").count() == 0
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        assert tab.evaluate("document.documentElement.dataset.theme") == theme


def test_figures_are_those_of_the_report(files: Any) -> None:
    given = json.loads(report("residual").to_json())
    with opened(files("residual")) as tab:
        shown = tab.evaluate("girih.page.operators")
        for row, operator in zip(given["operators"], shown, strict=True):
            for key, field in (("name", "name"), ("cycles", "predicted"), ("run_cycles", "cycles"), ("lost", "lost")):
                assert operator[field] == row[key]
        traffic = {t["name"]: t for t in tab.evaluate("girih.page.tensors")}
        for row in given["traffic"]:
            assert traffic[row["tensor"]]["fetched"] == row["fetched"]
            assert traffic[row["tensor"]]["stored"] == row["stored"]
        cells = tab.locator("#waterfall td.numeric").all_inner_texts()
        numbers = [int(cell.split("\n")[0].replace(",", "").replace("−", "-").lstrip("+")) for cell in cells]
        assert numbers[:-1] == [row["cycles"] for row in given["waterfall"]]
        assert sum(numbers[:-1]) == numbers[-1] == given["summary"]["cycles"]
        assert f"{given['summary']['cycles']:,}" in tab.locator("#verdict").inner_text()
        assert all(sentence in tab.locator("#verdict").inner_text() for sentence in given["verdict"])


def test_search_leads_to_an_operator_everywhere(files: Any) -> None:
    name = report("residual").operators[2].name
    with opened(files("residual")) as tab:
        tab.keyboard.press("/")
        tab.keyboard.type(name)
        assert tab.locator("#search-list li").count() >= 1
        tab.keyboard.press("ArrowDown")
        tab.keyboard.press("ArrowUp")
        tab.keyboard.press("Enter")
        assert tab.evaluate("location.hash") == f"#operator={name}"
        assert tab.locator("#details h2").inner_text() == name
        assert tab.locator(f"#operators tr[aria-current][data-name='{name}']").count() == 1
        tab.keyboard.press("Escape")
        assert tab.locator("#details").is_hidden()
        assert "operator=" not in tab.evaluate("location.href")


def test_an_address_leads_to_a_subject(files: Any) -> None:
    with opened(files("residual")) as tab:
        for kind, name in (("tensor", report("residual").traffic[0].tensor), ("segment", "0"), ("memory", "LLB")):
            tab.evaluate("(hash) => (location.hash = hash)", f"#{kind}={name}")
            tab.wait_for_function("(name) => document.querySelector('#details h2').textContent === name", arg=name)
        tab.evaluate("location.hash = '#operator=nothing%20of%20that%20name'")
        tab.get_by_text("This report has no operator of that name.").wait_for()


def test_tables_are_sorted_and_filtered(files: Any) -> None:
    rows = report("residual").operators
    with opened(files("residual")) as tab:
        table = tab.locator("#operators")
        table.get_by_role("button", name="cycles", exact=True).focus()
        tab.keyboard.press("Enter")
        assert table.locator("th[aria-sort=descending]").inner_text().startswith("cycles")
        names = table.locator("tbody th").all_inner_texts()
        assert names[0] == max(rows, key=lambda row: row.run_cycles).name
        tab.keyboard.press("Enter")
        assert table.locator("th[aria-sort=ascending]").count() == 1
        assert table.locator("tbody th").all_inner_texts()[-1] == names[0]
        table.get_by_label("Filter operators").fill(rows[1].name.upper())
        found = [row.name for row in rows if rows[1].name in row.name]
        assert set(found) <= set(table.locator("tbody th").all_inner_texts())
        table.get_by_label("Filter operators").fill("no such name")
        assert table.locator("tbody tr").count() == 0
        assert "0 of 0" in table.locator(".table-count").inner_text()


def test_the_button_changes_the_colours(files: Any) -> None:
    with opened(files("residual")) as tab:
        paper = "getComputedStyle(document.body).backgroundColor"
        light = tab.evaluate(paper)
        tab.locator("#theme").focus()
        tab.keyboard.press("Enter")
        assert tab.evaluate("document.documentElement.dataset.theme") == "dark"
        assert tab.evaluate(paper) != light
        tab.reload()
        tab.wait_for_selector("html[data-ready=true]", state="attached")
        assert tab.evaluate("document.documentElement.dataset.theme") == "dark"


def test_plots_are_zoomed_by_keys_buttons_and_wheel(files: Any) -> None:
    with opened(files("residual")) as tab:
        frame = tab.locator("#roofline .plot-frame")
        frame.scroll_into_view_if_needed()
        ranges = "() => { const p = girih.page.plots.get('roofline'); const r = p.ranges; return [r.x0, r.x1]; }"
        home = tab.evaluate(ranges)

        def width() -> float:
            low, high = tab.evaluate(ranges)
            return high / low

        frame.focus()
        tab.keyboard.press("+")
        closer = width()
        assert closer < home[1] / home[0]
        tab.keyboard.press("ArrowRight")
        assert tab.evaluate(ranges)[0] > home[0]
        tab.keyboard.press("0")
        assert tab.evaluate(ranges) == pytest.approx(home)
        tab.locator("#roofline").get_by_role("button", name="Zoom in").click()
        assert width() == pytest.approx(closer)
        tab.locator("#roofline").get_by_role("button", name="Show all again").click()
        frame.hover()
        scrolled = tab.evaluate("scrollY")
        tab.mouse.wheel(0, 120)
        tab.wait_for_timeout(300)
        assert tab.evaluate(ranges) == pytest.approx(home)
        assert tab.evaluate("scrollY") != scrolled
        frame.hover()
        frame.focus()
        tab.mouse.wheel(0, -200)
        tab.wait_for_timeout(100)
        assert width() < home[1] / home[0]


def test_a_click_on_the_network_selects(files: Any) -> None:
    with opened(files("residual")) as tab:
        frame = tab.locator("#network .plot-frame")
        frame.scroll_into_view_if_needed()
        place = tab.evaluate("() => girih.page.networkPlace(0)")
        frame.click(position={"x": place[0], "y": place[1]})
        assert tab.evaluate("girih.page.selection") == {
            "kind": "operator",
            "name": report("residual").operators[0].name,
        }
        for mode in ("engine", "cycles lost", "segment"):
            tab.locator("#network .choices").get_by_role("button", name=mode, exact=True).click()
            assert tab.locator("#network .legend li").count() >= 1


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_there_is_no_serious_fault_of_accessibility(files: Any, theme: str) -> None:
    axe = browser_library("axe_playwright_python.sync_playwright").Axe
    with opened(files("host"), theme=theme) as tab:
        tab.evaluate("girih.page.select({kind: 'operator', name: girih.page.operators[0].name})")
        found = axe().run(tab).response["violations"]
        serious = [
            (fault["id"], [node["html"][:120] for node in fault["nodes"][:3]])
            for fault in found
            if fault["impact"] in ("serious", "critical")
        ]
        assert not serious, serious


def test_a_network_of_ten_thousand_operators_opens(tmp_path: Path) -> None:
    path = tmp_path / "large.html"
    enlarged(10_000).save(path)
    assert path.stat().st_size < 5_000_000
    with opened(path) as tab:
        assert tab.evaluate("performance.now()") < 20_000
        assert tab.locator("#network canvas").count() >= 1
        tab.keyboard.press("/")
        tab.keyboard.type("op9876")
        tab.keyboard.press("Enter")
        assert tab.locator("#details h2").inner_text() == "op9876"
        tab.locator("#operators").get_by_role("button", name="lost", exact=True).click()
        assert tab.evaluate("document.documentElement.scrollWidth") <= 1280


def test_what_is_selected_is_in_its_table_however_long_that_is(tmp_path: Path) -> None:
    enlarged(60).save(tmp_path / "longer.html")
    with opened(tmp_path / "longer.html") as tab:
        assert tab.locator("#operators tr[data-name=op2]").count() == 0
        for name in ("op2", "op3"):
            tab.evaluate("(name) => girih.page.select({kind: 'operator', name})", name)
            assert tab.locator(f"#operators tr[data-name={name}][aria-current=true]").count() == 1
        assert tab.locator("#operators tr[data-name=op2]").count() == 0
        tab.evaluate("girih.page.select(null)")
        assert tab.locator("#operators tr[aria-current]").count() == 0


def enlarged(operators: int) -> Report:
    """The graph and the tables have so many operators more, the later the more they lose; the run is that of a few."""
    given = report("residual")
    few = given.compilation
    net = Net("large")
    x = net.input("chain", 8)
    for number in range(operators):
        x = net.elementwise(f"op{number}", "max", x, 0.0)
    many = net.graph()
    graph = replace(few.graph, ops=(*few.graph.ops, *many.ops), tensors=(*few.graph.tensors, *many.tensors))
    rows = [replace(given.operators[0], name=op.name, segment=i // 50, lost=float(i)) for i, op in enumerate(many.ops)]
    return replace(given, operators=(*given.operators, *rows)).drawn_from(replace(few, graph=graph), page)
