"""A result may take the place of an input: judged by computing it there, part after part in any order."""

from __future__ import annotations

import numpy as np
import pytest

from girih.api.exact.evaluate_graph import Arrays, evaluate_op, replica_inputs
from girih.ir.box import full
from girih.ir.graph import Graph, Op
from girih.ir.semantics.cell import tile_boxes
from girih.ir.semantics.in_place import replaceable, replaced
from tests.support import graphs


def layer_norm_like() -> Graph:
    """An operator that reads its input again after a reduction, and one that adds it."""
    net = graphs.Net()
    x = net.conv("stem", net.input("x", 2, 6, 6, 8), 8)
    y = net.softmax("softmax", x)
    net.conv("last", y, 8, kernel=3, add=x)
    return net.graph()


GRAPHS = {
    "residual": graphs.residual,
    "attention": graphs.attention,
    "softmax": layer_norm_like,
    "matmul of a square": lambda: graphs.matmul(m=16, k=16, n=16),
}


def arrays_before(graph: Graph, op: Op) -> Arrays:
    """Everything that was computed before ``op`` runs."""
    rng = np.random.default_rng(1)
    inputs = {p.name: rng.standard_normal(p.shape).astype(p.dtype) for p in graph.inputs}
    arrays = {**graph.data, **replica_inputs(graph, inputs, 0)}
    for other in graph.ops:
        if other.name == op.name:
            return arrays
        evaluate_op(graph, other, arrays)
    raise AssertionError(op.name)


def computed_in_place(graph: Graph, op: Op, name: str, rng: np.random.Generator) -> np.ndarray:
    """The result of ``op``, its parts written over ``name`` one by one."""
    arrays = arrays_before(graph, op)
    memory = arrays[name].copy()
    sizes = tuple(int(rng.integers(1, e + 1)) for e in memory.shape)
    tiles = tile_boxes(full(memory.shape), sizes, tuple(range(memory.ndim)))
    for t in rng.permutation(len(tiles)):
        now = {**arrays, name: memory.copy()}
        evaluate_op(graph, op, now)
        where = tuple(slice(s.lo, s.hi) for s in tiles[t])
        memory[where] = now[op.output][where]
    return memory


@pytest.mark.parametrize("name", GRAPHS)
def test_what_is_replaceable_can_be_replaced(name: str) -> None:
    graph = GRAPHS[name]()
    rng = np.random.default_rng(0)
    for op in graph.ops:
        for old in replaceable(op, graph.tensor):
            whole = arrays_before(graph, op)
            evaluate_op(graph, op, whole)
            np.testing.assert_array_equal(computed_in_place(graph, op, old, rng), whole[op.output])


def test_what_is_replaceable() -> None:
    found = {op.name: replaceable(op, g.tensor) for g in (graphs.residual(), layer_norm_like()) for op in g.ops}
    assert found["c0"] == (graphs.residual().op["c0"].inputs[-1],)
    assert found["softmax"] == ()
    assert not any(found[n] for n in ("stem", "a0", "b0", "fc"))


def test_shapes_and_sizes_have_to_be_equal() -> None:
    graph = graphs.attention()
    (last,) = (op for op in graph.ops if op.name == "project")
    assert replaceable(last, graph.tensor) == (
        ("q",) if graph.tensor["q"].shape == graph.tensor[last.output].shape else ()
    )
    square = graphs.matmul(m=16, k=16, n=16)
    assert replaceable(square.ops[0], square.tensor) == ()


def test_only_the_last_reader_replaces_its_input() -> None:
    """In the whole run of operators, whoever reads the input element by element; in a shorter one, its last."""
    net = graphs.Net()
    x = net.conv("stem", net.input("x", 2, 6, 6, 8), 8)
    early = net.elementwise("early", "max", x, 0.0)
    late = net.elementwise("late", "add", x, early)
    net.conv("last", late, 8)
    graph = net.graph()
    assert replaceable(graph.op["early"], graph.tensor) == (x,)
    assert replaced(graph, graph.ops) == {late: x}
    assert replaced(graph, graph.ops[:2]) == {early: x}
    assert replaced(graph, [op for op in graph.ops if op.name != "early"]) == {late: x}
