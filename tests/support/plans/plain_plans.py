"""Plain plans for tests: a segment an operator, everything through main memory, tiles halved until they fit."""

from __future__ import annotations

from dataclasses import replace

from girih.ir.box import Box, full, hull
from girih.ir.graph import DTYPES, Graph, Op
from girih.ir.machine import Machine
from girih.ir.plan import LocalBuffer, Plan, Segment, SharedBuffer, Split, Step, Tile
from girih.ir.semantics.cell import Cells, count, leaving
from girih.solver.banks.problem import BufferRequest
from girih.solver.banks.solve import Placement, place
from girih.solver.cost.local_buffers import local_requests, round_up
from girih.solver.cpsat.backend import Budget
from girih.solver.subproblem.operand_movement import with_movement


def plain_plan(graph: Graph, machine: Machine, *, depth: int = 1, barrier: bool = True) -> Plan:
    """One operator at a time, on all cores; every tensor and constant is fetched and stored for each slot."""
    cells = Cells(graph)
    segments = tuple(_segment(graph, cells, machine, op, depth) for op in graph.ops)
    steps = tuple(Step(i, n) for i, s in enumerate(segments) for n in range(count(s.instances)))
    local: list[LocalBuffer] = []
    for i, segment in enumerate(segments):
        local += _placed(list(local_requests(graph, cells, machine, i, segment)), machine)
    shared = _shared(graph, cells, machine, segments, steps)
    plan = Plan(
        "plain", machine.name, graph.digest, 0, segments, (), steps, tuple(local), shared, (), (), barrier, 0, 0, "",
        (), (),
    )  # fmt: skip
    return with_movement(plan, graph, cells, machine)


def _segment(graph: Graph, cells: Cells, machine: Machine, op: Op, depth: int) -> Segment:
    if op.host is not None:
        return Segment((op.name,), (), (), ())
    shape = graph.tensor[op.output].shape
    dim = max(range(len(shape)), key=lambda d: (min(shape[d], machine.cores), shape[d], -d))
    cores = min(machine.cores, shape[dim])
    engine = "vector"
    reduce: tuple[int, ...] = ()
    if op.contraction is not None:
        reduce = tuple(a.extent for a in op.stages[op.contraction].axes if a.reduce)
        dtype = {t.name: t.dtype for t in (*graph.tensors, *op.buffers)}[op.stages[op.contraction].reads[0].tensor]
        engine = "matrix" if dtype in (machine.engine_for("matrix").rate or {}) else "vector"
    sizes = list(shape)
    cut = list(reduce)
    parts = 1
    while True:
        tile = Tile(op.name, tuple(sizes), tuple(range(len(sizes))), tuple(cut), engine, depth, depth)
        instances = (Split(dim, parts),) if parts > 1 else ()
        segment = Segment((op.name,), instances, (Split(dim, cores),) if cores > 1 else (), (tile,))
        over = _over(graph, cells, machine, segment)
        if over is None:
            return segment
        if over == "local":
            parts += 1
            continue
        if over == "weights" and cut and max(cut) > 1:
            largest = max(range(len(cut)), key=lambda d: cut[d])
            cut[largest] = -(-cut[largest] // 2)
        else:
            largest = max(range(len(sizes)), key=lambda d: (sizes[d], -d))
            assert sizes[largest] > 1, f"{op.name} does not fit"
            sizes[largest] = -(-sizes[largest] // 2)


def _over(graph: Graph, cells: Cells, machine: Machine, segment: Segment) -> str | None:
    levels = machine.levels
    for level in (levels.activations, levels.weights, levels.sums):
        requests = local_requests(graph, cells, machine, 0, segment)
        if sum(b.bytes for b in requests if b.use == level.use) > level.capacity:
            return level.role
    return None


def _placed(buffers: list[LocalBuffer], machine: Machine) -> list[LocalBuffer]:
    found: list[LocalBuffer] = []
    for memory in machine.memories:
        mine = [b for b in buffers if b.memory == memory.name]
        answer = place(tuple(BufferRequest(b.name, b.bytes, b.live) for b in mine), memory, budget=Budget(1.0))
        assert isinstance(answer, Placement), answer
        found += [replace(b, address=a) for b, a in zip(mine, answer.addresses, strict=True)]
    return found


def _shared(
    graph: Graph, cells: Cells, machine: Machine, segments: tuple[Segment, ...], steps: tuple[Step, ...]
) -> tuple[SharedBuffer, ...]:
    main, shared = machine.levels.home.memory, machine.levels.exchange.memory
    homes: list[SharedBuffer] = []
    top = 0
    for tensor in graph.tensors:
        homes.append(SharedBuffer(tensor.name, full(tensor.shape), main.name, top, tensor.bytes, (0, len(steps))))
        top += round_up(tensor.bytes, main.alignment)
    buffers: list[SharedBuffer] = []
    for slot, step in enumerate(steps):
        segment = segments[step.segment]
        if not segment.tiles:
            continue
        op = graph.op[segment.ops[0]]
        there = [cells.cell(segment, step.instance, core) for core in range(count(segment.cores))]
        mine: list[SharedBuffer] = []
        for name in dict.fromkeys((*op.inputs, op.output)):
            boxes = [c.owned.get(name) if name == op.output else c.tensors.get(name) for c in there]
            box = _hull(boxes)
            if box is None or (name == op.output and op not in leaving(graph, (op,))):
                continue
            size = _bytes(graph, name, box)
            mine.append(
                SharedBuffer(
                    name, box, shared.name, 0, size, (slot, slot + 1), fetch=name != op.output, store=name == op.output
                )
            )
        answer = place(tuple(BufferRequest(b.tensor, b.bytes, b.live) for b in mine), shared, budget=Budget(1.0))
        assert isinstance(answer, Placement), answer
        buffers += [replace(b, address=a) for b, a in zip(mine, answer.addresses, strict=True)]
    return (*homes, *buffers)


def _hull(boxes: list[Box | None]) -> Box | None:
    whole: Box | None = None
    for box in boxes:
        whole = hull(whole, box)
    return whole


def _bytes(graph: Graph, name: str, box: Box) -> int:
    size = DTYPES[graph.tensor[name].dtype]
    for span in box:
        size *= span.size
    return size
