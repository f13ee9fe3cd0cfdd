"""Predicts when everything happens: the plan's program on one core, with in-order queues, hazards and shared links.

A list simulation over tile tasks, in program order. Each engine of a core (matrix, vector, copies) and of the cluster
(DMA, host, scalar engine) has a queue, in which it issues in order; a task starts when its queue is free, its inputs
are there and its target is free. An engine sees its own results at once, others when they are visible:

- inputs: the producer's tiles up to the last one that the tile reads; loads and fetches that have arrived;
- targets: a version of scratch or weights is free when the tile that had it is done; a buffer is free when everything
  that used its bytes in an earlier lifetime is done. A portion that is loaded waits only for uses of the bytes that it
  covers, and an operator without staged operands is done with an input tile by tile (:mod:`.parts_in_use`);
- links are shared by all that moves: loads and stores of all cores, broadcasts once, DMA.

Where cores load from main memory themselves and keep its link busy, the run is replayed in the order of time, and
repeated with the durations of transfers that this finds (:mod:`.fair_sharing`).

One core stands for all: that with the most work in each step. The copy-in queues of all cores are followed, since
they issue broadcasts in turn; cores that come to a weight tile earlier have a broadcast of their own. An instruction
goes at the pace of the banks that hold its operands, and so do the matrix and the vector engine that meet on them
(:mod:`.bank_conflicts`); the matrix engine waits for loads into the banks that it reads weights from. Operands that are
staged are copied on queues of their own (:mod:`.operator_tiles`), which copies that stop over there hold, too; vector
engines that share instructions wait for each other (:mod:`..cost.team.waits`), and cores meet on banks of the shared
memory (:mod:`.link_sharing`). Other conflicts of engines with copies are predicted in a replay alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ...ir.box import Box, Span, shape_of
from ...ir.equivalence import tensor_names
from ...ir.graph import DTYPES, Graph, Op
from ...ir.machine import Engine, Machine
from ...ir.plan import LocalBuffer, Plan, Prediction, Segment
from ...ir.semantics.cell import Cell, Cells
from ...ir.semantics.concat_aliasing import loaded_aliases, parent_buffers
from ...ir.semantics.in_place import replaceable
from ...ir.semantics.kernel_engine import kernel_engine
from ...ir.semantics.portions import on_cores
from ...ir.semantics.row_stream import is_ring, row_stream
from ..cost.copy_time import bytes_served, slow_memories
from ..cost.tile_walk import TileWalk, TileWalks, last_tile
from ..reduced_machine import extent
from .bank_conflicts import BankConflicts, BufferPlace, OperatorBanks, buffer_places
from .core_engines import CoreEngines, Lane, last_lane
from .data_movement import Movement
from .fair_sharing import BUSY, REPLAYS, RecordedRun, busiest, fair_durations
from .link_sharing import Area
from .operator_tiles import DirectTiles, OperandReads, StagedTiles, operand_reads
from .parts_in_use import PartsInUse, parts_in_use
from .running_step import RunningStep
from .staging_queues import StagingQueues
from .streams.row_ring import RowRing
from .streams.weight_buffer import WeightBuffer
from .vector_stages import VectorStages


@dataclass(frozen=True)
class PredictedTimeline:
    """``cycles`` until everything is done, and when each slot computes."""

    cycles: int
    predictions: tuple[Prediction, ...]


def predict(
    graph: Graph, cells: Cells, machine: Machine, plan: Plan, walks: TileWalks, window: range | None = None
) -> PredictedTimeline:
    """When each slot of ``plan`` computes, and when the last byte is written.

    ``window``: positions in the segments of those operators that are predicted; what others make is there before.
    """
    predicted, run = _Simulation(graph, cells, machine, plan, walks, window=window).run()
    rates = {link.name: link.bytes_per_cycle for link in machine.links}
    rates |= {memory.name: bytes_served(memory, extent(plan, memory.name)) for memory in slow_memories(machine)}
    for replay in range(REPLAYS):
        if run is None or busiest(run, rates, predicted.cycles) < BUSY:
            break
        durations = fair_durations(run, rates, {m.name: float(m.bytes_per_cycle) for m in machine.memories})
        recorded = replay + 1 < REPLAYS
        again = _Simulation(graph, cells, machine, plan, walks, durations, recorded=recorded, window=window)
        predicted, run = again.run()
    return predicted


class _Simulation:
    """``durations``: cycles that each transfer of cores takes, if links are shared as a run before has shown.

    ``recorded``: whether there may be another run after it.
    """

    def __init__(
        self, graph: Graph, cells: Cells, machine: Machine, plan: Plan, walks: TileWalks,
        durations: Sequence[float] | None = None, *, recorded: bool = True, window: range | None = None,
    ) -> None:  # fmt: skip
        self._window = window
        self.graph = graph
        self.cells = cells
        self.machine = machine
        self.plan = plan
        self.walks = walks
        self.movement = Movement(graph, machine, plan, walks.copies, durations, recorded=recorded)
        self._vector_engines = len(machine.team("vector"))
        self._kernels = {"host": 0.0, "scalar": 0.0}
        self._local: dict[tuple[int, int], list[LocalBuffer]] = {}
        for buffer in plan.local:
            self._local.setdefault((buffer.segment, buffer.live[0]), []).append(buffer)
        self._insides: dict[int, dict[str, list[str]]] = {}
        self._loaded: dict[int, dict[str, int]] = {}
        self.conflicts = BankConflicts(machine)
        self.engines = CoreEngines(self.conflicts, StagingQueues.from_machine(machine), self.movement.run)
        self._places = buffer_places(machine, plan)
        self._banks: dict[tuple[int, str, int], OperatorBanks] = {}

    def run(self) -> tuple[PredictedTimeline, RecordedRun | None]:
        """The timeline, and what it was made of where that is recorded."""
        predictions: list[Prediction] = []
        slot = 0
        for number, planned in enumerate(self.plan.steps):
            segment = self.plan.segments[planned.segment]
            row = self.cells.row(segment, planned.instance)
            cells = on_cores(row, self.plan.cell_cores[planned.segment], self.machine.cores)
            busiest = self.cells.busiest(segment, planned.instance)
            step = RunningStep(planned.segment, cells, busiest, simultaneous=len(row))
            for position, name in enumerate(segment.ops):
                if self.plan.barrier:
                    self._barrier()
                self.movement.begin_slot(slot)
                op = self.graph.op[name]
                if self._window is not None and position not in self._window:
                    self._open(step, self._local.get((step.segment, position), []))
                else:
                    start, stop = self._slot(step, slot, segment, position, op) if op.host is None else self._kernel(op)
                    predictions.append(Prediction(number, name, int(start), int(stop)))
                self.movement.end_slot(slot)
                slot += 1
        return PredictedTimeline(round(self.movement.end), tuple(predictions)), self.movement.run

    def _barrier(self) -> None:
        self.movement.barrier()
        ends, alone = self.movement.ends, self.movement.alone
        engines = self.engines
        engines.matrix = max(engines.matrix, ends.seen_by(alone(self.machine.engine_for("matrix"))))
        engines.vector = max(engines.vector, ends.seen_by(alone(self.machine.engine_for("vector"))))
        for kind in self._kernels:
            engine = self.machine.host if kind == "host" else self.machine.scalar
            if engine is not None:
                self._kernels[kind] = max(self._kernels[kind], ends.seen_by(alone(engine)))

    def _kernel(self, op: Op) -> tuple[float, float]:
        """Of an operator whose kernel the host or the scalar engine runs; links that it shares are not predicted."""
        kind, _, cost = kernel_engine(self.graph, op, self.machine)
        engine = self.machine.engine_for(kind)
        start = self._kernels[kind]
        for name in op.inputs:
            start = max(start, self.movement.stored(name, self.movement.home(name), engine))
        for name in op.outputs:
            start = max(start, self.movement.home_free(name, engine))
        self._kernels[kind] = start + cost.busy
        stop = self.movement.over(self._kernels[kind] + cost.latency, engine)
        for name in op.inputs:
            self.movement.read_by_kernel(name, stop, engine)
        for name in op.outputs:
            self.movement.written_by_kernel(name, stop, engine)
        return start, stop

    def _slot(self, step: RunningStep, slot: int, segment: Segment, position: int, op: Op) -> tuple[float, float]:
        """Loads, tiles and stores of one operator in one step; when its computation starts and ends."""
        opening = self._local.get((step.segment, position), [])
        self._open(step, opening)
        for buffer in opening:
            stream = self.plan.weight_stream.get((step.segment, buffer.op))
            if buffer.use != self.machine.levels.weights.use or stream is None or not stream.prefetch:
                continue
            ahead = segment.ops.index(buffer.op) - position
            weights = self._weights(step, slot + ahead, segment, self.graph.op[buffer.op])
            if weights is not None:
                step.weights[buffer.op] = weights
                weights.prefetch(self.engines.staging)
        walk = self.walks.walk(op, segment.tile[op.name], step.cell) if op.name in step.cell.ops else None
        weights = step.weights.pop(op.name, None) or self._weights(step, slot, segment, op)
        if weights is not None:
            step.simultaneous = min(step.simultaneous, weights.simultaneous)
        results, data = {self.graph.op[n].output for n in segment.ops}, self.machine.levels.activations.use
        loaded = [b.name for b in opening if b.use == data and not is_ring(b) and b.name not in results]
        loaded += [name for name, first in self._loaded_aliases(step.segment).items() if first == position]
        step.arrived |= self.movement.load(step.segment, step.cells, {name: step.local[name] for name in loaded})
        start = stop = max(self.engines.matrix, self.engines.vector)
        if walk is not None:
            scratch = {
                b.name: versions for b in op.buffers if (versions := step.versions.get((op.name, b.name))) is not None
            }
            start, stop = self._tiles(step, op, walk, weights, scratch, segment.tile[op.name].depth)
        if op.output in step.local:
            ready, area = partial(self._computed, step, op.output), step.local[op.output]
            self.movement.store(
                step.segment, step.cells, op.output, ready, area, step.simultaneous, self.engines.staging
            )
        return start, stop

    def _weights(self, step: RunningStep, slot: int, segment: Segment, op: Op) -> WeightBuffer | None:
        """The weights of an operator of the running step, which runs in ``slot``, if it has any."""
        walk_of = partial(self.walks.walk, op, segment.tile[op.name])
        walk = walk_of(step.cell) if op.name in step.cell.ops else None
        if walk is None or not walk.weights:
            return None
        areas = step.versions[op.name, op.stationary]
        stream = self.plan.weight_stream[step.segment, op.name]
        return WeightBuffer(
            self.movement, slot, op, walk, stream, step.cells, areas, step.local, step.computed, walk_of
        )

    def _open(self, step: RunningStep, opening: Sequence[LocalBuffer]) -> None:
        """Begin the lifetimes of local buffers."""
        for b in opening:
            size = b.bytes // b.depth
            space = self.movement.spaces[b.memory]
            areas = [space.open(b.address + v * size, size) for v in range(b.depth)]
            if is_ring(b):
                step.rings[b.name] = areas
            elif b.use == self.machine.levels.activations.use:
                for name in (b.name, *self._inside(step.segment).get(b.name, ())):
                    step.local[name] = areas[0]
            else:
                step.versions[b.op, b.name] = areas

    def _computed(self, step: RunningStep, name: str, cell: Cell, box: Box) -> float:
        """When ``box`` of a result has been made; ``cell`` has it."""
        if name not in step.computed:
            return self.movement.end
        walk, times = step.computed[name]
        local = tuple(Span(s.lo - c.lo, s.hi - c.lo) for s, c in zip(box, cell.tensors[name], strict=True))
        return times[last_tile(local, walk.box, walk.tile.sizes, walk.tile.order)]

    def _loaded_aliases(self, number: int) -> dict[str, int]:
        """See :func:`girih.ir.semantics.concat_aliasing.loaded_aliases`."""
        if number not in self._loaded:
            self._loaded[number] = loaded_aliases(self.graph, self.plan.segments[number])
        return self._loaded[number]

    def _inside(self, number: int) -> dict[str, list[str]]:
        """The tensors that lie in the buffer of another one, by its name."""
        if number not in self._insides:
            inside: dict[str, list[str]] = {}
            for name, parent in parent_buffers(self.graph, self.plan.segments[number]).items():
                inside.setdefault(parent, []).append(name)
            self._insides[number] = inside
        return self._insides[number]

    def _tiles(
        self, step: RunningStep, op: Op, walk: TileWalk, weights: WeightBuffer | None,
        scratch: dict[str, list[Area]], depth: int,
    ) -> tuple[float, float]:  # fmt: skip
        """The tile walk; when it starts and when its last result is there."""
        reads = operand_reads(op, op.contraction if weights is not None else None)
        placed = step.arrivals(self.walks, self.plan, walk, step.loaded_into(op))
        # What lies in its place already is there with what it consists of.
        idle = any(not k.matrix and not k.vector for k in walk.timings)
        consists_of = step.produced(self.walks, walk, op.inputs if idle else ())
        stages = VectorStages(op, walk, {name: self._seen(step, walk, op, name) for name in reads.vector})
        matrix_engine, vector_engine = self.machine.engine_for("matrix"), self.machine.engine_for("vector")
        tiles = self._operator_tiles(step, op, walk, weights, stages, reads.matrix)
        lanes = self._lanes(scratch, depth, weights.lanes if weights is not None else 1)
        done: list[float] = []
        multiplied: list[float] = []
        for index, number in enumerate(walk.timing):
            kind = walk.timings[number]
            if kind.matrix or kind.vector:
                result = tiles.tile(index, index % depth, lanes)
            else:
                for lane in lanes:
                    lane.skip()
                result = consists_of[index]
            multiplied.append(max(lane.multiplied for lane in lanes))
            result = max(result, placed[index])
            done.append(result if not done else max(result, done[-1]))
        if weights is not None:
            weights.close()
        last = last_lane(lanes)
        self.engines = last.engines
        self.engines.staging.give(self.movement.queues)
        vector = last.engines.vector
        self.movement.over(last.multiplied, matrix_engine)
        self.movement.over(vector + vector_engine.latency, vector_engine)
        step.computed[op.output] = (walk, done or [0.0])
        by_vector = stages.last_uses(walk.timing[-1], last.prepared, vector) if done else {}
        in_turn: dict[str, tuple[Engine, list[float]]] = {}
        if isinstance(tiles, DirectTiles) and done:
            in_turn = dict.fromkeys(reads.matrix, (matrix_engine, multiplied))
            for name in reads.vector:
                in_turn[name] = vector_engine, [*done[:-1], by_vector.get(name, vector) + vector_engine.latency]
        self._note_uses(step, op, walk, last, scratch, reads, by_vector, in_turn)
        stop = done[-1] if done else 0.0
        return min((lane.first for lane in lanes if lane.first is not None), default=stop), stop

    def _lanes(self, scratch: dict[str, list[Area]], depth: int, count: int) -> list[Lane]:
        """The lanes of an operator with these versions of its scratch buffers, as the engines are so far."""
        matrix, vector = (self.machine.engine_for(kind).name for kind in ("matrix", "vector"))
        floors = [[versions[v % len(versions)].floor for versions in scratch.values()] for v in range(depth)]
        # What the matrix engine has to wait for, and the vector engine.
        free = [max((floor.seen_by(matrix) for floor in version_floors), default=0.0) for version_floors in floors]
        vector_free = [
            max((floor.seen_by(vector) for floor in version_floors), default=0.0) for version_floors in floors
        ]
        self.engines.staging.take(self.movement.queues)
        return [Lane(self.engines.copy(), list(free), list(vector_free)) for _ in range(count)]

    def _operator_tiles(
        self, step: RunningStep, op: Op, walk: TileWalk, weights: WeightBuffer | None, stages: VectorStages,
        in_place: tuple[str, ...],
    ) -> DirectTiles | StagedTiles:  # fmt: skip
        """How the engines go through the tiles of an operator; ``in_place``: inputs that the matrix engine reads so."""
        banks = self._operator_banks(step, op, walk)
        place = step.local.get(op.output)
        if self.machine.staging_memories:
            by_input = {name: step.available(self.walks, self.plan, walk, (name,)) for name in op.inputs}
            target = 0.0 if place is None else place.floor.last
            return StagedTiles(self.machine, op, walk, weights, banks, by_input, target)
        target = 0.0 if place is None else place.floor.seen_by(self.machine.engine_for("vector").name)
        arrivals = step.available(self.walks, self.plan, walk, in_place)
        rows, name = None, row_stream(self.graph, op) if weights is not None else ""
        if name in step.rings:
            transfer = self.plan.transfer[step.segment, name]
            rows = RowRing(self.movement, transfer, walk.reads[name], step.cells, step.rings[name])
        return DirectTiles(self.machine, walk, weights, banks, stages, arrivals, target, rows)

    def _note_uses(
        self, step: RunningStep, op: Op, walk: TileWalk, last: Lane, scratch: dict[str, list[Area]],
        reads: OperandReads, by_vector: Mapping[str, float], in_turn: Mapping[str, tuple[Engine, Sequence[float]]],
    ) -> None:  # fmt: skip
        """Until when the places of an operator's tensors are in use, by the ``last`` lane.

        ``by_vector``: when stages have read or written a tensor for the last time. ``in_turn``: of inputs that are
        read tile by tile, by which engine, and when it is done with each tile.
        """
        matrix_engine, vector_engine = self.machine.engine_for("matrix"), self.machine.engine_for("vector")
        areas = {name: [step.local[name]] for name in (*op.inputs, op.output) if name in step.local} | scratch
        names = tensor_names(op)
        for operand, (over, engine) in last.last_copies.items():
            for area in areas.pop(names[int(operand)], ()):
                area.use(self.movement.over(over, self.machine.engine[engine]), engine)
        for name, (engine, until) in in_turn.items():
            parts = self._parts_in_use(step, walk, name, until) if name in areas else None
            if parts is not None:
                area = areas.pop(name)[0]
                area.use_parts(parts, engine.name)
                if name in reads.matrix and name in reads.vector:
                    area.use(last.multiplied, matrix_engine.name)
        for name in (*reads.matrix, *scratch):
            for area in areas.get(name, ()):
                area.use(last.multiplied, matrix_engine.name)
        for name, over in by_vector.items():
            for area in areas.get(name, ()):
                area.use(over + vector_engine.latency, vector_engine.name)

    def _parts_in_use(
        self, step: RunningStep, walk: TileWalk, name: str, until: Sequence[float]
    ) -> PartsInUse | None:  # fmt: skip
        """Until when parts of an input are in use, if tile i is done at ``until[i]``; ``None`` unless the tiles read it
        from a buffer that holds just what the cell has of it."""
        box = step.cell.tensors.get(name)
        if name not in walk.reads or box is None or step.cell.allocated(name) != box:
            return None
        return parts_in_use(walk.reads[name], shape_of(box), DTYPES[self.graph.tensor[name].dtype], until)

    def _seen(self, step: RunningStep, walk: TileWalk, op: Op, name: str) -> list[float]:
        """For each tile, when vector stages can read what they do of an input: loaded, or made by another engine.

        One vector engine runs in order. Several share each instruction, so that one waits for what the others have
        made, unless each reads what it wrote itself.
        """
        if self._vector_engines > 1 and name in step.computed and self._made_by_others(step, walk, op, name):
            return step.available(self.walks, self.plan, walk, (name,))
        return step.arrivals(self.walks, self.plan, walk, (name,))

    def _made_by_others(self, step: RunningStep, walk: TileWalk, op: Op, name: str) -> bool:
        """Whether an engine reads of an input what another one has made of it in this step."""
        producer, _ = step.computed[name]
        first, last = walk.timings[walk.timing[0]], producer.timings[producer.timing[0]]
        if first.shares is not None and last.shares is not None and walk.reads_tile_by_tile(name, producer):
            waits = first.shares.waits_for(tensor_names(op).index(name), last.shares)
            if waits is not None:
                return waits
        return not self._element_by_element(op, name)

    def _element_by_element(self, op: Op, name: str) -> bool:
        """Whether each element of the result needs the same one of the input ``name``, and that was made like this."""
        producer = self.graph.producer[name]
        return name in replaceable(op, self.graph.tensor) and all(stage.combine is None for stage in producer.stages)

    def _operator_banks(self, step: RunningStep, op: Op, walk: TileWalk) -> OperatorBanks:
        key = (step.segment, op.name, id(walk))
        if key not in self._banks:
            whole = {name: parent for parent, names in self._inside(step.segment).items() for name in names}
            places: list[tuple[BufferPlace, ...]] = []
            for name in tensor_names(op):
                data = self._places.get((step.segment, "", whole.get(name, name)))
                places.append(data or self._places.get((step.segment, op.name, name), ()))
            self._banks[key] = self.conflicts.operator(walk, places)
        return self._banks[key]
