"""Every plan that is better than the one before has other addresses tried for it, whatever the timeout pays for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from girih.ir.checks.check_plan import check_plan
from girih.ir.load_machine import load_machine
from girih.ir.plan import Plan
from girih.solver import plan
from girih.solver.cpsat.backend import NO_SEARCH, Budget
from girih.solver.loop.changes import local_search
from girih.solver.loop.changes import readdress as addresses
from girih.solver.loop.changes.plan_neighbourhood import Neighbourhood
from girih.solver.loop.changes.readdress import readdress
from girih.solver.loop.spending import Spending
from girih.solver.options import Options
from tests.support import graphs

MACHINE = load_machine("tiny")
GRAPH = graphs.dense()


@pytest.mark.parametrize("paid", [False, True])
def test_addresses_are_changed_whatever_is_paid(monkeypatch: pytest.MonkeyPatch, *, paid: bool) -> None:
    tried: list[tuple[int, int]] = []

    def recorded(around: Neighbourhood, before: Plan, budget: Budget = NO_SEARCH) -> Plan:
        after = readdress(around, before, budget)
        tried.append((before.cycles_predicted, after.cycles_predicted))
        return after

    def goes_on(self: Spending, kind: str) -> bool:
        if not paid:
            self.refused[kind] = None
        return paid

    monkeypatch.setattr(local_search, "readdress", recorded)
    monkeypatch.setattr(Spending, "goes_on", goes_on)
    monkeypatch.setattr(Spending, "pays", goes_on)
    disabled = frozenset(("smaller-memories", "excluded-segments"))
    planned = plan(GRAPH, MACHINE, Options(20.0, disabled=disabled))
    check_plan(planned.plan, GRAPH, MACHINE)
    assert paid or len(tried) == 1
    assert any(after < before for before, after in tried)
    assert planned.plan.cycles_predicted == min(after for _, after in tried)
    assert any(run.note.endswith("steps together") for run in planned.log.runs)


@pytest.mark.parametrize(
    ("reflection", "apart", "offered"),
    [(100, -10, [1_090, 990]), (-100, -10, [890]), (None, -10, [990]), (100, 10, [1_110, 1_010]), (None, 10, [1_010])],
)
def test_what_is_predicted_together_is_predicted_again_without_the_reflection(
    monkeypatch: pytest.MonkeyPatch, reflection: int | None, apart: int, offered: list[int]
) -> None:
    """A plan takes so many cycles more with the reflection, which may change nothing, and with weights apart."""
    before = replace(plan(GRAPH, MACHINE, Options(0.0)).plan, cycles_predicted=1_000)
    separated: list[Plan] = []
    cycles: list[int] = []

    def moved(number: int, plan: Plan) -> Plan:
        local = [replace(b, address=b.address + (i == number)) for i, b in enumerate(plan.local)]
        return replace(plan, local=tuple(local))

    def separate(_: Neighbourhood, plan: Plan, __: Budget) -> Plan:
        separated.append(plan)
        return moved(1, plan)

    def predicted(changed: Plan) -> Plan:
        moves = [changed.local[i] != before.local[i] for i in range(2)]
        return replace(changed, cycles_predicted=1_000 + (reflection or 0) * moves[0] + apart * moves[1])

    def offer(timed: Plan) -> Plan:
        cycles.append(timed.cycles_predicted)
        return timed

    monkeypatch.setattr(addresses, "reflected", lambda _, __, plan: plan if reflection is None else moved(0, plan))
    monkeypatch.setattr(addresses, "_separated", separate)
    off = ("deep-weights", "early-weights")
    subproblem = SimpleNamespace(graph=GRAPH, machine=MACHINE)
    around: Any = SimpleNamespace(
        allows=lambda switch: switch not in off, predicted=predicted, offer=offer, subproblem=subproblem
    )
    after = readdress(around, before)
    assert cycles == offered and len(separated) == len(offered)
    assert after.cycles_predicted == min(1_000, *offered)


def test_weights_come_early_where_segments_gain_and_one_plan_is_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two segments one gains by it: all of them together are no better than before, and that one alone is."""
    before = replace(plan(GRAPH, MACHINE, Options(0.0)).plan, cycles_predicted=1_000)
    offered: list[int] = []

    def early(_: object, __: object, plan: Plan, wanted: Callable[[int], bool]) -> Plan:
        local = [replace(b, address=b.address + (i < 2 and wanted(i))) for i, b in enumerate(plan.local)]
        return replace(plan, local=tuple(local))

    def predicted(changed: Plan) -> Plan:
        first, second = (changed.local[i] != before.local[i] for i in range(2))
        return replace(changed, cycles_predicted=1_000 - 50 * first + 60 * second)

    def offer(timed: Plan) -> Plan:
        offered.append(timed.cycles_predicted)
        return timed

    monkeypatch.setattr(addresses, "with_early_weights", early)
    monkeypatch.setattr(addresses, "cycles_of_segments", lambda p: [500, 500] if p is before else [450, 560])
    around: Any = SimpleNamespace(
        allows=lambda switch: switch == "early-weights", predicted=predicted, offer=offer,
        subproblem=SimpleNamespace(graph=GRAPH, machine=MACHINE),
    )  # fmt: skip
    assert readdress(around, before).cycles_predicted == 950
    assert offered == [950]
