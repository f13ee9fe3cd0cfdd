"""A Graph evaluated in numpy: what a program has to compute, to the last bit.

It shares no code with importer, lowering and simulator, but runs the kernels of host operators.

A value is rounded where the graph says so, and a matrix product after each tile of its reduce axes, as the plan tiles
them; sums are exact otherwise. A program gives the same numbers, except where it adds a sum up in several instructions
(:func:`sums_in_parts`).

A stage is evaluated as a whole: each access becomes a strided view of its (padded) tensor with one dimension for each
axis, so that convolutions of real networks take seconds.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ...ir.graph import FLOATS, Access, Graph, Op, Port, Stage, contraction_axes
from ...ir.isa.table import Instruction
from ...ir.isa.timing import matrix_shape
from ...ir.plan import Plan
from ...ir.program import Program
from .numpy_functions import COMBINE, FUNCTIONS, number, on_whole_numbers, saturated

Arrays = dict[str, np.ndarray]
HostFunction = Callable[[Op, list[np.ndarray]], list[np.ndarray]]
"""Computes the outputs of a host operator."""

ReductionTiles = Mapping[str, tuple[int, ...]]
"""By operator: the extents of the tiles of its matrix product along the reduce axes."""


def reduce_cuts(plan: Plan) -> dict[str, tuple[int, ...]]:
    """The tiles after which a plan rounds sums of matrix products."""
    tiles = [tile for segment in plan.segments for tile in segment.tiles]
    return {tile.op: tile.reduce for tile in tiles if tile.engine == "matrix" and tile.reduce}


def sums_in_parts(graph: Graph, program: Program, cuts: ReductionTiles) -> tuple[str, ...]:
    """The operators whose sums the program rounds where neither graph nor plan says so.

    An instruction adds exactly and rounds its result; where a sum takes several instructions, each of them rounds. A
    correct program may then differ from :func:`evaluate_graph` in the last digits. Sums of integers are not rounded.
    """
    sums, firsts, products = Counter[str](), Counter[str](), Counter[str]()
    in_parts: set[str] = set()
    for instruction in (i for stream in program.streams for i in stream):
        row, op = instruction.row, program.ops[instruction.op].name
        if row.kind == "matrix":
            m, n, k = matrix_shape(instruction)
            sums[op] += m * n
            products[op] += m * n * k
            firsts[op] += 0 if _adds(instruction) else m * n
        elif row.kind == "vector" and row.func in ("sum", "prod", "macc", "dot", "dwconv") and _adds(instruction):
            in_parts.add(op)
    for op, count in sums.items():
        mean, tiles = _tiles(graph.op[op], cuts[op])
        # On average, an instruction adds as many products as a tile has. It may add fewer where those with padding are
        # left out: then, on average, no more instructions make a sum than there are tiles, one of which overwrites it.
        if products[op] < count * mean and count > firsts[op] * tiles:
            in_parts.add(op)
    return tuple(op.name for op in graph.ops if op.name in in_parts and _sums_floats(graph, op))


def _sums_floats(graph: Graph, op: Op) -> bool:
    dtypes = {b.name: b.dtype for b in op.buffers} | {name: graph.tensor[name].dtype for name in op.outputs}
    return any(stage.combine in ("sum", "prod") and dtypes[stage.write.tensor] in FLOATS for stage in op.stages)


def _adds(instruction: Instruction) -> bool:
    """Whether an instruction that sums adds to what is there."""
    row = instruction.row
    acc = row.position.get("acc")
    return row.operands[0].access == "rw" if acc is None else bool(instruction.values[acc])


def _tiles(op: Op, cut: tuple[int, ...]) -> tuple[Fraction, int]:
    """The mean number of products in the tiles of a sum, and how many tiles there are."""
    extents = [axis.extent for axis in op.stages[op.contraction or 0].axes if axis.reduce]
    tiles = math.prod(-(-e // size) for e, size in zip(extents, cut, strict=True))
    return Fraction(math.prod(extents), tiles), tiles


def evaluate_graph(
    graph: Graph, inputs: Mapping[str, np.ndarray], host: HostFunction | None = None, cuts: ReductionTiles | None = None
) -> Arrays:
    """The outputs of the whole batch, by port name, in the dtypes of the ports.

    Sums are exact and rounded once; those of ``cuts`` after each tile.
    """
    replicas = [evaluate_replica(graph, replica_inputs(graph, inputs, r), host, cuts) for r in range(graph.replicas)]
    results: Arrays = {}
    for port in graph.outputs:
        if port.batch_axis is None:
            whole = replicas[0][port.tensor]
        else:
            whole = np.concatenate([arrays[port.tensor] for arrays in replicas], axis=port.batch_axis)
            whole = whole.take(range(port.shape[port.batch_axis]), axis=port.batch_axis)
        assert whole.shape == port.shape, (port.name, whole.shape, port.shape)
        results[port.name] = whole.astype(port.dtype)
    return results


def replica_inputs(graph: Graph, inputs: Mapping[str, np.ndarray], replica: int) -> Arrays:
    """The part of the inputs that one replica computes on, by tensor; the last part is padded with zeros."""
    parts: Arrays = {}
    for port in graph.inputs:
        array = np.asarray(inputs[port.name])
        assert array.shape == port.shape, (port.name, array.shape, port.shape)
        parts[port.tensor] = replica_part(graph, port, array, replica).astype(graph.tensor[port.tensor].dtype)
    return parts


def replica_part(graph: Graph, port: Port, array: np.ndarray, replica: int) -> np.ndarray:
    """One replica's part of an input along its batch axis, padded with zeros to the size of all parts."""
    if port.batch_axis is None:
        return array
    size = graph.tensor[port.tensor].shape[port.batch_axis]
    part = array.take(range(replica * size, min((replica + 1) * size, array.shape[port.batch_axis])), port.batch_axis)
    missing = size - part.shape[port.batch_axis]
    return np.pad(part, [(0, missing if d == port.batch_axis else 0) for d in range(array.ndim)])


