"""The tiles of every operator are made by TVM's schedule, and by nothing behind it."""

from __future__ import annotations

from math import prod
from typing import Any

import pytest

from girih import models
from girih.frontend.import_network import import_onnx
from girih.ir.errors import GirihError
from girih.ir.load_machine import load_machine
from girih.lowering import lower
from girih.lowering.kernel_store import TileClasses
from girih.lowering.loops.tile_nests import TiledOperator, tile_nests
from girih.lowering.program.compiled_kernels import CompiledKernels
from girih.lowering.schedule import lower_to_loops
from girih.lowering.schedule.cell_spec import CellSpec
from girih.lowering.schedule.lower_to_loops import lowered, scheduled
from girih.lowering.schedule.tile_plan import TilePlan
from tests.support.plans.random_plans import random_plan
from tests.support.sampled import sampled

MOST_POINTS = 2000
"""Points of an operator up to which its tiles are read without a schedule."""


def unscheduled(*_: Any) -> None:
    """In place of the template: it leaves the function as it is."""


def attempt(spec: CellSpec, plan: TilePlan) -> TiledOperator | None:
    """The tiles, or ``None`` where lowering raises."""
    try:
        return tile_nests(lowered(scheduled(spec, plan))["main"], spec, plan)
    except GirihError:
        return None


def points(spec: CellSpec) -> int:
    return sum(prod(loop.extent for loop in stage.loops) for stage in spec.stages)


@pytest.mark.parametrize("drawn", sampled([("tiny-transformer", 2), ("tiny-cnn", 4)], 2))
def test_tvm_schedule_decides(drawn: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """No tile loop is left in any function, and the tiles are others where they can be read in reasonable time."""
    name, seed = drawn
    graph, machine = import_onnx(models.build(name), batch=2), load_machine("tiny")
    plan = random_plan(graph, machine, seed)
    tiled: dict[tuple[CellSpec, TilePlan], TileClasses] = {}
    made = CompiledKernels.tiled

    def noted(self: CompiledKernels, spec: CellSpec, tile_plan: TilePlan) -> TileClasses:
        tiled[spec, tile_plan] = made(self, spec, tile_plan)
        return tiled[spec, tile_plan]

    with monkeypatch.context() as patch:
        patch.setattr(CompiledKernels, "tiled", noted)
        lower(graph, plan, machine)
    several = [key for key, value in tiled.items() if len(value.class_of) > 1]
    assert len(several) >= 5
    assert all("npu.tile" in lowered(scheduled(*key))["main"].script() for key in several)
    # A loop around several statements is unrolled, which takes too long for large ones.
    scheduled_tiles = {key: attempt(*key) for key in several if points(key[0]) <= MOST_POINTS}
    assert scheduled_tiles

    monkeypatch.setattr(lower_to_loops, "apply", unscheduled)
    assert not any("npu.tile" in lowered(scheduled(*key))["main"].script() for key in several)
    compared = 0
    for (spec, tile_plan), expected in scheduled_tiles.items():
        unscheduled_tiles = attempt(spec, tile_plan)
        assert expected is not None
        if unscheduled_tiles is not None:
            compared += 1
            same = (unscheduled_tiles.class_of, unscheduled_tiles.classes) == (expected.class_of, expected.classes)
            assert not same, spec
    assert compared, "no operator could be read without a schedule"
