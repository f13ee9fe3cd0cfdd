"""What fusion leaves behind in an operator goes: unit dimensions of private buffers, copies, and repeated loops."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from ..net.linear import Linear, NotAffine, Retry
from ..net.net import Info, Loop, Net, NetStep, Ref, renamed
from .fold_movement import write_through


def drop_unit_dimensions(step: NetStep) -> None:
    """Private buffers have no dimensions of extent one, but those outside of which something else is read."""
    padded = {
        (ref.tensor, d)
        for loop in step.loops
        for ref in loop.reads
        for d, index in enumerate(ref.index)
        if ref.fill is not None and index.bounds(loop.extents) != (0, 0)
    }
    kept = {
        name: [d for d, n in enumerate(info.shape) if n > 1 or (name, d) in padded] for name, info in step.temps.items()
    }

    def change(ref: Ref) -> Ref:
        return replace(ref, index=tuple(ref.index[d] for d in kept[ref.tensor])) if ref.tensor in kept else ref

    for name, info in step.temps.items():
        step.temps[name] = Info(tuple(info.shape[d] for d in kept[name]), info.dtype)
    step.loops = [loop.map_refs(change) for loop in step.loops]


TRUTHS = frozenset({"eq", "ne", "lt", "le", "gt", "ge", "not", "and", "or"})
"""Functions whose results, 0 and 1, are the same in every dtype."""


def drop_copies(step: NetStep, net: Net) -> None:
    """What is only copied on is written to its destination in the first place."""
    loops = dict(enumerate(step.loops))
    writers: dict[str, list[int]] = {}
    for position, loop in loops.items():
        writers.setdefault(loop.write.tensor, []).append(position)
    reads = Counter(r.tensor for loop in step.loops for r in loop.reads)
    output = net.tensors[step.output]
    for position, copy in enumerate(step.loops):
        if not copy.is_movement or not copy.reads:
            continue
        source, target = copy.reads[0], copy.write
        if source.tensor not in step.temps or len(writers[source.tensor]) != 1 or reads[source.tensor] != 1:
            continue
        info = step.temps[source.tensor]
        if source.fill is not None or copy.points != info.elements:
            continue  # The rest would have nowhere to go.
        writer = writers[source.tensor][0]
        if step.temps.get(target.tensor, output).dtype != info.dtype and (
            target.tensor in step.temps or loops[writer].func not in TRUTHS
        ):
            continue
        try:
            loops[writer] = write_through(loops[writer], source, copy)
        except (NotAffine, Retry):
            continue
        del loops[position], step.temps[source.tensor]
        writers[target.tensor] = sorted(writer if p == position else p for p in writers[target.tensor])
    step.loops = list(loops.values())


def share_equal_loops(step: NetStep) -> None:
    """Two loops that compute the same temporary become one."""
    writers = Counter(loop.write.tensor for loop in step.loops)
    seen: dict[object, str] = {}
    same: dict[str, str] = {}
    loops: list[Loop] = []
    for loop in step.loops:
        loop = renamed(loop, same)
        name = loop.write.tensor
        if name in step.temps and writers[name] == 1:
            key = (_canonical(loop), step.temps[name])
            if key in seen:
                same[name] = seen[key]
                del step.temps[name]
                continue
            seen[key] = name
        loops.append(loop)
    step.loops = loops


def _canonical(loop: Loop) -> object:
    """The loop without the names of its axes and of its target."""
    used = [*loop.write.axes, *(a for r in loop.reads for a in r.axes), *loop.axes]
    names = {a: f"{n:03}" for n, a in enumerate(dict.fromkeys(used))}
    values = {a: Linear.axis(n) for a, n in names.items()}
    axes = tuple((n, loop.axes[a]) for a, n in names.items())
    operands = tuple(o.substitute(values) if isinstance(o, Ref) else o for o in loop.operands)
    return axes, loop.write.substitute(values).index, loop.func, operands, loop.combine
