"""What loads of weights cost on the banks of local memory is lost by the engine that takes the weights from there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from girih.ir.semantics.staging.staging_rooms import StagingRooms
from girih.solver.cost.staged_run import StagedCopy, StagedRun
from girih.solver.cost.tile_walk import Work
from girih.solver.timeline.core_engines import CoreEngines, Lane
from girih.solver.timeline.staging_queues import StagingQueues, StagingTimes

WEIGHTS = 1
DEMAND: Any = ()
"""Of the banks of what both engines touch, of which there is nothing here."""


def ended(*, into: float, lost: float, staged: int) -> float:
    """When the matrix engine is done with four blocks of 100 cycles, for each of which ``staged`` is copied first."""
    queues = StagingQueues({"IN": 0.0}, {"L0B": StagingTimes(StagingRooms(100, 1))})
    lane = Lane(CoreEngines(SimpleNamespace(lost=lambda *_: (0.0, 0.0)), queues, None), [0.0], [0.0])  # type: ignore[arg-type]
    copies = (StagedCopy(staged, "L0B", "IN", 4, 4 * into, 0, back=False),)
    work = Work(400, (), 400, (StagedRun(4, 400.0, copies, (("L0B", 50, 1),)),))
    lane.multiply_staged(work, {staged: 0.0, WEIGHTS: 0.0}, 0, 0.0, lost, WEIGHTS, DEMAND)
    return lane.engines.matrix


def test_copies_of_weights_that_have_time_to_spare_lose_it_for_nothing() -> None:
    # The first block waits for its copy and for what is lost; the others are copied while the engine works.
    assert ended(into=40, lost=0, staged=WEIGHTS) == 440
    assert ended(into=40, lost=30, staged=WEIGHTS) == 470


def test_copies_of_weights_that_have_none_are_waited_for() -> None:
    assert ended(into=150, lost=0, staged=WEIGHTS) == 4 * 150 + 100
    assert ended(into=150, lost=30, staged=WEIGHTS) == 4 * 150 + 100 + 30


def test_an_engine_that_takes_the_weights_itself_loses_all_of_it() -> None:
    assert ended(into=40, lost=30, staged=0) == 440 + 30


def test_only_the_first_of_two_tiles_waits_for_what_is_lost() -> None:
    queues = StagingQueues({"IN": 0.0}, {"L0B": StagingTimes(StagingRooms(100, 1))})
    lane = Lane(CoreEngines(SimpleNamespace(lost=lambda *_: (0.0, 0.0)), queues, None), [0.0], [0.0])  # type: ignore[arg-type]
    work = Work(
        400,
        (),
        400,
        (StagedRun(4, 400.0, (StagedCopy(WEIGHTS, "L0B", "IN", 4, 160.0, 0, back=False),), (("L0B", 50, 1),)),),
    )
    for lost in (0.0, 60.0):
        lane.multiply_staged(work, {WEIGHTS: 0.0}, 0, 0.0, lost, WEIGHTS, DEMAND)
    assert lane.engines.matrix == 440 + 400
