"""A lowerer gives the bytes of a fresh lowering, and compiles and walks only what is new."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from girih import models
from girih.frontend import import_onnx
from girih.ir.codec import sha256
from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.plan import Plan
from girih.lowering import Lowerer, lower
from girih.lowering.program import compiled_kernels
from girih.lowering.program.plan_walk import Walker
from girih.solver import plan
from girih.solver.options import Options
from girih.solver.order.solve import list_schedules, order_queues, ordered_plan
from tests.support.plans.random_plans import random_plan

TINY = load_machine("tiny")


@cache
def network() -> Graph:
    return import_onnx(models.build("tiny-cnn"), batch=1)


@cache
def planned() -> Plan:
    return plan(network(), TINY, Options(timeout=0, disabled=frozenset({"queue-order"}))).plan


def counted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[None]:
    """One entry for each call."""
    calls: list[None] = []
    original: Callable[..., Any] = getattr(owner, name)

    def counting(*args: Any) -> Any:
        calls.append(None)
        return original(*args)

    monkeypatch.setattr(owner, name, counting)
    return calls


def test_an_order_of_queues_is_lowered_without_another_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    walks = counted(monkeypatch, Walker, "walk")
    lowerer = Lowerer(network(), TINY)
    tasks = lowerer.tasks(planned())
    ordered = ordered_plan(planned(), tasks, order_queues(list_schedules(tasks), seconds=1.0, seed=0))
    assert ordered.order
    programs = [lowerer.program(p) for p in (planned(), ordered, replace(planned(), cycles_simulated=1))]
    assert len(walks) == 1
    fresh = [lower(network(), p, TINY) for p in (planned(), ordered, replace(planned(), cycles_simulated=1))]
    assert [sha256(p) for p in programs] == [sha256(p) for p in fresh]
    assert programs[0].streams != programs[1].streams


def test_plans_share_kernels_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    compilations = counted(monkeypatch, compiled_kernels, "tile_nests")
    plans = [planned(), *(random_plan(network(), TINY, seed) for seed in range(3))]
    lowerer = Lowerer(network(), TINY)
    # To and fro: what was walked before must leave no trace.
    shared = [lowerer.program(p) for p in (*plans, *reversed(plans))]
    together = len(compilations)
    fresh = [lower(network(), p, TINY) for p in (*plans, *reversed(plans))]
    assert [sha256(p) for p in shared] == [sha256(p) for p in fresh]
    assert together <= (len(compilations) - together) / 2
