"""What a run of operators costs under each of its splits.

The cycles of a column with ``I`` instances are

    I * max(the operators of an instance + what it waits for its inputs, loads and stores of the busiest core, all
            loads, all stores)
      + the first load of activations + the last store

and in the last segment of the network, with O the cycles that main memory takes for outputs, at least an instance and
O after it, and all instances and O / I after them. So what overlaps is counted once, and what a segment cannot overlap
with itself is not forgotten. Copies are issued in order: the inputs of the next instance can be loaded while the last
operator works through its last weights, taken as half of its time; an operator alone in its segment cannot even do
that, since its buffers are still in use. Other traffic with main memory is for the model, which decides what resides in
shared memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...ir.graph import Graph
from ...ir.machine import Machine
from ...ir.semantics.kernel_engine import kernel_engine
from ..cost.operator import Amount
from ..switches import Disabled
from .fusion_candidates import FusionCandidate, InterSegmentTensor
from .split_cost import OperatorCosts
from .splits import SegmentSplit


@dataclass(frozen=True)
class Column:
    """Operators ``first .. last`` (positions) under one split.

    ``cycles``: on the cores, all instances. ``weight_bytes``: of its constants; ``refetched_bytes``: what of them is
    fetched more than once if nothing is pinned between instances, and ``pin_bytes`` what of them has to be pinned so
    that nothing is: all, or two parts of the root's weights where instances with the same columns follow one another.
    ``footprints``: for each activation that crosses its border, the bytes of it that an instance touches, and those
    that cross the link of main memory for them, in whole bursts. ``local_bytes``: of local memory, at most at one time.
    ``op_cycles``: of each operator in one instance; all of an instance together.

    A group (:mod:`.groups`) is a column, too: an instance is a turn of its ``members``, and ``internal_bytes`` is what
    a turn takes of shared memory at most for what passes between them.
    """

    first: int
    last: int
    split: SegmentSplit
    cycles: int
    weight_bytes: int
    refetched_bytes: int
    pin_bytes: int
    footprints: tuple[tuple[str, int, int], ...]
    local_bytes: int
    op_cycles: tuple[int, ...]
    members: tuple[Column, ...] = ()
    internal_bytes: int = 0

    @property
    def segments(self) -> tuple[Column, ...]:
        """The columns that are segments: the members of a group, or itself."""
        return self.members or (self,)

    @property
    def instances(self) -> int:
        return self.split.instance_count


class _Transfers:
    """Several inter-segment tensors, by split: bytes of the busiest core and of all of them, cycles of the link."""

    def __init__(self, count: int) -> None:
        self.core = np.zeros(count, dtype=np.int64)
        self.cluster = np.zeros(count, dtype=np.int64)
        self.link = np.zeros(count, dtype=np.float64)

    def add(self, tensor: InterSegmentTensor, rate: Amount) -> None:
        """``rate``: bytes a cycle that the link and the banks that hold the tensor give all cores together."""
        self.core += tensor.core_bytes
        self.cluster += tensor.cluster_bytes
        self.link += tensor.cluster_bytes / rate

    def cycles(self, engine: float) -> NDArray[np.float64]:
        """With this rate of a core's engine."""
        return np.maximum(self.link, self.core / engine)


