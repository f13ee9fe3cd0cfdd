"""Which slot of the plan each instruction belongs to.

Instructions are marked with an operator, not with a slot; every queue has those of earlier slots before those of later
ones. So only an operator that runs in several steps leaves a question:

- *Compute engines.* Where as many runs of consecutive instructions of the operator are in the queue as slots in which
  the core has points to compute, each run is one slot. Otherwise (the queue runs nothing else in between) the
  instructions are divided so that each slot gets its share of the operator's points, which is what they count.
- *Stores* of a core are divided so that each slot stores as many bytes as the core owns of the result.
- *Loads* of data are divided, buffer by buffer in the order of time, so that each slot gets as many bytes as the core
  needs: what a later slot loads to the same place waits until nobody needs the earlier bytes.
- *Loads of weights* (and others, should the bytes not add up) belong to the first slot of the operator that computes on
  the issuing core until after the load has ended, and to none before that of an earlier load of the queue. What is
  prefetched into a free version of a buffer before the slot before it ends counts for that one.
- *DMA, the host and the scalar engine* have no core and no slot here (-1).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from ...ir.box import volume
from ...ir.graph import DTYPES, Graph
from ...ir.isa.timing import matrix_shape, vector_shape
from ...ir.machine import Machine
from ...ir.plan import LocalBuffer, Plan
from ...ir.program import Program
from ...ir.semantics.cell import Cells
from ...ir.semantics.portions import on_cores
from .grouped import grouped
from .instruction_columns import InstructionClass, InstructionColumns
from .memory_accesses import MemoryAccesses

_COMPUTE = ("matrix", "vector")


class SlotsOfInstructions:
    """``slot`` has a slot for each row, or -1."""

    def __init__(
        self, graph: Graph, plan: Plan, program: Program, machine: Machine, columns: InstructionColumns,
        accesses: MemoryAccesses,
    ) -> None:  # fmt: skip
        self._graph, self._plan, self._program, self._machine = graph, plan, program, machine
        self._columns, self._accesses = columns, accesses
        self._ops = {op.name: n for n, op in enumerate(program.ops)}
        self.kind = np.array([c.instruction.row.kind for c in columns.classes] or [""])[columns.class_of]
        """The kind of each row: matrix, vector, copy, broadcast, dma, host, scalar."""
        self.slot = np.full(len(columns.start), -1, np.int64)
        self.core = np.array([-1 if q.core is None else q.core for q in program.queues] or [-1])[columns.queue]
        """The core of each row's queue, or -1."""
        self._shared = machine.memories.index(machine.role("shared"))
        self._in_shared = {b.tensor for b in plan.shared if b.memory == machine.memories[self._shared].name}
        self._payload = columns.of_class([c.cost.cost.payload for c in columns.classes])
        self._written = columns.of_class([c.operands[0].memory if c.operands else -1 for c in columns.classes])
        self._points: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        """By core and operator, (slot, points) of each slot in which the core has some, in order."""
        self._stored: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        """By core and operator, (slot, bytes) of what the core stores of the result."""
        self._loaded: dict[tuple[int, int, int, int], list[tuple[int, int]]] = defaultdict(list)
        """By core, operator, and address and bytes of a buffer, (slot, bytes) of what is loaded into it."""
        self._read_cells()
        self._assign_compute()
        self._assign_stores()
        self._assign_loads()
        self._assign_by_time()

    def _read_cells(self) -> None:
        """What each core computes, stores and loads in each slot."""
        cells, plan, tensors = Cells(self._graph), self._plan, self._graph.tensor
        local = self._machine.role("local").name
        opening: dict[tuple[int, int], list[LocalBuffer]] = defaultdict(list)
        for buffer in plan.local:
            segment = plan.segments[buffer.segment]
            produced = {self._graph.op[name].output for name in segment.ops}
            if buffer.memory == local and buffer.use == "data" and buffer.name not in produced:
                opening[buffer.segment, buffer.live[0]].append(buffer)
        slot = 0
        for step in plan.steps:
            segment = plan.segments[step.segment]
            row = on_cores(cells.row(segment, step.instance), plan.cell_cores[step.segment], self._machine.cores)
            for core, cell in enumerate(row):
                for position, name in enumerate(segment.ops):
                    key, output = (core, self._ops[name]), self._graph.op[name].output
                    boxes = cell.ops.get(name)
                    count = sum(volume(box) for box in boxes.points) if boxes else 0
                    if count:
                        self._points[key].append((slot + position, count))
                    if output in cell.owned and output in self._in_shared:
                        stored = volume(cell.owned[output]) * DTYPES[tensors[output].dtype]
                        self._stored[key].append((slot + position, stored))
                    for buffer in opening[step.segment, position]:
                        if buffer.name in cell.tensors:
                            loaded = volume(cell.tensors[buffer.name]) * DTYPES[tensors[buffer.name].dtype]
                            place = (*key, buffer.address, buffer.bytes)
                            self._loaded[place].append((slot + position, loaded))
            slot += len(segment.ops)

    def _assign_compute(self) -> None:
        columns = self._columns
        work = columns.of_class([_points_of(c) for c in columns.classes])
        for queue, core in enumerate(-1 if q.core is None else q.core for q in self._program.queues):
            rows = np.arange(columns.first[queue], columns.first[queue + 1])
            rows = rows[np.isin(self.kind[rows], _COMPUTE)]
            for op, where in grouped(columns.op[rows]):
                slots = self._points.get((core, op), [])
                if slots:
                    self.slot[rows[where]] = _divided(where, work[rows[where]], slots)

    def _assign_stores(self) -> None:
        """Stores of cores to the shared memory."""
        columns = self._columns
        stores = np.flatnonzero(np.isin(self.kind, ("copy", "broadcast")) & (self._written == self._shared))
        for core, mine in grouped(self.core[stores]):
            for op, some in grouped(columns.op[stores[mine]]):
                slots = self._stored.get((core, op), [])
                if slots:
                    rows = stores[mine[some]]
                    self.slot[rows] = _shared_out(self._payload[rows], slots)

    def _assign_loads(self) -> None:
        """Loads of data, as far as the bytes add up."""
        columns = self._columns
        local = [m.name for m in self._machine.memories].index(self._machine.role("local").name)
        moves = np.isin(self.kind, ("copy", "broadcast"))
        places: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
        for core, op, address, size in self._loaded:
            places[core].append((op, address, size))
        for core, buffers in places.items():
            touched = self._accesses.of(local, core)
            touched = touched.where(touched.writes & moves[touched.row])
            touched = touched.where(np.lexsort((columns.start[touched.row], columns.op[touched.row])))
            ops = columns.op[touched.row]
            for op, address, size in buffers:
                some = touched.where(np.arange(*np.searchsorted(ops, [op, op + 1])))
                rows = some.row[(some.low >= address) & (some.low < address + size)]
                slots = self._loaded[core, op, address, size]
                if self._payload[rows].sum() == sum(count for _, count in slots):
                    own = self.core[rows] == core
                    self.slot[rows[own]] = _shared_out(self._payload[rows], slots)[own]

    def _assign_by_time(self) -> None:
        """All other moves of cores."""
        columns = self._columns
        ends: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
        computed = np.flatnonzero(np.isin(self.kind, _COMPUTE) & (self.slot >= 0))
        for core, op, slot, end in zip(
            self.core[computed].tolist(), columns.op[computed].tolist(), self.slot[computed].tolist(),
            columns.end[computed].tolist(), strict=True,
        ):  # fmt: skip
            ends[core, op][slot] = max(end, ends[core, op].get(slot, 0))
        slots_of: dict[int, list[int]] = defaultdict(list)
        for slot, (_, name) in enumerate(self._plan.slots):
            slots_of[self._ops[name]].append(slot)
        rows = np.flatnonzero(np.isin(self.kind, ("copy", "broadcast")))
        latest: dict[int, int] = {}
        for row, queue, core, op in zip(
            rows.tolist(), columns.queue[rows].tolist(), self.core[rows].tolist(), columns.op[rows].tolist(),
            strict=True,
        ):  # fmt: skip
            if self.slot[row] < 0:
                end, after = int(columns.end[row]), latest.get(queue, 0)
                later = [slot for slot in slots_of[op] if slot >= after] or slots_of[op][-1:]
                ended = ends.get((core, op), {})
                self.slot[row] = next((slot for slot in later if ended.get(slot, -1) >= end), later[0])
            latest[queue] = max(latest.get(queue, 0), int(self.slot[row]))