def evaluate_replica(
    graph: Graph, inputs: Mapping[str, np.ndarray], host: HostFunction | None = None, cuts: ReductionTiles | None = None
) -> Arrays:
    """The tensors that one cluster computes from its ``inputs``, by name; intermediate ones are dropped when dead."""
    arrays: Arrays = {**inputs, **graph.data}
    last = {name: position for position, op in enumerate(graph.ops) for name in op.inputs}
    for position, op in enumerate(graph.ops):
        evaluate_op(graph, op, arrays, host, (cuts or {}).get(op.name, ()))
        for name in set(op.inputs):
            if last[name] == position and name not in graph.output_tensors:
                arrays.pop(name, None)
    return arrays


def evaluate_op(
    graph: Graph, op: Op, arrays: Arrays, host: HostFunction | None = None, cut: tuple[int, ...] = ()
) -> None:
    """Compute the outputs of ``op`` from ``arrays``, and add them there."""
    if op.host:
        assert host is not None, f"{op.name} needs a host kernel"
        arrays.update(zip(op.outputs, host(op, [arrays[i] for i in op.inputs]), strict=True))
        return
    local: Arrays = {b.name: np.zeros(b.shape, b.dtype) for b in op.buffers}
    local |= {i: arrays[i] for i in op.inputs}
    result = graph.tensor[op.output]
    local[op.output] = np.zeros(result.shape, result.dtype)
    for position, stage in enumerate(op.stages):
        with np.errstate(all="ignore"):
            evaluate_stage(stage, local, cut if position == op.contraction else ())
    arrays[op.output] = local[op.output]


def evaluate_stage(stage: Stage, arrays: Arrays, cut: tuple[int, ...] = ()) -> None:
    """Compute a stage on its whole domain; ``cut`` are the tiles of a contraction's reduce axes, if it has any."""
    reduced = tuple(p for p, a in enumerate(stage.axes) if a.reduce)
    if stage.is_contraction:
        left, right = (view(stage, r, arrays[r.tensor]) for r in stage.factors)
        start = None
        if stage.start is not None:
            start = spatial(stage, summable(view(stage, stage.start, arrays[stage.start.tensor])))
        value = contract_in_parts(stage, left, right, cut, start) if cut else contract(stage, left, right)
        if start is not None and not cut:
            value = value + start
    else:
        read = [view(stage, o, arrays[o.tensor]) if isinstance(o, Access) else o for o in stage.operands]
        whole = on_whole_numbers(stage.func, read)
        operands = [
            number(o, whole) if isinstance(o, float | int) else o.astype(np.int64 if whole else np.float32, copy=False)
            for o in read
        ]
        value = FUNCTIONS[stage.func](*operands)
        if stage.combine:
            shape = tuple(a.extent for a in stage.axes)
            if stage.combine in ("sum", "prod") and value.dtype.name in FLOATS:
                value = value.astype(np.float64)
            value = COMBINE[stage.combine].reduce(np.broadcast_to(value, shape), axis=reduced)
        else:
            assert not reduced
    target = arrays[stage.write.tensor]
    place = view(stage, stage.write, target, writeable=True)
    if reduced:
        place = place[(*(0 if p in reduced else slice(None) for p in range(len(stage.axes))), ...)]
    place[...] = saturated(value, target.dtype)


