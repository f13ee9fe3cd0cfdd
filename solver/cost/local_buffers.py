"""What a segment needs in the memories of a core: names, sizes and lifetimes, all but the addresses.

Data: the hull that a cell has of each tensor, from its load or its producer to its last reader; the largest cell
counts. Scratch: one tile of each private buffer, in rooms that :mod:`.scratch` assigns. Weights: one tile of the
stationary operand of what the matrix engine runs, ``weight_depth`` times. A constant that is nothing but such an
operand goes straight from the shared memory to the weight memory and has no data buffer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...ir.box import Box, volume
from ...ir.graph import DTYPES, Graph, Op
from ...ir.machine import Machine
from ...ir.plan import LocalBuffer, Segment, Tile
from ...ir.semantics.box_arrays import Boxes, concatenate, op_boxes_many, stationary_walk, tile_walk
from ...ir.semantics.cell import Cell, Cells, count
from ...ir.semantics.concat_aliasing import parent_buffers
from ...ir.semantics.row_stream import row_stream
from .scratch import ScratchBytes, equal_rooms, tile_rooms

ROW_VERSIONS = 2
"""Tiles of a constant that is read by rows that a core holds at one time. Chosen, not measured."""
ROW_SHARE = 4
"""One part in so many of local memory is what the versions of such a constant may take, or what as many rows as those
of the array need. Chosen, not measured."""
ROWS_AT_ONCE = 1 << 16
"""How many tiles are looked at in one array: the search for the largest then takes a few megabytes at a time."""


def round_up(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment


def all_cells(cells: Cells, segment: Segment) -> list[Cell]:
    """Every cell of a segment: instances outside, cores inside."""
    return [cell for instance in range(count(segment.instances)) for cell in cells.row(segment, instance)]


def is_streamed(graph: Graph, segment: Segment, name: str) -> bool:
    """Whether the segment uses a constant as nothing but the stationary operand of the matrix engine."""
    if name not in graph.constant_names:
        return False
    return all(_only_stationary(graph.op[n], segment.tile[n], name) for n in segment.ops if name in graph.op[n].inputs)


def _only_stationary(op: Op, tile: Tile, name: str) -> bool:
    reads = [(s, r) for s, stage in enumerate(op.stages) for r, read in enumerate(stage.reads) if read.tensor == name]
    return tile.engine == "matrix" and op.contraction is not None and reads == [(op.contraction, 1)]


def stationary(segment: Segment, op: Op) -> str | None:
    """The tensor that the matrix engine holds in weight memory for ``op``; ``None`` if another engine runs it."""
    if op.contraction is None or segment.tile[op.name].engine != "matrix":
        return None
    return op.stationary


def targets(cells: list[Cell], op: Op) -> list[Box]:
    """The distinct boxes of its result that ``op`` computes in these cells, in order."""
    return list(dict.fromkeys(c.ops[op.name].tensors[op.output] for c in cells if op.name in c.ops))


def walks(op: Op, tile: Tile, boxes: list[Box]) -> Iterator[Boxes]:
    """The tiles of all ``boxes``, some of them at a time."""
    held: list[Boxes] = []
    rows = 0
    for box in boxes:
        held.append(tile_walk(box, tile.sizes, tile.order))
        rows += len(held[-1])
        if rows >= ROWS_AT_ONCE:
            yield concatenate(held)
            held, rows = [], 0
    if held:
        yield concatenate(held)


@dataclass(frozen=True)
class Lifetime:
    """First and last position in the segment at which a tensor's local buffer is needed, and for which operator."""

    op: str
    first: int
    last: int


def lifetimes(graph: Graph, segment: Segment) -> dict[str, Lifetime]:
    """When each tensor is in local memory: an input from the position at which it is loaded."""
    tensors: dict[str, Lifetime] = {}
    for position, name in enumerate(segment.ops):
        op = graph.op[name]
        for tensor in dict.fromkeys((*op.inputs, op.output)):
            known = tensors.get(tensor)
            tensors[tensor] = Lifetime(known.op if known else name, known.first if known else position, position)
    return tensors


def _by_parent_buffer(tensors: Mapping[str, Lifetime], whole: Mapping[str, str]) -> dict[str, Lifetime]:
    """The lifetimes of buffers; ``whole`` has the parent buffer of each tensor that lies in another one's."""
    held: dict[str, Lifetime] = {}
    for name, life in tensors.items():
        known = held.get(whole.get(name, name), life)
        held[whole.get(name, name)] = Lifetime(known.op, min(known.first, life.first), max(known.last, life.last))
    return held


