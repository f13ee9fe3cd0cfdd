"""A bound of two phases: an engine's work, and then the weights that cannot have been fetched before.

Let P be a set of operators, and t the moment when the last of their points has been executed for the first time. An
engine that has *work* with them was busy for so long by then. That last point, whichever it is, made some element of a
result, and everything that reads it, or what is made of it, starts after t. The weights that this takes (see
:mod:`.forward_slice`) lie on chip at t, or are fetched later: of w bytes, w - C cross the link of the memory with the
homes of constants after t, where C is the room that there is for them on chip. So

    cycles >= work(P) + (w - C) / bandwidth

where w is the least over the operators of P. For any w, the best P are all operators after which at least w bytes are
used; the bound is the largest over w. In the same way, all but the room of the weight memories crosses the read link of
the shared memory after t.

The weights that count are constants that are read as a stationary operand of the matrix engine, and as nothing else.
Where the matrix engine alone runs these products, a plan has copies in the shared and the weight memories alone
(:mod:`..checks.plan_local_memory`), so that the other memories of a core are no room for them, but for those in which
operands are staged: what is there may have left the weight memory. A plan that gives products to the vector engine has
their weights in local memory: with ``on_vector``, C is all memory on chip.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..graph import Graph, Op
from ..machine import Link, Machine
from .demanded_elements import Points
from .forward_slice import used_after


@dataclass(frozen=True)
class TwoPhaseBound:
    """``engine`` works with ``operators`` operators; after that, ``bytes`` cross ``link`` in ``fetching`` cycles."""

    engine: str
    link: str
    cycles: float
    fetching: float
    bytes: int
    operators: int

    @property
    def reason(self) -> str:
        """Where the cycles come from."""
        computing = (
            f"{self.cycles - self.fetching:,.0f} cycles of {self.operators} operator{'s' * (self.operators > 1)}"
        )
        moving = f"{self.bytes:,} bytes of weights that are used after them and have no room on chip before"
        return f"{self.engine}, then {self.link}: {computing}, and {moving}"


def two_phase_bound(
    graph: Graph, machine: Machine, points: Mapping[str, tuple[Points, ...]], work: Mapping[str, Mapping[str, float]],
    on_matrix: Sequence[Op], *, on_vector: bool = False,
) -> TwoPhaseBound | None:  # fmt: skip
    """The largest bound of two phases; ``None`` if all weights have room.

    ``work``: for engines, cycles by operator. ``on_matrix``: the operators whose contraction the matrix engine can run;
    ``on_vector``: the vector engine may run some of these instead.
    """
    stationary = _stationary(graph, on_matrix)
    rooms = [
        (link, room)
        for link, room in on_chip_capacities(machine, on_vector)
        if room < sum(graph.tensor[n].bytes for n in stationary.values())
    ]
    if not rooms:
        return None
    after = graph.analysis(_Uses).after(points, stationary)
    bounds = (bound for engine, by_op in work.items() for bound in _engine_bounds(engine, by_op, after, rooms))
    return max(bounds, key=lambda bound: bound.cycles, default=None)


class _Uses:
    """:func:`used_after` in one graph: plans of all kinds, and other machines, mostly ask for the same operands."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._known: dict[tuple[tuple[str, str], ...], tuple[Mapping[str, tuple[Points, ...]], dict[str, int]]] = {}

    def after(self, points: Mapping[str, tuple[Points, ...]], stationary: Mapping[str, str]) -> dict[str, int]:
        key = tuple(stationary.items())
        if key not in self._known or self._known[key][0] is not points:
            self._known[key] = points, used_after(self._graph, points, stationary)
        return self._known[key][1]


def _engine_bounds(
    engine: str, by_op: Mapping[str, float], after: Mapping[str, int], rooms: Sequence[tuple[Link, int]]
) -> Iterator[TwoPhaseBound]:
    """For each number of bytes, the bound of all operators after which at least as many are used."""
    done = 0.0
    order = sorted((name for name in by_op if by_op[name]), key=lambda name: -after[name])
    for number, name in enumerate(order, 1):
        done += by_op[name]
        for link, room in rooms:
            excess_bytes = after[name] - room
            if excess_bytes > 0:
                fetching = excess_bytes / link.bytes_per_cycle
                yield TwoPhaseBound(engine, link.name, done + fetching, fetching, excess_bytes, number)


def _stationary(graph: Graph, on_matrix: Sequence[Op]) -> dict[str, str]:
    """By operator: the constant that is its stationary operand, if nobody reads it as anything else."""
    candidates = {op.name: op.stationary for op in on_matrix if op.stationary}
    others = {n for op in graph.ops if op.host is not None for n in op.inputs} | graph.output_tensors
    others |= {
        read.tensor
        for op in graph.ops
        for position, stage in enumerate(op.stages)
        for operand, read in enumerate(stage.reads)
        if not (op.name in candidates and position == op.contraction and operand == 1)
    }
    return {op: name for op, name in candidates.items() if name in graph.constant_names and name not in others}


def on_chip_capacities(machine: Machine, on_vector: bool) -> Iterator[tuple[Link, int]]:
    """The links that weights cross, and how many bytes of them can lie behind each at one moment."""
    levels = machine.levels
    main, shared = (machine.memory[x.name] for x in (levels.home, levels.exchange))
    outside = {main.name, shared.name, levels.constants.name}
    held = {levels.weights.name, *machine.staging_memories}
    cores = [m for m in machine.memories if (m.name not in outside if on_vector else m.name in held)]
    inside = sum(memory.capacity for memory in cores) * machine.cores
    rooms = {
        (main.name, "read"): shared.capacity + inside, (main.name, "both"): shared.capacity + inside,
        (shared.name, "write"): shared.capacity + inside, (shared.name, "read"): inside, (shared.name, "both"): inside,
    }  # fmt: skip
    if not levels.has_exchange:
        del rooms[main.name, "write"]
    if levels.has_constants:
        # No weights come from the main memory.
        rooms = {end: room for end, room in rooms.items() if end[0] != main.name}
        behind = inside + shared.capacity * levels.has_exchange
        rooms |= {(levels.constants.name, direction): behind for direction in ("read", "both")}
    for link in machine.links:
        for memory in link.memories:
            if (room := rooms.get((memory, link.direction))) is not None:
                yield link, room
