"""A bias that is added to a matrix product is what the product starts from.

    s = Σ a·b; t = s + bias; y = relu(t)      becomes  s = bias + Σ a·b; y = relu(s)

The matrix engine has an instruction for that, and the vector engine one pass less to make. Only where the sum goes on
to another function: a sum that is the result has to be brought from the accumulators anyway. The bias is added before
the first rounding, to the precision of the accumulators.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from ..net.linear import NotAffine, Retry
from ..net.net import Loop, Net, NetStep, Ref
from .fold_movement import invert


def start_from_biases(net: Net) -> None:
    """Let a matrix product start from the bias that is added to it, where the sum goes on to another function.

    Before: :func:`~.peephole.fuse_functions` has run, which leaves fewer readers of a sum. After: the
    product's ``start`` is the bias, and its loop writes what the addition wrote.

        s = sum a · b; t = s + bias; y = max(t, 0)      becomes      s = bias + sum a · b; y = max(s, 0)
    """
    for step in (s for s in net.steps if not s.is_opaque):
        products = {loop.write.tensor for loop in step.loops if loop.is_matrix}
        for add in list(step.loops):
            if add.func == "add" and add.combine is None and len(add.reads) == 2:
                for total, bias in (add.reads, add.reads[::-1]):
                    if total.tensor in products and _moved(step, add, total, bias):
                        break


def _moved(step: NetStep, add: Loop, total: Ref, bias: Ref) -> bool:
    """Whether ``bias`` became what ``total`` starts from, and the only reader of their sum reads the total instead."""
    name = add.write.tensor
    products = [loop for loop in step.loops if loop.write.tensor == total.tensor]
    readers = [loop for loop in step.loops for r in loop.reads if r.tensor == name]
    uses = Counter(r.tensor for loop in step.loops for r in loop.reads)
    private = name in step.temps and total.tensor in step.temps and uses[total.tensor] == 1
    if not private or len(products) != 1 or len(readers) != 1 or (total.fill, bias.fill) != (None, None):
        return False
    product, reader = products[0], readers[0]
    written = [loop for loop in step.loops if loop.write.tensor == name]
    points = {add.points, reader.points, step.temps[total.tensor].elements}
    if not product.is_matrix or product.start or reader.combine or len(written) != 1 or len(points) != 1:
        return False
    left, right = product.factors
    columns = {a for a in right.axes if a not in left.axes and not product.axes[a].reduce}
    (read,) = (r for r in reader.reads if r.tensor == name)
    try:
        start = bias.substitute(invert(total, add.extents, product.write.index, product.extents))
        through = total.substitute(invert(add.write, add.extents, read.index, reader.extents))
    except (NotAffine, Retry):
        return False
    if read.fill is not None or not columns.issuperset(start.axes):
        return False
    changed = {id(product): replace(product, start=start), id(reader): _reading(reader, read, through)}
    step.loops = [changed.get(id(loop), loop) for loop in step.loops if loop is not add]
    del step.temps[name]
    return True


def _reading(loop: Loop, old: Ref, new: Ref) -> Loop:
    return replace(loop, operands=tuple(new if o is old else o for o in loop.operands))
