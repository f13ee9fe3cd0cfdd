"""Where the cycles go: of every engine, in every segment and operator, what it did and what it waited for.

For an engine, averaged over the cores that have one, and for each segment or operator:

    cycles = peak + rounding + issue + slowed + waits          peak = work + extra

- *peak*: what it executed, at its peak rate. *work* of it is what the lower bound counts, *extra* the rest: overlaps of
  cells that are computed twice (halos), products with padding, and whatever else the bound knows to be avoidable.
- *rounding*: rows and columns of the array, lanes, and bursts that are not filled. Rows and columns of the array that
  no plan can fill are *work*, and so of the *peak*. *issue*: of instructions.
- *slowed*: instructions that took longer than they would have alone, for links and banks that they shared.
- *waits*: the engine was idle, by what was in the way of its next instruction (see :mod:`.critical_path`), moment for
  moment.
  While other cores compute and the core does, too, its own engines are what the idle one waits for.

A wait counts for the operator of the instruction that waits, but while other cores compute, or after an engine's last
instruction, for the operator of what is in the way: that is where a core has less to do than others.

The work of the busiest resource is the lower bound, unless two phases make a larger one (:mod:`..ir.bounds.two_phase`):
then the second one is no resource's work, and what it adds is in the waits.

Links are told beside engines, for the lower bound may be one's. A link is busy while a transfer over it is in flight;
transfers side by side share those cycles, and their issue is in *slowed*.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np

from ..ir.bounds.lower_bound import Work, bounding, unavoidable
from ..ir.graph import Graph, Tensor
from ..ir.isa.table import DTYPE_NAMES, ROWS, Instruction
from ..ir.isa.timing import Cost, instruction_cost, matrix_shape, vector_shape
from ..ir.machine import Engine, Machine
from ..ir.plan import Plan
from ..ir.program import Program
from ..ir.semantics.rematerialise import followed
from ..ir.trace import Trace
from .critical_path import Node, Past
from .fetches import fetched

CAUSES = {
    "fetch_weights": "constants are fetched from main memory",
    "fetch_data": "inputs or spilled results are fetched from main memory",
    "load_weights": "stationary operands are loaded into the weight memory",
    "load_data": "a core's operands are loaded from shared memory",
    "store": "results are stored in shared memory",
    "spill": "results are stored in main memory",
    "engine": "an engine of the same core computes, or a result of it is on its way",
    "cores": "other cores compute, and this one has nothing to do",
    "host": "the host computes",
}
"""What an engine can wait for."""

_TOLD = 5
"""Reasons that a row tells by operator."""

Wait = tuple[str, str, str]
"""Cause, and the operator and the engine of what is in the way."""


@dataclass(frozen=True)
class Reason:
    """Cycles of a wait, mean of the cores: for an instruction of ``op`` on ``engine``."""

    cause: str
    op: str
    engine: str
    cycles: float


@dataclass(frozen=True)
class SpentRow:
    """The cycles of a resource, mean of the ``instances`` of an engine: in one segment or operator, or in all of them.

    ``segment`` is ``None`` for all of them, ``op`` is empty for all operators of a segment.

    ``work`` and ``extra`` are ``None`` where the lower bound knows nothing of the engine. ``busy`` are the cycles in
    which it ran instructions, ``busiest`` those of the core with the most. ``reasons`` are the longest waits. Of the
    waits, ``between`` are at the edges of segments and instances, where an engine drains or fills: before the first
    instruction, after the last, and from one operator to one that does not follow it in its segment.
    """

    resource: str
    instances: int
    segment: int | None
    op: str
    cycles: float
    work: float | None
    extra: float | None
    peak: float
    rounding: float
    issue: float
    slowed: float
    busy: float
    busiest: float
    waits: dict[str, float]
    between: float
    reasons: tuple[Reason, ...]

    @property
    def lost(self) -> float:
        """Cycles beyond the work that the lower bound counts."""
        return self.cycles - (self.work or 0.0)


@dataclass(frozen=True)
class Spent:
    """``bounding`` is the resource with the most work that the lower bound counts; ``totals`` has a row for each.

    ``segments`` has a row for each resource and segment, ``operators`` one for each operator and the bounding resource.
    """

    bounding: str
    totals: tuple[SpentRow, ...]
    segments: tuple[SpentRow, ...]
    operators: tuple[SpentRow, ...]

    def of(self, resource: str) -> tuple[SpentRow, ...]:
        """The rows of all segments."""
        return tuple(row for row in self.segments if row.resource == resource)

    def total(self, resource: str) -> SpentRow:
        return next(row for row in self.totals if row.resource == resource)


def spent(graph: Graph, plan: Plan, program: Program, machine: Machine, trace: Trace) -> Spent:
    """Account for all cycles of a run; what ``plan`` makes again, of which the bound knows nothing, is extra."""
    reader = _Reader(followed(graph, plan), plan, program, machine, trace)
    works = {work.resource: work for work in unavoidable(graph, machine)}
    bound = bounding(tuple(works.values())).resource
    engines = [e for e in machine.engines if reader.runs(e) or e.name == bound]
    ledgers = [reader.engine(engine) for engine in engines]
    ledgers += [reader.link(link.name) for link in machine.links if link.name in works]
    totals: list[SpentRow] = []
    segments: list[SpentRow] = []
    operators: list[SpentRow] = []
    every = tuple(op for segment in plan.segments for op in segment.ops)
    for ledger in ledgers:
        work = works.get(ledger.resource)
        totals.append(ledger.row(every, work))
        segments += [ledger.row(segment.ops, work, i) for i, segment in enumerate(plan.segments)]
        if ledger.resource == bound:
            operators += [ledger.row((op,), work, i, op) for i, s in enumerate(plan.segments) for op in s.ops]
    return Spent(bound, tuple(totals), tuple(segments), tuple(operators))


class _Ledger:
    """The cycles of one resource by operator, added up over its instances."""

    def __init__(self, resource: str, instances: int) -> None:
        self.resource = resource
        self.instances = instances
        self.parts: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        self.busy: list[dict[str, float]] = [defaultdict(float) for _ in range(instances)]
        self.waits: dict[str, dict[Wait, float]] = defaultdict(lambda: defaultdict(float))

    def row(self, ops: Sequence[str], work: Work | None, segment: int | None = None, op: str = "") -> SpentRow:
        """What went on in some operators."""
        count = self.instances

        def part(name: str) -> float:
            return sum(self.parts[o][name] for o in ops if o in self.parts) / count

        waits = dict.fromkeys(CAUSES, 0.0)
        reasons: dict[Wait, float] = defaultdict(float)
        for o in ops:
            for wait, cycles in self.waits.get(o, {}).items():
                waits[wait[0]] += cycles / count
                reasons[wait] += cycles / count
        longest = sorted(reasons.items(), key=itemgetter(1), reverse=True)[:_TOLD]
        busy = [sum(mine.get(o, 0.0) for o in ops) for mine in self.busy]
        # What no plan can fill counts as work; by doing more than that, an operator may fill some of it.
        rounded = {} if work is None else work.rounded
        empty = sum(min(rounded[o], self.parts[o]["rounding"] / count) for o in ops if o in rounded)
        peak, rounding = part("peak") + empty, part("rounding") - empty
        useful = None if work is None else sum(work.by_op.get(o, 0.0) for o in ops)
        return SpentRow(
            resource=self.resource,
            instances=count,
            segment=segment,
            op=op,
            cycles=sum(busy) / count + sum(waits.values()),
            work=useful,
            extra=None if useful is None else peak - useful,
            peak=peak,
            rounding=rounding,
            issue=part("issue"),
            slowed=part("slowed"),
            busy=sum(busy) / count,
            busiest=max(busy),
            waits=waits,
            between=part("between"),
            reasons=tuple(Reason(*wait, cycles) for wait, cycles in longest),
        )


@dataclass(frozen=True)
class _Known:
    """What equal instructions have in common; ``peak`` and ``issue`` in cycles of the engine.

    Starting a kernel of the host is part of its work, as it is for the bound.
    """

    cost: Cost
    peak: float
    issue: int


class _Reader:
    """Reads a run; one instance for one report."""

    def __init__(self, graph: Graph, plan: Plan, program: Program, machine: Machine, trace: Trace) -> None:
        self.program = program
        self.machine = machine
        self.cycles = trace.cycles
        self._places = {op: (n, i) for n, segment in enumerate(plan.segments) for i, op in enumerate(segment.ops)}
        self._constants = graph.constant_names
        self._what = fetched(graph, plan, program, machine)
        self._roles = [memory.role for memory in machine.memories]
        self._known: dict[tuple[object, ...], _Known] = {}
        self._kernel_bytes = [
            sum(Tensor(p.tensor, p.shape, p.dtype).bytes for p in (*k.inputs, *k.outputs)) for k in program.kernels
        ]
        self._facts = [
            [self._fact(machine.engine[queue.engine], i) for i in stream]
            for queue, stream in zip(program.queues, program.streams, strict=True)
        ]
        self.past = Past(program, trace, [[fact.cost.latency for fact in facts] for facts in self._facts])
        self._computing = [self._busy(core) for core in range(machine.cores)]

    def runs(self, engine: Engine) -> bool:
        return any(
            queue.engine == engine.name and any(i.row.kind != "sync" for i in stream)
            for queue, stream in zip(self.program.queues, self.program.streams, strict=True)
        )

    def engine(self, engine: Engine) -> _Ledger:
        """An engine: one instance for each core, or one."""
        cores = range(self.machine.cores) if engine.scope == "core" else (None,)
        ledger = _Ledger(engine.name, len(cores))
        for instance, core in enumerate(cores):
            queues = [n for n, q in enumerate(self.program.queues) if q.engine == engine.name and q.core == core]
            nodes = [node for queue in queues for node in self._ended(queue)]
            for node, cycles in self._track(ledger, instance, core, nodes):
                fact, parts = self._facts[node[0]][node[1]], ledger.parts[self._op(node)]
                parts["peak"] += fact.peak
                parts["rounding"] += fact.cost.busy - fact.peak - fact.issue
                parts["issue"] += fact.issue
                parts["slowed"] += cycles - fact.cost.busy
        return ledger

    def link(self, name: str) -> _Ledger:
        """A link: whatever crosses it, of all queues."""
        number = next(i for i, link in enumerate(self.machine.links) if link.name == name)
        rate = self.machine.links[number].bytes_per_cycle
        ledger = _Ledger(name, 1)
        nodes = [
            node
            for queue in range(len(self.program.queues))
            for node in self._ended(queue)
            if number in dict(self._facts[queue][node[1]].cost.links)
        ]
        for node, cycles in self._track(ledger, 0, None, nodes):
            cost, parts = self._facts[node[0]][node[1]].cost, ledger.parts[self._op(node)]
            crossed = dict(cost.links)[number] / rate
            # A transfer may read and write what the link serves: then its bytes cross twice.
            peak = min(crossed, cost.payload / rate)
            parts["peak"] += peak
            parts["rounding"] += crossed - peak
            parts["slowed"] += cycles - crossed
        return ledger

    def _track(
        self, ledger: _Ledger, instance: int, core: int | None, nodes: Sequence[Node]
    ) -> Iterator[tuple[Node, float]]:
        """(instruction, its cycles) of one instance; what lies between them are waits."""
        start, end = self.past.start, self.past.end
        now, last = 0, None
        spans = sorted((start[q][i], end[q][i], q, i) for q, i in nodes)
        for (queue, index), cycles, begin in _shared(spans):
            op = self._op((queue, index))
            if begin > now:
                edge = last is None or not self._follows(last, op)
                self._wait(ledger, core, op, edge, self.past.before((queue, index)), now, begin)
            now, last = max(now, end[queue][index]), op
            ledger.busy[instance][op] += cycles
            yield (queue, index), cycles
        self._wait(ledger, core, None, True, self.past.last(), now, self.cycles)

    def _follows(self, op: str, other: str) -> bool:
        """Whether both are in one segment, and ``other`` is no earlier there."""
        (segment, position), (another, later) = self._places[op], self._places[other]
        return segment == another and position <= later

    def _wait(
        self, ledger: _Ledger, core: int | None, waiting: str | None, edge: bool, releaser: Node | None, since: int,
        until: int,
    ) -> None:  # fmt: skip
        """Waits of the operator ``waiting``, ``None`` after the last instruction of an engine; ``edge``: see above."""
        for node, begin, end in self.past.in_the_way(releaser, since, until):
            cause, op = self._cause(node, core), self._op(node)
            engine = self.program.queues[node[0]].engine
            place = op if waiting is None or cause == "cores" else waiting
            shares = {(place, cause): float(end - begin)}
            if cause == "cores" and core is not None:
                mine = self._computing[core](end) - self._computing[core](begin)
                shares = {(place, cause): end - begin - mine, (waiting or op, "engine"): mine}
            for (to, why), cycles in shares.items():
                ledger.waits[to][why, op, engine] += cycles
                ledger.parts[to]["between"] += cycles if edge else 0.0

    def _cause(self, node: Node, core: int | None) -> str:
        """What an engine of ``core`` waits for if ``node`` is in its way."""
        queue, instruction = self.program.queues[node[0]], self.program.streams[node[0]][node[1]]
        row = instruction.row
        if row.kind == "host":
            return "host"
        if row.kind in ("matrix", "vector"):
            return "engine" if core is not None and queue.core == core else "cores"
        roles = [self._roles[int(instruction.values[row.position[f"{o.name}.mem"]])] for o in row.operands]
        if roles[0] == "main":
            return "spill"
        if "main" in roles:
            return "fetch_weights" if self._what(instruction)[1] in self._constants else "fetch_data"
        return {"weights": "load_weights", "shared": "store"}.get(roles[0], "load_data")

    def _op(self, node: Node) -> str:
        op, _ = self._what(self.program.streams[node[0]][node[1]])
        return self.program.ops[op].name

    def _busy(self, core: int) -> Callable[[int], float]:
        """From a cycle to how many before it had the matrix or the vector engine of a core at work."""
        kinds = ("matrix", "vector")
        streams = self.program.streams
        queues = [n for n, queue in enumerate(self.program.queues) if queue.core == core]
        nodes = [(q, i) for q in queues for _, i in self._ended(q) if streams[q][i].row.kind in kinds]
        moments, count = _running([(self.past.start[q][i], self.past.end[q][i]) for q, i in nodes])
        until = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.diff(moments) * (count[:-1] > 0))])
        return lambda cycle: float(np.interp(cycle, moments, until[: len(moments)])) if len(moments) else 0.0

    def _ended(self, queue: int) -> Iterator[Node]:
        for index, instruction in enumerate(self.program.streams[queue]):
            if instruction.row.kind != "sync" and self.past.end[queue][index] >= 0:
                yield queue, index

    def _fact(self, engine: Engine, instruction: Instruction) -> _Known:
        values = instruction.values
        key = (engine.name, instruction.mnemonic, *(values[i] for i in _KEPT[instruction.mnemonic]))
        known = self._known.get(key)
        if known is None:
            cost = instruction_cost(self.machine, engine, instruction, self._kernel_bytes)
            issue = 0 if instruction.row.kind == "host" else cost.issue
            known = self._known[key] = _Known(cost, _peak(self.machine, engine, instruction, cost), issue)
        return known


def _peak(machine: Machine, engine: Engine, instruction: Instruction, cost: Cost) -> float:
    """Cycles that an instruction would take at the peak rate of its engine and of the links that it crosses."""
    row = instruction.row
    if row.kind == "matrix":
        m, n, k = matrix_shape(instruction)
        full = -(-m // engine.rows) * engine.rows * -(-n // engine.columns) * engine.columns * k
        return cost.body * m * n * k / full if full else 0.0
    if row.kind == "vector":
        *_, along = vector_shape(instruction)
        operand = row.operands[0 if row.latency == "vector" else 1].name
        lanes = (engine.lanes or {})[DTYPE_NAMES[int(instruction.values[row.position[f"{operand}.dtype"]])]]
        full = -(-along // lanes) * lanes
        return cost.body * along / full if full else 0.0
    if row.kind == "host":
        return float(cost.busy)
    if not cost.payload:
        return 0.0
    rates = (engine.bytes_per_cycle, *(machine.links[number].bytes_per_cycle for number, _ in cost.links))
    return cost.payload / min(rates)


_KEPT = {
    row.mnemonic: tuple(i for i, f in enumerate(row.fields) if not f.name.endswith(".base")) for row in ROWS.values()
}
"""The fields of an instruction that its cost depends on: all but addresses."""


def _shared(spans: Sequence[tuple[int, int, int, int]]) -> Iterator[tuple[Node, float, int]]:
    """(instruction, cycles, begin) of (begin, end, queue, index), sorted: those that overlap share cycles evenly."""
    moments, running = _running([(begin, end) for begin, end, _, _ in spans])
    shares = np.diff(moments) / np.maximum(1, running[:-1])
    until = np.concatenate([np.zeros(1), np.cumsum(shares)])
    mine = np.diff(until[np.searchsorted(moments, np.array(spans, np.int64).reshape(-1, 4)[:, :2])], axis=1)
    for (begin, _, queue, index), cycles in zip(spans, mine[:, 0].tolist(), strict=True):
        yield (queue, index), cycles, begin


def _running(spans: Sequence[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    """(moments, running): so many spans hold from each moment to the next."""
    times = np.array(spans, np.int64).reshape(-1, 2)
    moments = np.unique(times)
    steps = np.zeros(len(moments), np.int64)
    np.add.at(steps, np.searchsorted(moments, times[:, 0]), 1)
    np.add.at(steps, np.searchsorted(moments, times[:, 1]), -1)
    return moments, np.cumsum(steps)