class SplitCosts:
    """The costs of one run under each of its splits, as arrays; ``splits`` are those that the run numbers."""

    def __init__(
        self,
        run: FusionCandidate,
        splits: tuple[SegmentSplit, ...],
        graph: Graph,
        costs: OperatorCosts,
        disabled: Disabled,
    ) -> None:
        self.run, self.splits, self.graph = run, splits, graph
        rates = costs.rates
        instances = run.instances
        first_inputs = graph.ops[run.first].inputs
        self.weight_bytes = np.zeros(len(instances), dtype=np.int64)
        self.refetched_bytes = np.zeros(len(instances), dtype=np.int64)
        self.pin_bytes = np.zeros(len(instances), dtype=np.int64)
        root = graph.ops[run.last]
        root_weights = root.stationary
        self.moved_bytes = np.zeros(len(instances), dtype=np.int64)
        """Of activations, if none of them stayed in shared memory."""
        loaded, stored, loaded_first = (_Transfers(len(instances)) for _ in range(3))
        for name, tensor in run.entering.items():
            constant = name in graph.constant_names
            rate = rates.read_of(tensor.spread_bytes, rates.constants if constant else rates.exchanged)
            loaded.add(tensor, rate)
            if constant:
                whole = graph.tensor[name].bytes
                fetched = np.minimum(whole, tensor.footprint_bytes * instances)
                in_turn = (run.columns_first > 1) & (name == root_weights)
                self.weight_bytes += fetched
                self.pin_bytes += np.where(in_turn, np.minimum(fetched, 2 * tensor.footprint_bytes), fetched)
                again = np.maximum(0, tensor.footprint_bytes * instances - whole)
                self.refetched_bytes += again * tensor.moved_bytes // np.maximum(1, tensor.footprint_bytes)
                continue
            self.moved_bytes += tensor.moved_bytes * instances
            if name in first_inputs:
                loaded_first.add(tensor, rate)
        for tensor in run.leaving.values():
            self.moved_bytes += tensor.moved_bytes * instances
            stored.add(tensor, np.minimum(rates.write, rates.exchanged.rate(tensor.spread_bytes)))
        load = np.maximum(loaded.link, loaded.cluster / run.cores / rates.into.bytes_per_cycle)
        store = stored.cycles(rates.out.bytes_per_cycle) + rates.store_latency
        enter = loaded_first.cycles(rates.into.bytes_per_cycle) + rates.latency
        wait = np.maximum(enter, store) if run.first == run.last else np.maximum(0, enter - run.op_cycles[-1] / 2)
        busy = np.sum(run.op_cycles, axis=0) if "engine-overlap" in disabled else run.cycles
        period = np.maximum.reduce([busy + wait, load, store])
        stall = 0.0 if "weight-starvation" in disabled else self._weight_stall(period, costs)
        outputs = 0.0 if "output-stores" in disabled else self._outputs(rates.main)
        computed_and_stored = np.maximum(instances * period + outputs / instances, period + outputs)
        self.cycles = np.ceil(computed_and_stored + enter + store + stall).astype(np.int64)

    def _outputs(self, main: float) -> float:
        """Cycles of main memory, which takes ``main`` bytes a cycle, for the outputs of the network that its last
        segment leaves; none before that. Bursts that are not full are not counted."""
        run, graph = self.run, self.graph
        if run.last != len(graph.ops) - 1:
            return 0.0
        return sum(graph.tensor[name].bytes for name in run.leaving if name in graph.output_tensors) / main

    def _weight_stall(self, period: NDArray[np.float64], costs: OperatorCosts) -> NDArray[np.float64]:
        """Cycles that the first instance waits for weights because those to come have no room in shared memory.

        When operator j ends, at most what the free memory b holds beyond the weights W_j up to it has been fetched. So
        E_k >= E_j + W_k - W_j - b, in cycles of main memory, for the ends E of all j < k. A bound from below: the
        memory may have other uses, and fetches begin at the start with as much there as can be.
        """
        run, graph = self.run, self.graph
        free = (costs.machine.levels.exchange.capacity - run.shared_bytes) / costs.rates.fetched_constants
        stretch = period / np.maximum(1, np.sum(run.op_cycles, axis=0))
        end, weights, ahead = (np.zeros(len(period)) for _ in range(3))
        for op, cycles in zip(graph.ops[run.first : run.last + 1], run.op_cycles, strict=True):
            for name in dict.fromkeys(op.inputs):
                if name in graph.constant_names:
                    weights = weights + run.entering[name].footprint_bytes / costs.rates.fetched_constants
            end = np.maximum(end + cycles * stretch, ahead + weights - free)
            ahead = np.maximum(ahead, end - weights)
        return np.maximum(0.0, end - period)

    def column(self, i: int) -> Column:
        """The column of the split at index ``i`` of the run's."""
        crossing = {n: t for n, t in self.run.entering.items() if n not in self.graph.constant_names}
        crossing |= self.run.leaving
        split = self.splits[int(self.run.splits[i])]
        cycles = int(self.cycles[i])
        alone = [int(of_op[i]) for of_op in self.run.op_cycles]
        # The cycles of an instance, divided as the operators take them alone.
        share = cycles / split.instance_count / max(1, sum(alone))
        return Column(
            self.run.first,
            self.run.last,
            split,
            cycles,
            int(self.weight_bytes[i]),
            int(self.refetched_bytes[i]),
            int(self.pin_bytes[i]),
            tuple(
                (n, min(self.graph.tensor[n].bytes, int(t.footprint_bytes[i])), int(t.moved_bytes[i]))
                for n, t in sorted(crossing.items())
            ),
            int(self.run.local_bytes[i]),
            tuple(int(a * share) for a in alone),
        )


def kernel_column(graph: Graph, machine: Machine, position: int) -> Column:
    """The column of an operator whose kernel the host or the scalar engine runs."""
    cycles = kernel_engine(graph, graph.ops[position], machine)[2].busy
    return Column(position, position, SegmentSplit((), ()), cycles, 0, 0, 0, (), 0, (cycles,))
