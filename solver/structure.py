"""When two operators are the same to a scheduler: equal loops, accesses and shapes, whatever their names.

Networks repeat their layers. What is found out about one operator (boxes, costs, tiles) is looked up for the next one
of equal structure.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeAlias

from ..ir.graph import Access, Graph, Op

Signature: TypeAlias = Hashable


def names(op: Op) -> tuple[str, ...]:
    """All tensors of an operator, in an order that operators of equal structure share."""
    return (*dict.fromkeys(op.inputs), *(b.name for b in op.buffers), *op.outputs)


def signature(graph: Graph, op: Op) -> Signature:
    """Equal for two operators if and only if they differ in names alone; constants differ from activations."""
    numbers = {name: i for i, name in enumerate(names(op))}
    private = {b.name: b for b in op.buffers}
    tensors = tuple(
        (t.shape, t.dtype, name in graph.constant_names)
        for name in numbers
        for t in (private[name] if name in private else graph.tensor[name],)
    )

    def access(a: Access | float) -> Hashable:
        return (numbers[a.tensor], a.index, a.fill) if isinstance(a, Access) else a

    stages = tuple(
        (
            tuple((x.extent, x.reduce) for x in s.axes),
            access(s.write),
            s.func,
            tuple(access(o) for o in s.operands),
            s.combine,
        )
        for s in op.stages
    )
    return (tensors, len(op.buffers), stages, op.host is None)


class Structures:
    """Numbers the distinct structures of a graph's operators."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        numbers: dict[Signature, int] = {}
        self.of: dict[str, int] = {}
        """The structure of each operator."""
        self.first: list[Op] = []
        """An operator of each structure."""
        for op in graph.ops:
            found = signature(graph, op)
            if found not in numbers:
                numbers[found] = len(numbers)
                self.first.append(op)
            self.of[op.name] = numbers[found]
