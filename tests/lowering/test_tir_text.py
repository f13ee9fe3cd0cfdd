"""TIR that is printed is the TIR that is lowered: parsed back, scheduled or lowered, it gives the same instructions."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import Any

import pytest

from girih.api.compile import Compiled, compile
from girih.ir.errors import GirihError
from girih.lowering import lower
from girih.lowering.loops.tile_nests import tile_nests
from girih.lowering.schedule import lower_to_loops
from girih.lowering.schedule.lower_to_loops import lowered, scheduled
from girih.lowering.tir_text import OperatorTir, kernels_from_text, operator_tir
from girih.models import build
from tests.support.compiled import compiled_residual
from tests.support.sampled import sampled

NETWORKS = ("tiny-cnn", "tiny-transformer", "residual")


@cache
def network(name: str) -> Compiled:
    if name == "residual":
        return compiled_residual()
    return compile(build(name), target="tiny", batch=2, solver_timeout=2, cache=False)


@cache
def described(name: str) -> tuple[OperatorTir, ...]:
    compiled = network(name)
    return operator_tir(compiled.graph, compiled.plan, compiled.machine)


@pytest.mark.parametrize("name", sampled(NETWORKS, 2))
def test_texts_give_the_same_instructions(name: str) -> None:
    compiled = network(name)
    assert {entry.op for entry in described(name)} == {op.name for op in compiled.graph.ops if op.host is None}
    for entry in described(name):
        for level, text in (("scheduled", entry.scheduled), ("lowered", entry.lowered)):
            again = kernels_from_text(text, level, entry.bound, entry.plan, compiled.machine)  # type: ignore[arg-type]
            assert entry.kernels.endswith(f"{again}\n"), (entry.op, level)


def unscheduled(*_: Any) -> None:
    """The identity in place of the schedule."""


@pytest.mark.parametrize("name", sampled(NETWORKS, 2))
def test_without_the_schedule_there_is_no_such_program(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each operator that has tiles, or a factor in the weight memory, becomes something else or nothing."""
    compiled = network(name)
    before = [(entry, tile_nests(lowered(scheduled(entry.bound.spec, entry.plan))["main"], entry.bound.spec, entry.plan))
              for entry in described(name)]  # fmt: skip
    monkeypatch.setattr(lower_to_loops, "apply", unscheduled)
    changed = 0
    for entry, tiled in before:
        spec = entry.bound.spec
        if len(tiled.class_of) == 1 and spec.stationary is None:
            continue
        try:
            other = tile_nests(lowered(scheduled(spec, entry.plan))["main"], spec, entry.plan)
        except GirihError:
            other = None
        assert other is None or other.classes != tiled.classes or other.class_of != tiled.class_of, entry.op
        changed += 1
    assert changed
    with suppress(GirihError):
        assert lower(compiled.graph, compiled.plan, compiled.machine) != compiled.program
