"""Products that the matrix engine makes while the vector engine is with something else."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from girih.ir.checks.check_plan import check_plan
from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.plan import Segment, Split
from girih.ir.semantics.cell import Cells
from girih.lowering import lower
from girih.simulator import simulate
from girih.solver import plan
from girih.solver.options import Options
from girih.solver.subproblem.operator_order import interleaved
from girih.solver.tiling.solve import TileOverflow, Tiler
from tests.support import graphs
from tests.support.sampled import sampled

MACHINE = load_machine("stcp920")


def names(graph: Graph) -> tuple[str, ...]:
    return tuple(op.name for op in graph.ops)


def attention(length: int = 256, width: int = 64) -> Graph:
    """Projections of tokens, the values before the scores."""
    net = graphs.Net("attention")
    x = net.input("x", 8, length, width)
    q, v, k = (net.matmul(name, x, width) for name in ("query", "value", "key"))
    scores = net.product("scores", q, k, transposed=True, scale=width**-0.5)
    net.product("context", net.softmax("softmax", scores), v)
    return net.graph()


def test_values_are_made_during_the_softmax() -> None:
    graph = attention()
    assert names(graph) == ("query", "value", "key", "scores", "softmax", "context")
    wanted = ("query", "key", "scores", "softmax", "value", "context")
    assert interleaved(graph, names(graph)) == wanted
    assert interleaved(graph, wanted) == wanted
    # What is needed by then, or elsewhere alone, stays.
    assert interleaved(graph, names(graph)[2:]) == names(graph)[2:]
    assert interleaved(graph, names(graph)[:5]) == names(graph)[:5]


@pytest.mark.parametrize("seed", sampled(range(40)))
def test_any_order_that_comes_out_can_run(seed: int) -> None:
    """Random graphs of products and softmaxes."""
    random = Random(seed)
    net = graphs.Net("random")
    known = [net.input("x", 4, 8, 8)]
    for number in range(12):
        a, b = random.choice(known[-4:]), random.choice(known)
        kind = random.randrange(3)
        if kind == 0:
            known.append(net.matmul(f"o{number}", a, 8))
        elif kind == 1:
            known.append(net.product(f"o{number}", a, b))
        else:
            known.append(net.softmax(f"o{number}", a))
    graph = net.graph()
    order = interleaved(graph, names(graph))
    assert sorted(order) == sorted(names(graph))
    made = {"x", *graph.constant_names}
    for name in order:
        assert made.issuperset(graph.op[name].inputs)
        made.add(graph.op[name].output)


def test_the_vector_engine_is_known_to_be_with_something_else() -> None:
    """Behind a softmax, a product needs tiles small enough for the accumulators to hold what is made meanwhile."""
    graph = attention(length=512)
    segment = Segment(interleaved(graph, names(graph)), (), (Split(0, 8),), ())
    tiler = Tiler(graph, MACHINE)
    alone, behind = (tiler.segment(segment, Cells(graph), leads=leads) for leads in (False, True))
    assert not isinstance(alone, TileOverflow) and not isinstance(behind, TileOverflow)
    alone, behind = (found[0].tile["value"] for found in (alone, behind))
    assert alone != behind


def test_the_order_is_that_of_the_plan_and_of_the_program() -> None:
    """Where it makes the segment shorter, as here."""
    graph = attention(length=192, width=192)
    found = plan(graph, MACHINE, Options(timeout=2.0)).plan
    assert [s.ops for s in found.segments] == [interleaved(graph, names(graph))]
    check_plan(found, graph, MACHINE)
    x = np.random.default_rng(0).standard_normal((8, 192, 192)).astype(np.float16)
    trace = simulate(lower(graph, found, MACHINE), MACHINE, graph.data, {"x": x})
    assert trace.violations == ()
