"""A graph in which some operators are replaced by several, each of a part of the same work."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ...ir.box import Span
from ...ir.graph import Access, Constant, Graph, Op, Stage, Tensor


def own_dimension(access: Access, axis: int) -> int | None:
    """The dimension whose index is just this axis, if no other one has it."""
    dims = [d for d, index in enumerate(access.index) if index.coeffs[axis]]
    if len(dims) != 1:
        return None
    index = access.index[dims[0]]
    alone = index.coeffs[axis] == 1 and sum(map(abs, index.coeffs)) == 1
    return dims[0] if index.const == 0 and alone else None


def dimensions_of(access: Access, stage: Stage, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """For each axis of a stage, the dimension that it walks alone, from the first element to the last of this shape;
    ``None`` unless that is all of the tensor, but for dimensions of one element."""
    walked = [own_dimension(access, axis) for axis in range(len(stage.axes))]
    dims = tuple(d for d in walked if d is not None)
    if len(dims) < len(walked) or any(shape[d] != a.extent for d, a in zip(dims, stage.axes, strict=True)):
        return None
    return dims if all(extent == 1 for d, extent in enumerate(shape) if d not in dims) else None


def shortened(stage: Stage, axis: int, span: Span) -> Stage:
    """The stage with only the values ``span`` of an axis, counted from 0."""
    axes = (replace(a, extent=span.size) if n == axis else a for n, a in enumerate(stage.axes))
    return replace(stage, axes=tuple(axes))


class EditedGraph:
    """Collects what is added to ``graph`` until :meth:`with_parts` makes another one of it."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._ops = {op.name for op in graph.ops}
        self._values = {*graph.tensor, *(b.name for op in graph.ops for b in op.buffers)}
        """Names that are in use, of operators and of tensors and private buffers."""
        self._tensors: dict[str, Tensor] = {}
        self._constants: dict[str, Constant] = {}
        self._parts: dict[tuple[str, int, Span], str] = {}
        self._data: dict[str, np.ndarray] = {}

    def op_name(self, name: str, number: int) -> str:
        """A name for the part of an operator, which no other has."""
        return _unused(f"{name}.part{number}", self._ops)

    def another_op(self, name: str) -> str:
        """A name like this one for one more operator, which no other has."""
        return _unused(name, self._ops)

    def value_name(self, name: str, number: int) -> str:
        """A name for the part of a tensor or private buffer, which no other has."""
        return _unused(f"{name}.part{number}", self._values)

    def add(self, tensor: Tensor) -> str:
        """One more tensor; returns its name."""
        self._tensors[tensor.name] = tensor
        return tensor.name

    def constant(self, name: str, dim: int, span: Span) -> str:
        """A part of a constant along one of its dimensions; two readers of the same part share it."""
        key = name, dim, span
        if key not in self._parts:
            array = np.take(self.graph.data[name], range(span.lo, span.hi), axis=dim)
            self._parts[key] = self.new_constant(f"{name}:{dim}.{span.lo}-{span.hi}", array)
        return self._parts[key]

    def new_constant(self, name: str, data: np.ndarray) -> str:
        """One more constant with a name like this one; returns its name."""
        data = np.ascontiguousarray(data)
        name = self.add(Tensor(_unused(name, self._values), data.shape, data.dtype.name))
        self._constants[name] = Constant(name, hashlib.sha256(data.tobytes()).hexdigest())
        self._data[name] = data
        return name

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


def _unused(name: str, names: set[str]) -> str:
    """``name``, or something like it that is not among the ``names`` yet; it is from then on."""
    while name in names:
        name += "'"
    names.add(name)
    return name
