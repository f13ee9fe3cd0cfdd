"""One operator: what was chosen for it, what else could have been, what binds, its loops and its instructions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

from ...ir.box import shape_of, volume
from ...ir.graph import Graph, Op
from ...ir.plan import LocalBuffer, Plan, Segment, SharedBuffer, Split, Tile
from ...ir.semantics.cell import Cells
from ...ir.semantics.kernel_engine import kernel_engine
from ...ir.semantics.row_stream import is_ring
from ..compilation import Compilation
from ..cycles.breakdown import WaitReason
from ..cycles.losses import losses
from ..memory_use import kind_of, peak_of
from .advice import Advice, advice
from .alternatives import Alternative, Alternatives
from .instruction_use import InstructionRow, instruction_rows

_LARGEST_LOSSES = 4


@dataclass(frozen=True)
class OperandRow:
    """A tensor that the operator reads or writes; ``memories``: those that it lies in, in the direction of the data.

    ``kind``: input, output, constant or activation. ``note`` says what is special about the way.
    """

    tensor: str
    access: str
    kind: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    memories: tuple[str, ...]
    note: str


@dataclass(frozen=True)
class Loop:
    """A loop around the operator's instructions, the outermost first: ``iterations`` of (at most) ``size`` elements.

    ``kind``: "instances" (one after the other), "cores" (side by side), "tile" or "reduction".
    """

    kind: str
    dim: str
    iterations: int
    size: int


@dataclass(frozen=True)
class RoomRow:
    """A memory while the operator runs: what it holds for this operator, and for all; ``capacity`` is what there is."""

    memory: str
    own: int
    live: int
    capacity: int

    @property
    def share(self) -> float:
        return self.live / self.capacity


@dataclass(frozen=True)
class LoadRow:
    """An engine or link: the cycles that the operator alone would keep it busy, of an engine the busiest core's."""

    resource: str
    cycles: float


@dataclass(frozen=True)
class OperatorDetails:
    """All about one operator. ``segment`` is its segment, of which ``steps`` are the instances that run.

    ``tile`` is ``None`` for an operator that no engine of tiles runs, for the reason ``host``, but ``kernel_engine``:
    ``host`` or ``scalar``. ``cell``: shape of what
    one core computes of the result in one instance, halos included. ``weight_stream``: what brings tiles of weights.
    ``predicted`` are the cycles of all its slots, ``cycles`` those of the run that the cycle breakdown of ``resource``,
    the resource with the most work, counts for it; ``work`` of them is what the lower bound counts. ``losses`` are the
    largest ones as a sentence; ``waits`` the longest waits by cause. ``binds`` is the engine or link with the most to
    do. ``begin`` and ``end`` are of its first and last instruction in the run.
    """

    name: str
    origin: tuple[str, ...]
    host: str
    kernel_engine: str
    segment: int
    position: int
    steps: int
    macs: int
    elements: int
    shape: tuple[int, ...]
    instances: tuple[Split, ...]
    cores: tuple[Split, ...]
    cell_cores: tuple[int, ...]
    cell: tuple[int, ...]
    tile: Tile | None
    weight_stream: str
    operands: tuple[OperandRow, ...]
    loops: tuple[Loop, ...]
    alternatives: tuple[Alternative, ...]
    resource: str
    predicted: int
    cycles: float
    work: float
    losses: str
    waits: tuple[WaitReason, ...]
    binds: str
    loads: tuple[LoadRow, ...]
    rooms: tuple[RoomRow, ...]
    advice: tuple[Advice, ...]
    instructions: tuple[InstructionRow, ...]
    begin: int
    end: int

    @property
    def lost(self) -> float:
        """Cycles beyond the work that the lower bound counts."""
        return self.cycles - self.work


