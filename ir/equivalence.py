"""When two operators, or two runs of them, are the same to a scheduler: equal loops, accesses, shapes and wiring.

Networks repeat their layers. What is found out about one operator or run (boxes, cells, costs, tiles) is looked up for
the next one of equal structure, whatever its names.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeAlias

from .graph import Access, Graph, Op

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
            access(s.start) if s.start is not None else None,
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

    def run(self, ops: Sequence[Op]) -> tuple[Signature, tuple[str, ...]]:
        """What two runs of operators share if they differ in names alone, and the names of all tensors in it.

        Alike are the operators one by one, who reads whose result, and which results are needed outside of the run.
        Names are in an order that runs of equal structure share.
        """
        graph = self.graph
        mine = {op.name for op in ops}
        numbers: dict[str, int] = {}
        key = tuple(
            (
                self.of[op.name],
                tuple(numbers.setdefault(n, len(numbers)) for n in names(op)),
                tuple(
                    n in graph.output_tensors or any(c.name not in mine for c in graph.consumers[n]) for n in op.outputs
                ),
            )
            for op in ops
        )
        return key, tuple(numbers)
