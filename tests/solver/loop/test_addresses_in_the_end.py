"""A timeout that does not pay for changes of the best plan pays for other addresses of its weights."""

from __future__ import annotations

import pytest

from girih.ir.checks.check_plan import check_plan
from girih.ir.errors import InfeasibleError
from girih.ir.load_machine import load_machine
from girih.ir.plan import Plan
from girih.solver import plan
from girih.solver.loop import search
from girih.solver.loop.changes.plan_neighbourhood import Neighbourhood
from girih.solver.loop.changes.readdress import readdress
from girih.solver.loop.search import _Search as Search  # pyright: ignore[reportPrivateUsage]
from girih.solver.loop.spending import Spending
from girih.solver.options import Options
from tests.support import graphs

MACHINE = load_machine("tiny")
GRAPH = graphs.dense()


@pytest.mark.parametrize("paid", [False, True])
def test_addresses_are_changed_whatever_is_paid(monkeypatch: pytest.MonkeyPatch, *, paid: bool) -> None:
    last: list[tuple[int, int]] = []

    def recorded(around: Neighbourhood, before: Plan) -> Plan:
        after = readdress(around, before)
        last.append((before.cycles_predicted, after.cycles_predicted))
        return after

    def goes_on(self: Spending, kind: str) -> bool:
        if not paid:
            self.refused[kind] = None
        return paid

    monkeypatch.setattr(search, "readdress", recorded)
    monkeypatch.setattr(Spending, "goes_on", goes_on)
    monkeypatch.setattr(Spending, "pays", goes_on)
    disabled = frozenset(("smaller-memories", "excluded-segments"))
    planned = plan(GRAPH, MACHINE, Options(20.0, disabled=disabled))
    check_plan(planned.plan, GRAPH, MACHINE)
    if paid:
        assert not last
    else:
        [(before, after)] = last
        assert planned.plan.cycles_predicted == after < before
        assert any(run.note.endswith("steps together") for run in planned.log.runs)


def test_where_there_is_no_plan_the_refusal_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_plan(self: Search) -> None:
        self.spending.refused["iterations"] = None
        self._infeasible = InfeasibleError("nothing fits")  # pyright: ignore[reportPrivateUsage]

    monkeypatch.setattr(Search, "_solver", no_plan)
    with pytest.raises(InfeasibleError, match="nothing fits"):
        plan(GRAPH, MACHINE, Options(20.0))