def operator_details(compilation: Compilation, name: str, alternatives: Alternatives) -> OperatorDetails:
    """All about an operator of the graph."""
    graph, plan, program = compilation.graph, compilation.plan, compilation.program
    op = graph.op[name]
    index = next(i for i, segment in enumerate(plan.segments) if name in segment.ops)
    segment = plan.segments[index]
    tile = segment.tile.get(name)
    work = next((o for o in program.ops if o.name == name), None)
    row = next((r for r in compilation.breakdown.operators if r.op == name), None)
    loads = compilation.loads.get(name, {})
    ranked = sorted(loads.items(), key=lambda load: (-load[1], load[0]))
    instructions = instruction_rows(compilation, name)
    rooms = _rooms(compilation, index, name)
    operands = _operands(compilation, op, index)
    cell = _cell_shape(graph, op, segment)
    return OperatorDetails(
        name=name,
        origin=op.origin,
        host=op.host.reason if op.host else "",
        kernel_engine=kernel_engine(graph, op, compilation.machine)[0] if op.host else "",
        segment=index,
        position=segment.ops.index(name),
        steps=sum(1 for step in plan.steps if step.segment == index),
        macs=work.macs if work else 0,
        elements=work.elements if work else 0,
        shape=graph.tensor[op.output].shape,
        instances=segment.instances,
        cores=segment.cores,
        cell_cores=plan.cell_cores[index],
        cell=cell,
        tile=tile,
        weight_stream=_weight_stream(plan, index, name),
        operands=operands,
        loops=_loops(graph, op, segment, cell, tile),
        alternatives=alternatives(name),
        resource=compilation.breakdown.bounding,
        predicted=sum(p.stop - p.start for p in plan.predictions if p.op == name),
        cycles=row.cycles if row else 0.0,
        work=row.work or 0.0 if row else 0.0,
        losses=losses(row, compilation.machine, _LARGEST_LOSSES) if row else "",
        waits=row.reasons if row else (),
        binds=ranked[0][0] if ranked else "",
        loads=tuple(LoadRow(resource, cycles) for resource, cycles in ranked if cycles > 0),
        rooms=rooms,
        advice=advice(compilation, row, index, {room.memory: room.share for room in rooms}) if row else (),
        instructions=instructions,
        begin=min((i.begin for i in instructions if i.kind != "sync"), default=0),
        end=max((i.end for i in instructions if i.kind != "sync"), default=0),
    )


def _operands(compilation: Compilation, op: Op, segment: int) -> tuple[OperandRow, ...]:
    rows: list[OperandRow] = []
    for access, names in (("reads", tuple(dict.fromkeys(op.inputs))), ("writes", op.outputs)):
        for name in names:
            tensor = compilation.graph.tensor[name]
            memories, note = _way(compilation, op, segment, name, access == "reads")
            kind = kind_of(compilation.graph, name)
            rows.append(OperandRow(name, access, kind, tensor.shape, tensor.dtype, tensor.bytes, memories, note))
    return tuple(rows)


def _way(compilation: Compilation, op: Op, index: int, name: str, reads: bool) -> tuple[tuple[str, ...], str]:
    """The memories that a tensor passes for this operator, in the direction of the data, and what is special."""
    graph, plan, machine = compilation.graph, compilation.plan, compilation.machine
    segment = plan.segments[index]
    if op.host:
        return (machine.levels.home_of(constant=name in graph.constant_names).name,), "the kernel's"
    shared = [b for b in plan.shared if b.tensor == name]
    local = [b for b in plan.local if b.segment == index and b.name == name and b.use != "scratch"]
    places = {b.memory for b in local}
    notes: list[str] = []
    made_here = name in graph.producer and graph.producer[name].name in segment.ops
    if not local:
        if name in segment.aliased:
            places.add(machine.levels.activations.name)
            notes.append(f"{'made' if made_here else 'loaded'} where its concatenation lies")
        else:
            notes.append("in the buffer of another tensor")
            places.add(machine.levels.activations.name)
    versions = max((b.depth for b in local if is_ring(b)), default=0)
    if versions:
        notes.append(f"its rows come tile by tile, to {versions} versions in turn")
    read_outside = any(c.name not in segment.ops for c in graph.consumers[name]) or name in graph.output_tensors
    if made_here and (reads or not read_outside):
        notes.append("does not leave the core")
    else:
        places |= {b.memory for b in shared}
        moved = [b for b in shared if (b.fetch if reads else b.store)]
        rings = [b for b in moved if b.ring_position or b.ring_lead]
        if rings:
            notes.append(f"circular buffer of {1 + max(b.ring_position for b in rings)} positions")
        fetched = sum(volume(b.box) for b in moved) / max(1, graph.tensor[name].elements)
        if reads and fetched > 1.005:
            notes.append(f"fetched {fetched:.1f} times")
    order = {memory.name: number for number, memory in enumerate(machine.memories)}
    sequence = sorted(places, key=order.__getitem__, reverse=not reads)
    return tuple(sequence), "; ".join(notes)


