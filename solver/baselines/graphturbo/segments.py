"""Segments by heuristics, and finer ones where something below refuses them."""

from __future__ import annotations

from collections.abc import Iterator

from ....ir.errors import InfeasibleError
from ....ir.graph import Graph, Op
from ....ir.machine import Machine
from ....ir.plan import Segment
from ....ir.semantics.cell import Cells
from ...segmentation.candidates import Candidates
from ...subproblem.plan_builder import Infeasibility
from ...subproblem.tile_caps import SHRINK, least_cap, may_stream
from .group import group
from .level import AblationLevel
from .split import SplitInfo, Splitter

MARGINS = 8
"""Sixteenths of local memory that are left free in turn where an operator does not fit under its own split. Chosen, not
measured."""


class Segments:
    """The segments of a graph. ``caps``: by operator, bytes that its weights may use of the weight memory."""

    def __init__(self, graph: Graph, machine: Machine, cells: Cells, level: AblationLevel) -> None:
        self.graph = graph
        self.machine = machine
        self.level = level
        self.caps: dict[str, int] = {}
        self._splitter = Splitter(graph, machine, cells)
        self._position = {op.name: i for i, op in enumerate(graph.ops)}
        self._refused: list[tuple[int, int]] = []
        self._finer: dict[str, Iterator[Segment]] = {}
        self._cut: dict[str, Segment] = {}

    def segments(self) -> tuple[Segment, ...]:
        """The segments; their tiles say which engine runs what, and no more.

        Raises :class:`~girih.ir.errors.InfeasibleError` if an operator fits under no cut.
        """
        segments: list[Segment] = []
        for sub in group(self.graph, self._split):
            ops = self.graph.ops[sub.first : sub.last + 1]
            if ops[0].host is not None:
                segments.append(Segment((ops[0].name,), (), (), ()))
            elif len(ops) == 1 and (sub.split is None or ops[0].name in self._cut):
                segments.append(self._cut.get(ops[0].name) or self._next_cut(ops[0], None))
            elif sub.split is not None:
                segments.append(self._splitter.segment(ops, sub.split.instances, sub.split.cores))
        return tuple(segments)

    def refuse(self, segment: Segment, refusal: Infeasibility) -> None:
        """Cut what did not fit: a sub-graph into parts, then the tiles of an operator's weights, then the operator.

        Raises the refusal as an error if nothing is left to try.
        """
        if len(segment.ops) > 1:
            self._refused.append((self._position[segment.ops[0]], self._position[segment.ops[-1]]))
            return
        op = self.graph.op[refusal.op]
        most = self.machine.levels.weights.capacity
        cap = self.caps.get(op.name, most) // SHRINK
        if (
            refusal.level in (self.machine.levels.weights, self.machine.levels.exchange)
            and may_stream(self.graph, op)
            and cap >= least_cap(most)
        ):
            self.caps[op.name] = cap
        else:
            self._next_cut(op, refusal)

    def _split(self, first: int, last: int, most: int | None) -> SplitInfo | None:
        """The split of a run of operators, if the level allows it and nothing below has refused a part of the run."""
        if first == last:
            return self._splitter.best(first, last, most)
        if not self.level.join or any(a >= first and b <= last for a, b in self._refused):
            return None
        split = self._splitter.best(first, last, most)
        return None if split is None or (split.factor > 1 and not self.level.split) else split

    def _next_cut(self, op: Op, refusal: Infeasibility | None) -> Segment:
        """The next of the cuts that the layer-wise strategy would consider; they have up to two dimensions."""
        cut = next(self._finer.setdefault(op.name, self._layerwise(op)), None)
        if cut is None:
            assert refusal is not None
            raise refusal.error()
        self._cut[op.name] = cut
        return cut

    def _layerwise(self, op: Op) -> Iterator[Segment]:
        seen: set[Segment] = set()
        for part in range(MARGINS):
            margin = part * self.machine.levels.activations.capacity // 16
            candidates = Candidates(self.graph, self.machine, longest=1, margin=margin)
            try:
                columns = candidates.ending(self._position[op.name])
            except InfeasibleError:
                # That nothing leaves so much free says nothing about the operator; that nothing fits does.
                if not margin:
                    raise
                return
            for column in columns:
                cut = self._splitter.segment((op,), column.split.instances, column.split.cores)
                if cut not in seen:
                    seen.add(cut)
                    yield cut
