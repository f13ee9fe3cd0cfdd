"""Longer runs go on where shorter ones ended: the columns are those that are priced at once."""

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
@pytest.mark.parametrize("at_first", [1, 2, 3, 5])
def test_lengthened_columns_are_those_of_one_pass(graph: Graph, at_first: int) -> None:
    whole = Candidates(graph, TINY).columns()
    candidates = Candidates(graph, TINY, at_first=at_first)
    short = candidates.columns()
    assert short == [c for c in whole if c.last - c.first < at_first]
    counted = candidates.priced_count, candidates.priced_roots
    candidates.lengthen()
    assert candidates.priced_roots == counted[1], "roots are priced once"
    assert candidates.columns() == whole
    assert candidates.priced_count >= counted[0]
    assert not candidates.unpriced()


@pytest.mark.parametrize("graph", NETWORKS, ids=range(len(NETWORKS)))
@pytest.mark.parametrize("forgets", [False, True])
def test_workers_go_on_too(graph: Graph, *, forgets: bool) -> None:
    """Whether the worker of the shorter runs is asked for the longer ones, or another one."""
    whole = Candidates(graph, TINY)
    candidates = Candidates(graph, TINY, at_first=2)
    kept: dict[object, object] = {}
    for longest in (2, whole.longest):
        for first, last, above in candidates.unpriced():
            question = PriceRoot(TINY, ALL_ON, first, last, above, longest)
            candidates.learn(first, last, question.answer(graph, {} if forgets else kept))
        assert candidates.columns() == [c for c in whole.columns() if c.last - c.first < longest]
        candidates.lengthen()
    assert (candidates.priced_count, candidates.priced_roots) == (whole.priced_count, whole.priced_roots)


def test_what_a_worker_did_not_answer_is_priced_here() -> None:
    graph = NETWORKS[0]
    candidates = Candidates(graph, TINY, at_first=2)
    for number, (first, last, above) in enumerate(candidates.unpriced()):
        if number % 2:
            candidates.learn(first, last, PriceRoot(TINY, ALL_ON, first, last, above, 2).answer(graph, {}))
    candidates.columns()
    candidates.lengthen()
    assert candidates.columns() == Candidates(graph, TINY).columns()


def test_no_operator_is_put_in_front_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = NETWORKS[0]
    prepended: Counter[str] = Counter()
    prepend = FusionEnumeration._prepend  # pyright: ignore[reportPrivateUsage]

    def counted(self: FusionEnumeration, position: int) -> bool:
        prepended["all"] += 1
        return prepend(self, position)

    monkeypatch.setattr(FusionEnumeration, "_prepend", counted)
    Candidates(graph, TINY).columns()
    at_once = prepended.pop("all")
    candidates = Candidates(graph, TINY, at_first=2)
    candidates.columns()
    assert prepended["all"] < at_once
    candidates.lengthen()
    candidates.columns()
    assert prepended["all"] == at_once


def test_what_fits_nowhere_is_refused_each_time() -> None:
    machine: Machine = with_capacity(TINY, TINY.levels.activations.name, 64)
    candidates = Candidates(graphs.residual(), machine, at_first=2)
    for _ in range(2):
        with pytest.raises(InfeasibleError):
            candidates.columns()
    candidates.lengthen()
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
