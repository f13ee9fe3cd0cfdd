"""Combinations become vector instructions: element by element over the outer loops, along the lanes, or over windows.

:mod:`girih.ir.isa.vector_selection` and :mod:`girih.ir.isa.window_selection` choose the cheapest.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ...ir.errors import UnsupportedError
from ...ir.isa.scalar_functions import COMBINE_IDENTITY
from ...ir.isa.vector_selection import VectorForm, reduction_form
from ...ir.isa.window_selection import window_mnemonic
from ...ir.machine import Engine
from ..loops.axes import ByteNest, Piece, merged, pieces, tied
from ..loops.perfect_nest import Load, PerfectNest
from .vector import Buffers, Emitted, lanes, refs, require_family
from .window import ANY_COST, bounded, windows


@dataclass(frozen=True)
class _Combination:
    """A nest without conditions on single loops: ``spatial`` loops are in the destination, ``reduced`` ones are not.

    ``covered``: its points reach every element of the destination that the nest had in its sight. ``form`` tells of
    each operand if it is a vector or an immediate.
    """

    nest: ByteNest
    func: str
    combine: str
    form: str
    immediates: tuple[tuple[str, float], ...]
    spatial: tuple[int, ...]
    reduced: tuple[int, ...]
    covered: bool

    @property
    def names(self) -> tuple[str, ...]:
        return ("dst", *"ab"[: self.form.count("v")])


def reduction(nest: PerfectNest, buffers: Buffers, engine: Engine, started: bool) -> tuple[list[Emitted], bool]:
    """A combination on the vector engine; also whether it overwrites, so that no initial fill is needed.

    ``started``: the destination already holds a part of the result.
    """
    combine = nest.combine
    assert combine is not None
    loads = [o for o in nest.operands if isinstance(o, Load)]
    numbers = [o for o in nest.operands if not isinstance(o, Load)]
    for load in loads:
        if load.conditions and load.fill is not None and not _neutral(load.fill, nest.func, combine):
            raise UnsupportedError(f"a {combine} over {load.buffer} reads {load.fill} outside of its bounds")
    if not loads:
        if combine not in ("max", "min") and numbers[0] != COMBINE_IDENTITY[combine]:
            raise UnsupportedError(f"a {combine} reads {numbers[0]} outside of bounds")
        return [], False  # what all points fall outside of has left its mark in the initial value
    operands = "v" * len(loads) + "s" * len(numbers)  # a product's factors can change places
    if nest.func == "mul" and (combine != "sum" or operands not in ("vv", "vs")):
        raise UnsupportedError(f"no instruction combines products of form {operands} by {combine}")
    inside = bounded(nest, buffers)
    if inside is None:
        return [], False
    flat = merged(inside.nest)
    spatial = tuple(a for a, s in enumerate(flat.accesses[0].strides) if s)
    combination = _Combination(
        flat,
        nest.func,
        combine,
        operands,
        tuple((f"imm{i}", float(n)) for i, n in enumerate(numbers)),
        spatial,
        tuple(a for a in range(len(flat.extents)) if a not in spatial),
        inside.clipped.covered,
    )
    folding, stepping = ("vdot", "vmacc") if nest.func == "mul" else ("vred", "vacc")
    by_window = (window_mnemonic(nest.func, combine, len(loads)) or "").partition(".")[0]
    require_family(nest, stepping, *(f for f in (folding, by_window) if f and "s" not in operands))
    if nest.instruction and nest.instruction == by_window:
        by_windows = windows(nest, inside, buffers, engine, started, ANY_COST)
        if by_windows is None:
            raise UnsupportedError(f"npu.instruction asks for {by_window}, and there is no window in the loops")
        return by_windows
    folds = nest.instruction == folding if nest.instruction else None
    form = _form(combination, engine, buffers[nest.buffer].dtype, buffers[loads[0].buffer].dtype, folds)
    if not nest.instruction and not any(flat.fields):
        by_windows = windows(nest, inside, buffers, engine, started, form.busy)
        if by_windows is not None:
            return by_windows
    return (_along_lanes if form.folds else _element_by_element)(combination, form.loops, started)


def _neutral(fill: float, func: str, combine: str) -> bool:
    """Whether what a read yields outside of its bounds changes nothing, so that those points can be left out."""
    return fill == (0.0 if func == "mul" else COMBINE_IDENTITY[combine])


def _form(combination: _Combination, engine: Engine, dtype: str, source: str, folds: bool | None) -> VectorForm:
    """The loops of the cheapest vector instruction; only vectors can be folded along the lanes.

    ``folds``: as in :func:`~girih.ir.isa.vector_selection.reduction_form`.
    """
    nest = combination.nest
    conditioned = {a for c in nest.conditions for a, k in enumerate(c.coeffs) if k}
    lanes = [a for a in combination.reduced if a not in conditioned] if "s" not in combination.form else []
    dtypes = dtype, source
    return reduction_form(
        engine, nest.extents, combination.reduced, lanes, dtypes, nest.accesses[0].strides, tied(nest),
        fields=nest.fields, folds=folds,
    )  # fmt: skip


def _along_lanes(combination: _Combination, axes: tuple[int, ...], started: bool) -> tuple[list[Emitted], bool]:
    """The last of ``axes`` is folded in an instruction, those around it one after the other."""
    nest = combination.nest
    overwrites = combination.covered and not nest.conditions and not started
    mnemonic = "vdot.vv" if combination.func == "mul" else f"vred.{combination.combine}"
    outer = [a for a in range(len(nest.extents)) if a not in axes]
    ranks = (2, *(3,) * combination.form.count("v"))
    out: list[Emitted] = []
    for p in pieces(nest, axes, 3):
        first = all(v == 0 for a, v in zip(outer, p.outer, strict=True) if a in combination.reduced)
        acc = 0 if overwrites and first else 1
        out.append(Emitted(mnemonic, (*lanes(p), ("acc", acc)), refs(combination.names, nest, p, ranks)))
    return out, overwrites


def _element_by_element(combination: _Combination, axes: tuple[int, ...], started: bool) -> tuple[list[Emitted], bool]:
    """One point of the reduced loops after the other; one that reaches everything can go first, and overwrite."""
    nest = combination.nest
    outer = [a for a in range(len(nest.extents)) if a not in axes]
    groups: dict[tuple[int, ...], list[Piece]] = {}
    for p in pieces(nest, axes, 3):
        place = tuple(v for a, v in zip(outer, p.outer, strict=True) if a in combination.spatial)
        groups.setdefault(place, []).append(p)
    full = (*(1,) * (3 - len(axes)), *(nest.extents[a] for a in axes))
    leaders = [next((i for i, p in enumerate(group) if p.extents == full), None) for group in groups.values()]
    places = prod(nest.extents[a] for a in outer if a in combination.spatial)
    overwrites = combination.covered and not started and len(groups) == places and None not in leaders
    product = combination.func == "mul"
    start = f"vmul.{combination.form}" if product else "vcopy.v"
    step = f"vmacc.{combination.form}" if product else f"vacc.{combination.combine}"
    out: list[Emitted] = []
    for leader, group in zip(leaders, groups.values(), strict=True):
        if overwrites and leader is not None:
            group.insert(0, group.pop(leader))
        for position, p in enumerate(group):
            mnemonic = start if overwrites and position == 0 else step
            operands = refs(combination.names, nest, p, (3,) * len(combination.names))
            out.append(Emitted(mnemonic, (*lanes(p), *combination.immediates), operands))
    return out, overwrites
