"""Constants that the matrix engine reads as its rows, and that come to local memory tile by tile.

    y[n, m] = sum W[n, k] · x[m, k]      x stays in the array; the rows of W pass through versions of a small buffer

A tile of the result needs some rows of such a constant, with all that is in them: they lie one behind the other in a
version. Nothing else reads the constant, so that no other operator expects it as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..graph import Graph, Op
from ..plan import LocalBuffer


class _Rows:
    """By operator, the constant that could come tile by tile."""

    def __init__(self, graph: Graph) -> None:
        self.by_operator: Mapping[str, str] = {op.name: name for op in graph.ops if (name := _rows(graph, op))}


def row_stream(graph: Graph, op: Op) -> str:
    """The constant whose rows the matrix engine may read tile by tile; empty if there is none."""
    return graph.analysis(_Rows).by_operator.get(op.name, "")


def is_ring(buffer: LocalBuffer) -> bool:
    """Whether a buffer for data has a few tiles of its tensor at a time."""
    return buffer.use == "data" and buffer.depth > 1


def _rows(graph: Graph, op: Op) -> str:
    if op.contraction is None or op.template:
        return ""
    stage = op.stages[op.contraction]
    left, right = stage.factors
    name = left.tensor
    if name not in graph.constant_names or right.tensor in graph.constant_names or left.fill is not None:
        return ""
    reads = [r for s in op.stages for r in s.reads if r.tensor == name]
    if len(reads) > 1 or len(graph.consumers[name]) > 1 or name in graph.output_tensors:
        return ""
    walked = [a for a, c in enumerate(left.index[0].coeffs) if c]
    alone = len(walked) == 1 and left.index[0].coeffs[walked[0]] == 1 and not left.index[0].const
    if not alone or stage.axes[walked[0]].reduce or any(index.coeffs[walked[0]] for index in left.index[1:]):
        return ""
    whole = all(
        sum(stage.axes[a].extent - 1 for a, c in enumerate(index.coeffs) if c) + 1 == extent
        and all(stage.axes[a].reduce for a, c in enumerate(index.coeffs) if c)
        for index, extent in zip(left.index[1:], graph.tensor[name].shape[1:], strict=True)
    )
    return name if whole else ""
