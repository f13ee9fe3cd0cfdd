"""Which results take the place of an input in memory, element by element."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..graph import DTYPES, Graph, Op, Stage, Tensor
from .concat_aliasing import ConcatAlias


def replaceable(op: Op, tensors: Mapping[str, Tensor]) -> tuple[str, ...]:
    """The inputs that the result of ``op`` may overwrite as it is computed, in the order of the inputs.

    They have the shape and the size of the result, and each element is read only on the way to the element of the
    result with the same index, by stages that combine nothing. So whatever part of the operator runs before the rest,
    it overwrites nothing that the rest reads. ``tensors`` must hold the operator's inputs and output.
    """
    result = tensors[op.output]
    size = DTYPES[result.dtype]
    same_size = [
        name
        for name in dict.fromkeys(op.inputs)
        if tensors[name].shape == result.shape and DTYPES[tensors[name].dtype] == size
    ]
    if not same_size:
        return ()
    elementwise = _elementwise_stages(op, result.shape)
    unsafe = {
        read.tensor
        for stage in op.stages
        for read in stage.reads
        if not (stage in elementwise and read == replace(stage.write, tensor=read.tensor))
    }
    return tuple(name for name in same_size if name not in unsafe)


def _elementwise_stages(op: Op, shape: tuple[int, ...]) -> list[Stage]:
    """The stages that compute, for an element of the result, only what has the same index."""
    writers = Counter(stage.write.tensor for stage in op.stages)
    private = {b.name: b for b in op.buffers}
    aligned = {op.output}
    stages: list[Stage] = []
    # Backwards: the readers of a private buffer come after what writes it.
    for stage in reversed(op.stages):
        if stage.write.tensor in aligned and writers[stage.write.tensor] == 1 and stage.combine is None:
            stages.append(stage)
            aligned |= {
                read.tensor
                for read in stage.reads
                if read.index == stage.write.index and read.tensor in private and private[read.tensor].shape == shape
            }
    return stages


def replaced(graph: Graph, ops: Sequence[Op], aliases: Mapping[str, ConcatAlias] | None = None) -> dict[str, str]:
    """For the results of a run of operators, in order: the input that each may replace, of which it is the last reader.

    The operator reads what it writes, so the part of the input that a cell has contains that of the result. A
    concatenation and the ``aliases`` of it (see :mod:`girih.ir.semantics.concat_aliasing`) have a place already.
    """
    placed = {name for alias, place in (aliases or {}).items() for name in (alias, place.parent)}
    last_reader = {name: op.name for op in ops for name in op.inputs}
    replaces: dict[str, str] = {}
    for op in ops:
        if op.host is not None or op.output in placed:
            continue
        dying = [n for n in replaceable(op, graph.tensor) if last_reader[n] == op.name and n not in placed]
        if dying:
            replaces[op.output] = dying[0]
    return replaces


def root_of(name: str, parents: Mapping[str, str]) -> str:
    """The end of the chain from ``name`` to its parent, to the parent of that, and so on: ``name`` if it has none."""
    while name in parents:
        name = parents[name]
    return name
