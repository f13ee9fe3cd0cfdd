"""Schedule templates of users: they decide the program, and what they do wrong is said with their file and line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from tvm import te

import girih
from girih.ir.custom_operators import register_operator, registered_for_now
from girih.ir.errors import UsageError

MODEL = """<ir_version: 8, opset_import: ["": 17, "my.ops": 1]>
    net (float[61, 37] x) => (float[61, 37] y) { y = my.ops.Double (x) }"""


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    with registered_for_now():
        yield


def double(x: Any) -> Any:
    half = te.compute(x.shape, lambda i, j: x[i, j] * 4.0, name="half")
    return te.compute(x.shape, lambda i, j: half[i, j] - x[i, j], name="thrice")


def compiled(template: Any) -> girih.Compiled:  # pyright: ignore
    register_operator("my.ops", "Double", template=template)(double)
    return girih.compile(onnx.parser.parse_model(MODEL), target="tiny", solver_timeout=2, cache=False)


def by_plan(schedule: Any, tile: girih.TilePlan) -> None:
    girih.compute_at_tile(schedule, "half", girih.tile_loops(schedule, "thrice", tile))


def by_single_rows(schedule: Any, tile: girih.TilePlan) -> None:
    rows = [rows if dim else 1 for dim, rows in enumerate(tile.sizes)]
    girih.compute_at_tile(schedule, "half", girih.tile_loops(schedule, "thrice", girih.TilePlan((*rows,), (0, 1))))


def test_a_template_decides_the_program() -> None:
    x = np.random.default_rng(0).standard_normal((61, 37)).astype(np.float32)
    counts: list[int] = []
    for template in (by_plan, by_single_rows):
        with registered_for_now():
            network = compiled(template)
            result = network.run({"x": x})
        np.testing.assert_allclose(result.outputs["y"], 3 * x, rtol=1e-6)
        counts.append(network.program.instructions)
    assert counts[0] < counts[1]


def illegal(schedule: Any, tile: girih.TilePlan) -> None:
    first, _ = schedule.get_loops(schedule.get_sblock("half"))
    schedule.compute_at(schedule.get_sblock("thrice"), first)


def lavish(schedule: Any, tile: girih.TilePlan) -> None:
    by_plan(schedule, tile)
    schedule.cache_read(schedule.get_sblock("thrice"), 1, "global.l1")


def silent(schedule: Any, tile: girih.TilePlan) -> None:
    """Leaves everything as it is, where the plan has room for tiles only."""


@pytest.mark.parametrize(
    ("template", "message"),
    [(illegal, "the schedule template of the operator my.ops::Double failed: "), (lavish, "allocates .* in global.l1")],
)
def test_what_a_template_does_wrong_is_said_with_its_place(template: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message) as raised:
        compiled(template)
    assert __file__ in str(raised.value)
