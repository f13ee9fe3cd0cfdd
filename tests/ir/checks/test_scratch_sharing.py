"""Private buffers of one operator may share a room if stages use them in turn; the checker sees to it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from girih.ir.checks.check_plan import check_plan
from girih.ir.errors import CheckError
from girih.ir.graph import Access, Graph, Stage
from girih.ir.load_machine import load_machine
from girih.ir.plan import LocalBuffer, Plan
from girih.solver import plan
from girih.solver.options import Options
from tests.support.graphs import Net, elementwise_chain

TINY = load_machine("tiny")


def softmax() -> Graph:
    """Stages peak, low, exp, sum and result: low and sum may share a room, low and exp may not."""
    net = Net("softmax", "float32")
    net.softmax("op", net.input("x", 8, 32))
    return net.graph()


def planned(graph: Graph) -> Plan:
    return plan(graph, TINY, Options(timeout=1.0)).plan


def moved(old: Plan, name: str, to: str) -> Plan:
    """``name`` at the address and with the size of ``to``, both in memory that nothing else uses."""
    buffers = {b.name: b for b in old.local}
    size = max(buffers[name].bytes, buffers[to].bytes)
    top = max(b.address + b.bytes for b in old.local if b.memory == buffers[to].memory)

    def put(b: LocalBuffer) -> LocalBuffer:
        return replace(b, address=top, bytes=size) if b.name in (name, to) else b

    return replace(old, local=tuple(map(put, old.local)))


def test_what_is_used_in_turn_may_share_and_nothing_else() -> None:
    graph = softmax()
    old = planned(graph)
    check_plan(moved(old, "op.low", "op.sum"), graph, TINY)
    for pair in (("op.low", "op.exp"), ("op.peak", "op.low"), ("op.exp", "op.sum")):
        with pytest.raises(CheckError, match="share"):
            check_plan(moved(old, *pair), graph, TINY)


def test_each_pair_of_buffers_does_not_ask_every_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is cubic in the stages: a chain of some hundreds took minutes."""
    stages = 60
    graph = elementwise_chain(stages)
    old = planned(graph)
    asked = 0
    reads = Stage.__dict__["reads"].func

    def counted(stage: Stage) -> tuple[Access, ...]:
        nonlocal asked
        asked += 1
        return reads(stage)

    monkeypatch.setattr(Stage, "reads", property(counted))
    check_plan(old, graph, TINY)
    assert asked < 50 * stages


def test_a_room_is_shared_whole() -> None:
    graph = softmax()
    shared = moved(planned(graph), "op.low", "op.sum")
    alignment = TINY.levels.sums.alignment
    shifted = tuple(replace(b, address=b.address + alignment) if b.name == "op.sum" else b for b in shared.local)
    with pytest.raises(CheckError, match="share"):
        check_plan(replace(shared, local=shifted), graph, TINY)
