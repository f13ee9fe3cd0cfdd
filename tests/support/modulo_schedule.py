"""Software pipelining as a CP-SAT model and as an unrolled schedule: they judge the exact computation of the interval."""

from __future__ import annotations

from itertools import pairwise

from girih.solver.cpsat.backend import Budget, Model, Var, solve
from girih.solver.pipeline.problem import LoopBody


def schedule(body: LoopBody, interval: int) -> list[int] | None:
    """The start of each task in an iteration of ``interval`` cycles; ``None`` if it is proven that there is none."""
    horizon = interval + 2 * sum(task.busy + task.latency for task in body.tasks)
    model = Model("pipeline")
    starts = [model.int(0, horizon, f"s{i}") for i in range(len(body.tasks))]
    with model.group("precedence"):
        for i, j in body.deps:
            model.add(starts[j] >= starts[i] + body.lag(i, j))
    with model.group("engines"):
        _exclusive(model, body, starts, interval)
    with model.group("versions"):
        _versions(model, body, starts, interval)
    solution = solve(model, budget=Budget(20.0))
    assert solution.found or solution.status == "infeasible"
    return [solution.value(start) for start in starts] if solution.found else None


def _exclusive(model: Model, body: LoopBody, starts: list[Var], interval: int) -> None:
    """Two tasks of an engine, in program order, lie side by side within one interval."""
    for i, a in enumerate(body.tasks):
        for j in range(i + 1, len(body.tasks)):
            if a.engine == body.tasks[j].engine:
                gap = starts[j] - starts[i]
                model.add(gap >= a.busy)
                model.add(gap <= interval - body.tasks[j].busy)


def _versions(model: Model, body: LoopBody, starts: list[Var], interval: int) -> None:
    """A fill of iteration ``depth`` starts after the one that had the version before it is released."""
    for ring in body.rings:
        for fills in ring.buffers:
            uses = [(t, fill) for t in range(ring.depth + 1) for fill in fills]
            for number in range(ring.depth, len(uses)):
                (t, fill), (u, old) = uses[number], uses[number - ring.depth]
                lag = body.lag(old.reader, fill.writer)
                model.add(starts[fill.writer] + (t - u) * interval >= starts[old.reader] + lag)


def check_schedule(body: LoopBody, starts: list[int], interval: int) -> list[str]:
    """What is wrong with a schedule, by unrolling it: engines, precedences, versions."""
    wrong: list[str] = []
    stop = max(start + task.busy + task.latency for start, task in zip(starts, body.tasks, strict=True))
    count = max((ring.depth for ring in body.rings), default=1) + -(-stop // interval) + 2
    spans = [
        [(s + t * interval, s + t * interval + task.busy) for t in range(count)]
        for s, task in zip(starts, body.tasks, strict=True)
    ]
    for engine in dict.fromkeys(t.engine for t in body.tasks):
        used = sorted(span for i, t in enumerate(body.tasks) if t.engine == engine for span in spans[i])
        wrong += [f"{engine} runs two tasks at {b[0]}" for a, b in pairwise(used) if b[0] < a[1]]
    for i, j in body.deps:
        if spans[j][0][0] < spans[i][0][0] + body.lag(i, j):
            wrong.append(f"task {j} starts before task {i} is done")
    for ring in body.rings:
        for fills in ring.buffers:
            uses = [(spans[f.writer][t][0], t, f) for t in range(count) for f in fills]
            for number in range(ring.depth, len(uses)):
                _, t, old = uses[number - ring.depth]
                free = spans[old.reader][t][0] + body.lag(old.reader, uses[number][2].writer)
                if uses[number][0] < free:
                    wrong.append(f"a version of {ring.name} is overwritten at {uses[number][0]}, in use until {free}")
    return wrong
