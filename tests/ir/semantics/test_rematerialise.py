"""Graphs in which operators run again: the same function, under names of their own."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from girih.api.exact import evaluate_graph
from girih.ir.checks.check_graph import check_graph
from girih.ir.errors import CheckError
from girih.ir.graph import Graph
from girih.ir.plan import Rematerialisation
from girih.ir.semantics.rematerialise import with_reruns
from tests.support import graphs


def outputs(graph: Graph, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    given = {p.name: rng.standard_normal(p.shape).astype(graph.tensor[p.tensor].dtype) for p in graph.inputs}
    return dict(evaluate_graph(graph, given))


def long_way(dtype: str = "float32") -> Graph:
    """x → a → t → c → d; d and e read t, and e reads d."""
    net = graphs.Net(dtype=dtype)
    a = net.conv("a", net.input("x", 1, 6, 6, 4), 8)
    t = net.conv("t", a, 8)
    c = net.conv("c", t, 8, kernel=3)
    d = net.conv("d", c, 8, add=t)
    net.conv("e", d, 8, add=t)
    return net.graph()


def test_nothing_again_is_the_same_graph() -> None:
    graph = long_way()
    assert with_reruns(graph, ()) is graph


def test_it_stands_before_its_reader_under_a_name_of_its_own() -> None:
    graph = long_way()
    made = with_reruns(
        graph, (Rematerialisation("t", ("e",)), Rematerialisation("a", ("t.rerun1",)), Rematerialisation("t", ("d",)))
    )
    check_graph(made)
    assert [op.name for op in made.ops] == ["a", "t", "c", "t.rerun2", "d", "a.rerun1", "t.rerun1", "e"]
    assert made.op["e"].inputs == tuple("t.rerun1" if n == "t" else n for n in graph.op["e"].inputs)
    assert made.op["t.rerun1"].inputs == tuple("a.rerun1" if n == "a" else n for n in graph.op["t"].inputs)
    assert made.op["t.rerun2"].inputs == graph.op["t"].inputs
    assert {b.name for b in made.op["t.rerun1"].buffers}.isdisjoint(b.name for b in graph.op["t"].buffers)
    assert made.digest != graph.digest


def test_a_name_that_is_taken_is_not_taken_twice() -> None:
    net = graphs.Net(dtype="float32")
    t = net.conv("t", net.input("x", 1, 4, 4, 4), 4)
    c = net.conv("t.rerun1", t, 4)
    net.conv("e", c, 4, add=t)
    made = with_reruns(net.graph(), (Rematerialisation("t", ("e",)),))
    check_graph(made)
    assert [op.name for op in made.ops] == ["t", "t.rerun1", "t.rerun2", "e"]


@pytest.mark.parametrize("seed", range(12))
def test_the_same_function(seed: int) -> None:
    random = Random(seed)
    graph = random.choice([long_way, graphs.residual, graphs.dense])(dtype="float32")
    before = outputs(graph, seed)
    now, wanted = graph, list[Rematerialisation]()
    for _ in range(random.randint(1, 4)):
        shared = [op for op in now.ops if len(now.consumers[op.output]) > 1]
        if not shared:
            break
        op = random.choice(shared)
        readers = [c.name for c in now.consumers[op.output]]
        wanted.append(Rematerialisation(op.name, tuple(random.sample(readers, random.randint(1, len(readers) - 1)))))
        now = with_reruns(graph, wanted)
    assert wanted
    check_graph(now)
    after = outputs(now, seed)
    assert before.keys() == after.keys()
    assert all(np.array_equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        (Rematerialisation("nobody", ("e",)), "nobody is to run again for e: there is no operator nobody"),
        (Rematerialisation("t", ("e", "other")), "for e, other: there is no operator other"),
        (Rematerialisation("t", ()), "for nobody: name at least one reader"),
        (Rematerialisation("t", ("e", "e")), "each of them once"),
        (Rematerialisation("a", ("e",)), "for e: e does not read a"),
        (Rematerialisation("t", ("c", "d", "e")), "all readers of t are to have the second run"),
    ],
)
def test_what_makes_no_sense_is_reported(wanted: Rematerialisation, told: str) -> None:
    with pytest.raises(CheckError, match=told):
        with_reruns(long_way(), (wanted,))
