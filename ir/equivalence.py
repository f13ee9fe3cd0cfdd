"""Structural equivalence: operators, or runs of them, that differ in names alone.

Their loops, accesses, shapes and wiring are equal. Networks repeat their layers: what is computed for one operator or
run (boxes, cells, costs, tiles) is looked up for every other one of its equivalence class.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeAlias

from .graph import Access, Graph, Op

Signature: TypeAlias = Hashable


def tensor_names(op: Op) -> tuple[str, ...]:
    """All tensors of an operator, in an order that equivalent operators share."""
    return (*dict.fromkeys(op.inputs), *(b.name for b in op.buffers), *op.outputs)


def signature(graph: Graph, op: Op) -> Signature:
    """Equal for two operators if and only if they differ in names alone; constants differ from activations."""
    numbers = {name: i for i, name in enumerate(tensor_names(op))}
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
    return (tensors, len(op.buffers), stages, op.host is None, op.template, op.blocks)


class EquivalenceClasses:
    """The equivalence classes of a graph's operators; use it as ``graph.analysis(EquivalenceClasses)``."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        numbers: dict[Signature, int] = {}
        self.class_of: dict[str, int] = {}
        """The number of each operator's class."""
        self.representatives: list[Op] = []
        """The first operator of each class."""
        for op in graph.ops:
            key = signature(graph, op)
            if key not in numbers:
                numbers[key] = len(numbers)
                self.representatives.append(op)
            self.class_of[op.name] = numbers[key]

    def run_signature(self, ops: Sequence[Op]) -> tuple[Signature, tuple[str, ...]]:
        """(the signature of a run of operators, the names of all tensors in it).

        Runs of equal signature differ in names alone: their operators are equivalent one by one, read the same results,
        and the same results are needed outside of the run. Names are in an order that equivalent runs share.
        """
        graph = self.graph
        members = {op.name for op in ops}
        numbers: dict[str, int] = {}
        key = tuple(
            (
                self.class_of[op.name],
                tuple(numbers.setdefault(n, len(numbers)) for n in tensor_names(op)),
                tuple(
                    n in graph.output_tensors or any(c.name not in members for c in graph.consumers[n])
                    for n in op.outputs
                ),
            )
            for op in ops
        )
        return key, tuple(numbers)
