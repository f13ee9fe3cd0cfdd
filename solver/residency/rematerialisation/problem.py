"""What rematerialisation decides about, of a known plan: which results could be computed again, and what moves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from ....ir.graph import Graph
from ....ir.machine import Machine
from ....ir.plan import Plan
from ...cost.operator import Rates

DEEPEST = 3
"""Operators in a row that are rematerialised at most: each needs the inputs of the one before, and saves less. Chosen,
not measured."""

Pair = tuple[str, int]
"""A tensor, and the number of a segment."""


@dataclass(frozen=True)
class RematerialisationProblem:
    """Sets and data, in cycles.

    ``work``: w_tk of all pairs. ``fetched``: f_tk of the spilled ones, and ``stored``: s_t. ``missing``: by pair, what
    its operator reads and is not there; ``bring``: m_uk of that. ``last``: by tensor, the segments of which one must
    leave it to the first run.
    """

    work: dict[Pair, int]
    fetched: dict[Pair, int]
    stored: dict[str, int]
    missing: dict[Pair, tuple[str, ...]]
    bring: dict[Pair, int]
    last: dict[str, tuple[int, ...]]


def rematerialisation_problem(graph: Graph, machine: Machine, plan: Plan) -> RematerialisationProblem:
    """The sets and the data for a plan."""
    traffic = _PlanTraffic(graph, machine, plan)
    pairs = dict.fromkeys(traffic.spilled)
    more = list(pairs)
    for _ in range(DEEPEST - 1):
        inputs = ((u, k) for t, k in more for u in traffic.missing(t, k) if traffic.may_rematerialise(u, k))
        more = [pair for pair in dict.fromkeys(inputs) if pair not in pairs]
        pairs |= dict.fromkeys(more)
    missing = {(t, k): traffic.missing(t, k) for t, k in pairs}
    spilled = dict.fromkeys(t for t, _ in traffic.spilled)
    # Readers of an output, or elsewhere, keep the first run alive.
    readers = {t: traffic.readers(t) for t, _ in pairs if t not in graph.output_tensors}
    return RematerialisationProblem(
        work={(t, k): traffic.work(t, k) for t, k in pairs},
        fetched={pair: traffic.fetched[pair] for pair in traffic.spilled},
        # What is fetched where it cannot be rematerialised has to be stored.
        stored={
            t: traffic.stored[t] for t in spilled if traffic.may_be_unstored(t) and _all_in(traffic.fetched, t, pairs)
        },
        missing=missing,
        bring={(u, k): traffic.bring(u) for (_, k), inputs in missing.items() for u in inputs},
        last={t: ks for t, ks in readers.items() if all((t, k) in pairs for k in ks)},
    )


def _all_in(fetched: Mapping[Pair, int], t: str, pairs: Mapping[Pair, None]) -> bool:
    return all(pair in pairs for pair in fetched if pair[0] == t)


class _PlanTraffic:
    """What a plan moves, in cycles of the link to main memory, and what is where."""

    def __init__(self, graph: Graph, machine: Machine, plan: Plan) -> None:
        self.graph = graph
        self.plan = plan
        self.rate = Rates.of(machine).main
        self.segment_of = {name: k for k, segment in enumerate(plan.segments) for name in segment.ops}
        self.fetched: dict[Pair, int] = defaultdict(int)
        self.stored: dict[str, int] = defaultdict(int)
        self.shared: set[str] = set()
        """What several segments have of one fetch."""
        alive: dict[tuple[str, int], int] = defaultdict(int)
        for buffer in (b for b in plan.shared if b.memory == machine.role("shared").name):
            if buffer.fetch:
                # It may be early, and be kept for others.
                lives = {plan.steps[plan.slots[slot][0]].segment for slot in range(*buffer.live)}
                users = [k for k in self.readers(buffer.tensor) if k in lives]
                if len(users) == 1:
                    self.fetched[buffer.tensor, users[0]] += ceil(buffer.bytes / self.rate)
                else:
                    self.shared.add(buffer.tensor)
            if buffer.store:
                self.stored[buffer.tensor] += ceil(buffer.bytes / self.rate)
            for slot in range(*buffer.live):
                alive[buffer.tensor, slot] += buffer.bytes
        self.held = self._held(alive)
        self.cycles: dict[str, int] = defaultdict(int)
        for prediction in plan.predictions:
            self.cycles[prediction.op] += prediction.stop - prediction.start
        self.spilled = tuple(pair for pair in self.fetched if pair[0] in self.stored and self.may_rematerialise(*pair))

    def _held(self, alive: dict[tuple[str, int], int]) -> frozenset[Pair]:
        """Tensors that are in the shared memory whenever an instance of the segment begins."""
        begins: dict[int, list[int]] = defaultdict(list)
        slot = 0
        for step in self.plan.steps:
            begins[step.segment].append(slot)
            slot += len(self.plan.segments[step.segment].ops)
        names = dict.fromkeys(t for t, _ in alive)
        return frozenset(
            (t, k)
            for k, slots in begins.items()
            for t in names
            if all(alive.get((t, slot), 0) >= self.graph.tensor[t].bytes for slot in slots)
        )

    def readers(self, t: str) -> tuple[int, ...]:
        """The segments that read a tensor."""
        return tuple(dict.fromkeys(self.segment_of[op.name] for op in self.graph.consumers[t]))

    def may_be_unstored(self, t: str) -> bool:
        """Whether ``t`` need not be in main memory if it is rematerialised wherever it is fetched for one segment."""
        return t not in self.shared and t not in self.graph.output_tensors

    def may_rematerialise(self, t: str, k: int) -> bool:
        """Whether ``t`` could be rematerialised in ``k``, on the cores."""
        producer = self.graph.producer.get(t)
        if producer is None or producer.host is not None or self.segment_of[producer.name] >= k:
            return False
        return self.graph.op[self.plan.segments[k].ops[0]].host is None

    def missing(self, t: str, k: int) -> tuple[str, ...]:
        """What the producer of ``t`` reads, and segment ``k`` neither reads nor finds in the shared memory."""
        inputs = self.graph.producer[t].inputs
        return tuple(u for u in inputs if k not in self.readers(u) and (u, k) not in self.held)

    def bring(self, u: str) -> int:
        """m_uk, where it is not there."""
        cycles = ceil(self.graph.tensor[u].bytes / self.rate)
        return cycles * (2 if u in self.graph.producer and u not in self.stored else 1)

    def work(self, t: str, k: int) -> int:
        """w_tk."""
        whole = ceil(self.graph.tensor[t].bytes / self.rate)
        share = min(1.0, self.fetched[t, k] / max(1, whole)) if (t, k) in self.fetched else 1.0
        return ceil(self.cycles[self.graph.producer[t].name] * share)
