"""Every plan that is better than the one before has other addresses tried for it, whatever the timeout pays for."""

from __future__ import annotations

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


@pytest.mark.parametrize(("reflection", "offered"), [(100, [1_090, 990]), (-100, [890]), (0, [990])])
def test_what_is_predicted_together_is_predicted_again_without_the_reflection(
    monkeypatch: pytest.MonkeyPatch, reflection: int, offered: list[int]
) -> None:
    """Each change moves a buffer of its own; a plan takes ``reflection`` cycles more with one, 10 fewer with both."""
    before = plan(GRAPH, MACHINE, Options(0.0)).plan
    cycles: list[int] = []

    def moved(number: int, plan: Plan) -> Plan:
        local = [replace(b, address=b.address + (i == number)) for i, b in enumerate(plan.local)]
        return replace(plan, local=tuple(local))

    def offer(changed: Plan) -> Plan:
        reflected, apart = (changed.local[i] != before.local[i] for i in range(2))
        cycles.append(1_000 + reflection * reflected - 10 * apart)
        return replace(changed, cycles_predicted=cycles[-1])

    changes = (
        ("address-reflection", lambda _, plan, __: moved(0, plan)),
        ("weight-separation", lambda _, plan, __: moved(1, plan)),
    )
    monkeypatch.setattr(addresses, "CHANGES", changes)
    around: Any = SimpleNamespace(allows=lambda switch: switch != "early-weights", offer=offer)
    after = readdress(around, replace(before, cycles_predicted=1_000))
    assert cycles == offered and after.cycles_predicted == offered[-1]
    assert after.local[0] == before.local[0] or reflection <= 0
