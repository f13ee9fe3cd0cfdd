"""Which constants the matrix engine may read by rows tile by tile, and each reason why one has to come as a whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from girih.ir.box import Affine
from girih.ir.checks.check_graph import check_graph
from girih.ir.graph import Access, Axis, Graph, Op, Port, Stage, Tensor
from girih.ir.plan import LocalBuffer
from girih.ir.semantics.row_stream import is_ring, row_stream
from tests.support import graphs

ROWS, TOKENS, DEPTH = 10, 12, 16
"""y[n, m] = sum W[n, k] · x[k, m]: so many n, m and k."""


def product() -> Graph:
    """Weights on the left, without a bias."""
    net = graphs.Net("rows", "float32")
    net.product("y", net.constant("w", ROWS, DEPTH), net.input("x", DEPTH, TOKENS))
    return net.graph()


def of_weights(change: Callable[[Access], Access]) -> Callable[[Graph], Graph]:
    def edit(graph: Graph) -> Graph:
        (op,) = graph.ops
        first, *rest = op.stages
        left, right = first.factors
        return replace(graph, ops=(replace(op, stages=(replace(first, operands=(change(left), right)), *rest)),))

    return edit


def of_shape(*shape: int) -> Callable[[Graph], Graph]:
    def edit(graph: Graph) -> Graph:
        tensors = tuple(replace(t, shape=shape) if t.name == "w" else t for t in graph.tensors)
        return replace(graph, tensors=tensors, data={"w": np.ones(shape, np.float32)})

    return edit


def after(*edits: Callable[[Graph], Graph]) -> Callable[[Graph], Graph]:
    def edit(graph: Graph) -> Graph:
        for each in edits:
            graph = each(graph)
        return graph

    return edit


def rows_at(row: Affine) -> Callable[[Graph], Graph]:
    return of_weights(lambda w: replace(w, index=(row, w.index[1])))


def depth_at(column: Affine) -> Callable[[Graph], Graph]:
    return of_weights(lambda w: replace(w, index=(w.index[0], column)))


def swapped_indices(w: Access) -> Access:
    return replace(w, index=w.index[::-1])


def also_added(graph: Graph) -> Graph:
    """The last stage adds the first column of the weights to what the product made."""
    (op,) = graph.ops
    first, last = op.stages
    column = Access("w", (Affine((1, 0)), Affine((0, 0))))
    added = replace(last, func="add", operands=(last.reads[0], column))
    return replace(graph, ops=(replace(op, stages=(first, added)),))


def also_started(graph: Graph) -> Graph:
    (op,) = graph.ops
    first, last = op.stages
    started = replace(first, start=Access("w", (Affine((1, 0, 0)), Affine((0, 0, 0)))))
    return replace(graph, ops=(replace(op, stages=(started, last)),))


def also_read(graph: Graph) -> Graph:
    """Another operator turns the sign of the weights."""
    net = graphs.Net("other", "float32")
    net.elementwise("minus", "neg", net.input("w", ROWS, DEPTH))
    other = net.graph()
    return replace(
        graph,
        tensors=(*graph.tensors, other.tensor["minus"]),
        ops=(*graph.ops, *other.ops),
        outputs=(*graph.outputs, *other.outputs),
    )


def given_out(graph: Graph) -> Graph:
    return replace(graph, outputs=(*graph.outputs, Port("w", "w", (ROWS, DEPTH), "float32")))


def all_known(graph: Graph) -> Graph:
    (constant,) = graph.constants
    return replace(graph, inputs=(), constants=(constant, replace(constant, tensor="x")))


def none_known(graph: Graph) -> Graph:
    port = Port("w", "w", (ROWS, DEPTH), "float32")
    return replace(graph, inputs=(*graph.inputs, port), constants=(), data={})


def on_the_right(graph: Graph) -> Graph:
    """The weights stay in the array."""
    (op,) = graph.ops
    first, *rest = op.stages
    return replace(graph, ops=(replace(op, stages=(replace(first, operands=first.operands[::-1]), *rest)),))


def of_a_template(graph: Graph) -> Graph:
    (op,) = graph.ops
    return replace(graph, ops=(replace(op, template="somebody's", blocks=("a", "b")),))


def stream(graph: Graph) -> str:
    names = [row_stream(graph, op) for op in graph.ops]
    assert not any(names[1:])
    return names[0]


def test_rows_of_a_constant_qualify() -> None:
    graph = product()
    check_graph(graph)
    assert stream(graph) == "w"


SOME = {
    "more rows than are read": of_shape(ROWS + 3, DEPTH),
    "a last dimension of one element": after(
        of_shape(ROWS, DEPTH, 1), of_weights(lambda w: replace(w, index=(*w.index, Affine((0, 0, 0)))))
    ),
}


@pytest.mark.parametrize("edit", SOME.values(), ids=SOME)
def test_whole_rows_are_enough(edit: Callable[[Graph], Graph]) -> None:
    graph = edit(product())
    check_graph(graph)
    assert stream(graph) == "w"


REASONS: dict[str, Callable[[Graph], Graph]] = {
    "padding": of_weights(lambda w: replace(w, fill=0.0)),
    "read again by another stage": also_added,
    "read again as the start of the sums": also_started,
    "two readers": also_read,
    "an output": given_out,
    "constants on both sides": all_known,
    "no constant": none_known,
    "weights stay in the array": on_the_right,
    "rows are not outermost": after(of_shape(DEPTH, ROWS), of_weights(swapped_indices)),
    "rows walk two dimensions": after(
        of_shape(ROWS, DEPTH + ROWS - 1), depth_at(Affine((1, 0, 1)))
    ),
    "a part of each row": of_shape(ROWS, DEPTH + 1),
    "every second element of each row": after(of_shape(ROWS, 2 * DEPTH - 1), depth_at(Affine((0, 0, 2)))),
    "each row from its second element on": after(of_shape(ROWS, DEPTH + 1), depth_at(Affine((0, 0, 1), 1))),
    "rows from the second one on": after(of_shape(ROWS + 1, DEPTH), rows_at(Affine((1, 0, 0), 1))),
    "every second row": after(of_shape(2 * ROWS, DEPTH), rows_at(Affine((2, 0, 0)))),
    "rows in windows": after(of_shape(ROWS + DEPTH - 1, DEPTH), rows_at(Affine((1, 0, 1)))),
    "one row for all": rows_at(Affine((0, 0, 0))),
    "a template of its own": of_a_template,
}  # fmt: skip


@pytest.mark.parametrize("edit", REASONS.values(), ids=REASONS)
def test_others_come_as_a_whole(edit: Callable[[Graph], Graph]) -> None:
    assert stream(edit(product())) == ""


@pytest.mark.parametrize(
    "why", [w for w in REASONS if w not in ("an output", "a template of its own", "constants on both sides", "one row for all")]
)  # fmt: skip
def test_these_reasons_occur_in_graphs(why: str) -> None:
    """They are no mistakes of these tests: the graphs are such as the compiler has."""
    check_graph(REASONS[why](product()))


@pytest.mark.parametrize(("step", "found"), [(1, "w"), (2, "")])
def test_a_reduction_of_two_axes_is_whole(step: int, found: str) -> None:
    """y[n, m] = sum over h and d of W[n, h, d] · x[m, h, d], or of every second d."""
    net = graphs.Net("heads", "float32")
    w, x = net.constant("w", 9, 3, 7), net.input("x", 5, 3, 7)
    net.tensors["y"] = Tensor("y", (9, 5), "float32")
    extents = {"n": 9, "m": 5, "h": 3, "d": 7 if step == 1 else 4}
    axes = tuple(Axis(name, extent, name in "hd") for name, extent in extents.items())

    def at(*used: int) -> tuple[Affine, ...]:
        return tuple(Affine(tuple((step if a == 3 else 1) * int(a == u) for a in range(4))) for u in used)

    total, same = Tensor("total", (9, 5), "float32"), (Affine((1, 0)), Affine((0, 1)))
    stages = (
        Stage(axes, Access("total", at(0, 1)), "mul", (Access(w, at(0, 2, 3)), Access(x, at(1, 2, 3))), "sum"),
        Stage(axes[:2], Access("y", same), "copy", (Access("total", same),)),
    )
    net.ops.append(Op("y", ("y",), (w, x), ("y",), (total,), stages))
    graph = net.graph()
    check_graph(graph)
    assert stream(graph) == found


def contraction(extents: dict[str, int], left: str, right: str, result: str) -> Graph:
    """result = sum over k of W[left] · x[right]; each letter is an axis."""
    net = graphs.Net("contraction", "float32")

    def shape(letters: str) -> tuple[int, ...]:
        return tuple(extents[letter] for letter in letters)

    def at(letters: str, axes: str) -> tuple[Affine, ...]:
        return tuple(Affine(tuple(int(axis == letter) for axis in axes)) for letter in letters)

    w, x = net.constant("w", *shape(left)), net.input("x", *shape(right))
    net.tensors["y"] = Tensor("y", shape(result), "float32")
    total, whole = Tensor("total", shape(result), "float32"), result + "k"
    axes = tuple(Axis(letter, extents[letter], letter == "k") for letter in whole)
    factors = Access(w, at(left, whole)), Access(x, at(right, whole))
    stages = (
        Stage(axes, Access("total", at(result, whole)), "mul", factors, "sum"),
        Stage(axes[:-1], Access("y", at(result, result)), "copy", (Access("total", at(result, result)),)),
    )
    net.ops.append(Op("y", ("y",), (w, x), ("y",), (total,), stages))
    return net.graph()


@pytest.mark.parametrize(
    ("left", "right", "result", "found"),
    [
        ("nk", "mk", "nm", "w"),
        ("k", "km", "m", ""),  # one row for all, which is reduced
        ("nb", "bmk", "nbm", ""),  # a row has what other results need of it
        ("bnk", "bmk", "bnm", ""),  # rows of several products
    ],
)
def test_rows_are_reduced_as_a_whole(left: str, right: str, result: str, found: str) -> None:
    graph = contraction({"n": 9, "m": 6, "k": 5, "b": 3}, left, right, result)
    check_graph(graph)
    assert graph.ops[0].contraction == 0
    assert stream(graph) == found


def test_operators_without_products_read_nothing_by_rows() -> None:
    net = graphs.Net("others", "float32")
    net.elementwise("y", "add", net.constant("w", 8, 8), net.input("x", 8, 8))
    assert stream(net.graph()) == ""
    hosted = Op("host", (), ("x",), ("y",))
    assert row_stream(net.graph(), hosted) == ""


def test_a_ring_is_data_in_several_versions() -> None:
    ring = LocalBuffer(0, "", "w", "data", "L1", 0, 1024, 2, (0, 1))
    assert is_ring(ring)
    assert not is_ring(replace(ring, depth=1))
    assert not is_ring(replace(ring, use="weights", op="y"))
    assert not is_ring(replace(ring, use="scratch", op="y"))
