"""What counts as a gain, and which refinements stay; the smallest of the plans."""

from __future__ import annotations

import pytest

from benchmarks.ablation import (
    MACHINES,
    NETWORKS,
    PORTIONS,
    REFINEMENTS,
    Case,
    Network,
    gains,
    graph,
    measure,
    stays,
    summary,
    target,
)
from girih.solver.switches import SWITCHES


def row(cycles: int, status: str = "ok") -> dict[str, object]:
    return {"status": status, "cycles": cycles}


def test_gains_are_of_pairs_that_are_both_known() -> None:
    cases = [Case(n, "stcp920", w, 20.0) for n in ("a", "b", "c") for w in (None, "weight-rings")]
    rows = {c.key: row(100) for c in cases if c.without is None}
    rows |= {cases[1].key: row(105), cases[3].key: row(90), cases[5].key: row(200, "timeout")}
    assert gains("weight-rings", cases, rows) == {cases[1]: pytest.approx(0.05), cases[3]: pytest.approx(-0.1)}
    assert gains("deep-scratch", cases, rows) == {}
    assert summary(["weight-rings", "deep-scratch"], cases, rows).row_count == 2


@pytest.mark.parametrize(
    ("gained", "verdict"),
    [([0.011, 0.011], True), ([0.0, 0.031], True), ([0.02, -0.02], False), ([0.009, 0.009], False), ([-0.5], False)],
)
def test_what_gains_one_in_a_hundred_or_three_anywhere_stays(gained: list[float], verdict: bool) -> None:
    assert stays(gained) == verdict


def test_there_are_twenty_networks_on_two_machines() -> None:
    assert len(NETWORKS) == 20
    full, half = (target(name) for name in MACHINES)
    assert half.levels.exchange.capacity * 2 == full.levels.exchange.capacity
    assert [ln.bytes_per_cycle for ln in half.links] != [ln.bytes_per_cycle for ln in full.links]
    assert set(REFINEMENTS) == {*(name for name in SWITCHES if not name.endswith("-model")), PORTIONS}


@pytest.mark.parametrize("without", [None, "multi-buffering", PORTIONS])
def test_a_plan_without_a_refinement(without: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NETWORKS, "tiny", Network("tiny", "tiny-cnn", 4))
    graph.cache_clear()
    case, found = measure(Case("tiny", "stcp920-half", without, 1.0))
    assert case.without == without
    assert found["status"] == "ok" and found["cycles"] >= found["bound"] > 0
