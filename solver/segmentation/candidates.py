"""Columns of the segmentation model: every run of operators that can be a segment, under its best cuts.

A run is valid if each of its operators but the last has a consumer in it (then all are ancestors of the last), and
host operators are alone. A column fits the local memory of a core and, instance by instance, the shared memory;
columns that do not are never made. Its price, in cycles, for ``I`` instances:

    I * max(the operators of an instance + what it waits for its inputs, loads and stores of the busiest core, all
            loads, all stores)
      + the first load of activations + the last store

so that what overlaps is counted once, and what a segment cannot overlap with itself is not forgotten. Copies are issued
in order: the inputs of the next instance can be loaded while the last operator works through its last weights, taken
as half of its time; an operator alone in its segment cannot even do that, since its buffers are still in use. Traffic
with main memory is priced by the model, which decides what stays in shared memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...ir.equivalence import tensor_names
from ...ir.errors import InfeasibleError
from ...ir.graph import Graph
from ...ir.machine import Machine
from ...ir.semantics.cell import leaving
from ..switches import ALL_ON, Disabled
from .batched_cells import CORNERS, Rows, all_cells, representatives, rows
from .fusion_candidates import Crossing, Growth, Run
from .split_cost import Costs
from .splits import MOST_IN_TWO, MOST_INSTANCES, Cut, cuts

LONGEST = 24
"""Operators in a run at most."""
KEPT = 6
"""Columns of one run at most."""
RESERVE = 16
"""One part in so many of the shared memory is kept free for weights on their way."""
MOST_CELLS = 1 << 20
"""Where nothing fits, cuts grow up to so many instances before the search for one ends."""


ENDLESS = 1 << 62


@dataclass(frozen=True)
class Column:
    """Operators ``first .. last`` (positions) under one cut.

    ``cycles``: on the cores, all instances. ``weights``: bytes of its constants; ``again``: bytes that are fetched
    more than once if nothing is kept between instances. ``steps``: for each activation that crosses its border, the
    bytes of it that an instance touches. ``peak``: bytes of local memory. ``parts``: cycles of each operator in one
    instance; all of an instance together.
    """

    first: int
    last: int
    cut: Cut
    cycles: int
    weights: int
    again: int
    steps: tuple[tuple[str, int], ...]
    peak: int
    parts: tuple[int, ...]

    @property
    def instances(self) -> int:
        return self.cut.instance_count


class Candidates:
    """All columns of a graph on a machine. ``margin``: bytes of local memory to leave free."""

    def __init__(
        self, graph: Graph, machine: Machine, *, longest: int = LONGEST, margin: int = 0, disabled: Disabled = ALL_ON
    ) -> None:
        self.graph = graph
        self.machine = machine
        self.disabled = disabled
        self.longest = longest
        self.capacity = machine.role("local").capacity - margin
        self.shared = machine.role("shared").capacity * (RESERVE - 1) // RESERVE
        self.costs = Costs(graph, machine)
        self._known_cuts: dict[tuple[tuple[int, ...], int, int], tuple[tuple[Cut, ...], Rows]] = {}
        self._known: dict[object, tuple[int, list[Column]]] = {}
        self._exact: dict[tuple[object, Cut], int] = {}
        self._around: dict[tuple[int, int], object] = {}

    def columns(self) -> list[Column]:
        """Every column, by last operator, then from short to long."""
        return [c for last in range(len(self.graph.ops)) for c in self.ending(last)]

    def ending(self, last: int) -> list[Column]:
        """The columns with the leader ``last``; leaders in equal surroundings are priced once."""
        if self.graph.ops[last].host is not None:
            return [_host_column(self.graph, self.machine, last)]
        first = self._earliest(last)
        key = self._surroundings(first, last)
        if key not in self._known:
            self._known[key] = (last, list(self._priced(first, last)))
        origin, found = self._known[key]
        return found if origin == last else self._moved(found, origin - (last - first), origin, last - origin)

    def cheapest(self, first: int, last: int, ways: tuple[Cut, ...]) -> Column | None:
        """The cheapest column of operators ``first .. last`` with one of these cuts; ``None`` if none fits."""
        if not ways:
            return None
        shape = self.graph.tensor[self.graph.ops[last].output].shape
        there = rows(ways, [representatives(c, shape) for c in ways])
        runs = Growth(self.costs, first, last, there, self.capacity, self.shared).runs()
        columns = [c for run in runs if run.first == first for c in self._best(run, ways)]
        return next((c for c in columns if self.exact_peak(c) <= self.capacity), None)

    def exact_peak(self, column: Column) -> int:
        """Bytes of local memory that a column needs, from all of its cells."""
        place = (column.first, column.last)
        if place not in self._around:
            self._around[place] = self._surroundings(*place)
        key = (self._around[place], column.cut)
        if key not in self._exact:
            cells = all_cells(column.cut)
            # The walk looks at the first few cells of a cut; repeated ones change no peak.
            there = rows([column.cut], [cells + cells[-1:] * (CORNERS - len(cells))])
            *_, run = Growth(self.costs, column.first, column.last, there, ENDLESS, ENDLESS).runs()
            self._exact[key] = int(run.peak[0])
        return self._exact[key]

    def _earliest(self, last: int) -> int:
        """The first operator of the longest valid run that ends with ``last``."""
        inside = {self.graph.ops[last].name}
        first = last
        while first > 0 and last - first + 1 < self.longest:
            op = self.graph.ops[first - 1]
            if op.host is not None or not any(c.name in inside for c in self.graph.consumers[op.output]):
                break
            inside.add(op.name)
            first -= 1
        return first

    def _surroundings(self, first: int, last: int) -> object:
        """Equal for two ranges of operators that are alike in structure, wiring and what leaves them."""
        ops = self.graph.ops[first : last + 1]
        out = {op.name for op in leaving(self.graph, ops)}
        numbers: dict[str, int] = {}
        rows: list[object] = []
        for op in ops:
            wires = tuple(numbers.setdefault(n, len(numbers)) for n in (*dict.fromkeys(op.inputs), op.output))
            kinds = tuple(n in self.graph.input_tensors for n in op.inputs)
            rows.append((self.costs.classes.class_of[op.name], wires, kinds, op.name in out))
        return tuple(rows)

    def _moved(self, columns: list[Column], first: int, last: int, by: int) -> list[Column]:
        """Columns of the operators ``first .. last``, as those of the equal operators ``by`` positions later."""
        table: dict[str, str] = {}
        for old in range(first, last + 1):
            table |= zip(tensor_names(self.graph.ops[old]), tensor_names(self.graph.ops[old + by]), strict=True)
        return [
            Column(
                c.first + by, c.last + by, c.cut, c.cycles, c.weights, c.again,
                tuple([(table[name], size) for name, size in c.steps]), c.peak, c.parts,
            )
            for c in columns
        ]  # fmt: skip

    def _priced(self, first: int, last: int) -> Iterator[Column]:
        most, most_in_two = MOST_INSTANCES, MOST_IN_TWO
        shape = self.graph.tensor[self.graph.ops[last].output].shape
        while True:
            ways, there = self._cuts(shape, most, most_in_two)
            found = 0
            for run in Growth(self.costs, first, last, there, self.capacity, self.shared).runs():
                for column in self._best(run, ways):
                    found += 1
                    yield column
            if found:
                return
            if (most > max(shape) and most_in_two > max(shape) ** 2) or most > MOST_CELLS:
                raise InfeasibleError(self._too_much(last))
            most, most_in_two = most * 8, most_in_two * 8

    def _cuts(self, shape: tuple[int, ...], most: int, most_in_two: int) -> tuple[tuple[Cut, ...], Rows]:
        """The cuts of a result of this shape, and the cells that represent them."""
        key = (shape, most, most_in_two)
        if key not in self._known_cuts:
            ways = cuts(shape, self.machine.cores, most, most_in_two)
            self._known_cuts[key] = ways, rows(ways, [representatives(c, shape) for c in ways])
        return self._known_cuts[key]

    def _best(self, run: Run, ways: tuple[Cut, ...]) -> list[Column]:
        """The columns of a run that no other beats in cycles, in repeated fetches and in shared memory at once."""
        price = _Price(run, ways, self.graph, self.costs, self.disabled)
        order = np.lexsort((price.again, price.cycles))
        kept: list[int] = []
        for i in order.tolist():
            if not any(price.again[k] <= price.again[i] and run.staged[k] <= run.staged[i] for k in kept):
                kept.append(i)
                if len(kept) == KEPT:
                    break
        return [price.column(i) for i in kept]

    def _too_much(self, last: int) -> str:
        """Why an operator fits under no cut."""
        op = self.graph.ops[last]
        shape = self.graph.tensor[op.output].shape
        cut = cuts(shape, self.machine.cores, MOST_CELLS, MOST_CELLS)[-1]
        there = rows([cut], [representatives(cut, shape)])
        run = next(Growth(self.costs, last, last, there, ENDLESS, ENDLESS).runs())
        local, shared = self.machine.role("local"), self.machine.role("shared")
        over = int(run.peak[0]) - self.capacity
        if over > 0:
            return (
                f"operator {op.name}: the smallest part needs {int(run.peak[0]):,} bytes of {local.name}, "
                f"{over:,} more than the {self.capacity:,} that may be used; use a machine with more {local.name}"
            )
        need = sum(int(c.step[0]) for c in (*run.entering.values(), *run.leaving.values()))
        return (
            f"operator {op.name}: an instance of the smallest parts needs {need:,} bytes of {shared.name}, more than "
            f"the {shared.capacity:,} there are; use a machine with more {shared.name} or a smaller batch"
        )


class _Bytes:
    """A sum of crossings: bytes of the busiest core, and of all of them."""

    def __init__(self, count: int) -> None:
        self.core = np.zeros(count, dtype=np.int64)
        self.cores = np.zeros(count, dtype=np.int64)

    def add(self, crossing: Crossing) -> None:
        self.core += crossing.core
        self.cores += crossing.cores

    def cycles(self, link: float, engine: float) -> NDArray[np.float64]:
        """At these rates of the shared link and of a core's engine."""
        return np.maximum(self.cores / link, self.core / engine)


