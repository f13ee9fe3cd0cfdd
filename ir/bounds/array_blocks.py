"""How many blocks of a matrix engine's array the products of a contraction fill at least, however they are cut.

An instruction multiplies M rows by N columns for each of its positions k of the reduction, and takes a cycle of the
array for each of ⌈M / R⌉ · ⌈N / C⌉ blocks (docs/timing.md, rule 9). A plan cuts an operator into cells, tiles and
pieces of the reduction, and the lowering cuts those into instructions, all along axes. So, of the products at one k and
one point of the axes that both operands share (``batch``), an instruction has a box M x N: M are positions of axes that
only the left operand has, N of those that only the right one has. These roles never change.

Of these products, P rows (without those that read padding) and N columns are needed. Whatever boxes cover them, each
column is in boxes with ⌈P / R⌉ blocks of rows at least. If the columns are those of one axis, a box has an interval of
them, and of every C-th column no more than it has blocks of columns: that makes ⌈P / R⌉ · ⌈N / C⌉ blocks. The same
holds the other way around. Where both are positions of several axes, boxes can be cunning (three of 2 x 2 cover 3 x 3,
if what they pick lies apart), and only one side rounds: there are at least ⌈P / R⌉ · N / C and P / R · ⌈N / C⌉ blocks.

The array is filled and drained for each block of results of an instruction (rule 9, too), whatever part of the
reduction it takes. At one point of the batch, all blocks are at least as many as those that cover the products of any
one k, and so as the mean of these over all k.

Rows of several images count as one sum, for an instruction can span images, also in a convolution of 3 x 3: a tile of
one column of all images has rows of both. Nor are the lanes of the vector engine rounded: it may lay any dimension of
a result along them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..graph import Access, ContractionAxes, Stage, contraction_axes
from ..machine import Engine
from .demanded_elements import InBoundsPoints


def least_blocks(stage: Stage, inside: InBoundsPoints, engine: Engine) -> float:
    """Blocks of the array for the points ``inside`` of a contraction: the sum over batch and reduction.

    Where no sums stay in the array, it is taken to be full.
    """
    if engine.dataflow != "output":
        return inside.count / (engine.rows * engine.columns)
    roles = contraction_axes(stage)
    widths = [width for width in map(inside.independent_extent, roles.n) if width is not None]
    if len(widths) < len(roles.n) or not _certain(stage, roles):
        return inside.count / (engine.rows * engine.columns)
    one_axis = sum(w > 1 for w in widths) <= 1 or sum(stage.axes[a].extent > 1 for a in roles.m) <= 1
    lines = inside.line_counts(roles.m, (*roles.batch, *roles.k))
    return sum(times * _blocks(rows, prod(widths), engine, one_axis) for rows, times in lines.items())


def least_fills(stage: Stage, blocks: float) -> float:
    """How often the array is filled at least, for a contraction that takes these ``blocks`` over all of a reduction."""
    return blocks / prod(stage.axes[a].extent for a in contraction_axes(stage).k)


def _blocks(rows: int, columns: int, engine: Engine, one_axis: bool) -> float:
    down, across = -(-rows // engine.rows), -(-columns // engine.columns)
    if one_axis:
        return down * across
    return max(down * columns / engine.columns, across * rows / engine.rows)


def _certain(stage: Stage, roles: ContractionAxes) -> bool:
    """Whether axes move an operand wherever its index has them: steps in several dimensions could cancel out."""
    left, right = stage.factors
    return _moves(right, (*roles.n, *roles.batch)) and _moves(left, roles.batch)


def _moves(access: Access, axes: Sequence[int]) -> bool:
    return all(len({i.coeffs[a] > 0 for i in access.index if i.coeffs[a]}) == 1 for a in axes)
