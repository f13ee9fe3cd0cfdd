"""Products whose operands change places: weights become the rows of the array, and activations stay in it.

    y[m, n] = sum x[m, k] · W[k, n]      becomes      y[m, n] = sum W'[n, k] · x[m, k]

A bias of the columns is added behind the product, as the array adds one to its columns alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import replace

import numpy as np

from ...ir.box import Affine
from ...ir.graph import Access, Constant, Graph, Op, Stage, Tensor, contraction_axes


def swappable(graph: Graph) -> frozenset[str]:
    """The operators whose products can be swapped."""
    return frozenset(op.name for op in graph.ops if _permutation(op, graph) is not None)


def swapped(graph: Graph, names: Collection[str]) -> Graph:
    """The graph with the products of these operators swapped, those that can be."""
    if not names:
        return graph
    data, tensors = dict(graph.data), {t.name: t for t in graph.tensors}
    changed: set[str] = set()
    ops: list[Op] = []
    for op in graph.ops:
        permutation = _permutation(op, graph) if op.name in names else None
        if permutation is None or op.contraction is None:
            ops.append(op)
            continue
        name = op.stages[op.contraction].factors[1].tensor
        data[name] = np.ascontiguousarray(graph.data[name].transpose(permutation))
        tensors[name] = replace(tensors[name], shape=data[name].shape)
        changed.add(name)
        ops.append(_swapped(op, graph, permutation))
    return replace(
        graph,
        tensors=tuple(tensors.values()),
        ops=tuple(ops),
        constants=tuple(
            Constant(c.tensor, hashlib.sha256(data[c.tensor].tobytes()).hexdigest()) if c.tensor in changed else c
            for c in graph.constants
        ),
        data=data,
    )


def _permutation(op: Op, graph: Graph) -> tuple[int, ...] | None:
    """How the weights of an operator are laid out as rows; ``None`` if it cannot be swapped.

    What stays in the array is read without padding and without windows, and nobody else reads the weights, which are
    laid out anew.
    """
    if op.contraction is None or op.template:
        return None
    stage = op.stages[op.contraction]
    left, right = stage.factors
    roles = contraction_axes(stage)
    if roles.batch or not roles.m or len(roles.n) != 1 or left.fill is not None:
        return None
    if left.tensor not in graph.tensor or left.tensor in graph.constant_names:
        return None
    if right.tensor not in graph.constant_names or right.tensor in graph.output_tensors:
        return None
    reads = [r for reader in graph.consumers[right.tensor] for s in reader.stages for r in s.reads]
    if sum(r.tensor == right.tensor for r in reads) != 1:
        return None
    if any(sum(map(bool, i.coeffs)) > 1 for i in (*left.index, *right.index)):
        return None
    dims = [next(a for a, c in enumerate(i.coeffs) if c) for i in right.index if any(i.coeffs)]
    if len(dims) < len(right.index):
        return None
    return tuple(sorted(range(len(dims)), key=lambda d: (dims[d] not in roles.n, d)))


def _swapped(op: Op, graph: Graph, permutation: tuple[int, ...]) -> Op:
    """The operator with its factors in the other order, and a bias added behind the product."""
    assert op.contraction is not None
    stage = op.stages[op.contraction]
    left, right = stage.factors
    right = replace(right, index=tuple(right.index[d] for d in permutation))
    product = replace(stage, operands=(right, left))
    if stage.start is None or stage.start.tensor not in graph.constant_names:
        stages = (*op.stages[: op.contraction], product, *op.stages[op.contraction + 1 :])
        return replace(op, stages=stages)
    kept = [a for a, axis in enumerate(stage.axes) if not axis.reduce]

    def access(old: Access, tensor: str) -> Access:
        index = tuple(Affine(tuple(i.coeffs[a] for a in kept), i.const) for i in old.index)
        return Access(tensor, index)

    sums = next(b for b in op.buffers if b.name == stage.write.tensor)
    alone = Tensor(f"{sums.name}.sum", sums.shape, sums.dtype)
    added = Stage(
        tuple(stage.axes[a] for a in kept),
        access(stage.write, sums.name),
        "add",
        (access(stage.write, alone.name), access(stage.start, stage.start.tensor)),
    )
    product = replace(product, start=None, write=replace(stage.write, tensor=alone.name))
    stages = (*op.stages[: op.contraction], product, added, *op.stages[op.contraction + 1 :])
    return replace(op, stages=stages, buffers=(*op.buffers, alone))
