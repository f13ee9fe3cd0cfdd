"""Comparisons: what differs is found, what it costs adds up to the cycle, and names are harmless."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pytest

import girih
from girih.api.compile import Compiled
from girih.explain.compare.alignment import align, components, rounded
from girih.explain.compare.comparison import Comparison
from girih.explain.compare.rows import ResidencyChange
from girih.ir.errors import UsageError
from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.lowering import lower
from tests.support.compiled import compiled_residual
from tests.support.graphs import residual
from tests.support.plans.sequential_plans import sequential_plan

HOSTILE = "</script><img src=x onerror=alert(1)>\x1b[2J"


def compiled(graph: Graph, machine: Machine) -> Compiled:
    plan = replace(
        sequential_plan(graph, machine), cycles_predicted=9000, lower_bound_cycles=6000, lower_bound_reason="MME"
    )
    return replace(compiled_residual(), graph=graph, plan=plan, machine=machine, program=lower(graph, plan, machine))


def slower(machine: Machine) -> Machine:
    """With a main memory at half the rate."""
    main = machine.levels.home.name
    links = tuple(
        replace(link, bytes_per_cycle=link.bytes_per_cycle / 2) if link.memory == main else link
        for link in machine.links
    )
    return replace(machine, links=links)


@lru_cache(maxsize=1)
def halved() -> Comparison:
    """Against the same network on a machine whose main memory is slower."""
    machine = slower(compiled_residual().machine)
    return compiled_residual().diff(compiled(compiled_residual().graph, machine))


def adds_up(comparison: Comparison) -> None:
    for rows in (comparison.causes, comparison.operators):
        assert sum(row.a for row in rows) == comparison.a.cycles
        assert sum(row.b for row in rows) == comparison.b.cycles
        assert sum(row.change for row in rows) == comparison.change
    assert sum(row.change for row in comparison.segments) == comparison.change


def test_a_schedule_is_the_same_as_itself() -> None:
    comparison = girih.compare(compiled_residual(), compiled_residual())
    assert comparison.same and comparison.change == 0
    assert comparison.verdict == (f"The same schedule: {comparison.a.cycles:,} cycles.",)
    assert "The same schedule" in str(comparison) and "Segments" not in str(comparison)
    for rows in (comparison.machine, comparison.tiles, comparison.segments, comparison.residency, comparison.order):
        assert not rows
    adds_up(comparison)


def test_another_machine_is_told_figure_by_figure() -> None:
    comparison = halved()
    assert not comparison.same and comparison.change > 0
    assert {change.what.rpartition(".")[2] for change in comparison.machine} == {"bytes_per_cycle"}
    assert comparison.verdict[0].startswith("A takes ") and "fewer than B" in comparison.verdict[0]
    assert "The machines differ in" in comparison.verdict[1]
    adds_up(comparison)
    assert max(comparison.causes, key=lambda row: row.change).title == "work of ddr"


def test_the_same_decisions_on_other_machines_are_no_other_schedule() -> None:
    machine = compiled_residual().machine
    larger = tuple(
        replace(m, capacity=4 * m.capacity) if machine.use_of(m.name) == "shared" else m for m in machine.memories
    )
    comparison = compiled_residual().diff(compiled(compiled_residual().graph, replace(machine, memories=larger)))
    assert not comparison.same and comparison.change == 0
    cycles = f"{comparison.a.cycles:,} cycles"
    assert comparison.verdict == (
        f"The same decisions on different machines: both take {cycles}.", "The machines differ in 1 figure.",
    )  # fmt: skip
    assert halved().verdict[1].endswith("; all decisions are the same.")


@pytest.mark.parametrize("width", [40, 80, 120])
def test_text_is_not_wider_than_the_terminal_and_has_every_column(width: int) -> None:
    machine = compiled_residual().machine
    small = tuple(
        replace(m, capacity=m.capacity // 8) if machine.use_of(m.name) == "local" else m for m in machine.memories
    )
    for comparison in (halved(), compiled_residual().diff(compiled(residual(), replace(machine, memories=small)))):
        residency = (ResidencyChange("x" * 50, "activation", 9, 1, 2, 3, 4, "B keeps it on chip, A spills it"),)
        text = replace(comparison, residency=residency).text(width)
        assert max(map(len, text.splitlines())) <= width
        words = " ".join(text.split())
        assert "what B does" in words and "on chip," in words
        assert "cut in A" in words or not comparison.segments


def test_causes_have_one_title() -> None:
    comparison = halved()
    row = max(comparison.operators, key=lambda r: abs(r.change))
    title = next(c.title for c in comparison.causes if c.cause == next(iter(row.causes)))
    assert re.search(rf"{re.escape(row.name)} .*{re.escape(title)}", comparison.text(100))


def test_both_directions_mirror_one_another() -> None:
    machine = slower(compiled_residual().machine)
    there, back = halved(), compiled(compiled_residual().graph, machine).diff(compiled_residual())
    assert [row.change for row in back.causes] == [-row.change for row in there.causes]
    assert back.change == -there.change and back.verdict[0].startswith("B takes ")


def test_other_tiles_residency_and_splits_are_found() -> None:
    machine = load_machine("stcp920")
    small = tuple(
        replace(m, capacity=m.capacity // 8) if machine.use_of(m.name) == "local" else m for m in machine.memories
    )
    other = compiled(compiled_residual().graph, replace(machine, memories=small))
    comparison = compiled_residual().diff(other)
    adds_up(comparison)
    changed = {row.op for row in comparison.tiles}
    assert changed <= {row.name for row in comparison.operators if row.decisions}


def test_other_networks_are_compared_as_far_as_they_go() -> None:
    graph = residual()
    renamed = {op.name: f"{op.name}.new" for op in graph.ops[:3]}
    other = replace(graph, ops=tuple(replace(op, name=renamed.get(op.name, op.name)) for op in graph.ops))
    comparison = compiled_residual().diff(compiled(other, compiled_residual().machine))
    assert any("networks differ" in note for note in comparison.notes)
    adds_up(comparison)


def test_operators_without_a_common_name_are_found_by_their_onnx_nodes() -> None:
    graph = residual()
    first, second, *rest = graph.ops
    a = replace(graph, ops=(replace(first, origin=("n0",)), replace(second, origin=("n1",)), *rest))
    b = replace(graph, ops=(replace(first, name="x", origin=("n0",)), replace(second, name="y", origin=("n2",)), *rest))
    machine = compiled_residual().machine
    rows = align(a, sequential_plan(a, machine), b, sequential_plan(b, machine))
    assert ((first.name,), ("x",)) in [(row.a, row.b) for row in rows]
    assert ((second.name,), ()) in [(row.a, row.b) for row in rows]
    assert ((), ("y",)) in [(row.a, row.b) for row in rows]


def test_components_and_rounding() -> None:
    assert components("abcd", [("a", "c"), ("c", "d")]) == (("a", "c", "d"), ("b",))
    assert rounded({"a": 1.4, "b": 1.6, "c": 2.0}, 5) == {"a": 1, "b": 2, "c": 2}
    assert sum(rounded({"a": -0.5, "b": 0.5}, 0).values()) == 0
    assert rounded({"a": 1.0}, 9) == {"a": 2}, "what is missing beyond rounding is not made up"


def test_json_is_read_back_and_other_versions_are_refused() -> None:
    comparison = halved()
    assert Comparison.from_json(comparison.to_json()) == comparison
    with pytest.raises(UsageError, match="compare again"):
        Comparison.from_json(comparison.to_json().replace(b'"format":1', b'"format":99'))


def test_hostile_names_are_harmless() -> None:
    side = replace(halved().a, file=HOSTILE, network=HOSTILE)
    operators = tuple(replace(row, name=HOSTILE, decisions=(HOSTILE,)) for row in halved().operators)
    hostile = replace(halved(), a=side, operators=operators, verdict=(HOSTILE,), notes=(HOSTILE,))
    for page in (hostile.html, hostile._repr_html_()):
        assert "<img" not in page and "<script" not in page
    assert "\x1b" not in hostile.text()


def test_the_page_is_whole_and_refers_to_nothing() -> None:
    page = halved().html
    assert page.lstrip().startswith("<!doctype html>") and page.count("<main>") == page.count("</main>") == 1
    assert "http" not in page.replace("http-equiv", "") and "<script" not in page
    assert f"{halved().change:+,}" in page
    assert not halved()._repr_html_().lstrip().startswith("<!doctype")


@pytest.mark.parametrize("suffix", ["json", "html", "txt", "md"])
def test_saving_by_suffix(tmp_path: Path, suffix: str) -> None:
    halved().save(tmp_path / f"diff.{suffix}")
    begin = {"json": "{", "html": "<!doctype", "txt": "A: ", "md": "A: "}[suffix]
    assert (tmp_path / f"diff.{suffix}").read_text().lstrip().startswith(begin)


def test_saving_as_something_else(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"\.html"):
        halved().save(tmp_path / "diff.pdf")
