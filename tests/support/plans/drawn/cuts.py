"""Cuts of drawn plans: of the network into segments, of those into instances and cores, of operators into tiles."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from random import Random

from girih.ir.graph import Op
from girih.ir.plan import Segment, Split, Tile
from girih.ir.semantics.concat_aliasing import possible_aliases
from tests.support.plans.drawn.drawing import Drawing

VECTOR_POINTS = 1 << 13
"""Points of a contraction up to which the vector engine may be given it."""


def drawn_segments(drawing: Drawing) -> Iterator[Segment]:
    ops, first = drawing.graph.ops, 0
    while first < len(ops):
        lengths = [n for n in range(1, drawing.longest + 1) if _together(drawing, ops[first : first + n], n)]
        run = ops[first : first + drawing.rng.choice(lengths)]
        first += len(run)
        if run[0].host is not None:
            yield Segment((run[0].name,), (), (), ())
        else:
            yield _segment(drawing, _shuffled(drawing, run))


def _shuffled(drawing: Drawing, run: tuple[Op, ...]) -> tuple[Op, ...]:
    """The operators in any order that they can run in; the root operator stays the last."""
    left = list(run)
    found: list[Op] = []
    while left:
        waiting = {name for op in left for name in op.outputs}
        ready = [o for o in left if not waiting.intersection(o.inputs)]
        op = ready[0] if len(ready) == 1 else drawing.rng.choice(ready)
        left.remove(op)
        found.append(op)
    return tuple(found)


def _together(drawing: Drawing, run: tuple[Op, ...], length: int) -> bool:
    """Whether all of ``run`` are ancestors of its last operator."""
    if len(run) < length or (length > 1 and any(op.host for op in run)):
        return False
    needed = set(run[-1].outputs)
    for op in reversed(run):
        if not needed & set(op.outputs):
            return False
        needed |= set(op.inputs)
    return True


def _segment(drawing: Drawing, run: tuple[Op, ...]) -> Segment:
    shape = drawing.graph.tensor[run[-1].output].shape
    instances = _splits(drawing, shape, drawing.rng.choice([1, 1, drawing.instances - 1, drawing.instances]))
    left = tuple(-(-n // prod(s.parts for s in instances if s.dim == d)) for d, n in enumerate(shape))
    cores = _splits(drawing, left, drawing.rng.randint(1, drawing.machine.cores))
    names = tuple(op.name for op in run)
    bare = Segment(names, instances, cores, ())
    alias_rng = Random(f"{names} {instances} {cores}")
    parts = tuple(name for name in possible_aliases(drawing.graph, run) if alias_rng.random() < 0.8)
    return Segment(names, instances, cores, tuple(_tile(drawing, op, bare) for op in run), parts)


def _splits(drawing: Drawing, shape: tuple[int, ...], most: int) -> tuple[Split, ...]:
    """One or two cuts into at most ``most`` parts together."""
    dims = drawing.rng.sample(range(len(shape)), min(len(shape), drawing.rng.choice([1, 1, 2])))
    found: list[Split] = []
    for after, dim in zip(range(len(dims))[::-1], dims, strict=True):
        room = most // 2 if after else most
        parts = min(shape[dim], drawing.rng.randint(room // 2 + 1, room)) if room > 1 else 1
        most //= parts
        if parts > 1:
            found.append(Split(dim, parts))
    return tuple(found)


def _tile(drawing: Drawing, op: Op, segment: Segment) -> Tile:
    boxes = [c.ops[op.name].tensors[op.output] for c in drawing.all_cells(segment) if op.name in c.ops]
    sizes = [max((b[d].size for b in boxes), default=1) for d in range(len(drawing.graph.tensor[op.output].shape))]
    order = drawing.rng.sample(range(len(sizes)), len(sizes))
    budget = drawing.tiles
    for dim in drawing.rng.sample(range(len(sizes)), len(sizes))[: drawing.rng.choice([0, 1, 2, 2])]:
        parts = drawing.rng.randint(1, max(1, min(budget, sizes[dim])))
        budget //= parts
        sizes[dim] = -(-sizes[dim] // parts)
    engine, reduce = "vector", ()
    if op.contraction is not None:
        anchor = op.stages[op.contraction]
        dtypes = {t.name: t.dtype for t in (*drawing.graph.tensors, *op.buffers)}
        known = all(dtypes[r.tensor] in (drawing.machine.engine_for("matrix").rate or {}) for r in anchor.factors)
        if known and (anchor.points > VECTOR_POINTS or drawing.chance(1 - drawing.on_vector)):
            engine = "matrix"
            budget = max(2, drawing.tiles // 2)
            cuts: list[int] = []
            for axis in (a for a in anchor.axes if a.reduce):
                parts = drawing.rng.randint(1, max(1, min(budget, axis.extent)))
                budget //= parts
                cuts.append(-(-axis.extent // parts))
            reduce = tuple(cuts)
    depth, weight_depth = drawing.rng.randint(1, 3), drawing.rng.randint(1, 3)
    return Tile(op.name, tuple(sizes), tuple(order), reduce, engine, depth, weight_depth)
