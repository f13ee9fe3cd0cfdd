"""The network as the compiler sees it: operators made of loop nests with affine accesses.

An :class:`Op` is a fused group of loop nests (:class:`Stage`), each of which computes *one* scalar function per
point, so that a stage maps to machine instructions without further analysis. What an operator needs of its inputs
for a part of its output follows from the affine maps, never from its name.

Rounding belongs to the graph, not to the schedule: a value is rounded to the dtype of the tensor or private buffer
that a stage writes, and nowhere else; a stage computes in float32 (integers: int32/int64) and a combined stage
(``combine``) accumulates in float32 until its single write. Every schedule therefore computes the same function, up
to the order of summation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any, Literal, Protocol, TypeVar, cast

import ml_dtypes as ml_dtypes  # Lets NumPy know bfloat16 by name.
import numpy as np

from .box import Affine
from .codec import sha256

T = TypeVar("T")

DTYPES: dict[str, int] = {
    "float32": 4, "float16": 2, "int8": 1, "uint8": 1, "int32": 4, "int64": 8, "bool": 1, "float64": 8,
    "bfloat16": 2,
}  # fmt: skip
"""Bytes of one element, by dtype name."""

FLOATS = frozenset({"bfloat16", "float16", "float32", "float64"})
"""Names of the dtypes of floating-point numbers: NumPy's ``kind`` does not tell, as bfloat16 is none of its own."""

NARROWED = {"fp16": "float16", "bf16": "bfloat16"}
"""What floats become in the precisions that a network can be compiled in, other than its own."""


def from_file(array: np.ndarray, dtype: str) -> np.ndarray:
    """The same elements as ``dtype`` where they are of bfloat16, which NumPy's files name by its size only."""
    return array.view(dtype) if dtype == "bfloat16" and array.dtype == np.dtype("V2") else array


@dataclass(frozen=True)
class Tensor:
    """A dense row-major array; the last dimension is contiguous."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.elements * DTYPES[self.dtype]


@dataclass(frozen=True)
class Axis:
    """A loop from 0 to ``extent``; a reduce axis does not appear in the write."""

    name: str
    extent: int
    reduce: bool = False


@dataclass(frozen=True)
class Access:
    """``tensor[index...]``. Outside of the tensor's bounds a read yields ``fill`` (``None``: never outside)."""

    tensor: str
    index: tuple[Affine, ...]
    fill: float | None = None


@dataclass(frozen=True)
class Stage:
    """``write = combine over the reduce axes of func(*operands)``, for every point of the other axes.

    A contraction adds that to ``start``, if it has one: an access without reduce axes.

    ``func`` is a name in :data:`girih.ir.isa.scalar_functions.ELEMENTS`; an operand is an access or a constant. A stage
    with reduce axes has ``combine`` in sum, max, min, prod, and its ``func`` is copy, or mul in a sum. Each coefficient
    of the write is non-negative, and distinct points of the spatial axes write distinct elements. A stage that combines
    writes the whole of its tensor; another may write only a part (concatenation).
    """

    axes: tuple[Axis, ...]
    write: Access
    func: str
    operands: tuple[Access | float, ...]
    combine: str | None = None
    start: Access | None = None

    @cached_property
    def factors(self) -> tuple[Access, ...]:
        """The operands that are accesses."""
        return tuple(o for o in self.operands if isinstance(o, Access))

    @cached_property
    def reads(self) -> tuple[Access, ...]:
        """The factors, and then the start."""
        return self.factors if self.start is None else (*self.factors, self.start)

    @property
    def points(self) -> int:
        return prod(a.extent for a in self.axes)

    @property
    def is_contraction(self) -> bool:
        """A sum of products of two reads: convolution, matrix product."""
        return self.func == "mul" and self.combine == "sum" and len(self.factors) == 2

    @property
    def is_movement(self) -> bool:
        """Moves or converts, computes nothing."""
        return self.func == "copy" and self.combine is None

    def renamed(self, names: Mapping[str, str]) -> Stage:
        """With other names for the tensors and buffers in ``names``."""

        def access(old: Access) -> Access:
            return replace(old, tensor=names.get(old.tensor, old.tensor))

        return replace(
            self,
            write=access(self.write),
            operands=tuple(access(o) if isinstance(o, Access) else o for o in self.operands),
            start=None if self.start is None else access(self.start),
        )


@dataclass(frozen=True)
class Host:
    """A kernel for the host or a scalar engine: its TIR as TVM's JSON, and why no engine of tiles runs it.

    ``engine``: "scalar" if it is written for a scalar engine, where it runs if the machine has one; any other runs
    where it is done sooner (:func:`girih.ir.semantics.kernel_engine.kernel_engine`). ``operations`` and ``special`` are
    what it takes there in the worst case: operations, and among them special functions; no operations mean that they
    are unknown, so that it runs on the host.
    """

    tir: str
    reason: str
    engine: Literal["host", "scalar"] = "host"
    operations: int = 0
    special: int = 0


@dataclass(frozen=True)
class Op:
    """Loop nests that run one after the other, and communicate through private buffers.

    ``output`` is the one graph tensor that the stages write (a matrix product, though, writes a private buffer); a host
    operator may write several and has no stages. ``origin`` names the ONNX nodes it came from.

    ``template`` is the key of the custom operator whose own template schedules this one (:mod:`.custom_operators`;
    empty: the templates by kind do), and ``blocks`` are the names of the stages by which that template finds them
    (empty: they have none).
    """

    name: str
    origin: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    buffers: tuple[Tensor, ...] = ()
    stages: tuple[Stage, ...] = ()
    host: Host | None = None
    template: str = ""
    blocks: tuple[str, ...] = ()

    @property
    def output(self) -> str:
        return self.outputs[0]

    @cached_property
    def contraction(self) -> int | None:
        """The index of the stage that is a contraction with an own column axis (what a matrix engine can run)."""
        for position, stage in enumerate(self.stages):
            if stage.is_contraction and contraction_axes(stage).n:
                return position
        return None

    @cached_property
    def stationary(self) -> str:
        """The second factor of the contraction, which a matrix engine has in its weight memory; empty if there is no
        contraction."""
        return "" if self.contraction is None else self.stages[self.contraction].factors[1].tensor


