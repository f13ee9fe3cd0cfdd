"""Columns of the segmentation model: runs of operators that can be a segment, under their best splits.

A run is valid if each of its operators but the last has a consumer in it (then all are ancestors of the last, its
root), and host operators are alone. A column fits the local memory of a core and, instance by instance, the shared
memory; columns that do not are never made. :mod:`.column_cost` says what a column costs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ...ir.equivalence import tensor_names
from ...ir.errors import InfeasibleError
from ...ir.graph import Graph
from ...ir.machine import Machine
from ...ir.semantics.cell import leaving
from ...ir.semantics.operator_graph import ancestors
from ..switches import ALL_ON, Disabled
from .batched_cells import CORNER_CELLS, BatchedCells, all_cells, batched_cells, middle_cells, representative_cells
from .column_cost import Column, SplitCosts, kernel_column
from .fusion_candidates import MOST_INSTANCES_RATIO, FusionCandidate, FusionEnumeration
from .split_cost import OperatorCosts
from .splits import MOST_INSTANCES, MOST_INSTANCES_IN_TWO, SegmentSplit, fine_splits, segment_splits, single_elements

MOST_OPERATORS = 64
"""Operators in a run at most: the time to price a root grows with the length of its runs. With 24 and all else equal,
DenseNet-121 at batch 32 on `stcp920` has 14 segments instead of 9, and takes 0.8 % more cycles."""
EVERY_LENGTH = 24
"""Runs of up to so many operators are priced in every length, longer ones in lengths that grow by a quarter. That is a
ninth more columns of DenseNet-121 than of runs of up to 24 operators; in every length up to 64 there are twice as many
as there, for 0.3 % fewer cycles."""
MOST_COLUMNS_OF_RUN = 6
"""Columns of one run at most. Chosen, not measured: few splits of a run are not dominated."""
WEIGHT_RESERVE = 16
"""One part in so many of the shared memory is kept free for weights on their way. Chosen, not measured."""
SPLITS_AT_ONCE = 1 << 11
"""How many splits are looked at in one array."""
FINER = 8
"""Where splits are too coarse, they grow to so many times the instances. Chosen, not measured."""
MOST_CELLS = 1 << 20
"""Where nothing fits, splits grow up to so many instances, which is beyond the dimensions of usual networks. Chosen,
not measured."""


def run_lengths(longest: int) -> frozenset[int]:
    """The numbers of operators, up to ``longest``, of the runs that are priced."""
    lengths = list(range(1, min(longest, EVERY_LENGTH) + 1))
    while lengths[-1] < longest:
        lengths.append(min(longest, lengths[-1] + max(1, lengths[-1] // 4)))
    return frozenset(lengths)


@dataclass(frozen=True)
class PricedRoot:
    """The ``columns`` with the root ``last``, of runs that begin at ``first`` or later, from short to long."""

    first: int
    last: int
    columns: list[Column]


class Candidates:
    """All columns of a graph on a machine, of runs whose ``lengths`` are priced, and of the longest run of each root.

    ``longest``: operators in a run at most. ``margin`` and ``shared_margin``: bytes of local and of shared memory to
    leave free.
    """

    def __init__(
        self,
        graph: Graph,
        machine: Machine,
        *,
        longest: int = MOST_OPERATORS,
        margin: int = 0,
        shared_margin: int = 0,
        disabled: Disabled = ALL_ON,
    ) -> None:
        self.graph = graph
        self.machine = machine
        self.disabled = disabled
        self.longest = longest
        self.lengths = run_lengths(longest)
        self.capacity = machine.levels.activations.capacity - margin
        self.shared_capacity = (
            (machine.levels.exchange.capacity - shared_margin) * (WEIGHT_RESERVE - 1) // WEIGHT_RESERVE
        )
        self.costs = OperatorCosts(graph, machine, disabled)
        self._known_splits: dict[
            tuple[tuple[int, ...], int, int, bool], tuple[tuple[SegmentSplit, ...], BatchedCells]
        ] = {}
        self._roots: dict[object, PricedRoot] = {}
        self._known_bytes: dict[tuple[object, SegmentSplit], int] = {}
        self._contexts: dict[tuple[int, int], object] = {}

    def columns(self) -> list[Column]:
        """Every column, by last operator, then from short to long."""
        return [c for last in range(len(self.graph.ops)) for c in self.ending(last)]

    @property
    def priced_count(self) -> int:
        """Columns that were priced so far."""
        return sum(len(root.columns) for root in self._roots.values())

    @property
    def priced_roots(self) -> int:
        """Roots that were priced so far."""
        return len(self._roots)

    def ending(self, last: int) -> list[Column]:
        """The columns with the root ``last``; roots in equal contexts are priced once."""
        if self.graph.ops[last].host is not None:
            return [kernel_column(self.graph, self.machine, last)]
        first = self.earliest(last)
        key = self._context(first, last)
        if key not in self._roots:
            self._roots[key] = self.root(first, last)
        root = self._roots[key]
        if root.last == last:
            return root.columns
        return self._translated(root.columns, root.first, root.last, last - root.last)

    def cheapest(self, first: int, last: int, splits: tuple[SegmentSplit, ...]) -> Column | None:
        """The cheapest column of operators ``first .. last`` with one of these splits; ``None`` if none fits."""
        if not splits:
            return None
        shape = self.graph.tensor[self.graph.ops[last].output].shape
        cells = batched_cells(splits, [representative_cells(split, shape) for split in splits])
        columns = [
            column
            for run in self._enumeration(first, last, cells, frozenset([last - first + 1])).candidates()
            for column in self._undominated(run, splits)
        ]
        return next((c for c in columns if self.exact_local_bytes(c) <= self.capacity), None)

    def exact_local_bytes(self, column: Column) -> int:
        """Bytes of local memory that a column needs, from all of its cells; a host operator's lies elsewhere."""
        if self.graph.ops[column.last].host is not None:
            return 0
        return self._exact_bytes(column.first, column.last, column.split)

    def _exact_bytes(self, first: int, last: int, split: SegmentSplit) -> int:
        ends = first, last
        if ends not in self._contexts:
            self._contexts[ends] = self._context(*ends)
        key = self._contexts[ends], split
        if key not in self._known_bytes:
            cells = all_cells(split)
            # The enumeration looks at the first few cells of a split; repeated ones change no maximum.
            batch = batched_cells([split], [cells + cells[-1:] * (CORNER_CELLS - len(cells))])
            self._known_bytes[key] = int(FusionEnumeration(self.costs, *ends, batch).bytes_of_all()[0][0])
        return self._known_bytes[key]

    def _enumeration(self, first: int, last: int, cells: BatchedCells, lengths: frozenset[int]) -> FusionEnumeration:
        return FusionEnumeration(self.costs, first, last, cells, self.capacity, self.shared_capacity, lengths)

    def earliest(self, last: int) -> int:
        """The first operator of the longest valid run that ends with ``last``."""
        ops = self.graph.ops
        start = max(0, last + 1 - self.longest)
        needed = ancestors(self.graph, ops[last].name, [op.name for op in ops[start:last]])
        first = last
        while first > start and ops[first - 1].host is None and ops[first - 1].name in needed:
            first -= 1
        return first

    def _context(self, first: int, last: int) -> object:
        """Equal for two ranges of operators that are equivalent, wired alike and of which the same leaves; those that
        end with the last operator of all are equal to none but their like."""
        ops = self.graph.ops[first : last + 1]
        live_out = {op.name for op in leaving(self.graph, ops)}
        numbers: dict[str, int] = {}
        rows: list[object] = []
        for op in ops:
            wires = tuple(numbers.setdefault(n, len(numbers)) for n in (*dict.fromkeys(op.inputs), op.output))
            from_outside = tuple(n in self.graph.input_tensors for n in op.inputs)
            rows.append((self.costs.classes.class_of[op.name], wires, from_outside, op.name in live_out))
        return last == len(self.graph.ops) - 1, tuple(rows)

    def _translated(self, columns: list[Column], first: int, last: int, by: int) -> list[Column]:
        """Columns of the operators ``first .. last``, as those of the equivalent operators ``by`` positions later."""
        new_name: dict[str, str] = {}
        for old in range(first, last + 1):
            new_name |= zip(tensor_names(self.graph.ops[old]), tensor_names(self.graph.ops[old + by]), strict=True)
        return [
            replace(
                c,
                first=c.first + by,
                last=c.last + by,
                footprints=tuple([(new_name[name], *sizes) for name, *sizes in c.footprints]),
            )
            for c in columns
        ]

    def unpriced(self) -> list[tuple[int, int]]:
        """Of each root that :meth:`Candidates.columns` is going to price: the first operator of its longest run, and
        itself."""
        ends: dict[object, tuple[int, int]] = {}
        for last, op in enumerate(self.graph.ops):
            if op.host is None:
                first = self.earliest(last)
                ends.setdefault(self._context(first, last), (first, last))
        return [pair for key, pair in ends.items() if key not in self._roots]

    def learn(self, root: PricedRoot) -> None:
        """These are the columns that :meth:`root` has."""
        self._roots[self._context(root.first, root.last)] = root

    def root(self, first: int, last: int) -> PricedRoot:
        """Price the root ``last`` of runs that begin at ``first`` or later; InfeasibleError if nothing fits."""
        return PricedRoot(first, last, [column for run in self._runs(first, last) for column in run])

    def _runs(self, first: int, last: int) -> Iterator[list[Column]]:
        """The columns of each run with the root ``last``, from short to long, under as few instances as fit."""
        most, most_in_two = MOST_INSTANCES, MOST_INSTANCES_IN_TWO
        shape = self._root_shape(last)
        longest = max(shape, default=1)
        # The longest run is priced, too: it may be all of a network.
        lengths = self.lengths | {last - first + 1}
        while True:
            splits, cells = self._splits(shape, most, most_in_two, columns=self._weights_pass(last))
            runs = self._columns(self._enumeration(first, last, cells, lengths), splits)
            shortest = next(runs, [])
            alone = [c for c in shortest if c.first == last and self.exact_local_bytes(c) <= self.capacity]
            coarse = most_in_two < MOST_INSTANCES and min((c.instances for c in alone), default=0) > most_in_two
            if alone and not coarse:
                yield shortest
                yield from runs
                return
            if coarse:
                # What takes so many instances in one dimension may take fewer bytes at a time in two or three. Finer
                # once: cuts in two dimensions have as many instances then as those in one had, and cuts in three as
                # many as those in one have.
                most, most_in_two = most * FINER, most_in_two * FINER
                continue
            # Cells that nobody looked at do not fit: those of other splits may.
            if shortest or (most > longest and most_in_two > longest**2) or most > MOST_CELLS:
                break
            most, most_in_two = most * FINER, most_in_two * FINER
        splits = self._fitting(last)
        if not splits:
            raise InfeasibleError(self._why_infeasible(last))
        cells = batched_cells(splits, [representative_cells(split, shape) for split in splits])
        yield from self._columns(self._enumeration(first, last, cells, lengths), splits)

    def _columns(self, enumeration: FusionEnumeration, splits: tuple[SegmentSplit, ...]) -> Iterator[list[Column]]:
        return (self._undominated(run, splits) for run in enumeration.candidates())

    def _fitting(self, last: int) -> tuple[SegmentSplit, ...]:
        """Of the finest splits, those with the fewest instances under which one operator fits in all cells."""
        shape = self._root_shape(last)
        splits = [*fine_splits(shape, self.machine.cores), single_elements(shape)]
        fitting: list[SegmentSplit] = []
        for start in range(0, len(splits), SPLITS_AT_ONCE):
            some = splits[start : start + SPLITS_AT_ONCE]
            cells = batched_cells(some, [middle_cells(split) for split in some])
            local, shared = FusionEnumeration(self.costs, last, last, cells).bytes_of_all()
            possible = (local <= self.capacity) & (shared <= self.shared_capacity)
            for i in np.flatnonzero(possible).tolist():
                if fitting and some[i].instance_count > MOST_INSTANCES_RATIO * fitting[0].instance_count:
                    return tuple(fitting)
                if self._exact_bytes(last, last, some[i]) <= self.capacity and self._staged(last, some[i]):
                    fitting.append(some[i])
        return tuple(fitting)

    def _staged(self, last: int, split: SegmentSplit) -> bool:
        """Whether the shared memory holds what enters and leaves an instance of one operator."""
        cells = batched_cells([split], [representative_cells(split, self._root_shape(last))])
        return int(FusionEnumeration(self.costs, last, last, cells).bytes_of_all()[1][0]) <= self.shared_capacity

    def _weights_pass(self, last: int) -> bool:
        """Whether the weights of a root have no room in shared memory, so that they are fetched for each of its
        instances, or in parts."""
        cost = self.costs.cost(self.graph.ops[last])
        return cost.streamed and self.graph.tensor[cost.stationary or ""].bytes > self.shared_capacity

    def _root_shape(self, last: int) -> tuple[int, ...]:
        return self.graph.tensor[self.graph.ops[last].output].shape

    def _splits(
        self, shape: tuple[int, ...], most: int, most_in_two: int, *, columns: bool
    ) -> tuple[tuple[SegmentSplit, ...], BatchedCells]:
        """The splits of a result of this shape, and the cells that represent them."""
        key = shape, most, most_in_two, columns
        if key not in self._known_splits:
            thirds = "thirds" not in self.disabled
            fewer = "fewer-cores" not in self.disabled
            splits = segment_splits(
                shape, self.machine.cores, most, most_in_two, three=most > MOST_INSTANCES, thirds=thirds,
                columns=columns, fewer_cores=fewer,
            )  # fmt: skip
            representatives = [representative_cells(split, shape) for split in splits]
            self._known_splits[key] = splits, batched_cells(splits, representatives)
        return self._known_splits[key]

    def _undominated(self, run: FusionCandidate, splits: tuple[SegmentSplit, ...]) -> list[Column]:
        """The columns of a run that no other beats in cycles, in traffic with main memory and in shared memory at
        once."""
        costs = SplitCosts(run, splits, self.graph, self.costs, self.disabled)
        refetched, shared, moved = costs.refetched_bytes, run.shared_bytes, costs.moved_bytes
        chosen: list[int] = []
        for i in np.lexsort((refetched, costs.cycles)).tolist():
            if not any(
                refetched[k] <= refetched[i] and shared[k] <= shared[i] and moved[k] <= moved[i] for k in chosen
            ):
                chosen.append(i)
                if len(chosen) == MOST_COLUMNS_OF_RUN:
                    break
        return [costs.column(i) for i in chosen]

    def _why_infeasible(self, last: int) -> str:
        """Why an operator fits under no split, not even one element after the other."""
        op = self.graph.ops[last]
        split = single_elements(self._root_shape(last))
        cells = batched_cells([split], [middle_cells(split)])
        both = FusionEnumeration(self.costs, last, last, cells).bytes_of_all()
        needs, rooms = [int(sizes[0]) for sizes in both], (self.capacity, self.shared_capacity)
        if needs[0] <= self.capacity:
            # Buffers are for all cells, of which others may read more, or from other tensors.
            needs[0] = self._exact_bytes(last, last, split)
        levels = self.machine.levels.activations, self.machine.levels.exchange
        over, need, room, level = max(
            ((need - room, need, room, level) for need, room, level in zip(needs, rooms, levels, strict=True)),
            key=lambda n: n[0],
        )
        return (
            f"operator {op.name}: buffers for one element of its result and what that reads need {need:,} bytes of "
            f"{level.name}, {over:,} more than the {room:,} that may be used; split the operator in the model or use "
            f"a machine with more {level.name}"
        )
