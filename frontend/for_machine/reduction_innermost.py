"""Weights whose rows are shorter than a burst are laid out with the reduction innermost.

    y[p, f] = sum x[p, c] · W[c, f]
    becomes      y[p, f] = sum x[p, c] · W'[f, c]

A tile of the stationary operand has much of the reduction and, at least, as many columns as the array. With the columns
innermost, each point of the reduction is a row of these columns in memory. Where that is less than the burst of a link
that the weights cross, as of an array of 8 columns of one byte behind bursts of 128 bytes, most of what crosses is
wasted; with the reduction innermost, rows are as long as it. Weights stay as they are where no burst is that long, and
where a core has room for all of them and the reduction is no longer than the columns: rows are whole there, or nothing
is gained. (On `ipu-gc200`, tiny-transformer took 11 % more cycles with all weights transposed.)
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from math import prod

import numpy as np

from ...ir.graph import DTYPES, Access, Constant, ContractionAxes, Graph, Op, Stage, contraction_axes
from ...ir.machine import Machine
from ...ir.machines.shared_banks import bytes_for_all_banks

Permutation = tuple[int, ...]
"""Of the dimensions of a constant: ``permutation[d]`` is the old number of the new dimension ``d``."""


def reduction_innermost(graph: Graph, machine: Machine) -> Graph:
    """The graph with such weights transposed, and the accesses to them; the same graph if there are none.

    Only constants that nothing reads but contractions of the matrix engine, as their stationary operand and with the
    same roles of their dimensions.
    """
    burst, columns = _longest_burst(machine), machine.engine_for("matrix").columns
    transposed: dict[str, Permutation] = {}
    for name in sorted(graph.constant_names - graph.output_tensors):
        if columns * DTYPES[graph.tensor[name].dtype] < burst:
            permutations = set(_permutations(graph, machine, name))
            permutation = permutations.pop() if len(permutations) == 1 else None
            if permutation is not None and permutation != tuple(range(len(permutation))):
                transposed[name] = permutation
    if not transposed:
        return graph
    data = {n: _transposed(array, transposed[n]) if n in transposed else array for n, array in graph.data.items()}
    return replace(
        graph,
        tensors=tuple(
            replace(t, shape=tuple(t.shape[d] for d in transposed[t.name])) if t.name in transposed else t
            for t in graph.tensors
        ),
        ops=tuple(_reading(op, transposed) for op in graph.ops),
        constants=tuple(
            Constant(c.tensor, hashlib.sha256(data[c.tensor].tobytes()).hexdigest()) if c.tensor in transposed else c
            for c in graph.constants
        ),
        data=data,
    )


def _longest_burst(machine: Machine) -> int:
    """Bytes, of the links that weights cross from where they lie to a core.

    Main memory does not count where cores meet on banks of a shared memory: a contiguous tile is in few of them.
    """
    levels = machine.levels
    home, source = levels.constants.name, levels.source_of(constant=True).name
    ways = {(source, "read"), (source, "both")}
    meet = bytes_for_all_banks(machine, levels.source_of(constant=True), levels.weights) is not None
    if source == home or not meet:
        ways |= {(home, "read"), (home, "both"), (source, "write")}
    crossed = (x for x in machine.links if any((memory, x.direction) in ways for memory in x.memories))
    return max((x.burst for x in crossed), default=1)


def _permutations(graph: Graph, machine: Machine, name: str) -> Iterator[Permutation | None]:
    """For each read of a constant, the layout that it asks for; ``None`` if the constant has to stay as it is."""
    for op in graph.consumers[name]:
        if not op.stages:
            yield None
        for number, stage in enumerate(op.stages):
            for position, read in enumerate(stage.reads):
                if read.tensor == name:
                    stationary = number == op.contraction and position == 1 and not op.template
                    pays = stationary and _multiplied(op, stage, graph, machine) and _in_parts(stage, graph, machine)
                    yield _permutation(stage, read) if pays else None


def _in_parts(stage: Stage, graph: Graph, machine: Machine) -> bool:
    """Whether tiles hold parts of rows: weights have no room in a core at once, or columns are longer than rows."""
    axes = contraction_axes(stage)
    column, row = (prod(stage.axes[a].extent for a in group) for group in (axes.k, axes.n))
    weights = graph.tensor[stage.factors[1].tensor]
    return column > row or weights.bytes > machine.levels.weights.capacity


def _multiplied(op: Op, stage: Stage, graph: Graph, machine: Machine) -> bool:
    """Whether the matrix engine has a rate for both operands."""
    private = {b.name: b.dtype for b in op.buffers}
    dtypes = (private.get(f.tensor) or graph.tensor[f.tensor].dtype for f in stage.factors)
    return all(map(machine.engine_for("matrix").rate_of, dtypes))


def _permutation(stage: Stage, weights: Access) -> Permutation | None:
    """Batch, columns, reduction, each in the order that it has; ``None`` if a dimension is not one axis alone."""
    axes = contraction_axes(stage)
    dims: list[tuple[int, int]] = []
    for dim, index in enumerate(weights.index):
        walked = [a for a, c in enumerate(index.coeffs) if c]
        if len(walked) != 1 or index.coeffs[walked[0]] != 1 or index.const:
            return None
        dims.append((_rank(axes, walked[0]), dim))
    return tuple(dim for _, dim in sorted(dims))


def _rank(axes: ContractionAxes, axis: int) -> int:
    return next(rank for rank, role in enumerate((axes.batch, axes.n, axes.k, axes.m)) if axis in role)


def _reading(op: Op, transposed: dict[str, Permutation]) -> Op:
    """The operator with its accesses to these constants transposed."""
    if not transposed.keys() & set(op.inputs):
        return op

    def access(old: Access) -> Access:
        if old.tensor not in transposed:
            return old
        return replace(old, index=tuple(old.index[d] for d in transposed[old.tensor]))

    stages = tuple(
        replace(s, operands=tuple(access(o) if isinstance(o, Access) else o for o in s.operands)) for s in op.stages
    )
    return replace(op, stages=stages)


def _transposed(array: np.ndarray, permutation: Permutation) -> np.ndarray:
    return np.ascontiguousarray(array.transpose(permutation))
