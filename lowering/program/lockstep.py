"""One operator on all cores: tile after tile, the cores in lockstep, so that equal weights are broadcast."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from ...ir.box import Box, Holders, Span
from ...ir.equivalence import tensor_names
from ...ir.errors import GirihError
from ...ir.graph import Op
from ...ir.plan import SharedBuffer, Tile, WeightStream
from ...ir.semantics.cell import Cell
from ...ir.semantics.row_stream import row_stream
from ..emission.kernel import STATIONARY
from ..emission.staging import RoomStep
from ..emission.vector import StationaryFetch
from ..schedule.cell_spec import byte_strides
from .dependences import LiveBuffer
from .program_builder import ProgramBuilder, TensorBuffer
from .rows_in_step import RowRing
from .tile_kernels import KernelStep, Stamped, TileKernel, TileKernels


@dataclass(frozen=True)
class _AddressedBuffer:
    """A buffer of a kernel at its address."""

    area: LiveBuffer
    address: int


@dataclass
class _Ring:
    """The versions of the weight buffer of one core, the box that each holds, and the order in which they are used."""

    areas: list[LiveBuffer]
    order: tuple[int, ...]
    boxes: list[Box | None]
    next: int = 0

    def claim(self, box: Box) -> tuple[int, bool]:
        """The version for ``box``, and whether it holds it already; else what the next one in order holds is gone."""
        if box in self.boxes:
            return self.boxes.index(box), True
        version = self.order[self.next % len(self.order)]
        self.next += 1
        self.boxes[version] = box
        return version, False


@dataclass
class _Running:
    """One core's way through its tiles: the kernel of the current one, and where its buffers are."""

    core: int
    cell: Cell
    tiles: tuple[TileKernel, ...]
    ring: _Ring | None
    places: dict[str, _AddressedBuffer] = field(default_factory=dict[str, _AddressedBuffer])
    stationary_box: Box = ()
    steps: deque[KernelStep] = field(default_factory=deque[KernelStep])


