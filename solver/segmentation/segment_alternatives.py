"""Segments and splits that an operator of a finished plan could have had, at the costs of the segmentation model.

The model adds up columns of the whole network, so that columns of different operators cannot be compared. Each one is
therefore given the cost of all columns of the plan, with it in place of those that it overlaps; what these have besides
becomes segments of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ...ir.plan import Plan, Segment
from .candidates import Candidates
from .column_cost import Column
from .splits import SegmentSplit

MOST_SEGMENTS = 5
"""Segments of other operators that are listed."""


@dataclass(frozen=True)
class SegmentAlternative:
    """A column, and ``ops``, its operators in the order of the graph.

    ``cycles``: of the cores for the whole network with the column in place of what it overlaps; ``None`` if what it
    leaves of the plan's segments is none itself. ``why_not``: what speaks against it; empty for that of the plan.
    """

    column: Column
    ops: tuple[str, ...]
    cycles: int | None
    chosen: bool
    why_not: str


class SegmentAlternatives:
    """The alternatives to the segments of one plan; ``candidates`` are those of its graph and machine."""

    def __init__(self, candidates: Candidates, plan: Plan) -> None:
        self.candidates = candidates
        self.plan = plan
        self._place = {op.name: number for number, op in enumerate(candidates.graph.ops)}

    def for_operator(self, name: str) -> tuple[SegmentAlternative, ...]:
        """The segment of an operator and its other splits, then the best other segments that contain it, the cheapest
        first.

        Looked at are segments that end like the plan's, and those that end with the operator, of the lengths that are
        priced. Nothing if segments of the plan are no columns of the model, as those of other strategies may be.
        """
        position = self._place[name]
        plan_column = next((c for c in self._columns if c.first <= position <= c.last), None)
        if plan_column is None or len(self._columns) < len(self.plan.segments):
            return ()
        roots = dict.fromkeys((plan_column.last, position))
        others = [c for last in roots for c in self.candidates.ending(last) if c.first <= position]
        splits = [
            c
            for c in others
            if (c.first, c.last) == (plan_column.first, plan_column.last) and c.split != plan_column.split
        ]
        best: dict[tuple[int, int], Column] = {}
        for column in others:
            ends = column.first, column.last
            if ends != (plan_column.first, plan_column.last) and (
                ends not in best or column.cycles < best[ends].cycles
            ):
                best[ends] = column
        nearest = sorted(best.values(), key=lambda c: c.cycles - self._spent(c))[:MOST_SEGMENTS]
        return tuple(
            alternative
            for group in ([plan_column, *splits], nearest)
            for alternative in sorted(
                (self._alternative(column, plan_column) for column in group),
                key=lambda a: (a.cycles is None, a.cycles or 0, not a.chosen),
            )
        )

    @cached_property
    def _columns(self) -> tuple[Column, ...]:
        """The columns of the plan's segments, of those that are columns."""
        return tuple(column for segment in self.plan.segments for column in self._columns_of(segment))

    def _columns_of(self, segment: Segment) -> list[Column]:
        positions = sorted(self._place[name] for name in segment.ops)
        first, last = positions[0], positions[-1]
        if self.candidates.graph.ops[last].host is not None:
            return self.candidates.ending(last)
        if last + 1 - first != len(positions):
            return []
        column = self.candidates.cheapest(first, last, (SegmentSplit(segment.instances, segment.cores),))
        return [] if column is None else [column]

    def _spent(self, other: Column) -> float:
        """What the plan's columns spend on the operators of another, shared out as operators take the cycles."""
        return sum(
            column.cycles * cycles / max(1, sum(column.op_cycles))
            for column in self._columns
            for i, cycles in enumerate(column.op_cycles, column.first)
            if other.first <= i <= other.last
        )

    def _alternative(self, column: Column, plan_column: Column) -> SegmentAlternative:
        graph = self.candidates.graph
        ops = tuple(op.name for op in graph.ops[column.first : column.last + 1])
        total = sum(c.cycles for c in self._columns)
        if column is plan_column:
            return SegmentAlternative(column, ops, total, True, "")
        cycles = total + column.cycles
        for other in self._columns:
            if other.first > column.last or column.first > other.last:
                continue
            cycles -= other.cycles
            for first, last in ((other.first, column.first - 1), (column.last + 1, other.last)):
                if first > last:
                    continue
                remainder = self._cheapest(first, last, (other.split, column.split))
                if remainder is None:
                    why = f"leaves {graph.ops[first].name} .. {graph.ops[last].name}, which is no segment by itself"
                    return SegmentAlternative(column, ops, None, False, why)
                cycles += remainder.cycles
        return SegmentAlternative(column, ops, cycles, False, self._why_not(column, plan_column, cycles - total))

    def _cheapest(self, first: int, last: int, splits: Sequence[SegmentSplit]) -> Column | None:
        """The cheapest column of these operators under one of these splits."""
        if first < self.candidates.earliest(last):
            return None
        shape = self.candidates.graph.tensor[self.candidates.graph.ops[last].output].shape
        possible = tuple(split for split in dict.fromkeys(splits) if split.fits(shape))
        return self.candidates.cheapest(first, last, possible)

    def _why_not(self, column: Column, plan_column: Column, more: int) -> str:
        needs, capacity = self.candidates.exact_local_bytes(column), self.candidates.capacity
        if needs > capacity:
            memory = self.candidates.machine.levels.activations.name
            return f"needs {needs:,} bytes of {memory} in its largest cell, which has {capacity:,}"
        refetched = column.refetched_bytes - plan_column.refetched_bytes
        weights = f"fetches up to {refetched:,} bytes of weights more" if refetched > 0 else ""
        if more > 0:
            return f"{more:,} cycles more" + (f", and {weights}" if weights else "")
        return weights or "cheaper for the cores: main memory, a cut or the prediction of a plan spoke against it"