class OnnxNode(Protocol):
    """What names an ``onnx.NodeProto``."""

    @property
    def name(self) -> str: ...
    @property
    def op_type(self) -> str: ...
    @property
    def output(self) -> Iterable[str]: ...


def node_name(node: OnnxNode, index: int) -> str:
    """What ``Op.origin`` calls an ONNX node: its name, or that of its result, or its operator and position."""
    return node.name or next((output for output in node.output if output), f"{node.op_type}_{index}")


@dataclass(frozen=True)
class ContractionAxes:
    """The roles of a contraction's axes, as positions in ``stage.axes``.

    ``m`` are in the write and the left operand, ``n`` in the write and the right operand, ``batch`` in all three,
    ``k`` are reduced. The right operand (``operands[1]``) is the stationary one, held in weight memory; it has no fill.
    """

    batch: tuple[int, ...]
    m: tuple[int, ...]
    n: tuple[int, ...]
    k: tuple[int, ...]


def contraction_axes(stage: Stage) -> ContractionAxes:
    """Sort the axes of a contraction into roles; an axis in no operand counts as ``m``."""
    left, right = stage.factors

    def used(access: Access, axis: int) -> bool:
        return any(a.coeffs[axis] for a in access.index)

    batch: list[int] = []
    m: list[int] = []
    n: list[int] = []
    k: list[int] = []
    for position, axis in enumerate(stage.axes):
        if axis.reduce:
            k.append(position)
        elif used(right, position):
            (batch if used(left, position) else n).append(position)
        else:
            m.append(position)
    return ContractionAxes(tuple(batch), tuple(m), tuple(n), tuple(k))


@dataclass(frozen=True)
class Port:
    """An input or output as the user knows it.

    ``name``, ``dtype`` and ``shape`` are those of the ONNX model with every dimension bound, for the whole chip;
    ``tensor`` is the graph's tensor, whose dtype may differ (precision conversion happens at the port) and whose
    ``batch_axis`` is divided among the clusters (``None``: the port is not divided).
    """

    name: str
    tensor: str
    shape: tuple[int, ...]
    dtype: str
    batch_axis: int | None = None


@dataclass(frozen=True)
class Constant:
    """A weight: a tensor whose data is known; ``sha256`` is of its bytes in row-major order."""

    tensor: str
    sha256: str


@dataclass(frozen=True)
class Graph:
    """What one cluster computes. ``ops`` are in topological order; ``tensors`` hold inputs, constants and results.

    ``replicas`` clusters run the same graph on their parts of the batch; the ports speak of the whole. The data of
    the constants travels beside the graph, as a mapping from tensor name to array, so that the graph is small.
    """

    name: str
    tensors: tuple[Tensor, ...]
    ops: tuple[Op, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    constants: tuple[Constant, ...]
    replicas: int = 1
    batch: int | None = None
    data: dict[str, np.ndarray] = field(default_factory=dict[str, np.ndarray], compare=False, repr=False)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the canonical JSON without the name, which may be that of a file, and without the data.

        Nothing that is decided depends on the name, and ``constants`` have digests of the data.
        """
        return sha256(replace(self, name="", data={}))

    @cached_property
    def tensor(self) -> dict[str, Tensor]:
        """Graph tensors by name (private buffers of operators are not here)."""
        return {t.name: t for t in self.tensors}

    def analysis(self, compute: Callable[[Graph], T]) -> T:
        """``compute(self)``, computed once: for what other modules derive from a graph alone."""
        if compute not in self._analyses:
            self._analyses[compute] = compute(self)
        return cast("T", self._analyses[compute])

    @cached_property
    def _analyses(self) -> dict[Callable[[Graph], Any], Any]:
        return {}

    @cached_property
    def op(self) -> dict[str, Op]:
        return {o.name: o for o in self.ops}

    @cached_property
    def producer(self) -> dict[str, Op]:
        """The operator that writes each computed tensor."""
        return {name: op for op in self.ops for name in op.outputs}

    @cached_property
    def consumers(self) -> dict[str, tuple[Op, ...]]:
        """The operators that read each tensor, in order."""
        readers: dict[str, list[Op]] = {t.name: [] for t in self.tensors}
        for op in self.ops:
            for name in dict.fromkeys(op.inputs):
                readers[name].append(op)
        return {name: tuple(ops) for name, ops in readers.items()}

    @cached_property
    def constant_names(self) -> frozenset[str]:
        return frozenset(c.tensor for c in self.constants)

    @cached_property
    def input_tensors(self) -> frozenset[str]:
        return frozenset(p.tensor for p in self.inputs)

    @cached_property
    def output_tensors(self) -> frozenset[str]:
        return frozenset(p.tensor for p in self.outputs)

    def __str__(self) -> str:
        head = f"graph {self.name}: {len(self.ops)} operators, {len(self.constants)} constants"
        rows = [
            f"  {op.name}: {', '.join(op.inputs)} -> {', '.join(op.outputs)}"
            + (" [host]" if op.host else f" [{' '.join(s.func for s in op.stages)}]")
            for op in self.ops
        ]
        return "\n".join([head, *rows])
