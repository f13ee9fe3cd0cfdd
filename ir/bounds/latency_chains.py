"""What comes before and after the work of an operator in every plan: chains of instructions that need one another.

A needed point of a stage is executed by an instruction that begins after each value that it reads is there, and what it
makes is read by a needed point of a stage after it. Between the two lies at least the shortest way of the machine
(:mod:`.value_paths`). So there are two longest paths for each stage: its *head*, the cycles before any of its points
can be executed, and its *tail*, the cycles after any of them until the run ends (Carlier, European Journal of
Operational Research 11, 1982). Both hold for each point, so that nothing need be known of the order in which a plan
executes them.

- Of several tensors that a point reads, the last one counts. Of several stages that write a tensor (a concatenation),
  the first one counts, for an element may be of any.
- Of several readers of an element, the one with the shortest tail counts, for the others may not need this element;
  those that read all of the tensor need it for sure, and the last of these counts. An element of an output is read by
  nobody else for sure, but has to get home.
- An instruction runs points of one stage. Two kinds of stages may take none: a movement, which the next stage can read
  through, and a product that is written to a private buffer and fused with its sum.
- An element of a sum is there when all of its products are added. A cell has all of the reduction, on one core: of K
  products, an instruction of the matrix engine adds as many a cycle as its cells do, one of the vector engine no more
  than it has lanes. Engines that share the instructions of a core may share these as well. All of them are in the head
  of what reads the sum, but not in the tail of what they read: the element that comes last may be one that only the
  last instruction adds.
- An element that only padding is read for needs nothing that comes before it. Where a stage may have such an element,
  what reads its result is taken to need nothing.
- The result of an operator is in the local memory of a core before anything else reads it (a plan has its buffer
  there); its private buffers need not be.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf, prod

from ..graph import Graph, Op, Stage
from ..isa.scalar_functions import ELEMENTS
from ..machine import Machine
from ..semantics.kernel_engine import kernel_engine
from .demanded_elements import InBoundsPoints, Points
from .value_paths import KINDS, Ways, value_ways

Kinds = Callable[[Op, int], Mapping[str, float]]
"""The classes of instructions, "matrix" or "vector", that may run the stage at a position of an operator, each with the
cycles that are added to every path on which it does."""
_ValuePlace = tuple[str, str]
"""A tensor of the graph, ("", name), or a private buffer, (operator, name)."""


@dataclass(frozen=True)
class Around:
    """Cycles before the body of the first instruction of some work begins, and after that of the last one has ended."""

    head: float
    tail: float

    def __or__(self, other: Around) -> Around:
        """Around both."""
        return Around(min(self.head, other.head), min(self.tail, other.tail))


@dataclass(frozen=True)
class CriticalPaths:
    """``cycles``: of the longest path of a network.

    ``by_class``: by operator and class, what is around its instructions of this class; ``across``: by link and tensor,
    around the transfer of an input, a constant or an output.
    """

    cycles: float
    by_class: Mapping[tuple[str, str], Around]
    across: Mapping[tuple[str, str], Around]


class Chains:
    """The chains of a network on a machine as it is planned for; ``points``: those that are needed."""

    def __init__(self, graph: Graph, machine: Machine, points: Mapping[str, tuple[Points, ...]]) -> None:
        self._graph, self._machine = graph, machine
        self._steps = list(_steps(graph, machine, points))
        self._ways = value_ways(machine), value_ways(machine, machine.levels.activations.name)

    def paths(self, kinds: Kinds) -> CriticalPaths:
        """Of all plans that run the stages by these kinds of instructions."""
        steps = [
            step.run_by(kinds(self._graph.op[step.op], position))
            if step.bodies and (position := step.position) is not None
            else step
            for step in self._steps
        ]
        return _Paths(self._graph, self._machine, steps, *self._ways).critical_paths()


@dataclass(frozen=True)
class _Step:
    """A stage that has to run, or a kernel (no position). ``whole``: which of its ``reads`` read all of a tensor.

    ``bodies``: by class, cycles from the begin of the first instruction that an element needs to the end of the last;
    empty if the stage may take none. ``single``: by class, cycles of one of these instructions. ``certain``: each
    element that it writes is made of some that it reads.
    """

    op: str
    position: int | None
    reads: tuple[_ValuePlace, ...]
    whole: tuple[bool, ...]
    writes: tuple[_ValuePlace, ...]
    bodies: Mapping[str, float]
    single: Mapping[str, float]
    certain: bool

    def run_by(self, kinds: Mapping[str, float]) -> _Step:
        """By these classes alone, each with cycles that are added to every path."""
        bodies = {kind: self.bodies[kind] + added for kind, added in kinds.items()}
        single = {kind: self.single[kind] + added for kind, added in kinds.items()}
        return replace(self, bodies=bodies, single=single)


class _Paths:
    """The longest paths to and from each step."""

    def __init__(
        self, graph: Graph, machine: Machine, steps: Sequence[_Step], of_buffers: Ways, of_tensors: Ways
    ) -> None:
        self._graph = graph
        self._steps = steps
        self._links = [link.name for link in machine.links]
        self._of_buffers = of_buffers
        self._of_tensors = of_tensors
        self._ends = ("left", "right", "start", "vector", "host", "scalar", "home", *self._links)
        self._begins = (*KINDS, *self._links)
        # By place: the fewest cycles until a value can be at an end, and from a begin to the end of the run.
        self._arrivals: dict[_ValuePlace, dict[str, float]] = {}
        self._rests: dict[_ValuePlace, dict[str, float]] = {}
        self._readers: dict[_ValuePlace, list[tuple[_Step, int]]] = defaultdict(list)
        for step in steps:
            for number, place in enumerate(step.reads):
                self._readers[place].append((step, number))

    def critical_paths(self) -> CriticalPaths:
        graph = self._graph
        for name in sorted(graph.input_tensors):
            self._arrivals["", name] = {end: self._way("main", end) for end in self._ends}
        for name in sorted(graph.constant_names):
            self._arrivals["", name] = {end: self._way("constants", end) for end in self._ends}
        heads = [self._pass(step) for step in self._steps]
        by_class: dict[tuple[str, str], Around] = {}
        for step, head in zip(reversed(self._steps), reversed(heads), strict=True):
            for place in step.writes:
                if place not in self._rests:
                    self._rests[place] = self._rest(place)
            for kind in head:
                around = Around(head[kind], max(self._rests[place][kind] for place in step.writes))
                by_class[step.op, kind] = by_class.get((step.op, kind), around) | around
        across: dict[tuple[str, str], Around] = {}
        for name in sorted(graph.input_tensors | graph.constant_names):
            rest = self._rest(("", name))
            for link in self._links:
                across[link, name] = Around(_known(self._arrivals["", name][link]), rest[link])
        for name in sorted(graph.output_tensors):
            for link in self._links:
                around = Around(_known(self._arrival(("", name), link)), _known(self._way(link, "home")))
                across[link, name] = across.get((link, name), around) | around
        cycles = max((_known(self._arrival(("", name), "home")) for name in graph.output_tensors), default=0.0)
        return CriticalPaths(cycles, by_class, across)

    def _way(self, begin: str, end: str, place: _ValuePlace = ("", "")) -> float:
        """Of a value in a tensor or in a buffer."""
        return (self._of_buffers if place[0] else self._of_tensors).get((begin, end), inf)

    def _arrival(self, place: _ValuePlace, end: str) -> float:
        return self._arrivals[place][end] if place in self._arrivals else 0.0

    def _pass(self, step: _Step) -> dict[str, float]:
        """The heads of a step by class, after what it reads; what it writes arrives after them."""
        heads = {
            kind: max((self._arrival(p, _end(kind, n)) for n, p in enumerate(step.reads)), default=0.0)
            for kind in step.bodies
        }
        heads = {kind: head for kind, head in heads.items() if head < inf}
        for place in step.writes:
            if not step.certain or (step.bodies and not heads):
                ends = dict.fromkeys(self._ends, 0.0)
            elif step.bodies:
                ends = {
                    end: min(head + step.bodies[kind] + self._way(kind, end, place) for kind, head in heads.items())
                    for end in self._ends
                }
            else:
                ends = {end: max(self._arrival(p, end) for p in step.reads) for end in self._ends}
            before = self._arrivals.get(place, ends)
            self._arrivals[place] = {end: min(cycles, before[end]) for end, cycles in ends.items()}
        return heads

    def _rest(self, place: _ValuePlace) -> dict[str, float]:
        """By begin: cycles until the run ends, after an element of a place was made or has crossed a link."""
        output = not place[0] and place[1] in self._graph.output_tensors
        some = dict.fromkeys(self._begins, inf if self._readers[place] else 0.0)
        sure = dict.fromkeys(self._begins, 0.0)
        for step, number in self._readers[place]:
            through = self._through(place, step, number)
            for begin, cycles in through.items():
                some[begin] = min(some[begin], cycles)
                if step.whole[number]:
                    sure[begin] = max(sure[begin], cycles)
        first = {begin: self._way(begin, "home", place) for begin in self._begins} if output else some
        return {begin: max(_known(first[begin]), _known(sure[begin])) for begin in self._begins}

    def _through(self, place: _ValuePlace, step: _Step, number: int) -> dict[str, float]:
        """By begin: cycles until the run ends, by way of a reader."""
        after = [self._rests[p] for p in step.writes]
        if not step.bodies:
            return {begin: max(rest[begin] for rest in after) for begin in self._begins}
        kinds = [
            (_end(kind, number), single, max(rest[kind] for rest in after)) for kind, single in step.single.items()
        ]
        return {
            begin: min(self._way(begin, end, place) + single + rest for end, single, rest in kinds)
            for begin in self._begins
        }


def _known(cycles: float) -> float:
    """None, where there is no way: it may be that nothing goes it."""
    return cycles if cycles < inf else 0.0


def _end(kind: str, number: int) -> str:
    """Where a way ends that leads to the operand with this number of an instruction."""
    return kind if kind != "matrix" else ("left", "right", "start")[number]


def _steps(graph: Graph, machine: Machine, points: Mapping[str, tuple[Points, ...]]) -> Iterator[_Step]:
    """In the order of the operators, with a body of each class."""
    known: dict[tuple[int, int], tuple[tuple[bool, ...], bool, dict[str, float], dict[str, float]]] = {}
    for op in graph.ops:
        if op.host is not None:
            kind, _, cost = kernel_engine(graph, op, machine)
            reads = tuple(("", name) for name in op.inputs)
            writes = tuple(("", name) for name in op.outputs)
            body = {kind: float(cost.body)}
            yield _Step(op.name, None, reads, (True,) * len(reads), writes, body, body, True)
            continue
        buffers = {b.name: b for b in op.buffers}
        place = {name: (op.name, name) for name in buffers}
        for position, (stage, needed) in enumerate(zip(op.stages, points.get(op.name, ()), strict=False)):
            inside = needed.in_bounds
            written = (place.get(stage.write.tensor, ("", stage.write.tensor)),)
            if inside is None:
                # Padding alone, or nothing that is known to be needed: what others read of it may be there at once.
                yield _Step(op.name, position, (), (), written, {}, {}, certain=False)
                continue
            # Equal operators of which the same is needed have the same points.
            key = id(inside), position
            if key not in known:
                shortest, certain = _products(stage, inside)
                tensors = [buffers.get(r.tensor) or graph.tensor[r.tensor] for r in stage.reads]
                whole = tuple(
                    inside.touched(r, t.shape)[1] == t.elements for r, t in zip(stage.reads, tensors, strict=True)
                )
                free = stage.is_movement or (
                    stage.func == "mul" and not stage.combine and stage.write.tensor in buffers
                )
                dtype = tensors[0].dtype if tensors else ""
                bodies, single = (
                    {} if free else {k: _body(machine, stage, k, dtype, n) for k in ("matrix", "vector")}
                    for n in (shortest, 1)
                )
                known[key] = whole, certain and bool(tensors), bodies, single
            whole, certain, bodies, single = known[key]
            factors = tuple(place.get(r.tensor, ("", r.tensor)) for r in stage.reads)
            yield _Step(op.name, position, factors, whole, written, bodies, single, certain)


def _products(stage: Stage, inside: InBoundsPoints) -> tuple[int, bool]:
    """The fewest points that an element is reduced from, and whether each element certainly has one."""
    reduced = [n for n, axis in enumerate(stage.axes) if axis.reduce]
    spatial = [n for n, axis in enumerate(stage.axes) if not axis.reduce]
    lines = inside.line_counts(reduced, spatial)
    elements = prod(stage.axes[n].extent for n in spatial)
    certain = all(read.fill is None for read in stage.reads) or sum(lines.values()) == elements
    return min(lines, default=0), certain


def _body(machine: Machine, stage: Stage, kind: str, dtype: str, products: int) -> float:
    """Cycles of the bodies of all instructions of a class that an element needs, at least.

    ``dtype``: of the first factor; ``products``: so many are reduced at least.
    """
    engine, engines = machine.engine_for(kind), len(machine.team(kind))
    if kind == "vector":
        lanes = max((engine.lanes or {}).values(), default=1)
        special = ELEMENTS[stage.func].special and len(stage.reads) == len(stage.operands)
        steps = ceil(products / (lanes * engines)) if stage.combine else 1
        return max(1, steps) * (engine.special if special else 1)
    rate = engine.rate_of(dtype) or inf
    deep = engine.depth if engine.dataflow == "output" else engine.depth * engine.rows
    steps = ceil(products / (deep * engines))
    return max(1, ceil(steps / rate)) + engine.fill * (1 if engine.dataflow == "output" else steps)