def _cell_shape(graph: Graph, op: Op, segment: Segment) -> tuple[int, ...]:
    """The shape of what the first core computes of the result in the first instance; empty on the host."""
    if op.host:
        return ()
    boxes = Cells(graph).cell(segment, 0, 0).ops.get(op.name)
    return shape_of(boxes.tensors[op.output]) if boxes else ()


def _loops(graph: Graph, op: Op, segment: Segment, cell: Sequence[int], tile: Tile | None) -> tuple[Loop, ...]:
    loops = [Loop("instances", str(s.dim), s.parts, 0) for s in segment.instances if s.parts > 1]
    loops += [Loop("cores", str(s.dim), s.parts, 0) for s in segment.cores if s.parts > 1]
    if tile is None or not cell:
        return tuple(loops)
    names = _dim_names(graph, op)
    loops += [Loop("tile", names[dim], ceil(cell[dim] / tile.sizes[dim]), tile.sizes[dim]) for dim in tile.order]
    if tile.reduce and op.contraction is not None:
        axes = [axis for axis in op.stages[op.contraction].axes if axis.reduce]
        loops += [
            Loop("reduction", axis.name, ceil(axis.extent / size), size)
            for axis, size in zip(axes, tile.reduce, strict=True)
        ]
    return tuple(loops)


def _dim_names(graph: Graph, op: Op) -> list[str]:
    """The dimensions of the result by number, with the axis of the contraction where that is the same."""
    names = [str(dim) for dim in range(len(graph.tensor[op.output].shape))]
    if op.contraction is None:
        return names
    stage = op.stages[op.contraction]
    shapes = {b.name: b.shape for b in op.buffers} | {op.output: graph.tensor[op.output].shape}
    if shapes.get(stage.write.tensor) != graph.tensor[op.output].shape:
        return names
    for dim, index in enumerate(stage.write.index):
        axes = [stage.axes[a].name for a, coefficient in enumerate(index.coeffs) if coefficient]
        if len(axes) == 1:
            names[dim] = f"{dim} ({axes[0]})"
    return names


def _weight_stream(plan: Plan, index: int, name: str) -> str:
    stream = plan.weight_stream.get((index, name))
    if stream is None:
        return ""
    versions = len(set(stream.versions))
    if not stream.issuers:
        return f"from local memory, into {versions} version(s) in turn"
    first = next((b.live[0] for b in plan.local if (b.segment, b.op, b.use) == (index, name, "weights")), 0)
    ahead = (
        f", {stream.prefetch} tile(s) before the data of {plan.segments[index].ops[first]}" if stream.prefetch else ""
    )
    return f"from shared memory, one copy or broadcast a tile, into {versions} version(s) in turn{ahead}"


def _rooms(compilation: Compilation, index: int, name: str) -> tuple[RoomRow, ...]:
    """Each memory on chip while the operator runs; of shared memory, in the slot in which it holds the most."""
    plan, machine = compilation.plan, compilation.machine
    segment = plan.segments[index]
    position = segment.ops.index(name)
    op = compilation.graph.op[name]
    touched = {*op.inputs, *op.outputs}
    slots = [slot for slot, (step, o) in enumerate(plan.slots) if o == name and plan.steps[step].segment == index]
    rows: list[RoomRow] = []
    for memory in machine.memories:
        if memory.name in machine.levels.homes or op.host:
            continue
        if memory.scope == "core":
            live = [
                b
                for b in plan.local
                if b.segment == index and b.memory == memory.name and b.live[0] <= position < b.live[1]
            ]
            operator_buffers = [b for b in live if (b.name in touched if b.use == "data" else b.op == name)]
            amounts = [_bytes(operator_buffers), _bytes(live)]
        else:
            best: tuple[int, int] = (0, 0)
            shared = [b for b in plan.shared if b.memory == memory.name]
            for slot in slots:
                living = [b for b in shared if b.live[0] <= slot < b.live[1]]
                best = max(best, (_bytes(living), _bytes(b for b in living if b.tensor in touched)))
            amounts = [best[1], best[0]]
        rows.append(RoomRow(memory.name, amounts[0], amounts[1], memory.capacity))
    return tuple(rows)


def _bytes(buffers: Iterable[LocalBuffer | SharedBuffer]) -> int:
    """Bytes in at least one of the buffers."""
    return peak_of((0, 1, b.address, b.bytes) for b in buffers)[0]
