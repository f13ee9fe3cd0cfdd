"""Steps that fusion joins, with what its rules ask of them, at a cost that does not grow with their number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from math import prod

from .net import Info, Loop, NetStep, Ref

LONG_ROW = 1 << 15
"""Elements of a row that is too long to be reduced in the same operator as its use."""


class Cluster:
    """One step at first; :meth:`absorb` puts the steps of another cluster in front of it.

    The cluster writes what its last step writes. The results of the others are private to it.
    """

    def __init__(self, step: NetStep) -> None:
        self._steps = [step]  # From the last to the first.
        self._inputs: dict[str, None] = dict.fromkeys(step.inputs)
        self._reads: dict[str, list[tuple[Loop, Ref]]] = {}
        self._pointwise: dict[tuple[str, int], bool] = {}
        for loop in step.loops:
            for ref in loop.reads:
                self._reads.setdefault(ref.tensor, []).append((loop, ref))
        last = [loop for loop in step.loops if loop.write.tensor == step.output]
        self.outputs = step.outputs
        self.is_opaque = step.is_opaque
        self.is_movement = step.is_movement
        self.is_partial = len(last) > 1
        """Several loops write parts of the output (a concatenation)."""
        self.combines_output = any(loop.combine for loop in last)
        self.combines = any(loop.combine for loop in step.loops)
        self.matrix_loops = step.matrix_loops
        self.has_long_rows = any(map(_has_long_rows, step.loops))
        self.unit = step.unit
        self.dequantises = len(step.loops) == 1 and step.loops[0].func == "dequant"
        """All that it does is to make real numbers, of more bytes, of quantised ones."""
        self._name = step.name
        self._weight = max((loop.points for loop in step.loops if loop.combine), default=0)

    @property
    def output(self) -> str:
        return self.outputs[0]

    @property
    def inputs(self) -> Iterable[str]:
        """Tensors that other clusters, constants or ports provide, each once, in no order that means anything."""
        return self._inputs.keys()

    def shared_inputs(self, other: Cluster) -> list[str]:
        """The inputs that both clusters read."""
        small, large = sorted((self._inputs, other._inputs), key=len)
        return [name for name in small if name in large]

    def reads(self, tensor: str) -> list[tuple[Loop, Ref]]:
        """Every access that reads a tensor, and its loop."""
        return self._reads.get(tensor, [])

    def absorb(self, producer: Cluster) -> None:
        """Compute ``producer``, whose output only this cluster reads, in front.

        The cluster is named after the heavier of the two: a matrix product, else the larger reduction, else itself.
        """
        if producer._priority > self._priority:
            self._name, self.unit = producer._name, producer.unit
        self._steps += producer._steps
        small, large = sorted((self._inputs, producer._inputs), key=len)
        large.update(small)
        del large[producer.output]
        self._inputs = large
        few, many = sorted((self._reads, producer._reads), key=len)
        for name, reads in few.items():
            many.setdefault(name, []).extend(reads)
        self._reads = many
        self.is_movement = self.dequantises = False
        self.combines |= producer.combines
        self.matrix_loops += producer.matrix_loops
        self.has_long_rows |= producer.has_long_rows
        self._weight = max(self._weight, producer._weight)

    def reads_pointwise(self, tensor: str, elements: int) -> bool:
        """Whether each of the ``elements`` of an input is read once, in the order in which its reader writes.

        The same has to hold for whatever is computed from the input, up to the output.
        """
        targets = self._pointwise_targets(tensor, elements)
        if targets is None:
            return False
        known = self._pointwise
        path: list[tuple[str, Iterator[str]]] = [("", iter(targets))]  # The input may get more readers: not kept.
        while path:
            name = next((n for n in path[-1][1] if not known.get((n, elements), False)), None)
            if name is None:
                path.pop()
                continue
            targets = self._pointwise_targets(name, elements) if (name, elements) not in known else None
            if targets is None:
                known.update(((n, elements), False) for n in (name, *(n for n, _ in path[1:])))
                return False
            known[name, elements] = True
            path.append((name, iter(targets)))
        return True

    def _pointwise_targets(self, tensor: str, elements: int) -> list[str] | None:
        """What the readers of a tensor write; ``None`` if one of them is not pointwise."""
        for loop, ref in self.reads(tensor):
            if loop.combine or ref.fill is not None or loop.points != elements:
                return None
            if _without_unit_dimensions(ref).contiguous_axes != _without_unit_dimensions(loop.write).contiguous_axes:
                return None
        return [loop.write.tensor for loop, _ in self.reads(tensor)]

    def step(self, tensors: Mapping[str, Info]) -> NetStep:
        """The cluster as one step; the results of all but the last step become temporaries."""
        if len(self._steps) == 1:
            return self._steps[0]
        last = self._steps[0]
        temps: dict[str, Info] = {}
        for step in reversed(self._steps):
            temps |= step.temps
            if step is not last:
                temps[step.output] = tensors[step.output]
        return replace(
            last,
            name=self._name,
            unit=self.unit,
            origin=tuple(dict.fromkeys(o for step in reversed(self._steps) for o in step.origin)),
            loops=[loop for step in reversed(self._steps) for loop in step.loops],
            temps=temps,
        )

    @property
    def _priority(self) -> tuple[bool, bool, int]:
        return self.matrix_loops > 0, self.combines, self._weight


def _has_long_rows(loop: Loop) -> bool:
    return loop.combine is not None and not loop.is_matrix and prod(loop.axes[a].size for a in loop.reduced) > LONG_ROW


def _without_unit_dimensions(ref: Ref) -> Ref:
    return replace(ref, index=tuple(i for i in ref.index if i.terms))