def _points_of(described: InstructionClass) -> int:
    """How many points an instruction of a compute engine visits."""
    instruction = described.instruction
    kind = instruction.row.kind
    if kind not in _COMPUTE:
        return 0
    shape = matrix_shape(instruction) if kind == "matrix" else vector_shape(instruction)
    return int(np.prod(np.array(shape, np.int64)))


def _shared_out(work: np.ndarray, slots: Sequence[tuple[int, int]]) -> np.ndarray:
    """The slot of each instruction, in order, if each slot gets its share of the work; ``slots``: (slot, share)."""
    numbers = np.array([slot for slot, _ in slots])
    shares = np.cumsum(np.array([count for _, count in slots], np.float64))
    middle = np.cumsum(work, dtype=np.float64) - work / 2
    return numbers[np.minimum(np.searchsorted(shares / shares[-1], middle / max(1, work.sum())), len(slots) - 1)]


def _divided(where: np.ndarray, work: np.ndarray, slots: list[tuple[int, int]]) -> np.ndarray:
    """The slot of each instruction of one operator in a queue; ``where`` are their positions in the queue."""
    numbers = np.array([slot for slot, _ in slots])
    runs = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.diff(where) > 1)])
    if int(runs[-1]) + 1 == len(slots):
        return numbers[runs]
    return _shared_out(work, slots)
