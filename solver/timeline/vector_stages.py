"""The vector stages of one operator in the predicted timeline: what each of them waits for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...ir.equivalence import tensor_names
from ...ir.graph import Op
from ..cost.tile_walk import TileWalk


class VectorStages:
    """The vector stages of an operator's tiles: each waits for what it reads itself, and for the place it writes.

    ``arrivals``: by input, for each tile, when what it reads of it has arrived, if it was loaded.
    """

    def __init__(self, op: Op, walk: TileWalk, arrivals: Mapping[str, list[float]]) -> None:
        self._names = tensor_names(op)
        numbers = {name: number for number, name in enumerate(self._names)}
        self._arrivals = {numbers[name]: times for name, times in arrivals.items() if any(times)}
        self._output = numbers[op.output]
        self._walk = walk
        self._known: dict[tuple[int, int], list[tuple[int, list[list[float]], bool]]] = {}

    def part(self, timing: int, tile: int, part: int, target: float) -> Iterator[tuple[float, int]]:
        """(ready, busy cycles) of stages in their order: of those before the contraction (0), its drain, or the rest.

        ``target``: when the place of the result is free.
        """
        key = timing, part
        if key not in self._known:
            self._known[key] = self._runs(timing, part)
        for busy, awaited, writes in self._known[key]:
            yield max([target if writes else 0.0, *(times[tile] for times in awaited)]), busy

    def last_uses(self, timing: int, prepared: float, end: float) -> dict[str, float]:
        """Of each operand, when the last tile is done with it, which has this timing.

        Its stages before the contraction are over at ``prepared``, the others at ``end``.
        """
        kind = self._walk.timings[timing]
        touched = {operand for other in self._walk.timings for work in other.stages for operand, _ in work.traffic}
        uses = dict.fromkeys(sorted(touched), end)
        last_use_times: dict[int, float] = {}
        for position, work in reversed(list(enumerate(kind.stages))):
            if position + 1 == kind.parts[0]:
                end = prepared
            for operand, _ in work.traffic:
                last_use_times.setdefault(operand, end)
            end -= work.busy
        return {self._names[operand]: time for operand, time in (uses | last_use_times).items()}

    def _runs(self, timing: int, part: int) -> list[tuple[int, list[list[float]], bool]]:
        """Stages that begin to wait for something new, each with those behind it that do not."""
        kind = self._walk.timings[timing]
        first, last = ((0, *kind.parts)[part], (*kind.parts, len(kind.stages))[part])
        runs: list[tuple[int, list[list[float]], bool]] = []
        met: set[int] = set()
        for work in kind.stages[first:last]:
            operands = {operand for operand, _ in work.traffic if operand == self._output or operand in self._arrivals}
            new = sorted(operands - met)
            met |= operands
            if new or not runs:
                awaited = [self._arrivals[operand] for operand in new if operand in self._arrivals]
                runs.append((work.busy, awaited, self._output in new))
            else:
                busy, awaited, writes = runs[-1]
                runs[-1] = busy + work.busy, awaited, writes
        return runs
