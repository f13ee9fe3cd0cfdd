"""Each root is priced once, here or by a worker; long runs are priced in growing lengths."""

from __future__ import annotations

import pytest

from girih.ir.errors import InfeasibleError
from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.solver.loop.master import Master
from girih.solver.parallel.questions import PriceRoot
from girih.solver.segmentation import candidates as candidates_module
from girih.solver.segmentation.candidates import EVERY_LENGTH, MOST_OPERATORS, Candidates, PricedRoot, run_lengths
from girih.solver.segmentation.column_cost import Column
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


def test_equal_roots_are_priced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    priced: list[int] = []
    root = Candidates.root

    def counted(self: Candidates, first: int, last: int) -> PricedRoot:
        priced.append(last)
        return root(self, first, last)

    monkeypatch.setattr(Candidates, "root", counted)
    graph = graphs.chain(40, channels=8, kernel=1, dtype="float32")
    candidates = Candidates(graph, TINY, longest=4)
    columns = candidates.columns()
    assert len(priced) == len(set(priced)) == candidates.priced_roots < len(graph.ops) // 2
    assert {c.last for c in columns} == set(range(len(graph.ops)))
    assert candidates.columns() == columns
    assert len(priced) == candidates.priced_roots


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
    assert longest <= min(EVERY_LENGTH, 15)
    assert set(lengths(every)) == set(range(1, longest + 1))
    monkeypatch.setattr(candidates_module, "EVERY_LENGTH", 4)
    allowed = {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15}
    assert sorted(run_lengths(15)) == sorted(allowed)
    candidates = Candidates(graph, TINY, longest=15)
    some = candidates.columns()
    # The longest run of a root is priced in any case.
    assert some == [c for c in every if c.last - c.first + 1 in allowed or c.first == candidates.earliest(c.last)]
    assert len(some) < len(every)
    # A run that is asked for is priced, whatever its length.
    column = next(c for c in every if c.last - c.first + 1 == 9)
    cheapest = Candidates(graph, TINY, longest=15).cheapest(column.first, column.last, (column.split,))
    assert cheapest is not None
    assert (cheapest.first, cheapest.last, cheapest.split) == (column.first, column.last, column.split)


def test_segments_of_more_operators_than_every_length_has() -> None:
    graph = graphs.chain(70, channels=4, size=4, kernel=1, dtype="float32")
    columns = Candidates(graph, TINY).columns()
    priced = set(lengths([c for c in columns if c.first > 0]))
    assert priced == run_lengths(MOST_OPERATORS)
    assert max(priced) == MOST_OPERATORS > EVERY_LENGTH + 10
    whole = {c.last + 1 for c in columns if c.first == 0}
    assert whole == set(range(1, MOST_OPERATORS + 1))


def test_what_fits_nowhere_does_not_end_pricing() -> None:
    """So that a search counts the same roots, whoever prices them."""
    net = graphs.Net("large", "float32")
    wide = net.matmul("wide", net.input("x", 4, 4096), 4)
    graph = net.graph(wide, net.elementwise("narrow", "exp", net.input("y", 4, 4)))
    machine = with_capacity(TINY, TINY.levels.activations.name, 1024)
    candidates = Candidates(graph, machine)
    Master(graph, machine, candidates, 0).price()
    assert [op.name for op in graph.ops] == ["wide", "narrow"]
    assert candidates.unpriced() == [(0, 0)]
    assert candidates.priced_roots == 1
    with pytest.raises(InfeasibleError):
        candidates.columns()
