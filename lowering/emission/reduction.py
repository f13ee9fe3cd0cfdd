"""Combinations become vector instructions: element by element over the outer loops, along the lanes, or over windows.

The cheapest is taken; of equals, the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ...ir.errors import UnsupportedError
from ...ir.isa.scalar_functions import COMBINE_IDENTITY
from ...ir.machine import Engine
from ..loops.axes import ByteNest, Piece, choices, collapse, independent, pieces
from ..loops.perfect_nest import Load, Nest
from .vector import Buffers, Emitted, lanes, refs, vector_cost
from .window import bounded, windows


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


def reduction(nest: Nest, buffers: Buffers, engine: Engine, started: bool) -> tuple[list[Emitted], bool]:
    """A combination on the vector engine; also whether it overwrites, so that no initial fill is needed.

    ``started``: the destination already holds a part of the result.
    """
    combine = nest.combine
    assert combine is not None
    loads = [o for o in nest.operands if isinstance(o, Load)]
    numbers = [o for o in nest.operands if not isinstance(o, Load)]
    for load in loads:
        dtype = buffers[load.buffer].dtype
        if load.conditions and load.fill is not None and not _neutral(load.fill, dtype, nest.func, combine):
            raise UnsupportedError(f"a {combine} over {load.buffer} reads {load.fill} outside of its bounds")
    if not loads:
        if combine not in ("max", "min") and numbers[0] != COMBINE_IDENTITY[combine]:
            raise UnsupportedError(f"a {combine} reads {numbers[0]} outside of bounds")
        return [], False  # what all points fall outside of has left its mark in the initial value
    form = "v" * len(loads) + "s" * len(numbers)  # a product's factors can change places
    if nest.func == "mul" and (combine != "sum" or form not in ("vv", "vs")):
        raise UnsupportedError(f"no instruction combines products of form {form} by {combine}")
    inside = bounded(nest, buffers)
    if inside is None:
        return [], False
    flat = collapse(inside.nest)
    spatial = tuple(a for a, s in enumerate(flat.walks[0].strides) if s)
    whole = _Combination(
        flat,
        nest.func,
        combine,
        form,
        tuple((f"imm{i}", float(n)) for i, n in enumerate(numbers)),
        spatial,
        tuple(a for a in range(len(flat.extents)) if a not in spatial),
        inside.covered,
    )
    cycles, along, axes = _cheapest(whole, engine, buffers[nest.buffer].dtype, buffers[loads[0].buffer].dtype)
    made = windows(nest, inside, buffers, engine, started, cycles)
    if made is not None:
        return made
    return (_along if along else _element_by_element)(whole, axes, started)


def _neutral(fill: float, dtype: str, func: str, combine: str) -> bool:
    """Whether what a read yields outside of its bounds changes nothing, so that those points can be left out."""
    if func == "mul":
        return fill == 0.0
    if combine in ("max", "min"):
        # Networks pad with the lowest finite number of a dtype where they mean minus infinity.
        lowest = {"float16": -65504.0, "float32": -3.4e38}.get(dtype, float("-inf"))
        return fill <= lowest if combine == "max" else fill >= -lowest
    return fill == COMBINE_IDENTITY[combine]


def _cheapest(whole: _Combination, engine: Engine, dtype: str, source: str) -> tuple[int, bool, tuple[int, ...]]:
    """The cycles it takes, whether to go along the lanes, and the loops of an instruction."""
    nest, spatial = whole.nest, whole.spatial
    options: list[tuple[int, bool, tuple[int, ...]]] = []
    for chosen in choices(len(spatial), 3):
        axes = tuple(spatial[a] for a in chosen)
        if independent(nest, axes):
            options.append((vector_cost(nest, axes, engine, dtype, False), False, axes))
    conditioned = {a for c in nest.conditions for a, k in enumerate(c.coeffs) if k}
    for lane in whole.reduced if "s" not in whole.form else ():
        for chosen in choices(len(spatial), 2):
            axes = (*(spatial[a] for a in chosen), lane)
            if lane not in conditioned and independent(nest, axes):
                options.append((vector_cost(nest, axes, engine, source, False), True, axes))
    return min(options)


def _along(whole: _Combination, axes: tuple[int, ...], started: bool) -> tuple[list[Emitted], bool]:
    """The last of ``axes`` is folded in an instruction, those around it one after the other."""
    nest = whole.nest
    overwrites = whole.covered and not nest.conditions and not started
    mnemonic = "vdot.vv" if whole.func == "mul" else f"vred.{whole.combine}"
    outer = [a for a in range(len(nest.extents)) if a not in axes]
    ranks = (2, *(3,) * whole.form.count("v"))
    out: list[Emitted] = []
    for p in pieces(nest, axes, 3):
        first = all(v == 0 for a, v in zip(outer, p.outer, strict=True) if a in whole.reduced)
        acc = 0 if overwrites and first else 1
        out.append(Emitted(mnemonic, (*lanes(p), ("acc", acc)), refs(whole.names, nest, p, ranks)))
    return out, overwrites


def _element_by_element(whole: _Combination, axes: tuple[int, ...], started: bool) -> tuple[list[Emitted], bool]:
    """One point of the reduced loops after the other; one that reaches everything can go first, and overwrite."""
    nest = whole.nest
    outer = [a for a in range(len(nest.extents)) if a not in axes]
    groups: dict[tuple[int, ...], list[Piece]] = {}
    for p in pieces(nest, axes, 3):
        place = tuple(v for a, v in zip(outer, p.outer, strict=True) if a in whole.spatial)
        groups.setdefault(place, []).append(p)
    full = (*(1,) * (3 - len(axes)), *(nest.extents[a] for a in axes))
    leaders = [next((i for i, p in enumerate(group) if p.extents == full), None) for group in groups.values()]
    places = prod(nest.extents[a] for a in outer if a in whole.spatial)
    overwrites = whole.covered and not started and len(groups) == places and None not in leaders
    product = whole.func == "mul"
    start = f"vmul.{whole.form}" if product else "vcopy.v"
    step = f"vmacc.{whole.form}" if product else f"vacc.{whole.combine}"
    out: list[Emitted] = []
    for leader, group in zip(leaders, groups.values(), strict=True):
        if overwrites and leader is not None:
            group.insert(0, group.pop(leader))
        for position, p in enumerate(group):
            mnemonic = start if overwrites and position == 0 else step
            operands = refs(whole.names, nest, p, (3,) * len(whole.names))
            out.append(Emitted(mnemonic, (*lanes(p), *whole.immediates), operands))
    return out, overwrites