class OpWalk:
    """The tiles of ``op`` in one slot. :meth:`prefetch` may come in an earlier one of its step.

    ``stream`` is given if the matrix engine runs its contraction.
    """

    def __init__(
        self, build: ProgramBuilder, kernels: TileKernels, op: Op, tile: Tile, stream: WeightStream | None, number: int,
        slot: int, cells: Sequence[Cell],
    ) -> None:  # fmt: skip
        self._build = build
        self._op = op
        self._stream = stream
        self._number = number
        self._slot = slot
        self._stationary = op.stationary if stream is not None else ""
        self._weights: _Weights | None = None
        self._names = tensor_names(op)
        self._running: list[_Running] = []
        degrees = build.degrees(op)
        self._tile = tile
        self._rows: RowRing | None = None
        for core, cell in enumerate(cells):
            if op.name not in cell.ops:
                continue
            ring = None
            if self._stationary and stream is not None:
                areas = build.copies_of(op.name, build.levels.weights, self._stationary, core)
                ring = _Ring(areas, stream.versions, [None] * len(areas))
            held = tuple(cell.allocated(name) if name in cell.tensors else None for name in self._names)
            part = cell.ops[op.name]
            on_matrix = bool(self._stationary)
            tiles = kernels.walk(op, part.tensors[op.output], tile, held, part.idle, degrees, on_matrix=on_matrix)
            self._running.append(_Running(core, cell, tiles, ring))

    def prefetch(self) -> None:
        """Bring the weight tiles that are prefetched, in the order of :meth:`run`, before anything else is awaited."""
        if self._stream is None or not self._stream.prefetch:
            return
        # Where there are fewer weight tiles, all have come before the last tile begins.
        wanted = {r.core: self._weight_tiles(r, self._stream.prefetch) for r in self._running}
        for index in range(max((len(r.tiles) for r in self._running), default=0)):
            waiting = [r for r in self._running if index < len(r.tiles)]
            for r in waiting:
                self._look_at(r, index)
            while waiting := self._short(waiting, self._stream.prefetch):
                self._fetch(waiting)
            if all(r.ring is None or r.ring.next >= wanted[r.core] for r in self._running):
                return

    @staticmethod
    def _weight_tiles(r: _Running, most: int) -> int:
        """How many weight tiles a core goes through, counted up to ``most``."""
        boxes: set[Box] = set()
        seen: set[tuple[int, Box]] = set()
        for tile in r.tiles:
            # Equal tiles share their steps.
            kind = id(tile.steps), tile.stationary
            if kind not in seen:
                seen.add(kind)
                boxes.update(
                    _placed(step.box, tile.stationary) for step in tile.steps if isinstance(step, StationaryFetch)
                )
            if len(boxes) >= most:
                return most
        return len(boxes)

    @staticmethod
    def _short(running: Sequence[_Running], most: int) -> list[_Running]:
        """Those that have brought fewer than ``most`` weight tiles and need another one for their current tile."""
        for r in running:
            while r.steps and not isinstance(r.steps[0], StationaryFetch):
                r.steps.popleft()
        return [r for r in running if r.steps and r.ring is not None and r.ring.next < most]

    def run(self) -> None:
        """Emit all tiles."""
        self._rows = self._row_ring()
        for index in range(max((len(r.tiles) for r in self._running), default=0)):
            active = [r for r in self._running if index < len(r.tiles)]
            if self._rows is not None:
                self._rows.bring(index, [r.core for r in active])
            for r in active:
                self._begin(r, index)
            while active:
                for r in active:
                    while r.steps and not isinstance(r.steps[0], StationaryFetch):
                        self._stamp(r, r.steps[0])
                        r.steps.popleft()
                active = [r for r in active if r.steps]
                if active:
                    self._fetch(active)

    def _row_ring(self) -> RowRing | None:
        """What the matrix engine reads by rows, if that comes tile by tile."""
        name = row_stream(self._build.graph, self._op) if self._stream is not None else ""
        if not name or not self._running or not self._build.ring(name, self._running[0].core):
            return None
        rows = RowRing(self._build, self._op, name, self._tile, self._number, self._slot)
        for r in self._running:
            rows.add(r.core, r.cell)
        return rows

    @staticmethod
    def _look_at(r: _Running, index: int) -> None:
        """The kernel of a core's tile, without addresses of its views."""
        kernel = r.tiles[index]
        r.places = {}
        r.stationary_box = kernel.stationary
        r.steps = deque(kernel.steps)

    def _begin(self, r: _Running, index: int) -> None:
        """The kernel of a core's tile, and the addresses of its views."""
        self._look_at(r, index)
        kernel = r.tiles[index]
        for view in kernel.views:
            name = self._names[view.number]
            if view.private:
                if not view.bytes:
                    continue  # Nothing of this tile touches it, and perhaps nothing of the operator.
                areas = self._build.copies_of(self._op.name, self._build.levels.sums, name, r.core)
                area = areas[view.version]
                if view.bytes > area.bytes:
                    raise GirihError(
                        f"operator {self._op.name}: a tile needs {view.bytes:,} bytes of {name}, and the plan has "
                        f"{area.bytes:,}"
                    )
                r.places[view.name] = _AddressedBuffer(area, area.address)
            elif self._rows is not None and name == self._rows.name:
                # Its rows begin where the version does.
                area = self._rows.area(r.core)
                r.places[view.name] = _AddressedBuffer(area, area.address)
            else:
                held = self._build.data(name, r.core, r.cell.allocated(name))
                r.places[view.name] = _AddressedBuffer(held.areas[0], held.address + view.offset)

    def _stamp(self, r: _Running, step: Stamped | RoomStep) -> None:
        """One instruction of a kernel at the addresses of its core, or the next room in a staging memory."""
        if isinstance(step, RoomStep):
            area = self._build.room(step.memory, r.core, step.bytes, step.alignment)
            r.places[step.buffer] = _AddressedBuffer(area, area.address)
            return
        places = [r.places[buffer] for buffer, _ in step.refs]
        bases = [place.address + offset for place, (_, offset) in zip(places, step.refs, strict=True)]
        queue = self._build.queues.core_queue(step.engine, r.core)
        instruction = step.instruction.stamp(self._number, bases)
        self._build.dependences.emit(queue, instruction, step.instruction, bases, [(p.area,) for p in places])

    def _fetch(self, waiting: list[_Running]) -> None:
        """Bring the next weight tile of each core; equal ones from the shared memory are one broadcast."""
        name, stream = self._stationary, self._stream
        assert name and stream is not None
        groups: dict[tuple[Box, int, tuple[int, ...], int], list[_Running]] = {}
        broadcast = self._build.broadcasts(name, self._build.levels.weights)
        for r in waiting:
            step = r.steps.popleft()
            assert isinstance(step, StationaryFetch) and r.ring is not None
            box = _placed(step.box, r.stationary_box)
            version, known = r.ring.claim(box)
            area = r.ring.areas[version]
            r.places[STATIONARY] = _AddressedBuffer(area, area.address)
            if not known:
                groups.setdefault((box, version, step.shape, 0 if broadcast else r.core), []).append(r)
        for (box, _, shape, _), members in groups.items():
            strides = byte_strides(shape, self._build.layout.itemsize(name))
            memory = self._build.levels.weights.name
            areas = tuple(r.places[STATIONARY].area for r in members)
            target = TensorBuffer(memory, areas, members[0].places[STATIONARY].address, box, strides)
            if self._build.has_data(name):
                for r, area in zip(members, areas, strict=True):
                    source = self._build.data(name, r.core, r.cell.allocated(name))
                    own_buffer = TensorBuffer(memory, (area,), target.address, box, strides)
                    self._build.copy("copy", self._number, name, box, r.core, source, own_buffer)
                continue
            source = self._build.resident(self._weights_buffer(name, box))
            cores = [r.core for r in members]
            kind = "broadcast" if len(cores) > 1 else "copy"
            issuer = self._build.turns(stream).issuer(cores)
            self._build.copy(kind, self._number, name, box, issuer, source, target, sum(1 << c for c in cores))

    def _weights_buffer(self, name: str, box: Box) -> SharedBuffer:
        """The shared buffer with ``box``; reaching a position of a ring fetches those that it leads to."""
        if self._weights is None:
            self._weights = _Weights(self._build.layout.live(name, self._slot))
        held = self._weights.holder(box) or self._build.layout.holding(name, box, self._slot)[0][0]
        for buffer in self._weights.due(held.ring_position):
            if buffer not in self._build.shared_areas:
                self._build.open_shared(buffer, self._number)
        return held