def data_buffers(
    graph: Graph, cells: Cells, machine: Machine, index: int, segment: Segment, some: Sequence[Cell] = ()
) -> list[LocalBuffer]:
    """One buffer for each tensor of the segment's cells that is not streamed, and lies in no other one's buffer; or of
    ``some`` of its cells."""
    level = machine.levels.activations
    sizes: dict[str, int] = {}
    whole = parent_buffers(graph, segment)
    segment_cells = list(some) or all_cells(cells, segment)
    for cell in segment_cells:
        for name in cell.tensors:
            size = volume(cell.allocated(name)) * DTYPES[graph.tensor[name].dtype]
            buffer = whole.get(name, name)
            sizes[buffer] = max(sizes.get(buffer, 0), size)
    return [
        LocalBuffer(
            segment=index,
            op=life.op,
            name=name,
            use=level.use,
            memory=level.name,
            address=-1,
            bytes=depth * round_up(size, level.alignment),
            depth=depth,
            live=(life.first, life.last + 1),
        )
        for name, life in _by_parent_buffer(lifetimes(graph, segment), whole).items()
        if name in sizes and not is_streamed(graph, segment, name)
        for size, depth in [_versions(graph, machine, segment, segment_cells, name, sizes[name])]
    ]


def rows_by_tile(graph: Graph, machine: Machine, op: Op) -> str:
    """The constant whose rows the matrix engine may read tile by tile; empty if there is none.

    Nor is there one where engines have operands in staging memories: the predicted timeline of these knows no tiles of
    a constant in local memory.
    """
    return "" if machine.staging_memories else row_stream(graph, op)


