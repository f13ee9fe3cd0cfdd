"""Where cells run and how operands move: cores, portions of transfers, issuers of broadcasts, versions of weights.

Chosen by rules, as nothing but the timeline tells what they cost, and it is little (measured in
docs/decisions/0012-how-operands-move-is-the-plans.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, reduce
from math import prod

import numpy as np

from ...ir.box import Box, hull, shape_of, volume
from ...ir.graph import DTYPES, Graph
from ...ir.machine import Machine
from ...ir.machines.shared_banks import ReachedBanks, bytes_for_all_banks
from ...ir.plan import LocalBuffer, Plan, Segment, Transfer, WeightStream
from ...ir.semantics.cell import Cell, Cells, count, leaving
from ...ir.semantics.concat_aliasing import loaded_aliases
from ...ir.semantics.portions import portions
from ..cost.copy_time import route

MOST_PORTIONS = 8
"""Of a box; chosen: with each doubling, what has to be waited for halves, and less is gained."""
TOLERATED_MEETINGS = 1.1
"""By how much longer copies may take for the banks on which they meet, so that there are more portions. Chosen."""
LEAST_PORTION_BYTES = 1 << 13
"""Of a portion, about; chosen: the latency of a copy must not outweigh what is gained."""


def with_movement(plan: Plan, graph: Graph, cells: Cells, machine: Machine) -> Plan:
    """``plan``, whose segments and local buffers are decided, with what it says about cores and transfers."""
    data: dict[int, list[LocalBuffer]] = {}
    for buffer in plan.local:
        if buffer.use == "data":
            data.setdefault(buffer.segment, []).append(buffer)
    cell_cores: list[tuple[int, ...]] = []
    transfers: list[Transfer] = []
    streams: list[WeightStream] = []
    for index, segment in enumerate(plan.segments):
        if not segment.tiles:
            cell_cores.append(())
            continue
        cell_cores.append(tuple(range(count(segment.cores))))
        local = [b.name for b in data.get(index, ())]
        issuers = _rotations(machine.cores)
        transfers += _transfers(graph, cells, machine, index, segment, local, issuers)
        streams += _weight_streams(graph, index, segment, local, issuers)
    return replace(plan, cell_cores=tuple(cell_cores), transfers=tuple(transfers), weight_streams=tuple(streams))


def portion_extents(box: Box, itemsize: int, most: int = MOST_PORTIONS) -> tuple[int, ...]:
    """The outermost dimensions are cut: portions are as contiguous as the box, and tiles mostly come in that order.

    There are ``most`` of them at most.
    """
    remaining_portions = max(1, min(most, volume(box) * itemsize // LEAST_PORTION_BYTES))
    sizes: list[int] = []
    for extent in shape_of(box):
        size = -(-extent // min(remaining_portions, max(1, extent)))
        sizes.append(max(1, size))
        remaining_portions //= -(-extent // sizes[-1]) or 1
        remaining_portions = max(1, remaining_portions)
    return tuple(sizes)


@lru_cache(maxsize=1 << 14)
def portions_apart(
    boxes: tuple[Box, ...], shape: tuple[int, ...], itemsize: int, most: int, banks: ReachedBanks, into: float
) -> tuple[int, ...]:
    """The most portions, ``most`` at most, with which cores meet on banks hardly more than with others.

    Each core copies one of the ``boxes`` of a tensor of that ``shape``, ``into`` bytes a cycle at most. Boxes that
    begin a whole round of all banks apart have their first portions in the same few of them.
    """
    largest = max(boxes, key=volume)
    cycles: dict[tuple[int, ...], float] = {}
    for number in (1 << n for n in range(max(1, most).bit_length())):
        extents = portion_extents(largest, itemsize, number)
        if extents not in cycles:
            cycles[extents] = _turns(boxes, extents, shape, itemsize, banks, into)
    least = min(cycles.values())
    return next(extents for extents in reversed(cycles) if cycles[extents] <= TOLERATED_MEETINGS * least)


def _turns(
    boxes: Sequence[Box], extents: tuple[int, ...], shape: tuple[int, ...], itemsize: int, banks: ReachedBanks,
    into: float,
) -> float:  # fmt: skip
    """Cycles in which cores copy portions of these extents turn by turn, each spread evenly from its first to its last
    byte; the first block of the tensor is at the beginning of a bank."""
    strides = [prod(shape[d + 1 :]) * itemsize for d in range(len(shape))]
    copied = [portions(box, extents) for box in boxes]
    total = 0.0
    for turn in range(max(map(len, copied))):
        load = np.zeros(banks.banks)
        largest = 0
        for portion in (p[turn] for p in copied if turn < len(p)):
            size = volume(portion) * itemsize
            first = sum(span.lo * stride for span, stride in zip(portion, strides, strict=True))
            last = sum((span.hi - 1) * stride for span, stride in zip(portion, strides, strict=True)) + itemsize
            edges = np.arange(first // banks.block, -(-last // banks.block) + 1) * banks.block
            held = np.diff(np.clip(edges, first, last)) * (size / (last - first))
            np.add.at(load, edges[:-1] // banks.block % banks.banks, held)
            largest = max(largest, size)
        total += max(float(load.max()) / banks.served, largest / into)
    return total


def _rotations(cores: int) -> Iterator[tuple[int, ...]]:
    """Issuers of one operand after the other: each receiver in its turn, beginning with the next one each time."""
    while True:
        yield from (tuple((first + rank) % cores for rank in range(cores)) for first in range(cores))


def _transfers(
    graph: Graph, cells: Cells, machine: Machine, index: int, segment: Segment, local: Sequence[str],
    issuers: Iterator[tuple[int, ...]],
) -> list[Transfer]:  # fmt: skip
    """What the segment loads, in the order of its buffers, and then what it stores."""
    ops = tuple(graph.op[name] for name in segment.ops)
    results = {op.output for op in ops}
    transfers: list[Transfer] = []
    for name in (*local, *loaded_aliases(graph, segment)):
        if name not in results:
            boxes = _boxes(cells, segment, lambda cell, name=name: cell.tensors.get(name))
            transfers.append(Transfer(index, name, _portion(graph, machine, name, boxes), next(issuers)))
    for op in leaving(graph, ops):
        boxes = _boxes(cells, segment, lambda cell, name=op.output: cell.owned.get(name))
        transfers.append(Transfer(index, op.output, _portion(graph, machine, op.output, boxes)))
    return transfers


def _weight_streams(
    graph: Graph, index: int, segment: Segment, local: Sequence[str], issuers: Iterator[tuple[int, ...]]
) -> list[WeightStream]:
    """One for each operator on the matrix engine."""
    streams: list[WeightStream] = []
    for position, name in enumerate(segment.ops):
        op, tile = graph.op[name], segment.tile[name]
        if tile.engine != "matrix" or op.contraction is None:
            continue
        versions = tuple(range(tile.weight_depth))
        right = op.stationary
        if right not in graph.constant_names or right in local:
            streams.append(WeightStream(index, name, versions))
            continue
        # Loads of a new segment wait for the last one's stores; its weights need not queue behind them.
        prefetch = tile.weight_depth if position == 0 else 0
        streams.append(WeightStream(index, name, versions, prefetch, next(issuers)))
    return streams


def _boxes(cells: Cells, segment: Segment, box_of: Callable[[Cell], Box | None]) -> list[Box | None]:
    """The boxes by cell in the instance in the middle, or in the first one that has any."""
    instances = count(segment.instances)
    for instance in (instances // 2, *range(instances)):
        boxes = [box_of(cell) for cell in cells.row(segment, instance)]
        if any(box is not None for box in boxes):
            return boxes
    return []


def _portion(graph: Graph, machine: Machine, name: str, boxes: Iterable[Box | None]) -> tuple[int, ...]:
    tensor = graph.tensor[name]
    moved = [box for box in boxes if box is not None]
    whole = reduce(hull, moved, None)
    if whole is None:
        return tensor.shape
    itemsize = DTYPES[tensor.dtype]
    source = machine.levels.source_of(constant=name in graph.constant_names)
    largest = max(moved, key=volume)
    together = bytes_for_all_banks(machine, source, machine.levels.activations)
    if together is None:
        return portion_extents(largest, itemsize)
    # What all cores move in a turn is to be in all banks.
    most = min(MOST_PORTIONS, volume(whole) * itemsize // together)
    into = route(machine, source, machine.levels.activations).bytes_per_cycle
    return portions_apart(tuple(moved), tensor.shape, itemsize, most, ReachedBanks.from_memory(source.memory), into)
