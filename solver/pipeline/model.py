"""Model 4, software pipelining: how many versions of its buffers a tile loop needs to keep the engines busy.

The tiles of an operator run in a loop on one core: weights are copied in, the matrix engine runs, the vector engine
finishes. With enough versions of each buffer, consecutive tiles overlap, and the loop advances by one iteration every
II cycles (initiation interval). This is modulo scheduling with a fixed II, searched upwards from its lower bound:
feasibility in II is monotone, so an exponential and then a binary search is exact.

Sets
    T tasks of one iteration in program order, E engines, G rings (buffers with versions), F_g fills of ring g in order.
Data
    d_i busy cycles, l_i latency of task i; e_i its engine; D precedences (i, j); b_g bytes of a version, C_g the
    capacity of its memory; w_f, r_f the first writer and the last reader of fill f; 1 <= depth_g <= 3.
Variables
    s_i start of task i, relative to its iteration; depth_g; x_ijq: task i is q iterations behind task j on an engine.
Constraints, for a fixed II
    (1) precedence: s_j >= s_i + d_i + l_i for (i, j) in D (without l_i on the same engine).
    (2) exclusive engines: for each pair i < j on an engine exactly one x_ijq holds, and it implies
        d_i + q II <= s_j - s_i <= II - d_j + q II.
    (3) program order: q = 0 only, because queues issue in order. Switched off, the model tells what reordering the
        loop could gain.
    (4) versions: fill f of iteration t starts after the fill depth_g before it, in iteration t - k, is released:
        s_w(f) + k II >= s_r(f') + d_r(f') + l_r(f').
    (5) capacity: depth_g b_g <= C_g.
    (6) anchor: s_0 = 0 (schedules that differ by a shift are one).
Objective
    II first; then latency, the cycles from the first start to the last end; then bytes.
Heuristic and bound
    II >= the busy cycles of the busiest engine. For each choice of depths, constraints (1) to (4) in program order are
    differences of starts, so that the least starts are longest paths; where the best II meets the bound, no solver
    runs.
Relaxed
    Contention for links and banks, tiles at the edges, and what comes before and after the loop.
Reference
    Eichenberger and Davidson, "Efficient formulation for optimal modulo schedulers", PLDI 1997.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise, product

from ..cpsat.backend import Budget, Model, Solution, Var, solve
from .problem import Body, Ring

PROBE = Budget(2.0, 0.2)
"""For one question to the solver."""
MOST_TASKS = 60
"""Larger bodies are left to the heuristic."""


@dataclass(frozen=True)
class Schedule:
    """``depths`` of the rings in order, starts of the tasks, cycles of an iteration and of a single one.

    ``bound`` is proven for the interval; ``status`` is optimal or feasible; ``runs`` counts calls of the solver.
    """

    depths: tuple[int, ...]
    starts: tuple[int, ...]
    interval: int
    latency: int
    bytes: int
    bound: int
    status: str
    runs: int = 0
    seconds: float = 0.0
    deterministic_seconds: float = 0.0

    @property
    def cost(self) -> tuple[int, int, int]:
        return self.interval, self.latency, self.bytes


def smallest_interval(body: Body) -> int:
    """No iteration is shorter than the work of its busiest engine."""
    load: dict[str, int] = {}
    for task in body.tasks:
        load[task.engine] = load.get(task.engine, 0) + task.busy
    return max(load.values(), default=1) or 1


def pipeline(body: Body, *, in_order: bool = True, repeats: bool = True, seed: int = 0) -> Schedule | None:
    """The best schedule of the loop; ``None`` if one version of its buffers does not fit.

    A loop that does not repeat (one iteration) has the least latency instead, for which program order is exact.
    """
    if not all(ring.fitting for ring in body.rings):
        return None
    schedules = [_least(body, depths) for depths in product(*(r.fitting for r in body.rings))]
    if not repeats:
        return replace(min(schedules, key=lambda s: (s.latency, s.bytes)), status="optimal")
    best = min(schedules, key=lambda s: s.cost)
    if best.interval == best.bound or len(body.tasks) > MOST_TASKS:
        return best
    return _search(body, best, in_order, seed)


# The heuristic: program order, all depths.


@dataclass(frozen=True)
class _Arc:
    """start[after] >= start[before] + lag - distance * II."""

    before: int
    after: int
    lag: int
    distance: int


def _lag(body: Body, before: int, after: int) -> int:
    a, b = body.tasks[before], body.tasks[after]
    return a.busy + (0 if a.engine == b.engine else a.latency)


def _versions(body: Body, ring: Ring, depth: int) -> Iterator[_Arc]:
    """Constraint (4) for one depth."""
    for fills in ring.buffers:
        for position, fill in enumerate(fills):
            back, other = divmod(position - depth, len(fills))
            released = fills[other].reader
            yield _Arc(released, fill.writer, _lag(body, released, fill.writer), -back)


def _arcs(body: Body, depths: tuple[int, ...]) -> list[_Arc]:
    arcs = [_Arc(i, j, _lag(body, i, j), 0) for i, j in body.deps]
    for engine in dict.fromkeys(t.engine for t in body.tasks):
        mine = [i for i, t in enumerate(body.tasks) if t.engine == engine]
        arcs += [_Arc(i, j, body.tasks[i].busy, 0) for i, j in pairwise(mine)]
        arcs.append(_Arc(mine[-1], mine[0], body.tasks[mine[-1]].busy, 1))
    for ring, depth in zip(body.rings, depths, strict=True):
        arcs += _versions(body, ring, depth)
    return arcs


def _starts(body: Body, arcs: list[_Arc], interval: int) -> list[int] | None:
    """The least starts from 0 on, or ``None`` if the interval is too short."""
    starts = [0] * len(body.tasks)
    for _ in range(len(starts) + 1):
        changed = False
        for arc in arcs:
            needed = starts[arc.before] + arc.lag - arc.distance * interval
            if needed > starts[arc.after]:
                starts[arc.after] = needed
                changed = True
        if not changed:
            return starts
    return None


def _least(body: Body, depths: tuple[int, ...]) -> Schedule:
    """The shortest interval in program order for given depths, and the shortest latency at it."""
    arcs = _arcs(body, depths)
    bound = smallest_interval(body)
    low, high = bound, max(bound, sum(t.busy + t.latency for t in body.tasks))
    while low < high:
        middle = (low + high) // 2
        if _starts(body, arcs, middle) is None:
            low = middle + 1
        else:
            high = middle
    starts = _starts(body, arcs, low)
    assert starts is not None
    size = sum(ring.bytes * depth for ring, depth in zip(body.rings, depths, strict=True))
    status = "optimal" if low == bound else "feasible"
    return Schedule(depths, tuple(starts), low, _latency(body, starts), size, bound, status)


def _latency(body: Body, starts: list[int]) -> int:
    return max(s + t.busy + t.latency for s, t in zip(starts, body.tasks, strict=True)) - min(starts)


# The model.


@dataclass(frozen=True)
class _Built:
    model: Model
    starts: tuple[Var, ...]
    depths: tuple[dict[int, Var], ...]
    latency: Var


def build(body: Body, interval: int, horizon: int, *, in_order: bool = True, anchored: bool = True) -> _Built:
    """The model for one interval; starts lie within ``horizon`` cycles of the first task."""
    model = Model("pipeline")
    starts = tuple(model.int(-horizon, horizon, f"s{i}") for i in range(len(body.tasks)))
    depths = tuple(
        {d: model.bool(f"{ring.name}=={d}") for d in ring.fitting} for ring in body.rings
    )  # (5): only depths that fit
    for ring, chosen in zip(body.rings, depths, strict=True):
        with model.group(f"depth of {ring.name}"):
            model.exactly_one(chosen.values())
    with model.group("precedence"):  # (1)
        for i, j in body.deps:
            model.add(starts[j] >= starts[i] + _lag(body, i, j))
    with model.group("engines"):
        _exclusive(model, body, starts, interval, 0 if in_order else -(-2 * horizon // interval))
    for ring, chosen in zip(body.rings, depths, strict=True):  # (4)
        with model.group(f"versions of {ring.name}"):
            for depth, literal in chosen.items():
                for arc in _versions(body, ring, depth):
                    model.add(starts[arc.after] + arc.distance * interval >= starts[arc.before] + arc.lag, when=literal)
    if anchored:
        model.add(starts[0] == 0)  # (6)
    latency = _add_latency(model, body, starts, horizon)
    return _Built(model, starts, depths, latency)


def _exclusive(model: Model, body: Body, starts: tuple[Var, ...], interval: int, reach: int) -> None:
    """Constraints (2) and, with ``reach`` 0, (3)."""
    for i, a in enumerate(body.tasks):
        for j in range(i + 1, len(body.tasks)):
            b = body.tasks[j]
            if a.engine != b.engine:
                continue
            gap = starts[j] - starts[i]
            options: list[Var] = []
            for q in range(-reach, reach + 1):
                literal = model.bool(f"x{i},{j},{q}")
                options.append(literal)
                model.add(gap >= a.busy + q * interval, when=literal)
                model.add(gap <= interval - b.busy + q * interval, when=literal)
            model.exactly_one(options)


def _add_latency(model: Model, body: Body, starts: tuple[Var, ...], horizon: int) -> Var:
    first = model.int(-horizon, horizon, "first")
    latency = model.int(0, 4 * horizon, "latency")
    for start, task in zip(starts, body.tasks, strict=True):
        model.add(first <= start)
        model.add(latency >= start + (task.busy + task.latency) - first)
    return latency


def _search(body: Body, best: Schedule, in_order: bool, seed: int) -> Schedule:
    """Look for an interval between the bound and the heuristic's; then for the shortest latency at it."""
    horizon = max(best.latency, best.interval) * 2
    runs = 0
    seconds = spent = 0.0

    def ask(interval: int, shortest: bool) -> tuple[Solution, _Built]:
        nonlocal runs, seconds, spent
        built = build(body, interval, horizon, in_order=in_order)
        if shortest:
            built.model.minimize(built.latency)
        answer = solve(built.model, budget=PROBE, seed=seed)
        runs += 1
        seconds += answer.seconds
        spent += answer.deterministic_seconds
        return answer, built

    low, high = best.bound, best.interval  # low - 1 is proven infeasible, high feasible
    proven = True
    step = 0
    found: tuple[Solution, _Built, int] | None = None
    while low < high:
        probe = min(low + step, high - 1) if step >= 0 else (low + high) // 2
        answer, built = ask(probe, False)
        if answer.found:
            found = (answer, built, probe)
            high, step = probe, -1
        else:
            proven = proven and answer.status == "infeasible"
            low, step = probe + 1, (max(1, 2 * step) if step >= 0 else -1)
        if answer.interrupted:
            proven = False
            break
    bound = low if proven else best.bound
    schedule = best
    if found is not None:
        answer, built = ask(found[2], True)
        schedule = _schedule(body, *((answer, built) if answer.found else found[:2]), found[2])
    status = "optimal" if bound == schedule.interval else "feasible"
    return Schedule(
        schedule.depths, schedule.starts, schedule.interval, schedule.latency, schedule.bytes, bound, status,
        runs, seconds, spent,
    )  # fmt: skip


