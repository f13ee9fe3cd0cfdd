"""Which results take the place of an input in memory, element by element."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..graph import DTYPES, Graph, Op, Stage, Tensor
from .concat_aliasing import Inside


def replaceable(op: Op, tensors: Mapping[str, Tensor]) -> tuple[str, ...]:
    """The inputs that the result of ``op`` may overwrite as it is made, in the order of the inputs.

    They have the shape and the size of the result, and each element is read only on the way to the element of the
    result with the same index, by stages that combine nothing. So whatever part of the operator runs before the rest,
    it overwrites nothing that the rest reads. ``tensors`` must hold the operator's inputs and output.
    """
    result = tensors[op.output]
    size = DTYPES[result.dtype]
    alike = [
        name
        for name in dict.fromkeys(op.inputs)
        if tensors[name].shape == result.shape and DTYPES[tensors[name].dtype] == size
    ]
    if not alike:
        return ()
    writers: dict[str, list[Stage]] = {}
    for stage in op.stages:
        writers.setdefault(stage.write.tensor, []).append(stage)
    private = {b.name: b for b in op.buffers}
    aligned: list[Stage] = []
    waiting = [op.output]
    while waiting:
        name = waiting.pop()
        made = writers.get(name, [])
        if len(made) != 1 or made[0].combine is not None:
            continue
        aligned.append(made[0])
        waiting += [
            r.tensor
            for r in dict.fromkeys(made[0].reads)
            if r.index == made[0].write.index and r.tensor in private and private[r.tensor].shape == result.shape
        ]
    safe = [(r.tensor, s in aligned and r == replace(s.write, tensor=r.tensor)) for s in op.stages for r in s.reads]
    return tuple(name for name in alike if all(good for tensor, good in safe if tensor == name))


def replaced(graph: Graph, ops: Sequence[Op], parts: Mapping[str, Inside] | None = None) -> dict[str, str]:
    """For the results of a run of operators, in order: the input that each may replace, whose last reader makes it.

    That operator reads what it writes, so the part of the input that a cell has contains that of the result. A
    concatenation and its ``parts``, which lie inside it (see :mod:`girih.ir.semantics.concat_aliasing`), have a place
    already.
    """
    placed = {name for part, where in (parts or {}).items() for name in (part, where.whole)}
    last = {name: op.name for op in ops for name in op.inputs}
    found: dict[str, str] = {}
    for op in ops:
        if op.host is not None or op.output in placed:
            continue
        dying = [n for n in replaceable(op, graph.tensor) if last[n] == op.name and n not in placed]
        if dying:
            found[op.output] = dying[0]
    return found
