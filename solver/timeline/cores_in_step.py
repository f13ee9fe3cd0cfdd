"""Which cores do the same at the same time, in the predicted timeline: these meet on banks of the shared memory.

Cores that have as much to do as the busiest one stay in step with it. One that has less is ahead from there on, until
it waits for something that a core in step has made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ir.box import Box, overlap
from ...ir.graph import Graph
from ...ir.plan import Segment
from ...ir.semantics.cell import Cell

Amount = Callable[[Cell], Sequence[tuple[int, int]]]
"""What a core has to do for its cell."""


class CoresInStep:
    """The cores in step with the busiest one, followed from step to step of a plan."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._cores: frozenset[int] | None = None
        self._made: dict[str, dict[Box, frozenset[int]]] = {}
        """Of each tensor, the parts that cores have made, and which."""

    def share(self, segment: Segment, cells: Sequence[Cell], busiest: Cell, amount: Amount, *, barrier: bool) -> float:
        """The part of the cores at work that is in step while these ``cells`` run, one on each core.

        They begin in step, whatever each has to do: who has less is ahead in the next one.
        """
        working = frozenset(core for core, cell in enumerate(cells) if cell.ops)
        joined = working if barrier or self._cores is None else self._cores | self._waiting(segment, cells)
        most = amount(busiest)
        alike = frozenset(core for core in working if amount(cells[core]) == most)
        self._cores = joined & alike or alike
        for name in segment.ops:
            output = self._graph.op[name].output
            parts: dict[Box, frozenset[int]] = {}
            for core in working:
                box = cells[core].owned.get(output)
                if box is not None:
                    parts[box] = parts.get(box, frozenset()) | {core}
            self._made[output] = parts
        return max(1, len(joined & working)) / max(1, len(working))

    def _waiting(self, segment: Segment, cells: Sequence[Cell]) -> frozenset[int]:
        """The cores that load something that a core in step has made."""
        inside = {self._graph.op[name].output for name in segment.ops}
        waiting: set[int] = set()
        for name in dict.fromkeys(n for op in segment.ops for n in self._graph.op[op].inputs if n not in inside):
            late = [box for box, cores in self._made.get(name, {}).items() if self._cores and cores & self._cores]
            readers: dict[Box, list[int]] = {}
            for core, cell in enumerate(cells):
                if name in cell.tensors:
                    readers.setdefault(cell.tensors[name], []).append(core)
            for box, cores in readers.items():
                if any(overlap(box, part) for part in late):
                    waiting.update(cores)
        return frozenset(waiting)
