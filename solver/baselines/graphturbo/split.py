"""How a sub-graph is split into instances: one dimension, and the least factor that fits (Zhao et al., algorithm 1).

For each dimension d of the result, the factors 1, 2, 4, 8, 9, 10, ... are tried, and the first with which an instance
fits is taken; instances are nearly equal where it does not divide (197 rows are no reason for 197 instances). Of the
dimensions the one counts that splits the most operators, then the one with the smallest factor, then the outermost:

    lexicographic max of (n_d, -f_d, -d)

The paper asks whether ``peak / v`` fits, with the peak of the whole sub-graph. Here that is a first sieve, and then an
instance is laid out by first fit (its cells have halos, which the division does not see). Two rules that the paper
only mentions are made precise: an instance must find room in the shared memory for what enters and leaves it, and what
overlapping parts compute more than once is limited to :data:`AGAIN` (the "small cost model").
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ....ir.box import Box, hull, volume
from ....ir.equivalence import EquivalenceClasses
from ....ir.graph import DTYPES, Graph, Op
from ....ir.machine import Machine
from ....ir.plan import Segment, Split, Tile
from ....ir.semantics.cell import Cell, Cells, count
from ....ir.semantics.contraction_engines import contraction_engine
from ....ir.semantics.in_place import replaced
from ...cost.local_buffers import data_buffers, is_streamed, lifetimes
from .binding import bind
from .local_addresses import addresses, in_place_last

AGAIN = 0.25
"""Points that a sub-graph of several operators may compute again, as a share of all its points. Chosen, not
measured."""
RING = 8
"""One part in so many of the shared memory passes weights of any size. Chosen, not measured."""


@dataclass(frozen=True)
class SplitInfo:
    """``factor`` instances along ``dim`` of the result, and how many operators that splits; ``cores``: the binding."""

    dim: int
    factor: int
    operators: int
    cores: tuple[Split, ...]

    @property
    def rank(self) -> tuple[int, int, int]:
        """The larger the better."""
        return self.operators, -self.factor, -self.dim

    @property
    def instances(self) -> tuple[Split, ...]:
        return (Split(self.dim, self.factor),) if self.factor > 1 else ()


def factors(extent: int) -> Iterator[int]:
    """The numbers of parts above 1 that the published search tries."""
    yield from (v for v in (2, 4, *range(8, extent + 1)) if v <= extent)


class Splitter:
    """Splits of runs of consecutive operators, each found once."""

    def __init__(self, graph: Graph, machine: Machine, cells: Cells) -> None:
        self.graph = graph
        self.machine = machine
        self.cells = cells
        self._structures = graph.analysis(EquivalenceClasses)
        self._engines = {op.name: contraction_engine(op, graph, machine) for op in graph.ops if op.host is None}
        self._known: dict[object, SplitInfo | None] = {}

    def best(self, first: int, last: int, most: int | None = None) -> SplitInfo | None:
        """The split of the operators at positions ``first .. last`` into ``most`` instances at most (``None``: any
        number); ``None`` if none fits."""
        ops = self.graph.ops[first : last + 1]
        key = (self._structures.run_signature(ops)[0], most)
        if key not in self._known:
            self._known[key] = self._best(ops, most)
        return self._known[key]

    def segment(self, ops: Sequence[Op], instances: tuple[Split, ...], cores: tuple[Split, ...]) -> Segment:
        """A segment whose tiles say no more than which engine runs each operator."""
        tiles = tuple(Tile(op.name, (), (), engine=self._engines[op.name]) for op in ops)
        return Segment(tuple(op.name for op in ops), instances, cores, tiles)

    def _best(self, ops: tuple[Op, ...], most: int | None) -> SplitInfo | None:
        shape = self.graph.tensor[ops[-1].output].shape
        room = self.machine.levels.activations.capacity * self.machine.cores
        peak = self._peak(ops)
        whole = SplitInfo(0, 1, len(ops), bind(shape, self.machine.cores))
        if peak <= room and self._fits(ops, whole):
            return whole
        follow = self.cells.followed(tuple(op.name for op in ops))
        best: SplitInfo | None = None
        for dim, extent in enumerate(shape):
            for factor in factors(extent if most is None else min(extent, most)):
                if -(-peak // factor) > room:
                    continue
                split = self._split(ops, follow, shape, dim, factor)
                if best is not None and best.operators == len(ops) and split.rank < best.rank:
                    break
                if self._fits(ops, split):
                    best = split if best is None else max(best, split, key=lambda s: s.rank)
                    break
        return best

    def _split(
        self, ops: Sequence[Op], follow: dict[str, dict[int, int | None]], shape: tuple[int, ...], dim: int, factor: int
    ) -> SplitInfo:
        split = 0
        for op in ops:
            op_dim = follow[op.name][dim]
            split += op_dim is not None and self._follows(
                self.graph.tensor[op.output].shape[op_dim], shape[dim], factor
            )
        extents = [-(-e // factor) if d == dim else e for d, e in enumerate(shape)]
        return SplitInfo(dim, factor, split, bind(extents, self.machine.cores))

    def _follows(self, followed: int, extent: int, factor: int) -> bool:
        """Whether a dimension is split along: evenly as published; where the result is not, as well as it is."""
        return followed % factor == 0 or (extent % factor != 0 and followed >= factor)

    def _peak(self, ops: Sequence[Op]) -> int:
        """Bytes of all tensors that live at one time, unsplit; a result in the place of an input counts once."""
        segment = self.segment(ops, (), ())
        before = replaced(self.graph, ops)
        live = [0] * len(ops)
        for name, life in lifetimes(self.graph, segment).items():
            if not is_streamed(self.graph, segment, name):
                for position in range(life.first + (name in before), life.last + 1):
                    live[position] += self.graph.tensor[name].bytes
        return max(live)

    def _fits(self, ops: Sequence[Op], split: SplitInfo) -> bool:
        """Whether an instance in the middle, which overlaps with others on both sides, fits.

        That is: local memory holds it, the shared memory what enters and leaves it, and not much is computed again.
        """
        segment = self.segment(ops, split.instances, split.cores)
        instance, cores = split.factor // 2, count(split.cores)
        # What one core in the middle cannot do need not be asked of all.
        for some in dict.fromkeys((range(cores // 2, cores // 2 + 1), range(cores))):
            cells = [self.cells.cell(segment, instance, core) for core in some]
            if not self._able(ops, segment, cells, split.factor if len(cells) == cores else 0):
                return False
        return True

    def _able(self, ops: Sequence[Op], segment: Segment, cells: Sequence[Cell], times: int) -> bool:
        """Whether these cells fit, where all that is computed is ``times`` what they do (0: not known yet)."""
        whole = sum(stage.points for op in ops for stage in op.stages)
        if len(ops) > 1 and self._points(cells) * times > (1 + AGAIN) * whole:
            return False
        shared = self.machine.levels.exchange.capacity
        weights = sum(self.graph.tensor[n].bytes for op in ops for n in op.inputs if n in self.graph.constant_names)
        if self._staged(segment, cells) + min(weights, shared // RING) > shared:
            return False
        buffers = data_buffers(self.graph, self.cells, self.machine, 0, segment, cells)
        groupings = in_place_last(buffers, replaced(self.graph, ops))
        return isinstance(addresses(buffers, groupings, self.machine.levels.activations.memory), list)

    def _points(self, cells: Sequence[Cell]) -> int:
        return sum(volume(points) for cell in cells for boxes in cell.ops.values() for points in boxes.points)

    def _staged(self, segment: Segment, cells: Sequence[Cell]) -> int:
        """Bytes of the shared memory for the activations that enter and leave."""
        results = {self.graph.op[name].output for name in segment.ops}
        held: dict[str, Box | None] = {}
        for cell in cells:
            for name, box in (*cell.tensors.items(), *cell.owned.items()):
                if name in cell.owned if name in results else name not in self.graph.constant_names:
                    held[name] = hull(held.get(name), cell.owned[name] if name in results else box)
        return sum(volume(box) * DTYPES[self.graph.tensor[n].dtype] for n, box in held.items() if box is not None)
