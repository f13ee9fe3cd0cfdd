"""Which dimension of each tensor is contiguous: the channels, where convolutions ask for it.

All accesses are explicit, so a layout is a permutation of a tensor's dimensions and of every index into it; no
operator is rewritten. Matrix loops vote (by their work) for the dimension that they contract or produce; tensors that
are connected through element-wise loops and pooling share one layout. Ports keep the layout of ONNX: a copy between
port and first use takes the difference, and vanishes if there is none.
"""

from __future__ import annotations

from dataclasses import replace

from networkx.utils import UnionFind

from ..net.net import Info, Loop, Net, NetStep, Ref, renamed
from ..relax.importer import copy_step


def choose_layouts(net: Net) -> None:
    """Permute the dimensions of tensors so that channels are innermost.

    Before: windows have met their paddings, so that they vote for what they read. After: ports and host kernels touch
    only tensors in ONNX's layout; the last dimension of any other is the one that its matrix loops contract or produce.

        y[f, h, w] = sum x[c, h + i, w + j] · W[f, c, i, j]
        becomes      y[h, w, f] = sum x[h + i, w + j, c] · W[f, c, i, j]
    """
    _buffer_ports(net)
    fixed = net.fixed() | set(net.constants)
    eligible = {n for n, info in net.tensors.items() if n not in fixed and len(_wide(info)) > 1}
    groups = UnionFind(eligible)
    for step in net.steps:
        if not step.is_opaque:
            _connect(step, net, eligible, groups)
    votes: dict[str, dict[int, float]] = {}
    for step in net.steps:
        for loop in step.loops:
            for name, dim, weight in _ballots(loop, net):
                if name in eligible:
                    box = votes.setdefault(groups[name], {})
                    place = _wide(net.tensors[name]).index(dim)
                    box[place] = box.get(place, 0.0) + weight
    permutations: dict[str, tuple[int, ...]] = {}
    for name in sorted(eligible):
        box = votes.get(groups[name])
        if not box:
            continue
        info = net.tensors[name]
        wide, rank = _wide(info), len(info.shape)
        chosen = wide[max((weight, place) for place, weight in box.items())[1]]
        if chosen != wide[-1]:
            permutations[name] = (*(d for d in range(rank) if d != chosen), chosen)
    _permute(net, permutations)


def _wide(info: Info) -> list[int]:
    """The dimensions of more than one element: the others have no layout."""
    return [d for d, n in enumerate(info.shape) if n > 1]


def _buffer_ports(net: Net) -> None:
    """Give windows and matrix loops tensors of their own where they touch a port or a host kernel."""
    fixed = net.fixed()
    entries: dict[str, str] = {}
    steps: list[NetStep] = []
    for step in net.steps:
        if step.is_opaque:
            steps.append(step)
            continue
        for index, loop in enumerate(step.loops):
            for ref in loop.reads:
                if ref.tensor not in fixed or not _cares(loop, ref) or ref.tensor in net.constants:
                    continue
                if ref.tensor not in entries:
                    name = net.fresh_tensor(f"{ref.tensor}.layout")
                    entries[ref.tensor] = name
                    net.tensors[name] = net.tensors[ref.tensor]
                    steps.append(copy_step(name, step.origin, ref.tensor, name, net.tensors[ref.tensor]))
            step.loops[index] = renamed(loop, entries)
        steps.append(step)
        target = step.output
        if target in fixed and any(loop.combine and _cares(loop, loop.write) for loop in step.loops):
            name = net.fresh_tensor(f"{target}.layout")
            info = net.tensors[name] = net.tensors[target]
            step.loops = [renamed(loop, {target: name}) for loop in step.loops]
            step.outputs = (name,)
            steps.append(copy_step(target, step.origin, name, target, info))
    net.steps = steps


def _cares(loop: Loop, ref: Ref) -> bool:
    """Whether the layout of this access matters to the loop."""
    return len(ref.index) > 3 and loop.combine is not None


def _connect(step: NetStep, net: Net, eligible: set[str], groups: UnionFind[str]) -> None:
    """Join input and output where each dimension of one is the same dimension of the other."""
    target = step.output
    if target not in eligible or any(loop.is_matrix for loop in step.loops):
        return
    write = next(loop.write for loop in step.loops if loop.write.tensor == target)
    wide = [write.index[d] for d in _wide(net.tensors[target])]
    for loop in step.loops:
        for ref in loop.reads:
            if ref.tensor not in eligible:
                continue
            indices = [ref.index[d] for d in _wide(net.tensors[ref.tensor])]
            if len(indices) == len(wide) and all(
                set(r.axes) - set(loop.reduced) <= set(w.axes) for r, w in zip(indices, wide, strict=True)
            ):
                groups.union(ref.tensor, target)


def _ballots(loop: Loop, net: Net) -> list[tuple[str, int, float]]:
    """Tensor, dimension that should be innermost, and how much it matters."""
    if not loop.is_contraction:
        return []
    left, right = loop.factors
    if left.tensor in net.constants:
        left, right = right, left
    shared = {a for a in loop.spatial if a in left.axes and a in right.axes}
    ballots: list[tuple[str, int, float]] = []

    def vote(ref: Ref, axes: set[str], needed: set[str]) -> None:
        """For the largest dimension indexed by ``axes`` alone, and by one of ``needed`` at least."""
        if ref.tensor not in net.tensors:
            return
        sizes = net.tensors[ref.tensor].shape
        alone = [
            (sizes[d], d) for d, i in enumerate(ref.index) if i.axes and set(i.axes) <= axes and set(i.axes) & needed
        ]
        if alone and max(alone)[0] > 1:
            ballots.append((ref.tensor, max(alone)[1], float(loop.points)))

    if loop.is_matrix:
        reduced = {a for a in loop.reduced if a in left.axes}
        columns = {a for a in right.axes if a not in left.axes and not loop.axes[a].reduce}
        vote(left, reduced | shared, reduced)
        vote(loop.write, columns | shared, columns)
    else:
        vote(left, shared, shared)
        vote(loop.write, shared, shared)
    return ballots


def _permute(net: Net, permutations: dict[str, tuple[int, ...]]) -> None:
    for name, order in permutations.items():
        info = net.tensors[name]
        net.tensors[name] = Info(tuple(info.shape[d] for d in order), info.dtype)

    def change(ref: Ref) -> Ref:
        order = permutations.get(ref.tensor)
        return ref if order is None else replace(ref, index=tuple(ref.index[d] for d in order))

    for step in net.steps:
        step.loops = [loop.map_refs(change) for loop in step.loops]