class _Weights:
    """The shared buffers of a stationary operand in one slot; there can be as many as there are weight tiles."""

    def __init__(self, live: Sequence[SharedBuffer]) -> None:
        self._holders = Holders([(buffer, buffer.box) for buffer in live])
        waiting = [(b.ring_position - b.ring_lead, n, b) for n, b in enumerate(live) if not b.opens_with_slot]
        self._waiting = deque(sorted(waiting, key=lambda w: w[:2]))
        """By the position that fetches them, and in the order of the plan."""

    def holder(self, box: Box) -> SharedBuffer | None:
        """The first that holds all of ``box``."""
        return self._holders.first(box)

    def due(self, position: int) -> list[SharedBuffer]:
        """Those that reaching a position of the ring fetches, and that none before it did, in the order of the plan."""
        reached: list[tuple[int, SharedBuffer]] = []
        while self._waiting and self._waiting[0][0] <= position:
            _, number, buffer = self._waiting.popleft()
            reached.append((number, buffer))
        return [buffer for _, buffer in sorted(reached, key=lambda r: r[0])]


def _placed(part: Box, box: Box) -> Box:
    """``part``, which is counted from the corner of ``box``, in the coordinates of the tensor."""
    return tuple(Span(p.lo + b.lo, p.hi + b.lo) for p, b in zip(part, box, strict=True))
