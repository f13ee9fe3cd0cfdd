"""What parts of operators cost: the busy cycles of each engine, and what a well tiled operator takes of a core.

:mod:`.instructions` tells the cycles of a stage over a box; this module adds them up for a part of an operator and
remembers them by structure and shape, because candidates by the thousand ask for the same parts. Durations overlap like
this: with a buffer multi-buffered ``d`` times between a producer of busy cycles p and a consumer of c, a round takes
``max(p, c, (p + c + latencies) / d)``.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import ceil, inf, prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...ir.box import Box, Span, is_empty, shape_of, volume
from ...ir.errors import EngineTypeError, UnsupportedError
from ...ir.graph import DTYPES, Graph, Op, Stage, contraction_axes
from ...ir.machine import Engine, Level, Machine
from ...ir.machines.computed_types import idle_with
from ...ir.machines.shared_banks import ReachedBanks
from ...ir.semantics.contraction_engines import contraction_engine
from ...ir.semantics.region import OpBoxes, beyond
from .copy_time import route
from .instructions import StageBuffers
from .scratch import ScratchBytes, scratch_rooms
from .staging_time import matrix_time, vector_time

Amount: TypeAlias = "float | NDArray[np.float64] | NDArray[np.int64]"
"""Bytes or cycles, of one thing or of many."""


@dataclass(frozen=True)
class Rates:
    """Bytes a cycle between the memories; ``read`` and ``write``: of the shared memory, all cores together.

    Where constants have a memory of their own, ``read`` is the slower one's, weights being most of what is loaded.
    """

    into: Engine
    """Copies from shared to local memory and weight memory, at the pace of the slowest of them."""
    out: Engine
    """Copies from local to shared memory."""
    read: float
    write: float
    main: float
    """Main memory, the slower direction, as far as the DMA engine moves it; endless, where the cores load from it."""
    fetched_constants: float
    """Constants on their way to the shared memory; as ``main`` if main memory has them."""
    latency: int
    """Cycles from the end of a load from shared memory until its data can be used."""
    store_latency: int
    burst: int
    """Bytes to multiples of which the contiguous pieces of a constant are rounded where the cores load it from."""
    exchange_burst: int
    """The same of what the cores exchange with one another."""
    main_burst: int
    """The same of main memory; 1 where the cores load from it."""
    fetched_burst: int
    """The same of the memory that constants are fetched from; 1 where the cores load from it."""
    broadcast: bool
    """Whether weights that several cores want come to all of them at once."""
    constants: ReachedBanks
    """The banks that the cores load constants from."""
    exchanged: ReachedBanks
    """The banks that the cores load activations from."""

    @property
    def slowest_home(self) -> float:
        """Bytes a cycle between homes and the shared memory, of constants or of others: the slower of both."""
        return min(self.main, self.fetched_constants)

    def read_of(self, size: Amount, banks: ReachedBanks) -> Amount:
        """Bytes a cycle of loads by all cores that are spread over ``size`` bytes in these banks."""
        return np.minimum(self.read, banks.rate(size))

    @staticmethod
    def from_machine(machine: Machine) -> Rates:
        levels = machine.levels
        shared, main, fetched = (x.name for x in (levels.exchange, levels.home, levels.constants))

        def rate(memory: str, direction: str) -> float:
            limits = [
                x.bytes_per_cycle for x in machine.links if memory in x.memories and x.direction in (direction, "both")
            ]
            served = machine.memory[memory].bytes_per_cycle * machine.memory[memory].banks
            return min([*limits, float(served)])

        def crossing(direction: str) -> int:
            return sum(x.latency for x in machine.links if shared in x.memories and x.direction in (direction, "both"))

        def burst(memory: str, directions: tuple[str, ...] = ("read", "write", "both")) -> int:
            crossed = (x.burst for x in machine.links if memory in x.memories and x.direction in directions)
            return max(crossed, default=1)

        def moved(home: Level, *directions: str) -> float:
            if not levels.has_exchange:
                return inf
            # What goes from one memory to another behind the same port crosses it twice.
            behind = (x for x in machine.links if x.direction == "both" and {home.name, shared} <= {*x.memories})
            limits = [*(rate(home.name, d) for d in directions), *(x.bytes_per_cycle / 2 for x in behind)]
            return min([*limits, route(machine, home, levels.exchange).bytes_per_cycle or inf])

        shared_read = min(rate(levels.source_of(constant=c).name, "read") for c in (False, True))
        constants = levels.source_of(constant=True).name
        into, out = (
            route(machine, levels.exchange, levels.activations),
            route(machine, levels.activations, levels.exchange),
        )
        local, weights = (level.memory.bytes_per_cycle for level in (levels.activations, levels.weights))
        return Rates(
            into=replace(into, bytes_per_cycle=min(into.bytes_per_cycle, local, weights)),
            out=replace(out, bytes_per_cycle=min(out.bytes_per_cycle, local)),
            read=shared_read,
            write=rate(shared, "write"),
            main=moved(levels.home, "read", "write"),
            fetched_constants=moved(levels.constants, *(("read",) if levels.has_constants else ("read", "write"))),
            latency=into.latency + crossing("read"),
            store_latency=out.latency + crossing("write"),
            burst=burst(constants, ("read", "both")),
            exchange_burst=burst(shared),
            main_burst=burst(main) if levels.has_exchange else 1,
            fetched_burst=burst(fetched) if levels.has_exchange else 1,
            broadcast=machine.moves("broadcast", levels.source_of(constant=True), levels.weights),
            constants=ReachedBanks.from_memory(levels.source_of(constant=True).memory),
            exchanged=ReachedBanks.from_memory(levels.exchange.memory),
        )


@dataclass(frozen=True)
class Weights:
    """How the cores get the stationary operand: ``local`` (an activation, from a core's own local memory), or from the
    shared memory. ``sharing`` of ``cores`` want the same pieces: by broadcasts, which they take turns to issue, or by a
    copy for each of them."""

    cores: int = 1
    sharing: int = 1
    local: bool = False

    def load(
        self, size: Amount, rates: Rates, crossing: Amount | None = None, spread: Amount | None = None
    ) -> tuple[Amount, Amount]:
        """For a piece of ``size`` bytes: cycles of the busiest queue or link, and cycles until it can be used.

        ``crossing``: the bytes that cross the link, whole bursts; ``None``: no more than those of the piece.
        ``spread``: the bytes of the shared memory from the first to the last one of all cores' pieces; ``None``: so
        many that no bank is asked for more than others.
        """
        body = size / rates.into.bytes_per_cycle
        if self.local:
            return rates.into.issue + body, rates.into.issue + body + rates.into.latency
        receivers = self.sharing if rates.broadcast else 1
        read = rates.read if spread is None else rates.read_of(spread, rates.constants)
        link = (size if crossing is None else crossing) * self.cores / receivers / read
        busy = np.maximum(link, (rates.into.issue + body) / receivers)
        return busy, rates.into.issue + np.maximum(body, link) + rates.latency


@dataclass(frozen=True)
class EngineWork:
    """Of one core: busy cycles of the engines, issue included, and instructions of each.

    ``matrix_fill``: of the cycles of the matrix engine, those in which its array is filled and drained. ``sums``:
    cycles that the accumulator memory takes to write its results once.
    """

    matrix: int = 0
    vector: int = 0
    matrix_instructions: int = 0
    vector_instructions: int = 0
    matrix_fill: int = 0
    sums: int = 0

    def plus(self, other: EngineWork, times: int = 1) -> EngineWork:
        return EngineWork(
            self.matrix + times * other.matrix,
            self.vector + times * other.vector,
            self.matrix_instructions + times * other.matrix_instructions,
            self.vector_instructions + times * other.vector_instructions,
            self.matrix_fill + times * other.matrix_fill,
            self.sums + times * other.sums,
        )


@contextmanager
def refused_by_name(op: Op) -> Generator[None]:
    """What no engine can do is told with the operator that asks for it."""
    try:
        yield
    except UnsupportedError as error:
        raise error.worded(f"operator {op.name}: {error}") from error


class OpCost:
    """The cost of parts of one operator. ``anchor`` is the stage that the matrix engine runs, if any.

    ``engine`` runs the contraction; ``None``: the matrix engine, if it can.
    """

    def __init__(self, op: Op, graph: Graph, machine: Machine, engine: str | None = None) -> None:
        self.op = op
        self.machine = machine
        self.matrix = machine.shared_engine("matrix")
        self.vector = machine.shared_engine("vector")
        self.engine = engine or contraction_engine(op, graph, machine)
        self.contraction = op.contraction if self.engine == "matrix" else None
        self.stationary = op.stationary if self.contraction is not None else None
        self.streamed = self.stationary in graph.constant_names and self._only_stationary()
        """Whether the stationary operand goes straight from the shared memory to the weight memory."""
        self.batched = self.contraction is not None and bool(contraction_axes(op.stages[self.contraction]).batch)
        self.rooms = scratch_rooms(op, self.engine)
        self.dtypes = {b.name: b.dtype for b in op.buffers}
        self.dtypes |= {n: graph.tensor[n].dtype for n in (*op.inputs, *op.outputs)}
        self._check_lanes()
        self.element = DTYPES[self.dtypes[self.stationary]] if self.stationary is not None else 0
        """Bytes of an element of the stationary operand."""
        self.weights_row = 0
        """Bytes of the whole stationary operand for one point of the reduction."""
        self.weights_column = 0
        """The same for one column: all points of the reduction."""
        self.reduction_innermost = False
        """Whether the points of the reduction of one column lie one behind the other in the stationary operand."""
        if self.contraction is not None and self.stationary is not None:
            anchor = op.stages[self.contraction]
            points = prod(anchor.axes[a].extent for a in contraction_axes(anchor).k)
            self.weights_row = graph.tensor[self.stationary].bytes // points
            self.weights_column = points * self.element
            last = anchor.reads[1].index[-1]
            self.reduction_innermost = any(last.coeffs[a] for a in contraction_axes(anchor).k)
        self._shape = graph.tensor[op.output].shape
        self._known: dict[tuple[object, ...], EngineWork] = {}
        self._known_apart: dict[tuple[object, ...], tuple[int, ...]] = {}

    def _check_lanes(self) -> None:
        """Raise :class:`EngineTypeError` if the vector engine has no lanes for what a stage computes."""
        lanes = self.vector.lanes or {}
        for number, stage in enumerate(self.op.stages):
            dtype = self.dtypes[stage.write.tensor]
            if number == self.contraction or stage.combine is not None or stage.is_movement or dtype in lanes:
                continue
            other = idle_with(self.machine, "vector", (dtype,))
            raise EngineTypeError(
                f"operator {self.op.name}: {stage.func} gives {dtype}, and {self.vector.name} of {self.machine.name} "
                f"has lanes for {', '.join(lanes)} alone{f' ({other})' if other else ''}; add {dtype} to the lanes of "
                f"{self.vector.name} in the machine file, compute in another precision, or quantise what the operator "
                "reads and what it gives",
                self.vector.name,
                "lanes",
            )

    def _only_stationary(self) -> bool:
        reads = [
            (s, r)
            for s, stage in enumerate(self.op.stages)
            for r, x in enumerate(stage.reads)
            if x.tensor == self.stationary
        ]
        return reads == [(self.contraction, 1)]

    @property
    def latency(self) -> int:
        """Cycles from the end of a tile on one engine to its use by the other, all the way through."""
        return self.vector.latency + (self.matrix.latency if self.contraction is not None else 0)

    def bytes(self, name: str, box: Box | None) -> int:
        """Bytes of a box of one of the operator's tensors; 0 for none."""
        return 0 if box is None else volume(box) * DTYPES[self.dtypes[name]]

    def scratch(self, part: OpBoxes) -> ScratchBytes:
        """What the private buffers of a part take."""
        sizes = {b.name: self.bytes(b.name, part.tensors.get(b.name)) for b in self.op.buffers}
        return self.rooms.bytes(sizes, self.machine.levels.sums.alignment)

    def in_bursts(self, size: Amount, row: Amount, rates: Rates) -> Amount:
        """Bytes that cross the link for ``size`` bytes of a constant, a ``row`` of it for each point of the reduction.

        Rows of all columns lie one behind the other; others are contiguous by themselves, and each is rounded up. With
        the reduction innermost, so are the points of it for each column, and those of whole columns.
        """
        if self.reduction_innermost:
            column = size / np.maximum(1, row) * self.element
            run = np.maximum(1, np.where(np.less(column, self.weights_column), column, size))
        else:
            run = np.maximum(1, np.where(np.less(row, self.weights_row), row, size))
        return size / run * (np.ceil(run / rates.burst) * rates.burst)

    def spread(self, size: Amount, row: Amount, weights: Weights) -> Amount:
        """Bytes of the shared memory from the first to the last one of the pieces that all cores load at one time.

        Each is of ``size`` bytes, with ``row`` of them for each point of the reduction.
        """
        rows = size / np.maximum(1, row)
        if self.reduction_innermost:
            columns = np.maximum(1, row) / self.element
            spread = (columns - 1) * self.weights_column + np.minimum(self.weights_column, rows * self.element)
        else:
            spread = (rows - 1) * self.weights_row + np.minimum(self.weights_row, np.maximum(1, row))
        whole = self.weights_row * self.weights_column / max(1, self.element)
        return np.minimum(whole, spread * (weights.cores / weights.sharing))

    def weights(self, part: OpBoxes) -> int:
        """Bytes of the stationary operand of a part."""
        return self.bytes(self.stationary, part.tensors.get(self.stationary)) if self.stationary else 0

    def work(self, part: OpBoxes, cell: Mapping[str, Box]) -> EngineWork:
        """The work of ``part`` run as one tile, while local memory holds the boxes ``cell`` of the graph's tensors."""
        key = self._key(part, cell)
        if key not in self._known:
            with refused_by_name(self.op):
                self._known[key] = self._work(part, self._layout(part, cell))
        return self._known[key]

    def apart(self, part: OpBoxes, cell: Mapping[str, Box]) -> tuple[int, ...]:
        """For each reduce axis, cycles of the matrix engine if each position of that axis is a tile of the reduction.

        That matters where some positions see padding: 0 for an axis along which nothing can be out of bounds, and no
        numbers where there is none, or all products are done in any case. ``part`` and ``cell`` as in :meth:`work`.
        """
        if self.contraction is None or self.machine.staging_memories or self.matrix.count > 1:
            return ()
        stage, points = self.op.stages[self.contraction], part.points[self.contraction]
        if stage.factors[0].fill is None or is_empty(points):
            return ()
        key = self._key(part, cell)
        if key not in self._known_apart:
            with refused_by_name(self.op):
                self._known_apart[key] = self._apart(stage, points, self._layout(part, cell))
        return self._known_apart[key]

    def _key(self, part: OpBoxes, cell: Mapping[str, Box]) -> tuple[object, ...]:
        """What the work of a part depends on."""
        target = part.tensors[self.op.output]
        bounds = {**cell, **{b.name: part.tensors[b.name] for b in self.op.buffers if b.name in part.tensors}}
        return (
            tuple(shape_of(p) for p in part.points),
            tuple(shape_of(cell[n]) for n in (*self.op.inputs, self.op.output) if n in cell),
            tuple((s.lo == 0, s.hi == e) for s, e in zip(target, self._shape, strict=True)),
            beyond(self.op, part.points, bounds),
        )

    def _layout(self, part: OpBoxes, cell: Mapping[str, Box]) -> StageBuffers:
        """Where the operands of a part lie."""
        held = {
            n: part.tensors[n] if n == self.stationary else cell[n]
            for n in (*self.op.inputs, self.op.output)
            if n in cell
        }
        held |= {b.name: part.tensors[b.name] for b in self.op.buffers if b.name in part.tensors}
        memories = {b.name: self.machine.levels.sums.memory for b in self.op.buffers}
        if self.stationary is not None:
            memories[self.stationary] = self.machine.levels.weights.memory
        local = self.machine.levels.activations.memory
        return {name: (box, self.dtypes[name], memories.get(name, local)) for name, box in held.items()}

    def _work(self, part: OpBoxes, layout: StageBuffers) -> EngineWork:
        product = "" if self.contraction is None else self.op.stages[self.contraction].write.tensor
        matrix, vector, instructions = EngineWork(), 0, 0
        for position, (stage, points) in enumerate(zip(self.op.stages, part.points, strict=True)):
            if is_empty(points):
                continue
            if position == self.contraction:
                run = matrix_time(self.machine, self.matrix, stage, points, layout, self.dtypes[stage.reads[0].tensor])
                matrix = EngineWork(run.busy, 0, run.instructions, 0, run.fill, run.sums)
            else:
                run = vector_time(self.machine, self.vector, stage, points, layout, product)
                vector, instructions = vector + run.busy, instructions + run.instructions
        return matrix.plus(EngineWork(0, vector, 0, instructions))

    def _apart(self, stage: Stage, points: Box, layout: StageBuffers) -> tuple[int, ...]:
        """:meth:`apart` of a contraction."""
        left_operand = stage.factors[0]
        dtype = self.dtypes[left_operand.tensor]

        def cycles(axis: int) -> int:
            busy = 0
            for value in range(points[axis].lo, points[axis].hi):
                at = (*points[:axis], Span(value, value + 1), *points[axis + 1 :])
                run = matrix_time(self.machine, self.matrix, stage, at, layout, dtype, accumulates=bool(busy))
                busy += run.busy
            return busy

        windows = {a for index in left_operand.index if len(index.terms) > 1 for a, _ in index.terms}
        return tuple(cycles(axis) if axis in windows else 0 for axis in contraction_axes(stage).k)


def overlapped(cost: OpCost, work: EngineWork, tiles: int, depth: int) -> int:
    """Cycles of ``tiles`` equal tiles that do ``work`` in all, with private buffers multi-buffered ``depth`` times."""
    if cost.contraction is None:
        return work.vector
    serial = -(-(work.matrix + work.vector + tiles * cost.latency) // depth)
    return max(work.matrix, work.vector, serial)


def estimate(cost: OpCost, work: EngineWork, part: OpBoxes, weights: Weights, rates: Rates) -> int:
    """Cycles of an operator on a whole cell that is tiled well, as if every tile size were possible.

    ``work`` is that of ``part``, the whole cell, as one tile. A relaxation: nothing is rounded to tiles, and weights
    are loaded once, in pieces of all columns or, with the reduction innermost, of all of that. The time in which the
    last tile drains through the vector engine is included.
    """
    best = work.matrix + work.vector + cost.latency
    if cost.contraction is None:
        return best
    machine = cost.machine
    fewest = max(1, ceil(cost.scratch(part).total(2) / machine.levels.sums.capacity))
    for tiles in (fewest, 2 * fewest, 4 * fewest, 8 * fewest):
        more = tiles - 1
        cut = work.plus(
            EngineWork(work.matrix_instructions * cost.matrix.issue, work.vector_instructions * cost.vector.issue), more
        )
        best = min(best, overlapped(cost, cut, tiles, 2) + work.vector // tiles + cost.latency)
    size, anchor = cost.weights(part), cost.op.stages[cost.contraction]
    pieces = max(2, ceil(2 * size / machine.levels.weights.capacity))
    points = prod(
        span.size for span, axis in zip(part.points[cost.contraction], anchor.axes, strict=True) if axis.reduce
    )
    row = size / points / (pieces if cost.reduction_innermost else 1)
    piece = size / pieces
    busy, full = weights.load(piece, rates, cost.in_bursts(piece, row, rates), cost.spread(piece, row, weights))
    return max(best, ceil(pieces * float(busy)), ceil((work.matrix + pieces * float(full)) / 2))
