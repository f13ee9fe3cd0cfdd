"""Plans made by hand, without the solver: one operator a segment, memory handed out in order."""

from __future__ import annotations

from girih.ir.box import full, volume
from girih.ir.graph import DTYPES, Graph
from girih.ir.machine import Machine
from girih.ir.plan import LocalBuffer, Plan, Segment, SharedBuffer, Split, Step, Tile
from girih.ir.semantics.cell import Cells, tile_boxes
from girih.ir.semantics.region import op_boxes
from girih.solver.subproblem.operand_movement import with_movement


class Bump:
    def __init__(self, alignment: int) -> None:
        self.alignment, self.top = alignment, 0

    def take(self, size: int) -> int:
        address = self.top
        self.top += self.round(size)
        return address

    def round(self, size: int) -> int:
        return -(-size // self.alignment) * self.alignment


def sequential_plan(
    graph: Graph,
    machine: Machine,
    *,
    parts: int = 2,
    reduce_parts: int = 2,
    depth: int = 2,
    matrix: bool = True,
    barrier: bool = False,
    core_dim: int | None = None,
    cores: int | None = None,
) -> Plan:
    """Each dimension of each output in ``parts`` tiles, each reduce axis in ``reduce_parts``, everything resident."""
    cells = Cells(graph)
    segments: list[Segment] = []
    local: list[LocalBuffer] = []
    for op in graph.ops:
        if op.host is not None:
            segments.append(Segment((op.name,), (), (), ()))
            continue
        shape = graph.tensor[op.output].shape
        dim = (
            core_dim
            if core_dim is not None and core_dim < len(shape)
            else max(range(len(shape)), key=lambda d: (shape[d] >= machine.cores, -d))
        )
        splits = (Split(dim, min(cores or machine.cores, shape[dim])),)
        anchor = op.contraction if matrix else None
        share = cells.cell(Segment((op.name,), (), splits, ()), 0, splits[0].parts - 1).ops[op.name].tensors[op.output]
        reduce = (
            tuple(max(1, -(-a.extent // reduce_parts)) for a in op.stages[anchor].axes if a.reduce)
            if anchor is not None
            else ()
        )
        tile = Tile(
            op.name,
            tuple(max(1, -(-s.size // parts)) for s in share),
            tuple(range(len(shape)))[::-1],
            reduce,
            "matrix" if anchor is not None else "vector",
            depth,
            depth,
        )
        segment = Segment((op.name,), (), splits, (tile,))
        local += _local(graph, machine, cells, len(segments), segment)
        segments.append(segment)
    slots = len(graph.ops)
    main, shared_memory = machine.levels.home.memory, machine.levels.exchange.memory
    home, llb = Bump(main.alignment), Bump(shared_memory.alignment)
    shared: list[SharedBuffer] = []
    on_host = {n for op in graph.ops if op.host is not None for n in (*op.inputs, *op.outputs)}
    for tensor in graph.tensors:
        box = full(tensor.shape)
        loaded = tensor.name in graph.constant_names or tensor.name in graph.input_tensors
        stored = tensor.name in graph.output_tensors or tensor.name in on_host
        if loaded or stored:
            shared.append(
                SharedBuffer(tensor.name, box, main.name, home.take(tensor.bytes), main_size(tensor.bytes), (0, slots))
            )
        positions = [
            i for i, op in enumerate(graph.ops) if op.host is None and tensor.name in (*op.inputs, *op.outputs)
        ]
        if not positions:
            continue
        from_host = any(op.host is not None and tensor.name in op.outputs for op in graph.ops)
        live = (positions[0], positions[-1] + 1)
        address = llb.take(tensor.bytes)
        fetch = loaded or from_host
        shared.append(
            SharedBuffer(tensor.name, box, shared_memory.name, address, tensor.bytes, live, fetch, stored and not fetch)
        )
    plan = Plan(
        "handmade", machine.name, graph.digest, 0, tuple(segments), (), tuple(Step(i, 0) for i in range(len(segments))),
        tuple(local), tuple(shared), (), (), barrier, 0, 0, "", (), (),
    )  # fmt: skip
    return with_movement(plan, graph, cells, machine)


def main_size(size: int) -> int:
    return max(1, size)


def _local(graph: Graph, machine: Machine, cells: Cells, number: int, segment: Segment) -> list[LocalBuffer]:
    op = graph.op[segment.ops[0]]
    tile = segment.tile[op.name]
    levels = machine.levels
    local, weights, scratch = (level.memory for level in (levels.activations, levels.weights, levels.sums))
    bump = {m.name: Bump(m.alignment) for m in (local, weights, scratch)}
    stationary = (
        op.stages[op.contraction].reads[1].tensor if tile.engine == "matrix" and op.contraction is not None else None
    )
    boxes: dict[str, int] = {}
    private: dict[str, int] = {}
    tile_weights = 0
    dtypes = {b.name: b.dtype for b in op.buffers} | {n: t.dtype for n, t in graph.tensor.items()}
    for core in range(machine.cores):
        cell = cells.cell(segment, 0, core)
        if op.name not in cell.ops:
            continue
        for name, box in cell.tensors.items():
            boxes[name] = max(boxes.get(name, 0), volume(box) * DTYPES[dtypes[name]])
        for part in tile_boxes(cell.ops[op.name].tensors[op.output], tile.sizes, tile.order):
            needs = op_boxes(op, graph.tensor, part)
            for buffer in op.buffers:
                if buffer.name in needs.tensors:
                    size = volume(needs.tensors[buffer.name]) * DTYPES[buffer.dtype]
                    private[buffer.name] = max(private.get(buffer.name, 0), size)
            if stationary:
                # An upper bound is enough here: the whole box that the tile needs, for all of the reduction.
                size = volume(needs.tensors[stationary]) * DTYPES[dtypes[stationary]]
                tile_weights = max(tile_weights, size)
    found: list[LocalBuffer] = []

    def add(memory: str, name: str, use: str, size: int, depth: int) -> None:
        each = bump[memory].round(size)
        owner = "" if use == "data" else op.name
        address = bump[memory].take(each * depth)
        found.append(LocalBuffer(number, owner, name, use, memory, address, each * depth, depth, (0, 1)))

    for name, size in boxes.items():
        if not (name == stationary and name in graph.constant_names):
            add(local.name, name, "data", size, 1)
    for name, size in private.items():
        add(scratch.name, name, "scratch", size, tile.depth)
    if stationary:
        add(weights.name, stationary, "weights", tile_weights, tile.weight_depth)
    assert all(b.top <= machine.memory[n].capacity for n, b in bump.items()), {n: b.top for n, b in bump.items()}
    return found