def view(stage: Stage, access: Access, array: np.ndarray, writeable: bool = False) -> np.ndarray:
    """The accessed elements, with one dimension for each axis of the stage (of extent 1 where it is not used)."""
    box = tuple(a.extent for a in stage.axes)
    before, after, shape = [], [], array.shape
    for index, size in zip(access.index, shape, strict=True):
        lo = index.const + sum(min(0, c * (n - 1)) for c, n in zip(index.coeffs, box, strict=True))
        hi = index.const + sum(max(0, c * (n - 1)) for c, n in zip(index.coeffs, box, strict=True))
        before.append(max(0, -lo))
        after.append(max(0, hi - size + 1))
    if any(before) or any(after):
        assert access.fill is not None, f"{access.tensor} is accessed out of bounds"
        padding = list(zip(before, after, strict=True))
        array = np.pad(array, padding, constant_values=np.asarray(access.fill).astype(array.dtype))
    if not writeable:
        array = np.ascontiguousarray(array).reshape(array.shape)
    offset = sum((i.const + b) * s for i, b, s in zip(access.index, before, array.strides, strict=True))
    strides = [sum(i.coeffs[p] * s for i, s in zip(access.index, array.strides, strict=True)) for p in range(len(box))]
    used = [any(i.coeffs[p] for i in access.index) for p in range(len(box))]
    start = np.ndarray((), array.dtype, array, offset)
    extents = [n if u else 1 for n, u in zip(box, used, strict=True)]
    return as_strided(start, extents, strides, writeable=writeable)


def contract(stage: Stage, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The sum of products, as a batched matrix product."""
    roles = contraction_axes(stage)
    count = len(stage.axes)
    batch, m, n, k = roles.batch, roles.m, roles.n, roles.k
    size = {p: stage.axes[p].extent for p in range(count)}

    def arrange(array: np.ndarray, groups: tuple[tuple[int, ...], ...]) -> np.ndarray:
        order = [p for g in groups for p in g]
        rest = [p for p in range(count) if p not in order]
        shape = [array.shape[p] if p in rest else size[p] for p in range(count)]
        array = np.broadcast_to(array, shape).transpose([*rest, *order])
        assert all(array.shape[i] == 1 for i in range(len(rest)))
        array = np.ascontiguousarray(array)
        array = summable(array)
        return array.reshape([math.prod(size[p] for p in g) for g in groups])

    products = np.matmul(arrange(left, (batch, m, k)), arrange(right, (batch, k, n)))
    shaped = products.reshape([size[p] for p in (*batch, *m, *n)])
    spatial = [p for p in range(count) if not stage.axes[p].reduce]
    order = [*batch, *m, *n]
    return shaped.transpose([order.index(p) for p in spatial])


def summable(array: np.ndarray) -> np.ndarray:
    """In a dtype in which sums of products are exact."""
    return array.astype(np.float64 if array.dtype.name in FLOATS else np.int64)


def spatial(stage: Stage, array: np.ndarray) -> np.ndarray:
    """A view without the dimensions of the reduced axes, which it does not use."""
    return array[tuple(0 if a.reduce else slice(None) for a in stage.axes)]


def contract_in_parts(
    stage: Stage, left: np.ndarray, right: np.ndarray, cut: tuple[int, ...], start: np.ndarray | None
) -> np.ndarray:
    """The sum of products over tiles of the reduce axes in row-major order: each adds to the sum and rounds it."""
    reduced = [p for p, a in enumerate(stage.axes) if a.reduce]
    starts = [range(0, stage.axes[p].extent, size) for p, size in zip(reduced, cut, strict=True)]
    total: np.ndarray | None = None
    for corner in product(*starts):
        spans = {
            p: slice(lo, min(lo + size, stage.axes[p].extent)) for p, lo, size in zip(reduced, corner, cut, strict=True)
        }
        axes = tuple(
            replace(a, extent=spans[p].stop - spans[p].start) if p in spans else a for p, a in enumerate(stage.axes)
        )
        a, b = (
            x[tuple(spans[p] if p in spans and n > 1 else slice(None) for p, n in enumerate(x.shape))]
            for x in (left, right)
        )
        part = contract(replace(stage, axes=axes), a, b)
        if total is None and start is not None:
            part = part + start
        if part.dtype.kind == "f":
            part = (part if total is None else total.astype(np.float64) + part).astype(np.float32)
        elif total is not None:
            part = total + part
        total = part
    assert total is not None
    return total
