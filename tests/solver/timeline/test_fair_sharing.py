"""Links that are shared fairly in the predicted timeline: recorded runs, and what a replay finds."""

from __future__ import annotations

from functools import lru_cache

import pytest

from girih.frontend import import_onnx
from girih.frontend.for_machine.divide import divide
from girih.ir.load_machine import load_machine
from girih.ir.machines.as_planned import as_planned
from girih.lowering import lower
from girih.models import build
from girih.simulator import simulate
from girih.solver import plan
from girih.solver.cost.copy_time import CopyTime
from girih.solver.options import Options
from girih.solver.timeline.bank_conflicts import BankDemand
from girih.solver.timeline.fair_sharing import Flow, RecordedRun, busiest, fair_durations, fair_speeds
from tests.support.small_models import SMALL

BANK = ("TILE", 0)


def recorded(
    *transfers: tuple[int, float, float, int], banks: dict[tuple[str, int], float] | None = None, copies: int = 1,
    gap: float = 0.0,
) -> RecordedRun:  # fmt: skip
    """Loads of (core, ready, begun, bytes) at up to 4 bytes a cycle over a link of 2, each alone on it.

    Of each, so many ``copies`` go at once; a queue is free so long (``gap``) after its last load.
    """
    run = RecordedRun()
    free: dict[int, float] = {}
    for core, ready, begun, size in transfers:
        stop = begun + copies * size / 2
        move = CopyTime(1, 0, size, 4.0, (("dram", size),), 10)
        run.moved((("EXCHANGE", core),), ready, free.get(core, 0.0), stop, copies, move, banks or {}, loads=True)
        free[core] = stop + gap
    return run


def durations(run: RecordedRun) -> list[float]:
    return fair_durations(run, {"dram": 2.0}, {"TILE": 32.0})


def test_speeds_rise_together_until_something_stops_them() -> None:
    def flow(limit: float, **links: float) -> Flow:
        return tuple(links.items()), limit

    assert fair_speeds([(flow(9.0, a=1.0), 3)], {"a": 6.0}) == pytest.approx([2.0])
    # What one cannot take the others do, and a link that is full stops whoever crosses it.
    flows = [(flow(1.0, a=1.0), 1), (flow(9.0, a=1.0), 1), (flow(9.0, a=1.0, b=2.0), 1)]
    assert fair_speeds(flows, {"a": 10.0, "b": 6.0}) == pytest.approx([1.0, 6.0, 3.0])


def test_who_begins_later_in_the_program_slows_what_is_in_flight() -> None:
    # The run took them one after the other; both take 2 bytes a cycle together.
    assert durations(recorded((0, 0.0, 0.0, 100), (1, 0.0, 50.0, 100))) == pytest.approx([100.0, 100.0])
    # One comes when half of the other is through.
    assert durations(recorded((0, 0.0, 0.0, 100), (1, 25.0, 50.0, 100))) == pytest.approx([75.0, 75.0])
    # Those of one queue follow one another.
    assert durations(recorded((0, 0.0, 0.0, 100), (0, 0.0, 50.0, 100))) == pytest.approx([50.0, 50.0])


def test_what_waits_for_a_transfer_is_released_by_it() -> None:
    # The third can be issued when the first is visible, at 60 in the run and at 110 in the replay.
    run = recorded((0, 0.0, 0.0, 100), (1, 0.0, 50.0, 100), (2, 60.0, 100.0, 100))
    assert durations(run) == pytest.approx([100.0, 100.0, 50.0])


def test_computation_is_delayed_by_what_it_waits_for_and_delays_what_it_releases() -> None:
    run = recorded((0, 0.0, 0.0, 100), (1, 0.0, 50.0, 100), (2, 90.0, 100.0, 100), (3, 0.0, 150.0, 100))
    # The third comes at 90, when 40 bytes of each of the others are left: 80 cycles for these, and 30 for 60 bytes.
    assert durations(run) == pytest.approx([170.0, 170.0, 110.0, 170.0])
    # An engine has waited for the first until it was visible, at 60, and has released the third after 30 cycles more.
    # In the replay it waits until 160.
    run.waited("matrix", 0.0, 60.0)
    assert durations(run) == pytest.approx([150.0, 150.0, 50.0, 150.0])


def test_computation_that_waits_again_waits_for_what_was_late_the_first_time() -> None:
    # The first is visible at 160 in the run, after the wait for the second (60) and before that for the third (180).
    run = recorded((0, 0.0, 50.0, 200), (1, 0.0, 0.0, 100), (2, 0.0, 150.0, 40), (3, 200.0, 200.0, 100))
    run.waited("matrix", 0.0, 60.0)
    run.waited("matrix", 60.0, 180.0)
    # In the replay the third is through at 60, the second at 120 and the first, which then has the link, at 170: it is
    # visible at 180, so that computation is as far as in the run, and releases the fourth at 200.
    assert durations(run) == pytest.approx([170.0, 120.0, 60.0, 50.0])


def test_copies_of_a_transfer_share_the_link_with_each_other() -> None:
    assert durations(recorded((0, 0.0, 0.0, 100), copies=3)) == pytest.approx([150.0])


def test_a_queue_is_free_as_long_after_its_transfer_as_in_the_run() -> None:
    # The third begins at 70, when the second has 60 bytes left: both take 1 byte a cycle for 60 cycles.
    run = recorded((0, 0.0, 0.0, 100), (1, 50.0, 50.0, 100), (0, 0.0, 100.0, 100), gap=20.0)
    assert durations(run) == pytest.approx([50.0, 80.0, 80.0])


def test_engines_that_work_on_a_bank_slow_copies_to_it() -> None:
    run = recorded((0, 0.0, 0.0, 100), banks={BANK: 1.0})
    run.worked("matrix", 0.0, 40.0, BankDemand({BANK: 158.0}))
    # For 40 cycles a fifth of 2 bytes a cycle, then all of it.
    assert durations(run) == pytest.approx([40 + (100 - 40 * 2 * 0.2) / 2])
    run.worked("vector", 0.0, 40.0, BankDemand({("TILE", 1): 158.0}))
    assert durations(run) == pytest.approx([40 + (100 - 40 * 2 * 0.2) / 2])


def test_how_busy_the_busiest_link_is() -> None:
    assert busiest(recorded((0, 0.0, 0.0, 100), (1, 0.0, 50.0, 60)), {"dram": 2.0, "other": 1.0}, 160.0) == 0.5
    assert busiest(recorded((0, 0.0, 0.0, 100), copies=3), {"dram": 2.0}, 300.0) == 0.5


@lru_cache
def errors(network: str) -> float:
    machine = as_planned(load_machine("ipu-gc200"))
    graph = divide(import_onnx(build(network, **SMALL[network]), batch=1, clusters=machine.clusters), machine)
    planned = plan(graph, machine, Options(0.0), None, None, lambda _: pytest.fail("no order is asked for")).plan
    simulated = simulate(lower(graph, planned, machine), machine, {}, {}, data=False).summary.cycles
    return planned.cycles_predicted / simulated - 1.0


@pytest.mark.parametrize("network", ["tiny-cnn", "tiny-transformer"])
def test_plans_of_cores_that_share_a_slow_link_are_predicted(network: str) -> None:
    # Without the replay, -12 %.
    assert abs(errors(network)) < 0.02
