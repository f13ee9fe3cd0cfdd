"""Concatenation aliasing: operands that are computed or loaded at their place in a concatenation.

A concatenation copies each of its operands, as a whole, to a place of its own in the result. An operand that the
segment itself computes or loads can be written there at once. It is then an *alias*: it has no buffer of its own, but
lies in that of the result, its *parent*, in rows as long as the parent's, and the stage that would copy it is elided.
The parent can be an alias in turn: all layers of a dense block are written into one buffer, that of the root.

The parent's buffer has room for the largest of what lies in it, halos included, and lives as long as any of that: it is
a decision (:attr:`girih.ir.plan.Segment.aliased`) which operands are aliases. One that is loaded comes when the first
operator that reads it begins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..box import Affine, Box, Span, hull
from ..graph import Access, Graph, Op, Stage, Tensor
from ..plan import Segment


@dataclass(frozen=True)
class ConcatAlias:
    """A tensor is part of the tensor ``parent``, in which its first element has the index ``offset``."""

    parent: str
    offset: tuple[int, ...]


def operand_offsets(op: Op, tensors: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    """The operands of a concatenation, each with the index in the result to which its first element goes.

    Empty for any other operator. An input that is copied twice, or in part, or converted, is left out.
    """
    moves = op.host is None and not op.buffers and len(op.stages) > 1
    if not moves or any(s.func != "copy" or s.combine is not None for s in op.stages):
        return {}
    offsets: dict[str, tuple[int, ...]] = {}
    read = [r.tensor for s in op.stages for r in s.reads]
    for stage in op.stages:
        for source in stage.reads:
            offset = _offset(stage, source, tensors[source.tensor])
            same = tensors[source.tensor].dtype == tensors[op.output].dtype
            if offset is not None and same and read.count(source.tensor) == 1:
                offsets[source.tensor] = offset
    return offsets


def _offset(stage: Stage, source: Access, tensor: Tensor) -> tuple[int, ...] | None:
    """Where the stage puts the first element, if it copies all of ``tensor`` as it is."""
    if source.fill is not None or len(stage.write.index) != len(tensor.shape):
        return None
    for index, target, extent in zip(source.index, stage.write.index, tensor.shape, strict=True):
        axes = [a for a, c in enumerate(index.coeffs) if c]
        # A dimension of extent 1 has no axis.
        extents = [stage.axes[a].extent for a in axes] or [1]
        if index != Affine(target.coeffs) or extents != [extent] or any(index.coeffs[a] != 1 for a in axes):
            return None
    return tuple(target.const for target in stage.write.index)


def possible_aliases(graph: Graph, ops: Sequence[Op]) -> dict[str, ConcatAlias]:
    """For a run of operators, in order: which of the tensors that they make or load can be aliases in the result of
    one of them. Constants are none."""
    aliases: dict[str, ConcatAlias] = {}
    for op in ops:
        for name, offset in operand_offsets(op, graph.tensor).items():
            if name not in graph.constant_names:
                # A tensor lies in one place: where it is copied first.
                aliases.setdefault(name, ConcatAlias(op.output, offset))
    return aliases


def concat_aliases(graph: Graph, segment: Segment) -> dict[str, ConcatAlias]:
    """The tensors of a segment that are aliases."""
    if not segment.aliased:
        return {}
    possible = possible_aliases(graph, [graph.op[name] for name in segment.ops])
    return {name: alias for name, alias in possible.items() if name in segment.aliased}


def root_aliases(aliases: Mapping[str, ConcatAlias]) -> dict[str, ConcatAlias]:
    """The same, each tensor in the root: the parent that is no alias and has the buffer."""
    roots: dict[str, ConcatAlias] = {}
    for name, alias in aliases.items():
        root, offset = alias.parent, alias.offset
        while root in aliases:
            offset = tuple(a + b for a, b in zip(offset, aliases[root].offset, strict=True))
            root = aliases[root].parent
        roots[name] = ConcatAlias(root, offset)
    return roots


def parent_buffers(graph: Graph, segment: Segment) -> dict[str, str]:
    """For each tensor of a segment that has no buffer of its own: the one in whose buffer it lies."""
    return {name: alias.parent for name, alias in root_aliases(concat_aliases(graph, segment)).items()}


def loaded_aliases(graph: Graph, segment: Segment) -> dict[str, int]:
    """The aliases that a segment loads, each with the position of the operator that reads it first: it is loaded for
    that."""
    ops = [graph.op[name] for name in segment.ops]
    loaded = set(segment.aliased) - {op.output for op in ops}
    first: dict[str, int] = {}
    for position, op in enumerate(ops) if loaded else ():
        for name in op.inputs:
            if name in loaded:
                first.setdefault(name, position)
    return first


def allocation_extents(aliases: Mapping[str, ConcatAlias], boxes: Mapping[str, Box]) -> dict[str, Box]:
    """The box that each buffer with aliases holds, in the index space of each tensor in it.

    ``boxes`` are what a cell has of the tensors. In an alias' index space the extent begins before its first element.
    """
    roots = root_aliases(aliases)
    held: dict[str, Box | None] = {}
    for name, alias in roots.items():
        if name in boxes:
            before = held.get(alias.parent, boxes.get(alias.parent))
            held[alias.parent] = hull(before, _moved(boxes[name], alias.offset))
    extents = {name: box for name, box in held.items() if box is not None}
    for name, alias in roots.items():
        if alias.parent in extents:
            extents[name] = _moved(extents[alias.parent], tuple(-d for d in alias.offset))
    return extents


def elided_stages(op: Op, aliases: Mapping[str, ConcatAlias]) -> frozenset[int]:
    """The stages that would copy what is in its place already."""
    return frozenset(
        position
        for position, stage in enumerate(op.stages)
        for read in stage.reads
        if read.tensor in aliases and aliases[read.tensor].parent == op.output
    )


def _moved(box: Box, by: Sequence[int]) -> Box:
    return tuple(Span(span.lo + d, span.hi + d) for span, d in zip(box, by, strict=True))
