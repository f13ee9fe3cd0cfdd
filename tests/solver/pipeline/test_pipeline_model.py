"""The initiation interval: known loops, random loops against a CP-SAT model and an unrolling checker; and the degrees."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.solver.pipeline.candidates import Footprint, degrees
from girih.solver.pipeline.model import busiest_engine_cycles, initiation_interval
from girih.solver.pipeline.problem import Fill, LoopBody, Ring, Task
from tests.support.modulo_schedule import check_schedule, schedule


def loop(load: int, matrix: int, vector: int, *, scratch: int, weights: int) -> LoopBody:
    """Copy in, multiply, finish: the loop of almost every operator, with so many versions."""
    return LoopBody(
        tasks=(Task("copy", load, 20), Task("matrix", matrix, 10), Task("vector", vector, 5)),
        deps=((0, 1), (1, 2)),
        rings=(Ring("scratch", scratch, ((Fill(1, 2),),)), Ring("weights", weights, ((Fill(0, 1),),))),
        tiles=1,
    )


def test_two_versions_hide_the_shorter_engines() -> None:
    body = loop(50, 100, 40, scratch=2, weights=2)
    assert initiation_interval(body) == busiest_engine_cycles(body) == 100


def test_with_one_version_matrix_and_vector_take_turns() -> None:
    assert initiation_interval(loop(50, 100, 40, scratch=1, weights=3)) == 100 + 10 + 40 + 5


def test_balanced_loop_takes_three_versions() -> None:
    """Latencies beside a full engine: two versions leave a bubble."""
    assert initiation_interval(loop(100, 100, 100, scratch=3, weights=3)) == 100
    assert initiation_interval(loop(100, 100, 100, scratch=2, weights=3)) > 100
    assert initiation_interval(loop(100, 100, 100, scratch=3, weights=2)) > 100


def with_room(scratch: int, weights: int) -> Machine:
    machine = load_machine("stcp920")
    room = {"accumulator": scratch, "weights": weights}
    return replace(machine, memories=tuple(replace(m, capacity=room.get(m.role, m.capacity)) for m in machine.memories))


def test_degrees_are_all_that_fit() -> None:
    footprint = Footprint(scratch=100, weights=100)
    chosen = [(d.scratch, d.weights, d.bytes) for d in degrees(with_room(399, 200), footprint, 0)]
    assert chosen == [(s, w, 100 * (s + w)) for s in (1, 2, 3) for w in (1, 2)]
    assert [d.scratch for d in degrees(with_room(399, 100), footprint, 150)] == [1, 2]
    assert [d.scratch for d in degrees(with_room(399, 100), footprint, 350)] == [1, 2, 3]
    assert not list(degrees(with_room(99, 200), footprint, 0))


def random_body(rng: random.Random, scratch_depth: int, weight_depth: int) -> LoopBody:
    tasks: list[Task] = []
    deps: list[tuple[int, int]] = []
    scratch: list[Fill] = []
    weights: list[Fill] = []
    for _ in range(rng.randint(1, 3)):
        first = len(tasks)
        before: int | None = None
        if rng.random() < 0.4:
            tasks.append(Task("vector", rng.randint(5, 60), 5))
            before = first
        for _ in range(rng.randint(1, 2)):
            tasks.append(Task("copy", rng.randint(5, 60), 20))
            tasks.append(Task("matrix", rng.randint(5, 60), 10))
            last = len(tasks) - 1
            weights.append(Fill(last - 1, last))
            deps.append((last - 1, last))
            if before is not None:
                deps.append((before, last))
            before = last
        tasks.append(Task("vector", rng.randint(5, 60), 5))
        deps.append((before or 0, len(tasks) - 1))
        scratch.append(Fill(min(first + 0, len(tasks) - 1), len(tasks) - 1))
    rings = (Ring("scratch", scratch_depth, (tuple(scratch),)), Ring("weights", weight_depth, (tuple(weights),)))
    return LoopBody(tuple(tasks), tuple(deps), rings, 1)


@pytest.mark.parametrize("seed", range(12))
def test_the_interval_of_random_loops_is_the_shortest(seed: int) -> None:
    """A schedule of that interval obeys the checker; a shorter one is proven infeasible."""
    rng = random.Random(seed)
    body = random_body(rng, rng.randint(1, 3), rng.randint(1, 3))
    interval = initiation_interval(body)
    assert interval >= busiest_engine_cycles(body)
    starts = schedule(body, interval)
    assert starts is not None
    assert check_schedule(body, starts, interval) == []
    assert schedule(body, interval - 1) is None


def test_a_schedule_that_overwrites_is_caught() -> None:
    starts = schedule(loop(50, 100, 40, scratch=2, weights=2), 100)
    assert starts is not None
    wrong = check_schedule(loop(50, 100, 40, scratch=1, weights=1), starts, 100)
    assert any("overwritten" in line for line in wrong)
