"""Each root is priced once, here or by a worker; long runs are priced in growing lengths."""

from __future__ import annotations

from collections import Counter

import pytest

from girih.ir.errors import InfeasibleError
from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.solver.parallel.questions import PriceRoot
from girih.solver.segmentation import candidates as candidates_module
from girih.solver.segmentation.candidates import Candidates, run_lengths
from girih.solver.segmentation.column_cost import Column
from girih.solver.segmentation.fusion_candidates import FusionEnumeration
from girih.solver.switches import ALL_ON
from tests.support import graphs
from tests.support.machines import with_capacity
from tests.support.random_graphs import random_graph

TINY = load_machine("tiny")
NETWORKS = [graphs.residual(4, channels=32), *(random_graph(seed, "float32", 12) for seed in range(6))]


def lengths(columns: list[Column]) -> list[int]:
    return [c.last - c.first + 1 for c in columns]


@pytest.mark.parametrize("graph", NETWORKS, ids=range(len(NETWORKS)))
@pytest.mark.parametrize("every", [1, 2, 3])
def test_workers_price_the_same_columns(graph: Graph, every: int) -> None:
    """What workers do not answer is priced here."""
    whole = Candidates(graph, TINY)
    columns = whole.columns()
    candidates = Candidates(graph, TINY)
    for number, (first, last) in enumerate(candidates.unpriced()):
        if number % every == 0:
            candidates.learn(PriceRoot(TINY, ALL_ON, first, last).answer(graph, {}))
    assert candidates.priced_roots == len(range(0, whole.priced_roots, every))
    assert candidates.columns() == columns
    assert not candidates.unpriced()
    assert (candidates.priced_count, candidates.priced_roots) == (whole.priced_count, whole.priced_roots)


def test_no_root_is_priced_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    prepended: Counter[str] = Counter()
    prepend = FusionEnumeration._prepend  # pyright: ignore[reportPrivateUsage]

    def counted(self: FusionEnumeration, position: int) -> bool:
        prepended["all"] += 1
        return prepend(self, position)

    monkeypatch.setattr(FusionEnumeration, "_prepend", counted)
    candidates = Candidates(NETWORKS[0], TINY)
    columns = candidates.columns()
    once = prepended["all"]
    assert once > 0
    assert candidates.columns() == columns
    assert prepended["all"] == once


def test_what_fits_nowhere_is_refused_each_time() -> None:
    machine: Machine = with_capacity(TINY, TINY.levels.activations.name, 64)
    candidates = Candidates(graphs.residual(), machine)
    for _ in range(2):
        with pytest.raises(InfeasibleError):
            candidates.columns()


def test_long_runs_are_priced_in_growing_lengths_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graphs.residual(4, channels=32)
    every = Candidates(graph, TINY).columns()
    longest = max(lengths(every))
    assert set(lengths(every)) == set(range(1, longest + 1)), "all of these are short"
    monkeypatch.setattr(candidates_module, "EVERY_LENGTH", 4)
    allowed = {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15}
    assert sorted(run_lengths(15)) == sorted(allowed)
    some = Candidates(graph, TINY, longest=15).columns()
    assert some == [c for c in every if c.last - c.first + 1 in allowed]
    assert len(some) < len(every)
    # A run that is asked for is priced, whatever its length.
    column = next(c for c in every if c.last - c.first + 1 == 9)
    found = Candidates(graph, TINY, longest=15).cheapest(column.first, column.last, (column.split,))
    assert found is not None
    assert (found.first, found.last, found.split) == (column.first, column.last, column.split)