def row_room(graph: Graph, machine: Machine, name: str) -> int:
    """Bytes of local memory that the versions of a constant that comes by rows may take."""
    tensor = graph.tensor[name]
    share = machine.levels.activations.capacity // ROW_SHARE
    return max(share, ROW_VERSIONS * machine.shared_engine("matrix").rows * (tensor.bytes // tensor.shape[0]))


def _versions(
    graph: Graph, machine: Machine, segment: Segment, cells: list[Cell], name: str, whole: int
) -> tuple[int, int]:
    """Bytes of a version of a data buffer, and how many there are: of rows that come tile by tile, a few tiles."""
    for op in graph.consumers.get(name, ()):
        tile = segment.tile.get(op.name)
        if tile is not None and tile.engine == "matrix" and rows_by_tile(graph, machine, op) == name:
            size = row_tile_size(graph, op, tile, targets(cells, op))
            if whole > row_room(graph, machine, name) and ROW_VERSIONS * size < whole:
                return size, ROW_VERSIONS
    return whole, 1


def row_tile_size(graph: Graph, op: Op, tile: Tile, boxes: list[Box]) -> int:
    """Bytes of the largest tile of the constant that ``op`` reads by rows."""
    name, known = row_stream(graph, op), graph.analysis(_KnownSizes).rows
    key = (op.name, tile.sizes, tile.order, tuple(boxes))
    if key not in known:
        parts = (op_boxes_many(op, graph.tensor, walk)[1][name] for walk in walks(op, tile, boxes))
        most = max((int(part.volumes.max(initial=0)) for part in parts), default=0)
        known[key] = most * DTYPES[graph.tensor[name].dtype]
    return known[key]


class _KnownSizes:
    """What was found for an operator of one graph with tiles of one cut, in all its boxes: searches ask again and
    again."""

    def __init__(self, _: Graph) -> None:
        self.scratch: dict[tuple[object, ...], dict[str, int]] = {}
        self.weights: dict[tuple[object, ...], int] = {}
        self.rows: dict[tuple[object, ...], int] = {}


def scratch_sizes(graph: Graph, op: Op, tile: Tile, boxes: list[Box]) -> Mapping[str, int]:
    """Bytes of the largest tile of each private buffer of ``op``; ``boxes`` are those of its result in the cells."""
    known, key = graph.analysis(_KnownSizes).scratch, (op.name, tile.sizes, tile.order, tuple(boxes))
    if key not in known:
        known[key] = _scratch_sizes(graph, op, tile, boxes)
    return known[key]


def _scratch_sizes(graph: Graph, op: Op, tile: Tile, boxes: list[Box]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for walk in walks(op, tile, boxes):
        _, parts = op_boxes_many(op, graph.tensor, walk)
        for buffer in op.buffers:
            if buffer.name in parts:
                size = int(parts[buffer.name].volumes.max()) * DTYPES[buffer.dtype]
                sizes[buffer.name] = max(sizes.get(buffer.name, 0), size)
    return sizes


def scratch_bytes(graph: Graph, machine: Machine, op: Op, tile: Tile, boxes: list[Box]) -> ScratchBytes:
    """What the rooms of all private buffers of ``op`` take; ``boxes`` are those of its result in the cells."""
    alignment = machine.levels.sums.alignment
    largest = scratch_sizes(graph, op, tile, boxes)
    return tile_rooms(op, tile.engine, largest, alignment).bytes(largest, alignment)


def weight_size(graph: Graph, op: Op, tile: Tile, boxes: list[Box]) -> int:
    """Bytes of the largest tile of the stationary operand of ``op``."""
    known, key = graph.analysis(_KnownSizes).weights, (op.name, *tile.cut, tuple(boxes))
    if key not in known:
        known[key] = _weight_size(graph, op, tile, boxes)
    return known[key]


def _weight_size(graph: Graph, op: Op, tile: Tile, boxes: list[Box]) -> int:
    assert op.contraction is not None
    right = graph.tensor[op.stationary]
    largest = 0
    for walk in walks(op, tile, boxes):
        points, _ = op_boxes_many(op, graph.tensor, walk)
        parts = stationary_walk(op, graph.tensor, distinct_weights(op, points[op.contraction]), tile.reduce)
        largest = max(largest, int(parts.volumes.max(initial=0)))
    return largest * DTYPES[right.dtype]


def distinct_weights(op: Op, points: Boxes) -> Boxes:
    """Of the contraction's points in consecutive tiles, one of each run that shares its stationary operand."""
    assert op.contraction is not None
    stage = op.stages[op.contraction]
    right = stage.reads[1]
    axes = [a for a in range(len(stage.axes)) if any(index.coeffs[a] for index in right.index)]
    spans = points.spans[:, axes].reshape(len(points), -1)
    fresh = points.present.copy()
    fresh[1:] &= (spans[1:] != spans[:-1]).any(axis=1) | ~points.present[:-1]
    return points.select(fresh)


def scratch_buffers(graph: Graph, cells: Cells, machine: Machine, index: int, segment: Segment) -> list[LocalBuffer]:
    """One buffer for each private buffer that a tile uses; those that share a room are equally large."""
    level = machine.levels.sums
    segment_cells = all_cells(cells, segment)
    buffers: list[LocalBuffer] = []
    for position, name in enumerate(segment.ops):
        op, tile = graph.op[name], segment.tile[name]
        largest = scratch_sizes(graph, op, tile, targets(segment_cells, op))
        rooms = tile_rooms(op, tile.engine, largest, level.alignment)
        sizes = rooms.sizes(largest, level.alignment)
        for buffer in op.buffers:
            if buffer.name in sizes:
                depth = tile.depth if buffer.name in rooms.versioned else 1
                buffers.append(
                    LocalBuffer(
                        segment=index,
                        op=name,
                        name=buffer.name,
                        use=level.use,
                        memory=level.name,
                        address=-1,
                        bytes=depth * sizes[buffer.name],
                        depth=depth,
                        live=(position, position + 1),
                    )
                )
    return buffers


def scratch_groups(graph: Graph, segment: Segment, buffers: Sequence[LocalBuffer]) -> list[list[LocalBuffer]]:
    """Buffers of the accumulator memory in groups that share an address."""
    groups: list[list[LocalBuffer]] = []
    for name, tile in segment.tile.items():  # Host operators have none.
        buffer_by_name = {b.name: b for b in buffers if b.op == name}
        rooms = equal_rooms(graph.op[name], tile.engine, {b.name: b.bytes for b in buffer_by_name.values()})
        groups += [[buffer_by_name[n] for n in room] for room in rooms]
    return groups


def weight_buffers(graph: Graph, cells: Cells, machine: Machine, index: int, segment: Segment) -> list[LocalBuffer]:
    """One buffer, multi-buffered ``weight_depth`` times, for each operator whose contraction the matrix engine runs."""
    level = machine.levels.weights
    segment_cells = all_cells(cells, segment)
    buffers: list[LocalBuffer] = []
    for position, name in enumerate(segment.ops):
        op, tile = graph.op[name], segment.tile[name]
        tensor = stationary(segment, op)
        if tensor is None:
            continue
        size = weight_size(graph, op, tile, targets(segment_cells, op))
        buffers.append(
            LocalBuffer(
                segment=index,
                op=name,
                name=tensor,
                use=level.use,
                memory=level.name,
                address=-1,
                bytes=tile.weight_depth * round_up(size, level.alignment),
                depth=tile.weight_depth,
                live=(position, position + 1),
            )
        )
    return buffers


def local_requests(
    graph: Graph, cells: Cells, machine: Machine, index: int, segment: Segment
) -> tuple[LocalBuffer, ...]:
    """All local buffers of a segment, with address -1; none for a host operator."""
    if graph.op[segment.ops[0]].host is not None:
        return ()
    return (
        *data_buffers(graph, cells, machine, index, segment),
        *scratch_buffers(graph, cells, machine, index, segment),
        *weight_buffers(graph, cells, machine, index, segment),
    )


def in_place_groups(buffers: Sequence[LocalBuffer], before: Mapping[str, str]) -> list[list[LocalBuffer]]:
    """The buffers in groups that share an address: each result behind the input that it takes the place of.

    ``before``: that input, by the name of the result (see :func:`girih.ir.semantics.in_place.replaced`).
    """
    groups: list[list[LocalBuffer]] = []
    group_of: dict[str, list[LocalBuffer]] = {}
    for buffer in sorted(buffers, key=lambda b: b.live):
        group = group_of.get(before.get(buffer.name, ""))
        if group is None:
            group = []
            groups.append(group)
        group.append(buffer)
        group_of[buffer.name] = group
    return groups
