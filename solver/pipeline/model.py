"""Model 4, software pipelining: the shortest initiation interval of a tile loop with given multi-buffering degrees.

The tiles of an operator run in a loop on one core: weights are copied in, the matrix engine runs, the vector engine
finishes. With enough versions of each buffer, consecutive tiles overlap, and the loop advances by one iteration every
II cycles (initiation interval).

Sets
    T tasks of one iteration in program order, E engines, G rings (buffers with versions), F_g fills of ring g in order.
Data
    d_i busy cycles, l_i latency of task i; e_i its engine; D precedences (i, j); depth_g versions of ring g;
    w_f, r_f the first writer and the last reader of fill f.
Variables
    s_i start of task i, relative to its iteration; II.
Constraints
    (1) precedence: s_j >= s_i + d_i + l_i for (i, j) in D (without l_i on the same engine).
    (2) program order, because queues issue in order: s_j >= s_i + d_i for neighbours i < j on an engine, and the first
        task of an engine starts after its last one of the iteration before: s_first + II >= s_last + d_last.
    (3) versions: fill f of iteration t starts after the fill depth_g before it, in iteration t - k, is released:
        s_w(f) + k II >= s_r(f') + d_r(f') + l_r(f').
Objective
    II.
Exact computation
    All constraints are differences of starts, so for one II they can be met if and only if the graph that has an arc
    of that length for each of them has no cycle of positive length (Bellman and Ford). A longer II only shortens arcs,
    so feasibility is monotone in II, and a binary search from the busy cycles of the busiest engine, which no II is
    below, finds the shortest. No solver is needed; the tests compare with a CP-SAT formulation.
Relaxed
    Contention for links and banks, tiles at the edges, and what comes before and after the loop.
Reference
    Eichenberger and Davidson, "Efficient formulation for optimal modulo schedulers", PLDI 1997.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from .problem import LoopBody


@dataclass(frozen=True)
class _Arc:
    """start[after] >= start[before] + lag - distance * II."""

    before: int
    after: int
    lag: int
    distance: int


def initiation_interval(body: LoopBody) -> int:
    """The fewest cycles from the begin of one iteration to the begin of the next; at least 1."""
    arcs = list(_arcs(body))
    low = busiest_engine_cycles(body)
    # One iteration after the other: nothing overlaps.
    high = max(low, sum(task.busy + task.latency for task in body.tasks))
    while low < high:
        middle = (low + high) // 2
        if _feasible(len(body.tasks), arcs, middle):
            high = middle
        else:
            low = middle + 1
    return low


def busiest_engine_cycles(body: LoopBody) -> int:
    """No iteration is shorter than the work of its busiest engine."""
    load: dict[str, int] = {}
    for task in body.tasks:
        load[task.engine] = load.get(task.engine, 0) + task.busy
    return max(load.values(), default=1) or 1


def _arcs(body: LoopBody) -> Iterator[_Arc]:
    for i, j in body.deps:  # (1)
        yield _Arc(i, j, body.lag(i, j), 0)
    for engine in dict.fromkeys(task.engine for task in body.tasks):  # (2)
        queue = [i for i, task in enumerate(body.tasks) if task.engine == engine]
        for i, j in pairwise(queue):
            yield _Arc(i, j, body.tasks[i].busy, 0)
        yield _Arc(queue[-1], queue[0], body.tasks[queue[-1]].busy, 1)
    for ring in body.rings:  # (3)
        for fills in ring.buffers:
            for position, fill in enumerate(fills):
                iterations_back, earlier = divmod(position - ring.depth, len(fills))
                reader = fills[earlier].reader
                yield _Arc(reader, fill.writer, body.lag(reader, fill.writer), -iterations_back)


def _feasible(tasks: int, arcs: list[_Arc], interval: int) -> bool:
    """Whether starts exist: whether the longest paths stop growing."""
    starts = [0] * tasks
    for _ in range(tasks + 1):
        changed = False
        for arc in arcs:
            earliest = starts[arc.before] + arc.lag - arc.distance * interval
            if earliest > starts[arc.after]:
                starts[arc.after] = earliest
                changed = True
        if not changed:
            return True
    return False
