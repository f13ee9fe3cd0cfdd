"""The shape of an instruction: its extents, and how its operands walk them, as far as blocks of it are to be told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...ir.isa.matrix_selection import FIELDS, MatrixForm
from ...ir.isa.table import ROWS
from ...ir.isa.vector_selection import RANK, VectorForm
from ...ir.isa.window_selection import Slot, WindowPart
from ...ir.machine import Engine
from ...ir.semantics.staging.packing import PackedArray, pack


@dataclass(frozen=True)
class Walk:
    """One dimension of an operand: ``stride`` elements from one position to the next, of which there are ``bound``.

    ``steps``: by how many positions it moves with each of these extents; ``origin``: where the first block begins.
    """

    stride: int
    steps: tuple[tuple[str, int], ...]
    bound: int | None = None
    origin: int = 0

    def extent(self, sizes: Mapping[str, int], *, first: bool = False) -> int:
        """The positions from the first to the last that a block visits, somewhere within or as the ``first``."""
        reach = 1 + sum((sizes[name] - 1) * step for name, step in self.steps)
        if self.bound is None:
            return reach
        return max(0, min(self.bound, self.origin + reach) - max(0, self.origin)) if first else min(reach, self.bound)


@dataclass(frozen=True)
class ShapedOperand:
    """An operand by its tensor; ``added`` is one that is read and written."""

    tensor: str
    walks: tuple[Walk, ...]
    added: bool = False

    def packed(self, item: int, sizes: Mapping[str, int], *, first: bool = False) -> PackedArray:
        """What a block of these sizes, or the ``first``, stages of it."""
        return pack(item, [w.extent(sizes, first=first) for w in self.walks], [w.stride * item for w in self.walks])

    @property
    def walked(self) -> bool:
        """Whether a window is walked over it."""
        return any(len(walk.steps) > 1 for walk in self.walks)

    @property
    def extents(self) -> tuple[str, ...]:
        """The extents that it gets smaller with."""
        return tuple(name for walk in self.walks for name, _ in walk.steps)

    @property
    def moving(self) -> tuple[str, ...]:
        """The extents that move it."""
        return tuple(name for walk in self.walks if walk.stride for name, step in walk.steps if step)


@dataclass(frozen=True)
class InstructionShape:
    """``count`` equal instructions that take ``busy`` cycles in all.

    ``units``: what fills an engine, of each extent that can be cut, in the order of the instruction's fields;
    ``reduced``: those of them that the result does not have. The first operand is written.
    """

    count: int
    busy: int
    sizes: dict[str, int]
    units: dict[str, int]
    reduced: tuple[str, ...]
    operands: tuple[ShapedOperand, ...]

    @property
    def windows(self) -> bool:
        """Whether an operand is walked by a window."""
        return any(operand.walked for operand in self.operands)


Operands = Sequence[tuple[str, Sequence[int]]]
"""Of each operand, the one that is written first: its tensor, and by how many elements each loop moves it."""


def vector_shape(
    form: VectorForm, extents: Sequence[int], operands: Operands, *, adds: bool = False
) -> InstructionShape:
    """Instructions over some of the loops with these ``extents``."""
    names = [f"n{RANK - len(form.loops) + place}" for place in range(len(form.loops))]
    loops = list(zip(names, form.loops, strict=True))
    sizes = {name: extents[loop] for name, loop in loops}
    shaped = tuple(
        ShapedOperand(tensor, tuple(Walk(strides[loop], ((name, 1),)) for name, loop in loops), adds and not number)
        for number, (tensor, strides) in enumerate(operands)
    )
    cut = names[:-1] if form.folds else names
    return InstructionShape(form.instructions, form.busy, sizes, dict.fromkeys(cut, 1), (), shaped)


def window_shape(part: WindowPart, operands: Operands, *, adds: bool) -> InstructionShape:
    """Instructions that visit windows of one operand; the other, if any, is the factor."""
    form, nest = part.form, part.nest
    loops = {"oh": form.row.out, "ow": form.column.out, "n": form.lane, "kh": form.row.kernel, "kw": form.column.kernel,
             "p": form.beside}  # fmt: skip
    sizes = {name: 1 if loop is None else nest.extents[loop] for name, loop in loops.items()}

    def walks(strides: Sequence[int], dims: Sequence[str]) -> tuple[Walk, ...]:
        return tuple(_walk(loops[name], strides, name) for name in dims)

    lanes = walks(nest.source, ("p", "n"))
    visited = (_visited(part, form.row, "oh", "kh"), _visited(part, form.column, "ow", "kw"), *lanes)
    result = ("oh", "ow", "p", "n")
    shaped = [ShapedOperand(operands[0][0], walks(nest.target, result), adds)]
    for number, (tensor, _) in enumerate(operands[1:]):
        factor = walks(nest.factor or nest.target, ("kh", "kw", "n"))
        shaped.append(ShapedOperand(tensor, visited if number == part.source else factor))
    return InstructionShape(form.instructions, form.busy, sizes, dict.fromkeys(result, 1), (), tuple(shaped))


def _walk(loop: int | None, strides: Sequence[int], name: str) -> Walk:
    return Walk(0 if loop is None else strides[loop], ((name, 1),))


def _visited(part: WindowPart, slot: Slot, out: str, kernel: str) -> Walk:
    steps = ((out, slot.stride), (kernel, slot.dilation))
    if slot.guard is None:
        return Walk(slot.pitch, steps)
    guard = part.nest.guards[slot.guard]
    return Walk(slot.pitch, steps, guard.bound, guard.const)


def contraction_shape(
    form: MatrixForm, busy: int, engine: Engine, operands: Operands, *, adds: bool
) -> InstructionShape:
    """The instructions of a contraction: of the result, the left and the right operand, and what it starts from."""
    family = "mmatmul" if form.row is None else "mconv"
    row, names = ROWS[f"{family}.bias"], FIELDS[family]
    axis = dict(zip(names, form.axes, strict=True))
    sizes = {name: 1 if a is None else form.extents[a] for name, a in axis.items()}
    units = {"m": engine.rows, "ow": engine.rows, "n": engine.columns, "k": engine.depth, "ci": engine.depth}
    shaped: list[ShapedOperand] = []
    for number, (tensor, walk) in enumerate(operands):
        strides = [walk[a] for a in form.kept]
        if number == 1 and form.row is not None and form.column is not None:
            windows = [
                Walk(w.pitch, ((out, w.stride), (kernel, w.dilation)), w.bound, w.origin.const)
                for w, out, kernel in ((form.row, "oh", "kh"), (form.column, "ow", "kw"))
            ]
            walks = (*windows, _walk(form.k, strides, "ci"))
        else:
            walks = tuple(_walk(axis[name], strides, name) for name in row.operands[number].dims)
        shaped.append(ShapedOperand(tensor, walks, adds and not number))
    result = row.operands[0].dims
    reduced = tuple(name for name in names if name not in result)
    return InstructionShape(
        form.instructions, busy, sizes, {name: units.get(name, 1) for name in names}, reduced, tuple(shaped)
    )
