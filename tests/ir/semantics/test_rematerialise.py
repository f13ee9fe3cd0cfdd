"""Graphs in which operators run again: the same function, under names of their own."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from girih.api.exact import evaluate
from girih.ir.checks.check_graph import check_graph
from girih.ir.errors import CheckError
from girih.ir.graph import Graph
from girih.ir.plan import Recomputation
from girih.ir.semantics.rematerialise import rematerialised
from tests.support import graphs


def outputs(graph: Graph, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    given = {p.name: rng.standard_normal(p.shape).astype(graph.tensor[p.tensor].dtype) for p in graph.inputs}
    return dict(evaluate(graph, given))


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
    assert rematerialised(graph, ()) is graph


def test_it_stands_before_its_reader_under_a_name_of_its_own() -> None:
    graph = long_way()
    made = rematerialised(
        graph, (Recomputation("t", ("e",)), Recomputation("a", ("t.again1",)), Recomputation("t", ("d",)))
    )
    check_graph(made)
    assert [op.name for op in made.ops] == ["a", "t", "c", "t.again2", "d", "a.again1", "t.again1", "e"]
    assert made.op["e"].inputs == tuple("t.again1" if n == "t" else n for n in graph.op["e"].inputs)
    assert made.op["t.again1"].inputs == tuple("a.again1" if n == "a" else n for n in graph.op["t"].inputs)
    assert made.op["t.again2"].inputs == graph.op["t"].inputs
    assert {b.name for b in made.op["t.again1"].buffers}.isdisjoint(b.name for b in graph.op["t"].buffers)
    assert made.digest != graph.digest


def test_a_name_that_is_taken_is_not_taken_twice() -> None:
    net = graphs.Net(dtype="float32")
    t = net.conv("t", net.input("x", 1, 4, 4, 4), 4)
    c = net.conv("t.again1", t, 4)
    net.conv("e", c, 4, add=t)
    made = rematerialised(net.graph(), (Recomputation("t", ("e",)),))
    check_graph(made)
    assert [op.name for op in made.ops] == ["t", "t.again1", "t.again2", "e"]


@pytest.mark.parametrize("seed", range(12))
def test_the_same_function(seed: int) -> None:
    random = Random(seed)
    graph = random.choice([long_way, graphs.residual, graphs.dense])(dtype="float32")
    before = outputs(graph, seed)
    now, wanted = graph, list[Recomputation]()
    for _ in range(random.randint(1, 4)):
        shared = [op for op in now.ops if len(now.consumers[op.output]) > 1]
        if not shared:
            break
        op = random.choice(shared)
        readers = [c.name for c in now.consumers[op.output]]
        wanted.append(Recomputation(op.name, tuple(random.sample(readers, random.randint(1, len(readers) - 1)))))
        now = rematerialised(graph, wanted)
    assert wanted
    check_graph(now)
    after = outputs(now, seed)
    assert before.keys() == after.keys()
    assert all(np.array_equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        (Recomputation("nobody", ("e",)), "nobody is to run again for e: there is no operator nobody"),
        (Recomputation("t", ("e", "other")), "for e, other: there is no operator other"),
        (Recomputation("t", ()), "for nobody: name at least one reader"),
        (Recomputation("t", ("e", "e")), "each of them once"),
        (Recomputation("a", ("e",)), "for e: e does not read a"),
        (Recomputation("t", ("c", "d", "e")), "all readers of t are to have the second run"),
    ],
)
def test_what_makes_no_sense_is_reported(wanted: Recomputation, told: str) -> None:
    with pytest.raises(CheckError, match=told):
        rematerialised(long_way(), (wanted,))