class _Price:
    """Prices of one run under each of its cuts, as arrays."""

    def __init__(self, run: Run, ways: tuple[Cut, ...], graph: Graph, costs: Costs, disabled: Disabled) -> None:
        self.run, self.ways, self.graph = run, ways, graph
        rates = costs.rates
        count = np.array([ways[c].instance_count for c in run.cuts.tolist()], dtype=np.int64)
        cores = np.array([ways[c].core_count for c in run.cuts.tolist()], dtype=np.int64)
        inputs = graph.ops[run.first].inputs
        self.weights = np.zeros(len(count), dtype=np.int64)
        self.again = np.zeros(len(count), dtype=np.int64)
        loaded, stored, early = (_Bytes(len(count)) for _ in range(3))
        for name, crossing in run.entering.items():
            loaded.add(crossing)
            if name in graph.constant_names:
                whole = graph.tensor[name].bytes
                self.weights += np.minimum(whole, crossing.step * count)
                self.again += np.maximum(0, crossing.step * count - whole)
                continue
            if name in inputs:
                early.add(crossing)
        for crossing in run.leaving.values():
            stored.add(crossing)
        load = np.maximum(loaded.cores / rates.read, loaded.cores / cores / rates.into.bytes_per_cycle)
        store = stored.cycles(rates.write, rates.out.bytes_per_cycle) + rates.store_latency
        enter = early.cycles(rates.read, rates.into.bytes_per_cycle) + rates.latency
        wait = np.maximum(enter, store) if run.first == run.last else np.maximum(0, enter - run.alone[-1] / 2)
        busy = np.sum(run.alone, axis=0) if "engine-overlap" in disabled else run.cycles
        period = np.maximum.reduce([busy + wait, load, store])
        starved = 0.0 if "weight-starvation" in disabled else self._starved(period, costs)
        self.cycles = np.ceil(count * period + enter + store + starved).astype(np.int64)

    def _starved(self, period: NDArray[np.float64], costs: Costs) -> NDArray[np.float64]:
        """Cycles that the first instance waits for weights because those to come have no room in shared memory.

        When operator j ends, at most what the free memory b holds beyond the weights W_j up to it has been fetched. So
        E_k >= E_j + W_k - W_j - b, in cycles of main memory, for the ends E of all j < k. A bound from below: the
        memory may have other uses, and fetches begin at the start with as much there as can be.
        """
        run, graph = self.run, self.graph
        free = (costs.machine.role("shared").capacity - run.staged) / costs.rates.main
        stretch = period / np.maximum(1, np.sum(run.alone, axis=0))
        end, total, lead = (np.zeros(len(period)) for _ in range(3))
        for op, alone in zip(graph.ops[run.first : run.last + 1], run.alone, strict=True):
            for name in dict.fromkeys(op.inputs):
                if name in graph.constant_names:
                    total = total + run.entering[name].step / costs.rates.main
            end = np.maximum(end + alone * stretch, lead + total - free)
            lead = np.maximum(lead, end - total)
        return np.maximum(0.0, end - period)

    def column(self, i: int) -> Column:
        """The column of the cut at index ``i`` of the run's."""
        crossings = {n: c for n, c in self.run.entering.items() if n not in self.graph.constant_names}
        crossings |= self.run.leaving
        return Column(
            self.run.first,
            self.run.last,
            self.ways[int(self.run.cuts[i])],
            int(self.cycles[i]),
            int(self.weights[i]),
            int(self.again[i]),
            tuple((n, min(self.graph.tensor[n].bytes, int(c.step[i]))) for n, c in sorted(crossings.items())),
            int(self.run.peak[i]),
            self._parts(i),
        )

    def _parts(self, i: int) -> tuple[int, ...]:
        """The cycles of an instance, divided as the operators take them alone."""
        alone = [int(a[i]) for a in self.run.alone]
        share = int(self.cycles[i]) / self.ways[int(self.run.cuts[i])].instance_count / max(1, sum(alone))
        return tuple(int(a * share) for a in alone)


def _host_column(graph: Graph, machine: Machine, position: int) -> Column:
    op = graph.ops[position]
    engine = machine.engine_for("host")
    moved = sum(graph.tensor[n].bytes for n in (*dict.fromkeys(op.inputs), *op.outputs))
    cycles = engine.issue + -(-moved // engine.bytes_per_cycle)
    return Column(position, position, Cut((), ()), cycles, 0, 0, (), 0, (cycles,))
