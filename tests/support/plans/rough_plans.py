"""Whole plans from rough segments, to feed residency, banks and the checker: valid, and not meant to be fast."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from girih.ir.graph import Graph, Op
from girih.ir.machine import Machine
from girih.ir.plan import LocalBuffer, Plan, Segment, SharedBuffer, Split, Step, Tile
from girih.ir.semantics.cell import Cells, count
from girih.solver.banks.problem import BufferRequest
from girih.solver.banks.solve import Placement, PlacementOverflow, place
from girih.solver.cost.local_buffers import all_cells, local_requests, scratch_buffers, weight_buffers
from girih.solver.cpsat.backend import Budget
from girih.solver.residency.solve import Residency, SharedOverflow, decide_residency
from girih.solver.subproblem.operand_movement import with_movement
from tests.support.graphs import Net

BUDGET = Budget(5.0)


def needed(op: Op, ops: Sequence[Op]) -> bool:
    """Whether ``op`` is an ancestor of the last of ``ops``."""
    wanted = {ops[-1].output}
    for other in reversed(ops):
        if wanted & set(other.outputs):
            wanted |= set(other.inputs)
    return op.output in wanted


def rough_segments(graph: Graph, machine: Machine, *, group: int = 3, instances: int = 1) -> tuple[Segment, ...]:
    """Runs of at most ``group`` operators, cut along the first dimension that can be, cores along the largest."""
    runs: list[list[Op]] = []
    for op in graph.ops:
        joined = [*runs[-1], op] if runs else [op]
        whole = op.host is None and runs and runs[-1][0].host is None and len(joined) <= group
        if whole and all(needed(o, joined) for o in joined):
            runs[-1] = joined
        else:
            runs.append([op])
    return tuple(rough_segment(graph, machine, tuple(o.name for o in run), instances) for run in runs)


def rough_segment(graph: Graph, machine: Machine, ops: tuple[str, ...], instances: int = 1) -> Segment:
    if graph.op[ops[0]].host is not None:
        return Segment(ops, (), (), ())
    shape = graph.tensor[graph.op[ops[-1]].output].shape
    cut = next((d for d, e in enumerate(shape) if e >= instances), 0)
    dim = max(range(len(shape)), key=lambda d: (shape[d] // (instances if d == cut else 1), -d))
    parts = min(machine.cores, shape[dim] // (instances if dim == cut else 1))
    segment = Segment(
        ops,
        (Split(cut, instances),) if instances > 1 and shape[cut] >= instances else (),
        (Split(dim, parts),) if parts > 1 else (),
        tuple(_tile(graph, graph.op[name]) for name in ops),
    )
    return fitted(graph, machine, segment)


def _tile(graph: Graph, op: Op) -> Tile:
    shape = graph.tensor[op.output].shape
    if op.contraction is None:
        return Tile(op.name, shape, tuple(range(len(shape))))
    reduce = tuple(a.extent for a in op.stages[op.contraction].axes if a.reduce)
    order = (len(shape) - 1, *range(len(shape) - 1))
    return Tile(op.name, shape, order, reduce, "matrix")


def fitted(graph: Graph, machine: Machine, segment: Segment) -> Segment:
    """Halve tiles until scratch and weights fit with two versions each."""
    cells = Cells(graph)
    tiles: list[Tile] = []
    for tile in segment.tiles:
        boxes = [c.ops[tile.op].tensors[graph.op[tile.op].output] for c in all_cells(cells, segment)]
        sizes = tuple(min(s, max(b[d].size for b in boxes)) for d, s in enumerate(tile.sizes))
        tile = replace(tile, sizes=sizes)
        while True:
            alone = replace(segment, tiles=tuple(tile if t.op == tile.op else t for t in segment.tiles))
            scratch = sum(b.bytes for b in scratch_buffers(graph, cells, machine, 0, alone) if b.op == tile.op)
            weights = sum(b.bytes for b in weight_buffers(graph, cells, machine, 0, alone) if b.op == tile.op)
            if weights > machine.levels.weights.capacity // 2:
                if max(tile.reduce) > 16:
                    tile = replace(tile, reduce=tuple(-(-r // 2) if r == max(tile.reduce) else r for r in tile.reduce))
                else:
                    tile = replace(tile, sizes=(*tile.sizes[:-1], -(-tile.sizes[-1] // 2)))
            elif scratch > machine.levels.sums.capacity // 2:
                largest = max(range(len(tile.sizes)), key=lambda d: tile.sizes[d])
                tile = replace(tile, sizes=tuple(-(-s // 2) if d == largest else s for d, s in enumerate(tile.sizes)))
            else:
                break
        tiles.append(replace(tile, depth=2, weight_depth=2) if tile.engine == "matrix" else tile)
    return replace(segment, tiles=tuple(tiles))


def in_order(segments: Sequence[Segment]) -> tuple[Step, ...]:
    return tuple(Step(s, i) for s, segment in enumerate(segments) for i in range(count(segment.instances)))


def by_instance(segments: Sequence[Segment], groups: Sequence[tuple[int, int]]) -> tuple[Step, ...]:
    """Depth first inside of each group of segments (first, last), which have equally many instances."""
    steps: list[Step] = []
    for first, last in groups:
        for instance in range(count(segments[first].instances)):
            steps += [Step(s, instance) for s in range(first, last)]
    return tuple(steps)


def rough_cycles(graph: Graph, segments: Sequence[Segment], steps: Sequence[Step], cells: Cells) -> list[int]:
    """A crude estimate of each slot's computation: the busiest core's result in elements."""
    found: list[int] = []
    for step in steps:
        segment = segments[step.segment]
        for name in segment.ops:
            most = 1000
            for core in range(count(segment.cores)):
                cell = cells.cell(segment, step.instance, core)
                if name in cell.ops:
                    points = cell.ops[name].points
                    work = sum(_volume(p) for p in points)
                    most = max(most, work // (2048 if graph.op[name].contraction is not None else 64))
            found.append(most)
    return found


def _volume(box: Sequence[tuple[int, int]]) -> int:
    size = 1
    for lo, hi in box:
        size *= max(0, hi - lo)
    return size


def placed_locals(graph: Graph, cells: Cells, machine: Machine, segments: Sequence[Segment]) -> list[LocalBuffer]:
    found: list[LocalBuffer] = []
    for index, segment in enumerate(segments):
        buffers = local_requests(graph, cells, machine, index, segment)
        for memory in (level.memory for level in machine.levels.of_core):
            mine = [b for b in buffers if b.memory == memory.name]
            answer = place(tuple(BufferRequest(b.name, b.bytes, b.live) for b in mine), memory, budget=BUDGET)
            assert isinstance(answer, Placement), (segment.ops, answer)
            found += [replace(b, address=a) for b, a in zip(mine, answer.addresses, strict=True)]
    return found


def rough_plan(
    graph: Graph,
    machine: Machine,
    segments: Sequence[Segment] | None = None,
    steps: Sequence[Step] | None = None,
    *,
    layerwise: bool = False,
    group: int = 3,
    instances: int = 1,
) -> Plan:
    cells = Cells(graph)
    segments = segments or rough_segments(graph, machine, group=group, instances=instances)
    steps = steps or in_order(segments)
    answer = decide_residency(
        graph,
        cells,
        machine,
        segments,
        steps,
        slot_cycles=rough_cycles(graph, segments, steps, cells),
        budget=BUDGET,
        everything_in_main=layerwise,
    )
    if isinstance(answer, SharedOverflow):
        raise answer.error()
    return plan_of(
        graph, machine, segments, steps, placed_locals(graph, cells, machine, segments), shared_of(answer, machine)
    )


def shared_of(answer: Residency, machine: Machine) -> tuple[SharedBuffer, ...]:
    spots = place(answer.requests, machine.levels.exchange.memory, budget=BUDGET)
    assert not isinstance(spots, PlacementOverflow), spots
    return answer.placed(spots.addresses)


def plan_of(
    graph: Graph,
    machine: Machine,
    segments: Sequence[Segment],
    steps: Sequence[Step],
    local: Sequence[LocalBuffer],
    shared: Sequence[SharedBuffer],
) -> Plan:
    plan = Plan(
        "rough", machine.name, graph.digest, 0, tuple(segments), (), tuple(steps), tuple(local), tuple(shared), (), (),
        False, 0, 0, "", (), (),
    )  # fmt: skip
    return with_movement(plan, graph, Cells(graph), machine)


def wide(columns: int = 512, k: int = 512) -> tuple[Graph, Segment]:
    """Weights four times as large as the shared memory of the tiny machine."""
    net = Net("wide", "float32")
    graph = (net.matmul("fc", net.input("x", 4, k), columns), net.graph())[1]
    tile = Tile("fc", (4, 16), (1, 0), (64,), "matrix", 2, 2)
    return graph, Segment(("fc",), (), (Split(1, 2),), (tile,))
