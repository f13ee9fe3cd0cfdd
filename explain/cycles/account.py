"""Accounts for every cycle of a run: :mod:`.breakdown` says what the parts mean."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise

from ...ir.bounds.unavoidable_work import bounding, unavoidable
from ...ir.graph import Graph
from ...ir.isa.table import Instruction, field
from ...ir.isa.timing import Cost
from ...ir.machine import Engine, Link
from ...ir.plan import Plan
from .breakdown import BreakdownRow, CycleBreakdown
from .costed_run import CostedRun
from .critical_path import Node
from .fetched_tensors import fetched_tensors
from .intervals import concurrency, even_shares
from .ledger import Ledger
from .wait_causes import cause_of


def cycle_breakdown(graph: Graph, plan: Plan, run: CostedRun, by_operator: str | None = None) -> CycleBreakdown:
    """All cycles of a run; rows of operators are of the resource ``by_operator``, which is the bounding one if None."""
    account, machine = _Account(graph, plan, run), run.machine
    works = {work.resource: work for work in unavoidable(graph, machine)}
    bound = bounding(tuple(works.values())).resource
    engines = [e for e in machine.engines if account.runs(e) or e.name == bound]
    ledgers = [account.engine(engine) for engine in engines]
    ledgers += [account.link(link.name) for link in machine.links if link.name in works]
    totals: list[BreakdownRow] = []
    segments: list[BreakdownRow] = []
    operators: list[BreakdownRow] = []
    every = tuple(op for segment in plan.segments for op in segment.ops)
    for ledger in ledgers:
        work = works.get(ledger.resource)
        totals.append(ledger.row(every, work))
        segments += [ledger.row(segment.ops, work, i) for i, segment in enumerate(plan.segments)]
        if ledger.resource == (by_operator or bound):
            operators += [ledger.row((op,), work, i, op) for i, s in enumerate(plan.segments) for op in s.ops]
    return CycleBreakdown(bound, tuple(totals), tuple(segments), tuple(operators))


class _Account:
    """Reads one run."""

    def __init__(self, graph: Graph, plan: Plan, run: CostedRun) -> None:
        self.program = program = run.program
        self.machine = machine = run.machine
        self.cycles = run.trace.cycles
        self._positions = {op: (n, i) for n, segment in enumerate(plan.segments) for i, op in enumerate(segment.ops)}
        self._constants = graph.constant_names
        self._fetched = fetched_tensors(graph, plan, program, machine)
        self._costs = run.costs
        self.path = run.path
        self._kinds = [[instruction.row.kind for instruction in stream] for stream in program.streams]
        self._ops = [[program.ops[self._fetched(i)[0]].name for i in stream] for stream in program.streams]
        self._finished = [
            [(queue, index) for index, kind in enumerate(kinds) if kind != "sync" and self.path.end[queue][index] >= 0]
            for queue, kinds in enumerate(self._kinds)
        ]
        self._computing = [self._compute_cycles(core) for core in range(machine.cores)]

    def runs(self, engine: Engine) -> bool:
        """Whether the program has work for an engine."""
        return any(
            queue.engine == engine.name and any(kind != "sync" for kind in kinds)
            for queue, kinds in zip(self.program.queues, self._kinds, strict=True)
        )

    def engine(self, engine: Engine) -> Ledger:
        """An engine, which has one instance for each core, or one in all."""
        cores = range(self.machine.cores) if engine.scope == "core" else (None,)
        ledger = Ledger(engine.name, len(cores))
        for instance, core in enumerate(cores):
            queues = [n for n, q in enumerate(self.program.queues) if q.engine == engine.name and q.core == core]
            nodes = [node for queue in queues for node in self._finished[queue]]
            for node, cycles in self._track(ledger, instance, core, nodes):
                instruction, parts = self._costs[node[0]][node[1]], ledger.parts[self._op(node)]
                parts["peak"] += instruction.peak
                parts["fill"] += instruction.fill
                parts["rounding"] += instruction.cost.busy - instruction.peak - instruction.fill - instruction.issue
                parts["issue"] += instruction.issue
                parts["slowed"] += cycles - instruction.cost.busy
        return ledger

    def link(self, name: str) -> Ledger:
        """A link, with the transfers of all queues that cross it.

        Kernels that compute for longer than their bytes take do not count: they leave the link to others.
        """
        number, link = next((i, link) for i, link in enumerate(self.machine.links) if link.name == name)
        rate = link.bytes_per_cycle
        ledger = Ledger(name, 1)
        nodes = [
            node
            for queue in range(len(self.program.queues))
            for node in self._finished[queue]
            if _crosses(self._costs[queue][node[1]].cost, number, rate)
        ]
        for node, cycles in self._track(ledger, 0, None, nodes):
            cost, parts = self._costs[node[0]][node[1]].cost, ledger.parts[self._op(node)]
            crossed = dict(cost.links)[number] / rate
            # From one of its memories to another, bytes cross a link twice.
            times = self._crossings(link, self.program.streams[node[0]][node[1]])
            peak = min(crossed, times * cost.payload / rate)
            parts["peak"] += peak
            parts["rounding"] += crossed - peak
            parts["slowed"] += cycles - crossed
        return ledger

    def _crossings(self, link: Link, instruction: Instruction) -> int:
        """How often a transfer crosses a link."""
        if len(link.memories) == 1:
            return 1
        ends = (
            (self.machine.memories[int(field(instruction, f"{operand.name}.mem"))].name, operand.access)
            for operand in instruction.row.operands
        )
        return sum(
            memory in link.memories and link.direction in ("read" if access == "r" else "write", "both")
            for memory, access in ends
        )

    def _track(
        self, ledger: Ledger, instance: int, core: int | None, nodes: Sequence[Node]
    ) -> Iterator[tuple[Node, float]]:
        """(instruction, its share of the cycles) in the order of starts; enters busy cycles and the waits between."""
        start, end = self.path.start, self.path.end
        nodes = sorted(nodes, key=lambda node: (start[node[0]][node[1]], end[node[0]][node[1]], node))
        idle_since, last = 0, None
        shares = even_shares([(start[q][i], end[q][i]) for q, i in nodes])
        for (queue, index), cycles in zip(nodes, shares, strict=True):
            begin, op = start[queue][index], self._op((queue, index))
            if begin > idle_since:
                boundary = last is None or not self._follows(last, op)
                self._wait(ledger, core, op, boundary, self.path.releaser((queue, index)), idle_since, begin)
            idle_since, last = max(idle_since, end[queue][index]), op
            ledger.busy[instance][op] += cycles
            yield (queue, index), cycles
        self._wait(ledger, core, None, True, self.path.last(), idle_since, self.cycles)

    def _follows(self, first: str, second: str) -> bool:
        """Whether both operators are in one segment, and ``second`` is no earlier there."""
        (segment, position), (later_segment, later) = self._positions[first], self._positions[second]
        return segment == later_segment and position <= later

    def _wait(
        self, ledger: Ledger, core: int | None, waiting: str | None, boundary: bool, releaser: Node | None, since: int,
        until: int,
    ) -> None:  # fmt: skip
        """Enter a wait of the operator ``waiting``, which is ``None`` after the last instruction of an engine.

        ``boundary``: the wait is fill or drain.
        """
        for node, begin, end in self.path.attribute(releaser, since, until):
            cause, op = self._cause(node, core), self._op(node)
            engine = self.program.queues[node[0]].engine
            charged = op if waiting is None or cause == "cores" else waiting
            shares = {(charged, cause): float(end - begin)}
            if cause == "cores" and core is not None:
                computing_cycles = self._computing[core](end) - self._computing[core](begin)
                shares = {(charged, cause): end - begin - computing_cycles, (waiting or op, "engine"): computing_cycles}
            for (name, share_cause), cycles in shares.items():
                ledger.waits[name][share_cause, op, engine] += cycles
                ledger.parts[name]["boundary"] += cycles if boundary else 0.0

    def _cause(self, node: Node, core: int | None) -> str:
        """The cause of a wait of ``core`` that is attributed to an instruction."""
        queue, instruction = self.program.queues[node[0]], self.program.streams[node[0]][node[1]]
        cause = cause_of(self.machine, queue.engine, instruction)
        if cause == "compute":
            return "engine" if core is not None and queue.core == core else "cores"
        if cause == "fetch":
            return "fetch_weights" if self._fetched(instruction)[1] in self._constants else "fetch_data"
        return cause

    def _op(self, node: Node) -> str:
        return self._ops[node[0]][node[1]]

    def _compute_cycles(self, core: int) -> Callable[[int], float]:
        """From a cycle to the number of cycles before it in which the core's matrix or vector engine ran."""
        queues = [n for n, queue in enumerate(self.program.queues) if queue.core == core]
        computing = [(q, i) for q in queues for _, i in self._finished[q] if self._kinds[q][i] in ("matrix", "vector")]
        times, count = concurrency([(self.path.start[q][i], self.path.end[q][i]) for q, i in computing])
        moments, runs = times.tolist(), (count > 0).tolist()
        elapsed = [0, *accumulate((b - a) * run for (a, b), run in zip(pairwise(moments), runs, strict=False))]

        def before(cycle: int) -> float:
            last = bisect_right(moments, cycle) - 1
            return 0.0 if last < 0 else float(elapsed[last] + (cycle - moments[last]) * runs[last])

        return before


def _crosses(cost: Cost, number: int, rate: float) -> bool:
    """Whether an instruction is a transfer over a link of this number and rate."""
    crossed = dict(cost.links).get(number, 0) / rate
    return crossed > 0 and cost.computing <= crossed
