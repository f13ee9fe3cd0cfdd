"""The importer's working form: small loop nests over named axes, before they become operators.

A :class:`Loop` is what a :class:`~girih.ir.graph.Stage` will be, with axes by name, so that passes can substitute,
split and drop them. A :class:`NetStep` is a few loops that together write one tensor; fusion merges steps into
operators.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod

import numpy as np

from ...ir.graph import Host
from .dataflow import Dataflow
from .linear import Linear


@dataclass(frozen=True)
class Extent:
    """How far an axis runs, and whether it is reduced."""

    size: int
    reduce: bool = False


@dataclass(frozen=True)
class Ref:
    """``tensor[index...]``, with ``fill`` outside of the bounds."""

    tensor: str
    index: tuple[Linear, ...]
    fill: float | None = None

    def substitute(self, values: Mapping[str, Linear]) -> Ref:
        return replace(self, index=tuple(i.substitute(values) for i in self.index))

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes used, in order of their first use."""
        return tuple(dict.fromkeys(a for i in self.index for a in i.axes))

    @property
    def contiguous_axes(self) -> tuple[str, ...]:
        """The axes whose next point is the next element in memory."""
        return tuple(a for a, c in self.index[-1].terms if c == 1) if self.index else ()


Operand = Ref | float


@dataclass(frozen=True)
class Loop:
    """One future stage; ``axes`` keeps its order."""

    axes: Mapping[str, Extent]
    write: Ref
    func: str
    operands: tuple[Operand, ...]
    combine: str | None = None
    start: Ref | None = None

    @cached_property
    def factors(self) -> tuple[Ref, ...]:
        return tuple(o for o in self.operands if isinstance(o, Ref))

    @cached_property
    def reads(self) -> tuple[Ref, ...]:
        return self.factors if self.start is None else (*self.factors, self.start)

    @cached_property
    def extents(self) -> dict[str, int]:
        return {a: e.size for a, e in self.axes.items()}

    @property
    def spatial(self) -> tuple[str, ...]:
        return tuple(a for a, e in self.axes.items() if not e.reduce)

    @property
    def reduced(self) -> tuple[str, ...]:
        return tuple(a for a, e in self.axes.items() if e.reduce)

    @property
    def points(self) -> int:
        return prod(e.size for e in self.axes.values())

    @property
    def is_contraction(self) -> bool:
        return self.func == "mul" and self.combine == "sum" and len(self.factors) == 2

    @property
    def is_matrix(self) -> bool:
        """A contraction in which the right operand has a column axis of its own."""
        if not self.is_contraction:
            return False
        left, right = self.factors
        return any(a not in left.axes and not self.axes[a].reduce for a in right.axes)

    @property
    def is_movement(self) -> bool:
        return self.func == "copy" and self.combine is None

    def map_refs(self, change: Callable[[Ref], Ref]) -> Loop:
        """The loop with every access changed."""
        return replace(
            self,
            write=change(self.write),
            operands=tuple(change(o) if isinstance(o, Ref) else o for o in self.operands),
            start=None if self.start is None else change(self.start),
        )

    def substitute(self, axis: str, value: Linear, new: Mapping[str, Extent]) -> Loop:
        """Replace one axis by an expression over ``new`` axes, which take its place in the order."""
        axes: dict[str, Extent] = {}
        for a, e in self.axes.items():
            if a == axis:
                axes.update(new)
            else:
                axes[a] = e
        changed = self.map_refs(lambda ref: ref.substitute({axis: value}))
        return replace(changed, axes=axes)

    def split(self, axis: str, factor: int) -> Loop:
        """``axis`` becomes ``factor * outer + inner``."""
        outer, inner = fresh(axis + "o", self.axes), fresh(axis + "i", self.axes)
        old = self.axes[axis]
        new = {outer: Extent(old.size // factor, old.reduce), inner: Extent(factor, old.reduce)}
        return self.substitute(axis, Linear.from_terms({outer: factor, inner: 1}), new)

    def without_unit_axes(self) -> Loop:
        loop = self
        for a, e in self.axes.items():
            if e.size == 1:
                loop = loop.substitute(a, Linear(), {})
        if loop.combine and not loop.reduced:
            loop = replace(loop, combine=None)
        return loop

    def merged(self) -> Loop:
        """Join pairs of axes that occur only as ``size*outer + inner``."""
        for outer, inner in itertools.permutations(self.axes, 2):
            o, i = self.axes[outer], self.axes[inner]
            if o.reduce != i.reduce:
                continue
            indices = [x for ref in (self.write, *self.reads) for x in ref.index]
            if all(x.coefficient(outer) == i.size * x.coefficient(inner) for x in indices):
                name = base_name(outer, inner, self.axes)
                joined = self.substitute(outer, Linear(), {}).substitute(
                    inner, Linear.axis(name), {name: Extent(o.size * i.size, o.reduce)}
                )
                return joined.merged()
        return self

    def __str__(self) -> str:
        axes = " ".join(f"{a}:{e.size}{'+' if e.reduce else ''}" for a, e in self.axes.items())

        def show(o: Operand) -> str:
            if not isinstance(o, Ref):
                return repr(o)
            fill = "" if o.fill is None else f"|{o.fill:g}"
            return f"{o.tensor}[{', '.join(map(str, o.index))}{fill}]"

        head = f"{self.combine} " if self.combine else ""
        return f"[{axes}] {show(self.write)} = {head}{self.func}({', '.join(map(show, self.operands))})"


def renamed(loop: Loop, names: Mapping[str, str]) -> Loop:
    """The loop with some tensors renamed."""
    return loop.map_refs(lambda r: replace(r, tensor=names.get(r.tensor, r.tensor)))


def fresh(name: str, used_names: Container[str]) -> str:
    """``name``, or with a number if it is taken."""
    if name not in used_names:
        return name
    return next(f"{name}{i}" for i in itertools.count(1) if f"{name}{i}" not in used_names)


def base_name(outer: str, inner: str, axes: Mapping[str, Extent]) -> str:
    """The name of two joined axes: what they had in common before they were split."""
    if outer.rstrip("0123456789")[:-1] == inner.rstrip("0123456789")[:-1] and len(outer) > 1:
        base = outer.rstrip("0123456789")[:-1]
        if base and base not in axes:
            return base
    return inner


@dataclass(frozen=True)
class Info:
    """Shape and dtype of a tensor."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def elements(self) -> int:
        return prod(self.shape)


def _identical(first: tuple[object, ...], second: tuple[object, ...]) -> bool:
    return len(first) == len(second) and all(a is b for a, b in zip(first, second, strict=True))


@dataclass
class NetStep:
    """Loops that together write ``output``, through the private tensors ``temps``; or one host kernel.

    ``unit`` is shared by the steps of one library kernel (the four of a softmax), which fusion joins again.
    ``template`` is the key of the custom operator whose own template schedules the step, and ``blocks`` names the block
    of its te.compute that each loop is of; nothing but precisions and accumulators of such a step is changed.
    """

    name: str
    origin: tuple[str, ...]
    unit: tuple[str, int]
    outputs: tuple[str, ...]
    loops: list[Loop] = field(default_factory=list[Loop])
    temps: dict[str, Info] = field(default_factory=dict[str, Info])
    host: Host | None = None
    host_inputs: tuple[str, ...] = ()
    template: str = ""
    blocks: tuple[str, ...] = ()
    _inputs: tuple[tuple[object, ...], tuple[str, ...]] | None = field(default=None, repr=False, compare=False)

    @property
    def output(self) -> str:
        return self.outputs[0]

    @property
    def inputs(self) -> tuple[str, ...]:
        """Tensors of the net that are read, each once."""
        if self.host:
            return tuple(dict.fromkeys(self.host_inputs))
        # Asked for far more often than anything changes.
        state = (*self.loops, len(self.temps), self.outputs)
        if self._inputs is None or not _identical(self._inputs[0], state):
            names = dict.fromkeys(r.tensor for loop in self.loops for r in loop.reads)
            self._inputs = state, tuple(n for n in names if n not in self.temps and n not in self.outputs)
        return self._inputs[1]

    @property
    def is_movement(self) -> bool:
        """A single copy of the whole output."""
        return not self.is_opaque and len(self.loops) == 1 and self.loops[0].is_movement

    @property
    def is_opaque(self) -> bool:
        """Whether its loops are none of the passes' business: a host kernel, or one that its user schedules."""
        return self.host is not None or bool(self.template)

    @property
    def matrix_loops(self) -> int:
        return sum(loop.is_matrix for loop in self.loops)


@dataclass
class Net:
    """Everything between ONNX and Graph. ``inputs``/``outputs`` name the tensors of the ports."""

    tensors: dict[str, Info] = field(default_factory=dict[str, Info])
    constants: dict[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])
    steps: list[NetStep] = field(default_factory=list[NetStep])
    inputs: list[str] = field(default_factory=list[str])
    outputs: list[str] = field(default_factory=list[str])

    def fixed(self) -> set[str]:
        """Tensors whose shape and layout others rely on: ports, and what opaque steps touch."""
        names = {*self.inputs, *self.outputs}
        for step in self.steps:
            if step.is_opaque:
                names.update(step.inputs, step.outputs)
        return names

    def fresh_tensor(self, name: str) -> str:
        return fresh(name, self.tensors)

    def drop_dead(self) -> None:
        """Remove steps whose results nobody reads, and constants and tensors without users."""
        self.steps = Dataflow(self.steps).upstream(self.outputs)
        read = {*self.outputs, *(name for step in self.steps for name in step.inputs)}
        used = {*read, *self.inputs, *(name for step in self.steps for name in step.outputs)}
        self.tensors = {name: info for name, info in self.tensors.items() if name in used}
        self.constants = {name: array for name, array in self.constants.items() if name in read}
