"""Recomputation: which results of a plan are made again where they are read, rather than moved through main memory.

Sets
    Pairs (t, k): segment k fetches result t, which an earlier one stored. To these come the inputs of the operator that
    makes t, and the inputs of theirs, where they are results, too: making t again may take them to be made again.
Data
    In cycles of the link to main memory: f_tk of the fetches, s_t of the stores; m_tk to bring t into k where it is
    not there yet: its bytes, twice if nobody stores it so far, and 0 if k reads it anyway or the shared memory holds
    it while k runs. w_tk: cycles of the cores that t takes, in proportion to what k needs of it.
Variables
    r_tk: t is made again in k; b_tk: it is brought there for that; n_t: nobody fetches t any more.
Constraints
    (1) What makes t has its inputs: r_tk => b_uk or r_uk for each input u that is not there.
    (2) n_t => r_tk for each segment k that fetches t, and not b_tk: what is brought has to be stored.
    (3) Somebody reads the first run: not all r_tk, if only those segments read t, and it is no output.
Objective
    Least of sum w_tk r_tk + sum m_uk b_uk - sum f_tk r_tk - sum s_t n_t.
Relaxed
    Cores and link are thought to take turns; room in the memories is not looked at. A fetch that several segments
    share is never saved. What is chosen is planned like any other graph, and kept if the prediction says that it is
    faster.
Reference: Checkmate (Jain et al., MLSys 2020).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

from ...ir.graph import Graph
from ...ir.machine import Machine
from ...ir.plan import Plan, Recomputation, Segment, Solved
from ...ir.semantics.rematerialise import steps
from ..cpsat.backend import Budget, Expr, Model, Var, solve, total
from .problem import link_rate

DEEPEST = 3
"""Operators in a row that are made again at most."""
WORTH = 0.005
"""The share of all cycles that has to be gained to be worth another plan."""
BUDGET = Budget(5.0, 0.5)

Pair = tuple[str, int]
"""A tensor, and the number of a segment."""


@dataclass(frozen=True)
class Problem:
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


@dataclass(frozen=True)
class Chosen:
    """The operators to run again, and what the model answered.

    See :func:`girih.ir.semantics.rematerialise.recompute`.
    """

    recomputed: tuple[Recomputation, ...]
    solved: Solved
    seconds: float
    deterministic_seconds: float


def recomputations(graph: Graph, machine: Machine, plan: Plan, seed: int) -> Chosen | None:
    """What to make again in ``plan``, a plan for ``graph``; ``None`` if there is nothing to gain."""
    data = problem(graph, machine, plan)
    if sum(data.fetched.values()) + sum(data.stored.values()) < WORTH * plan.cycles_predicted:
        return None
    model, variables = build(data)
    answer = solve(model, budget=BUDGET, seed=seed)
    if not answer.found or answer.objective is None:
        return None
    solved = Solved("recomputation", answer.status, answer.objective, answer.bound, "cycles, more than without")
    worth = -answer.objective >= WORTH * plan.cycles_predicted
    chosen = [pair for pair, var in variables.items() if answer.true(var)] if worth else []
    return Chosen(_ordered(graph, plan.segments, chosen), solved, answer.seconds, answer.deterministic_seconds)


def problem(graph: Graph, machine: Machine, plan: Plan) -> Problem:
    """The sets and the data for a plan."""
    look = _Look(graph, machine, plan)
    pairs = dict.fromkeys(look.spilled)
    more = list(pairs)
    for _ in range(DEEPEST - 1):
        inputs = ((u, k) for t, k in more for u in look.missing(t, k) if look.may(u, k))
        more = [pair for pair in dict.fromkeys(inputs) if pair not in pairs]
        pairs |= dict.fromkeys(more)
    missing = {(t, k): look.missing(t, k) for t, k in pairs}
    spilled = dict.fromkeys(t for t, _ in look.spilled)
    # Readers of an output, or elsewhere, keep the first run alive.
    readers = {t: look.readers(t) for t, _ in pairs if t not in graph.output_tensors}
    return Problem(
        work={(t, k): look.work(t, k) for t, k in pairs},
        fetched={pair: look.fetched[pair] for pair in look.spilled},
        # What is fetched where it cannot be made again has to be stored.
        stored={t: look.stored[t] for t in spilled if look.may_stay(t) and _all_in(look.fetched, t, pairs)},
        missing=missing,
        bring={(u, k): look.bring(u) for (_, k), inputs in missing.items() for u in inputs},
        last={t: ks for t, ks in readers.items() if all((t, k) in pairs for k in ks)},
    )


def _all_in(fetched: Mapping[Pair, int], t: str, pairs: Mapping[Pair, None]) -> bool:
    return all(pair in pairs for pair in fetched if pair[0] == t)


class _Look:
    """What a plan moves, in cycles of the link to main memory, and what is where."""

    def __init__(self, graph: Graph, machine: Machine, plan: Plan) -> None:
        self.graph = graph
        self.plan = plan
        self.rate = link_rate(machine)
        self.of = {name: k for k, segment in enumerate(plan.segments) for name in segment.ops}
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
        self.spent: dict[str, int] = defaultdict(int)
        for prediction in plan.predictions:
            self.spent[prediction.op] += prediction.stop - prediction.start
        self.spilled = tuple(pair for pair in self.fetched if pair[0] in self.stored and self.may(*pair))

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
        return tuple(dict.fromkeys(self.of[op.name] for op in self.graph.consumers[t]))

    def may_stay(self, t: str) -> bool:
        """Whether ``t`` need not be in main memory if it is made again wherever it is fetched for one segment."""
        return t not in self.shared and t not in self.graph.output_tensors

    def may(self, t: str, k: int) -> bool:
        """Whether ``t`` could be made once more in ``k``, on the cores."""
        made = self.graph.producer.get(t)
        if made is None or made.host is not None or self.of[made.name] >= k:
            return False
        return self.graph.op[self.plan.segments[k].ops[0]].host is None

    def missing(self, t: str, k: int) -> tuple[str, ...]:
        """What makes ``t`` reads, and segment ``k`` neither reads nor finds in the shared memory."""
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
        return ceil(self.spent[self.graph.producer[t].name] * share)


def build(data: Problem) -> tuple[Model, dict[Pair, Var]]:
    """The model, and r_tk."""
    m = Model("recomputation")
    again = {(t, k): m.bool(f"again[{t}, {k}]") for t, k in data.work}
    brought = {(u, k): m.bool(f"brought[{u}, {k}]") for u, k in data.bring}
    unmoved = {t: m.bool(f"unmoved[{t}]") for t in data.stored}
    for (t, k), inputs in data.missing.items():
        for u in inputs:
            ways = [brought[u, k], *([again[u, k]] if (u, k) in again else [])]
            m.any_of(ways, when=again[t, k])
    for t, k in data.fetched:
        if t in unmoved:
            m.implication(unmoved[t], again[t, k])
    for (u, _), b in brought.items():
        if u in unmoved:
            m.at_most_one([b, unmoved[u]])
    for t, segments in data.last.items():
        m.add(total(again[t, k] for k in segments) <= len(segments) - 1)
    cost: list[Expr] = [cycles * again[pair] for pair, cycles in data.work.items()]
    cost += [cycles * brought[pair] for pair, cycles in data.bring.items()]
    cost += [-cycles * again[pair] for pair, cycles in data.fetched.items()]
    cost += [-cycles * unmoved[t] for t, cycles in data.stored.items()]
    m.minimize(total(cost))
    return m, again


def _ordered(graph: Graph, segments: Sequence[Segment], chosen: Sequence[Pair]) -> tuple[Recomputation, ...]:
    """What is chosen, each after those that read what it makes."""
    made: list[Recomputation] = []
    members = {k: set(segment.ops) for k, segment in enumerate(segments)}
    place = {op.name: n for n, op in enumerate(graph.ops)}
    now = graph
    for t, k in sorted(chosen, key=lambda pair: (pair[1], -place[graph.producer[pair[0]].name])):
        readers = tuple(op.name for op in now.consumers[t] if op.name in members[k])
        # An answer that is not the best may have what is for nobody.
        if readers:
            made.append(Recomputation(graph.producer[t].name, readers))
            for new, after in steps(now, made[-1:]):
                members[k].add(new.name)
                now = after
    return tuple(made)


def second_runs(graph: Graph, recomputed: Sequence[Recomputation]) -> tuple[tuple[str, str], ...]:
    """The name of each second run, and that of the first."""
    return tuple((new.name, r.op) for r, (new, _) in zip(recomputed, steps(graph, recomputed), strict=True))


def again(graph: Graph, segments: Sequence[Segment], recomputed: Sequence[Recomputation]) -> tuple[Segment, ...]:
    """The segments of ``graph`` with its recomputed operators, each just before the first of its readers."""
    found = list(segments)
    for wanted, (new, _) in zip(recomputed, steps(graph, recomputed), strict=True):
        k = next(k for k, segment in enumerate(found) if wanted.readers[0] in segment.ops)
        ops = found[k].ops
        first = next(i for i, name in enumerate(ops) if name in wanted.readers)
        found[k] = replace(found[k], ops=(*ops[:first], new.name, *ops[first:]))
    return tuple(found)
