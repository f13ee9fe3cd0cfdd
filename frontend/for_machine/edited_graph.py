"""A graph in which some operators are replaced by several, each of a part of the same work."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from ...ir.box import Span
from ...ir.graph import Access, Constant, Graph, Op, Stage, Tensor


def part_name(name: str, number: int) -> str:
    """What the part of an operator, tensor or buffer is called."""
    return f"{name}.part{number}"


def own_dimension(access: Access, axis: int) -> int | None:
    """The dimension whose index is just this axis, if no other one has it."""
    dims = [d for d, index in enumerate(access.index) if index.coeffs[axis]]
    if len(dims) != 1:
        return None
    index = access.index[dims[0]]
    return dims[0] if index.const == 0 and sum(map(abs, index.coeffs)) == 1 else None


def shortened(stage: Stage, axis: int, span: Span) -> Stage:
    """The stage with only the values ``span`` of an axis, counted from 0."""
    axes = (replace(a, extent=span.size) if n == axis else a for n, a in enumerate(stage.axes))
    return replace(stage, axes=tuple(axes))


@dataclass
class EditedGraph:
    """What is added to ``graph`` until :meth:`with_parts` makes another one of it."""

    graph: Graph
    _tensors: dict[str, Tensor] = field(default_factory=dict[str, Tensor])
    _constants: dict[str, Constant] = field(default_factory=dict[str, Constant])
    _data: dict[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])

    def add(self, tensor: Tensor) -> str:
        """One more tensor; returns its name."""
        self._tensors[tensor.name] = tensor
        return tensor.name

    def constant(self, name: str, dim: int, span: Span) -> str:
        """A part of a constant along one of its dimensions; two readers of the same part share it."""
        of_part = f"{name}:{dim}.{span.lo}-{span.hi}"
        if of_part not in self._tensors:
            old = self.graph.tensor[name]
            shape = tuple(span.size if d == dim else extent for d, extent in enumerate(old.shape))
            array = np.ascontiguousarray(np.take(self.graph.data[name], range(span.lo, span.hi), axis=dim))
            self.add(Tensor(of_part, shape, old.dtype))
            self._constants[of_part] = Constant(of_part, hashlib.sha256(array.tobytes()).hexdigest())
            self._data[of_part] = array
        return of_part

    def with_parts(self, parts: Mapping[str, list[Op]]) -> Graph:
        """The graph with these operators, by the names of those that they replace, and with what it uses alone; the
        same graph if there are none."""
        graph = self.graph
        if not parts:
            return graph
        ops = tuple(new for op in graph.ops for new in parts.get(op.name, [op]))
        used = {n for op in ops for n in (*op.inputs, *op.outputs)} | graph.input_tensors | graph.output_tensors
        constants = {c.tensor: c for c in graph.constants} | self._constants
        return replace(
            graph,
            tensors=tuple(t for n, t in (graph.tensor | self._tensors).items() if n in used),
            ops=ops,
            constants=tuple(c for n, c in constants.items() if n in used),
            data={n: array for n, array in (graph.data | self._data).items() if n in used},
        )