def _schedule(body: Body, answer: Solution, built: _Built, interval: int) -> Schedule:
    starts = [answer.value(s) for s in built.starts]
    lowest = min(starts)
    starts = [s - lowest for s in starts]
    depths = tuple(next(d for d, literal in chosen.items() if answer.true(literal)) for chosen in built.depths)
    size = sum(ring.bytes * depth for ring, depth in zip(body.rings, depths, strict=True))
    return Schedule(depths, tuple(starts), interval, _latency(body, starts), size, interval, "feasible")


def check(body: Body, schedule: Schedule) -> list[str]:
    """What is wrong with a schedule, by unrolling it: engines, precedences, versions, capacity."""
    wrong: list[str] = []
    count = max(schedule.depths, default=1) + -(-schedule.latency // schedule.interval) + 2
    spans = [
        [(s + t * schedule.interval, s + t * schedule.interval + task.busy) for t in range(count)]
        for s, task in zip(schedule.starts, body.tasks, strict=True)
    ]
    for engine in dict.fromkeys(t.engine for t in body.tasks):
        used = sorted(span for i, t in enumerate(body.tasks) if t.engine == engine for span in spans[i])
        wrong += [f"{engine} runs two tasks at {b[0]}" for a, b in pairwise(used) if b[0] < a[1]]
    for i, j in body.deps:
        if spans[j][0][0] < spans[i][0][0] + _lag(body, i, j):
            wrong.append(f"task {j} starts before task {i} is done")
    for ring, depth in zip(body.rings, schedule.depths, strict=True):
        if depth * ring.bytes > ring.capacity:
            wrong.append(f"{ring.name} takes {depth * ring.bytes} bytes of {ring.capacity}")
        for fills in ring.buffers:
            uses = [(spans[f.writer][t][0], t, f) for t in range(count) for f in fills]
            for number in range(depth, len(uses)):
                _, t, old = uses[number - depth]
                free = spans[old.reader][t][0] + _lag(body, old.reader, uses[number][2].writer)
                if uses[number][0] < free:
                    wrong.append(f"a version of {ring.name} is overwritten at {uses[number][0]}, in use until {free}")
    return wrong
