"""The cycles of a tile walk are the longest way through its tasks, by the rules of the model's docstring."""

from __future__ import annotations

from functools import cache
from random import Random

from girih.ir.box import Span
from girih.ir.load_machine import load_machine
from girih.ir.plan import Tile
from girih.solver.cost.copy_time import CopyTime
from girih.solver.cost.tile_walk import TileTiming, TileWalk
from girih.solver.pipeline.model import walk_cycles
from girih.solver.pipeline.problem import PrecedingWork

MACHINE = load_machine("stcp920")
MATRIX, VECTOR = (MACHINE.engine_for(use).latency for use in ("matrix", "vector"))
COPY = 7
Task = tuple[object, ...]


def drawn(rng: Random) -> tuple[TileWalk, dict[int, int], PrecedingWork]:
    """Up to eight tiles of up to two timings, each of up to three reduce tiles; the busy cycles of weight tiles."""
    tiles, parts, weights = rng.randint(1, 8), rng.randint(1, 3), rng.randint(0, 4)

    def busy() -> int:
        return rng.choice((0, rng.randint(1, 60)))

    timings = tuple(
        TileTiming(busy(), tuple(rng.randint(1, 60) for _ in range(parts)), busy(), busy(), (), (), (0, 0))
        for _ in range(2)
    )
    walk = TileWalk(
        (Span(0, tiles),),
        Tile("op", (1,), (0,)),
        timings,
        tuple(rng.randrange(2) for _ in range(tiles)),
        tuple(tuple(rng.randrange(weights) for _ in range(parts)) for _ in range(tiles)) if weights else (),
        (CopyTime(1, 1, 64, 64.0, (), COPY),) * weights,
        (),
        {},
    )
    ready = sorted(rng.randint(0, 90) for _ in range(tiles)) if rng.random() < 0.5 else ()
    preceding = PrecedingWork(rng.choice((0, 40)), tuple(ready))
    return walk, {w: rng.randint(1, 80) for w in range(weights)}, preceding


def longest(walk: TileWalk, loads: dict[int, int], depth: int, weight_depth: int, preceding: PrecedingWork) -> int:
    """Each task begins when all that it waits for has ended, with its latency where that is on another engine."""
    busy: dict[Task, int] = {}
    waits: dict[Task, list[tuple[Task, int]]] = {}
    ready: dict[Task, int] = {}
    last: dict[str, Task] = {}
    released: dict[int, tuple[Task, int]] = {}
    copies: list[int] = []
    users: dict[int, Task] = {}
    ends: list[tuple[Task, int]] = []

    def issue(engine: str, task: Task, cycles: int, *after: tuple[Task, int]) -> Task:
        busy[task], waits[task] = cycles, [*after]
        if engine in last:
            waits[task].append((last[engine], 0))
        elif engine == "vector":
            ready[task] = preceding.cycles
        last[engine] = task
        return task

    for index, number in enumerate(walk.timing):
        timing = walk.timings[number]
        input_there: list[tuple[Task, int]] = []
        free = [released[index - depth]] if index >= depth else []
        if timing.before:
            input_there.append((issue("vector", ("before", index), timing.before, *free), VECTOR))
        task: Task = ()
        for part, cycles in enumerate(timing.matrix):
            needed: list[tuple[Task, int]] = []
            copy = -1
            if walk.weights:
                weight = walk.weights[index][part]
                held = range(max(0, len(copies) - weight_depth), len(copies))
                copy = next((c for c in held if copies[c] == weight), len(copies))
                if copy == len(copies):
                    copies.append(weight)
                    oldest = [(users[copy - weight_depth], MATRIX)] if copy >= weight_depth else []
                    issue("copy", ("copy", copy), loads[weight], *oldest)
                needed.append((("copy", copy), COPY))
            task = issue("matrix", ("matrix", index, part), cycles, *input_there, *free, *needed)
            ready[task] = preceding.ready[index] if preceding.ready else 0
            users[copy] = task
        released[index] = (task, MATRIX)
        result = (task, MATRIX)
        ends.append(result)
        for name, cycles in (("drain", timing.drain), ("finish", timing.finish)):
            if cycles:
                ends.append((issue("vector", (name, index), cycles, result), VECTOR))
                if name == "drain":
                    released[index] = ends[-1]
        if timing.before:
            ends.append((("before", index), VECTOR))

    @cache
    def stop(task: Task) -> int:
        start = max((stop(t) + latency for t, latency in waits[task]), default=0)
        return max(start, ready.get(task, 0)) + busy[task]

    return max(stop(task) + latency for task, latency in ends)


def test_a_walk_takes_as_long_as_the_longest_way_through_its_tasks() -> None:
    rng = Random(5)
    waited = [0, 0]
    for _ in range(400):
        walk, loads, preceding = drawn(rng)
        depth, weight_depth = rng.randint(1, 3), rng.randint(1, 3)
        found = walk_cycles(walk, MACHINE, loads, depth, weight_depth, preceding)
        assert found == longest(walk, loads, depth, weight_depth, preceding)
        waited[0] += found > walk_cycles(walk, MACHINE, loads, depth + 1, weight_depth, preceding)
        waited[1] += found > walk_cycles(walk, MACHINE, loads, depth, weight_depth + 1, preceding)
    assert min(waited) > 40
