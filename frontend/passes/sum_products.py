"""A product that is only summed is computed in the sum: ``Σ t[k]`` with ``t = a·b`` becomes ``Σ a[k]·b[k]``.

This saves a buffer, and in float16 it saves squares from overflowing: the sum is accumulated in float32.
"""

from __future__ import annotations

from dataclasses import replace

from ..net.dataflow import Dataflow
from ..net.linear import NotAffine, Retry
from ..net.net import Loop, Net, NetStep, Ref
from .fold_movement import invert


def sum_products(net: Net) -> None:
    """Compute products in the sums that are their only readers.

    Before: movements are folded, so that the two are neighbours. After: no step computes only a product that only a
    plain sum reads.

        t[i, k] = a[i, k] · b[k]
        y[i] = sum t[i, k]          becomes      y[i] = sum a[i, k] · b[k]
    """
    flow = Dataflow(net.steps)
    for step in net.steps:
        product = step.loops[0] if len(step.loops) == 1 and not step.is_opaque else None
        if product is None or product.func != "mul" or product.combine or len(product.reads) != 2:
            continue
        users = flow.readers(step.output)
        if len(users) != 1 or users[0].is_opaque or step.output in net.outputs:
            continue
        try:
            users[0].loops = [_inline(loop, step, product) for loop in users[0].loops]
        except (NotAffine, Retry):
            continue
        users[0].origin = tuple(dict.fromkeys((*step.origin, *users[0].origin)))
        flow.remove(step)
        flow.update(users[0])
    net.steps = flow.operations


def _inline(loop: Loop, step: NetStep, product: Loop) -> Loop:
    reads = [r for r in loop.reads if r.tensor == step.output]
    if not reads:
        return loop
    if loop.func != "copy" or loop.combine != "sum" or reads[0].fill not in (None, 0.0):
        raise NotAffine("not a plain sum")
    values = invert(product.write, product.extents, reads[0].index, loop.extents)
    operands: list[Ref] = []
    for factor in product.reads:
        guarded = factor.fill is not None or (reads[0].fill is not None and factor.axes != product.write.axes)
        if guarded:
            raise NotAffine("a guard on a broadcast factor")
        moved = factor.substitute(values)
        operands.append(replace(moved, fill=reads[0].fill))
    return replace(loop, func="mul", operands=tuple(operands))
