"""The plan walked slot by slot, in the order that :mod:`girih.ir.plan` defines."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.box import Box
from ...ir.graph import Graph, Op
from ...ir.isa.table import make
from ...ir.plan import LocalBuffer, Plan, Segment, SharedBuffer, Transfer
from ...ir.semantics.cell import Cell, Cells
from ...ir.semantics.concat_aliasing import loaded_aliases, parent_buffers
from ...ir.semantics.kernel_engine import kernel_engine
from ...ir.semantics.portions import interleaved, on_cores, portions, receivers
from ...ir.semantics.row_stream import is_ring
from .compiled_kernels import CompiledKernels
from .lockstep import OpWalk
from .program_builder import ProgramBuilder, TensorBuffer
from .tile_kernels import TileKernels


class Walker:
    """Turns a plan into tasks, whatever the order of its queues; one instance for one walk."""

    def __init__(self, graph: Graph, plan: Plan, compiled: CompiledKernels) -> None:
        self.build = ProgramBuilder(graph, plan, compiled.machine)
        self.kernels = TileKernels(graph, self.build.layout, compiled)
        self._cells = Cells(graph)
        self._numbers = {op.name: n for n, op in enumerate(graph.ops)}
        self._loaded_aliases: dict[str, int] = {}
        """Of the running segment."""
        self._prefetched: dict[str, OpWalk] = {}
        """By operator of the running step, if the life of its weights has begun and its slot has not."""
        self._with_kernel = [op.name for op in graph.ops if op.host is not None]
        self._local: dict[tuple[int, int], list[LocalBuffer]] = {}
        """By segment, and by the position in it at which their lifetimes begin."""
        for local in plan.local:
            self._local.setdefault((local.segment, local.live[0]), []).append(local)
        self._opening: dict[int, list[SharedBuffer]] = {}
        self._homes: dict[int, list[SharedBuffer]] = {}
        """By the slot in which their lifetimes begin."""
        for home in self.build.layout.homes.values():
            self._homes.setdefault(home.live[0], []).append(home)
        levels = self.build.levels
        for buffer in plan.shared:
            # The others are fetched on the way, see OpWalk.
            if buffer.opens_with_slot and levels.has_exchange and buffer.memory == levels.exchange.name:
                self._opening.setdefault(buffer.live[0], []).append(buffer)

    def walk(self) -> None:
        """Emit the whole plan."""
        plan, graph = self.build.plan, self.build.graph
        slot = 0
        for step in plan.steps:
            segment = plan.segments[step.segment]
            cells = on_cores(
                self._cells.row(segment, step.instance), plan.cell_cores[step.segment], self.build.machine.cores
            )
            self.build.open_segment(step.segment, parent_buffers(graph, segment))
            self._prefetched.clear()
            self._loaded_aliases = loaded_aliases(graph, segment)
            for position, name in enumerate(segment.ops):
                self.build.dependences.slot = slot
                if plan.barrier:
                    self.build.dependences.barrier()
                for home in self._homes.get(slot, ()):
                    self.build.open_home(home)
                for buffer in self._opening.get(slot, ()):
                    self.build.open_shared(buffer, self._numbers[name])
                if graph.op[name].host is not None:
                    self._call(graph.op[name])
                else:
                    self._slot(slot, step.segment, segment, position, graph.op[name], cells)
                slot += 1

    def _call(self, op: Op) -> None:
        """Let the host or the scalar engine run the kernel of an operator on tensors in main memory."""
        reads = [self.build.home_areas[name] for name in op.inputs]
        writes = [self.build.home_areas[name] for name in op.outputs]
        kind, _, _ = kernel_engine(self.build.graph, op, self.build.machine)
        mnemonic = {"host": "hcall", "scalar": "scall"}[kind]
        call = make(mnemonic, self._numbers[op.name], {"kernel": self._with_kernel.index(op.name)})
        self.build.dependences.call(self.build.queues.kernel(kind), call, reads, writes)

    def _slot(self, slot: int, number: int, segment: Segment, position: int, op: Op, cells: Sequence[Cell]) -> None:
        """Loads, tiles and stores of one operator in one step."""
        opening = self._local.get((number, position), [])
        for buffer in opening:
            self.build.open_local(buffer)
        for buffer in opening:
            if buffer.use == self.build.levels.weights.use:
                ahead = segment.ops.index(buffer.op) - position
                self._prefetched[buffer.op] = self._tiles(slot + ahead, number, segment, buffer.op, cells)
                self._prefetched[buffer.op].prefetch()
        tiles = self._prefetched.pop(op.name, None) or self._tiles(slot, number, segment, op.name, cells)
        produced = {self.build.graph.op[n].output for n in segment.ops}
        data = (b for b in opening if b.use == self.build.levels.activations.use and not is_ring(b))
        loaded = [b.name for b in data if b.name not in produced]
        loaded += [name for name, first in self._loaded_aliases.items() if first == position]
        self._load(loaded, number, slot, self._numbers[op.name], cells)
        tiles.run()
        self._store(number, slot, op, cells)

    def _tiles(self, slot: int, number: int, segment: Segment, name: str, cells: Sequence[Cell]) -> OpWalk:
        """The tiles of an operator in its slot."""
        stream, op = self.build.plan.weight_stream.get((number, name)), self.build.graph.op[name]
        return OpWalk(self.build, self.kernels, op, segment.tile[name], stream, self._numbers[name], slot, cells)

    def _load(self, names: list[str], segment: int, slot: int, op: int, cells: Sequence[Cell]) -> None:
        """Bring what each core needs of tensors from the shared memory; what several need alike is broadcast."""
        loads = [self._wanted(self.build.plan.transfer[segment, name], cells) for name in names]
        for number, turn in interleaved([max((len(parts) for *_, parts in load), default=0) for load in loads]):
            name = names[number]
            turns = self.build.turns(self.build.plan.transfer[segment, name])
            for cores, target, parts in loads[number]:
                if turn < len(parts):
                    kind, mask = "broadcast" if len(cores) > 1 else "copy", sum(1 << core for core in cores)
                    for source, part in self.build.layout.holding(name, parts[turn], slot):
                        resident = self.build.resident(source)
                        self.build.copy(kind, op, name, part, turns.issuer(cores), resident, target, mask)

    def _wanted(self, transfer: Transfer, cells: Sequence[Cell]) -> list[tuple[list[int], TensorBuffer, list[Box]]]:
        """For each box of a tensor that cores need: these cores, their buffers, and the portions it comes in."""
        name = transfer.tensor
        requests: list[tuple[list[int], TensorBuffer, list[Box]]] = []
        broadcast = self.build.broadcasts(name, self.build.levels.activations)
        for (box, room), cores in receivers((cell.loaded(name) for cell in cells), broadcast):
            held = [self.build.data(name, core, room) for core in cores]
            target = TensorBuffer(
                held[0].memory, tuple(h.areas[0] for h in held), held[0].address, room, held[0].strides
            )
            requests.append((cores, target, portions(box, transfer.portion)))
        return requests

    def _store(self, segment: int, slot: int, op: Op, cells: Sequence[Cell]) -> None:
        """Bring each core's share of a result that leaves the segment to the shared memory, and on if planned."""
        name, number = op.output, self._numbers[op.name]
        if name not in self.build.layout.shared:
            return
        used: dict[SharedBuffer, None] = {}
        for core, cell in enumerate(cells):
            if name not in cell.owned:
                continue
            source = self.build.data(name, core, cell.allocated(name))
            for portion in portions(cell.owned[name], self.build.plan.transfer[segment, name].portion):
                for target, part in self.build.layout.holding(name, portion, slot):
                    used[target] = None
                    self.build.copy("copy", number, name, part, core, source, self.build.resident(target))
        for buffer in used:
            if buffer.store:
                self.build.copy(
                    "dma", number, name, buffer.box, None, self.build.resident(buffer), self.build.home(name)
                )
