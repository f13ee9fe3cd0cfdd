"""What a user's schedule says about instructions reaches their selection, and what cannot be is said with its place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from tvm import te

import girih
from girih import Compiled, UsageError
from girih.ir.custom_operators import register_operator, registered_for_now
from girih.ir.isa.table import ROWS
from girih.lowering.tir_text import kernels_from_text, operator_tir

RANDOM = np.random.default_rng(0)
Template = Callable[[Any, girih.TilePlan], None]


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    with registered_for_now():
        yield


def centred(x: Any) -> Any:
    k = te.reduce_axis((0, x.shape[1]), "k")
    total = te.compute((x.shape[0],), lambda i: te.sum(x[i, k], axis=k), name="total")
    return te.compute(x.shape, lambda i, j: x[i, j] - total[i], name="centred")


def product(x: Any, w: Any) -> Any:
    k = te.reduce_axis((0, x.shape[1]), "k")
    return te.compute((x.shape[0], w.shape[1]), lambda i, j: te.sum(x[i, k] * w[k, j], axis=k), name="product")


def sum_schedule(hint: Callable[[Any, Any], None]) -> Template:
    def template(schedule: Any, tile: girih.TilePlan) -> None:
        loops = girih.tile_loops(schedule, "centred", tile)
        girih.compute_at_tile(schedule, "total", loops[:1])
        hint(schedule, schedule.get_sblock("total_update"))

    return template


def product_schedule(hint: Callable[[Any, Any], None]) -> Template:
    def template(schedule: Any, tile: girih.TilePlan) -> None:
        schedule.cache_read(schedule.get_sblock("product_0"), 1, "global.l1w")
        girih.tile_loops(schedule, "product", tile)
        hint(schedule, schedule.get_sblock("product_0_update"))

    return template


def no_hint(schedule: Any, block: Any) -> None:
    """Leaves the choice to the cost of the machine."""


def instruction(family: str) -> Callable[[Any, Any], None]:
    return lambda schedule, block: schedule.annotate(block, "npu.instruction", family)


def axis(loop: int, field: str) -> Callable[[Any, Any], None]:
    """A hint for one of the innermost loops, counted from behind."""
    return lambda schedule, block: schedule.annotate(schedule.get_loops(block)[loop], "npu.axis", field)


def compiled_sum(hint: Callable[[Any, Any], None], rows: int = 6) -> Compiled:
    register_operator("my.ops", "Centred", template=sum_schedule(hint))(centred)
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["": 17, "my.ops": 1]>
        net (float[{rows}, 40] x) => (float[{rows}, 40] y) {{ y = my.ops.Centred (x) }}"""
    )
    result = girih.compile(model, target="tiny", strategy="layerwise", cache=False)
    x = RANDOM.integers(-4, 5, (rows, 40)).astype(np.float32)
    np.testing.assert_array_equal(result.run({"x": x}).outputs["y"], x - x.sum(1, keepdims=True))
    return result


def compiled_product(hint: Callable[[Any, Any], None]) -> Compiled:
    register_operator("my.ops", "Product", template=product_schedule(hint))(product)
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17, "my.ops": 1]>
        net (float[6, 40] x, float[40, 9] w) => (float[6, 9] y) { y = my.ops.Product (x, w) }"""
    )
    result = girih.compile(model, target="tiny", strategy="layerwise", cache=False)
    x, w = (RANDOM.integers(-4, 5, shape).astype(np.float32) for shape in ((6, 40), (40, 9)))
    np.testing.assert_array_equal(result.run({"x": x, "w": w}).outputs["y"], x @ w)
    return result


def families(compiled: Compiled) -> Counter[str]:
    return Counter(ROWS[i.mnemonic].family for stream in compiled.program.streams for i in stream)


def extents(compiled: Compiled, family: str) -> set[tuple[int | float, ...]]:
    """Of all instructions of a family: the fields that belong to no operand."""
    return {
        tuple(i.values[: len(i.row.scalars)])
        for stream in compiled.program.streams
        for i in stream
        if i.row.family == family
    }


def test_an_instruction_is_chosen_for_a_reduction() -> None:
    counts = {family: families(compiled_again(family)) for family in ("vred", "vacc", "vpool")}
    assert counts["vred"]["vred"] and not counts["vred"]["vacc"] and not counts["vred"]["vpool"]
    assert counts["vacc"]["vacc"] and not counts["vacc"]["vred"] and not counts["vacc"]["vpool"]
    assert counts["vpool"]["vpool"] and not counts["vpool"]["vred"] and not counts["vpool"]["vacc"]


def compiled_again(family: str) -> Compiled:
    with registered_for_now():
        return compiled_sum(instruction(family))


def test_an_axis_of_a_vector_instruction() -> None:
    with registered_for_now():
        along = compiled_sum(axis(-1, "n2"))
    assert families(along)["vred"] and not families(along)["vacc"]
    with registered_for_now():
        outside = compiled_sum(axis(-2, "outer"))
    # Each row by itself.
    assert {values[:2] for values in extents(outside, "vred")} == {(1, 1)}


def test_a_product_as_a_convolution_and_as_a_product() -> None:
    for family in ("mmatmul", "mconv"):
        with registered_for_now():
            counts = families(compiled_product(instruction(family)))
        assert {f for f in ("mmatmul", "mconv") if counts[f]} == {family}


def test_axes_of_a_matrix_instruction() -> None:
    with registered_for_now():
        usual = compiled_product(axis(-1, "k"))
    with registered_for_now():
        rows = compiled_product(axis(-3, "outer"))
    assert families(rows)["mmatmul"] > families(usual)["mmatmul"]
    assert {values[0] for values in extents(rows, "mmatmul")} == {1}


@pytest.mark.parametrize(
    ("hint", "message"),
    [
        (instruction("vexp"), "npu.instruction asks for vexp, and it can be vacc or vred or vpool"),
        (instruction("vnothing"), "npu.instruction asks for vnothing"),
        (axis(-1, "n7"), "no vector instruction can be made so: npu.axis asks for n7 for the loop of"),
        (axis(-1, "n0"), "no vector instruction can be made so: npu.axis asks for n0 for the loop of"),
    ],
)
def test_what_cannot_be_is_said_with_its_place(hint: Callable[[Any, Any], None], message: str) -> None:
    with pytest.raises(UsageError, match=message) as raised:
        compiled_sum(hint)
    assert __file__ in str(raised.value)


@pytest.mark.parametrize(
    ("hint", "message"),
    [
        (instruction("vred"), "npu.instruction asks for vred, and it can be mmatmul or mconv"),
        (axis(-1, "n"), "npu.axis asks for the loop of 40 to be n, and in mmatmul it is k"),
    ],
)
def test_what_a_matrix_engine_cannot_do_is_said(hint: Callable[[Any, Any], None], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        compiled_product(hint)


@pytest.mark.parametrize("hint", [instruction("vacc"), axis(-2, "outer")])
def test_hints_survive_as_text(hint: Callable[[Any, Any], None]) -> None:
    compiled = compiled_sum(hint)
    entries = operator_tir(compiled.graph, compiled.plan, compiled.machine)
    assert entries
    for entry in entries:
        assert "npu." in entry.lowered
        for level, text in (("scheduled", entry.scheduled), ("lowered", entry.lowered)):
            again = kernels_from_text(text, level, entry.bound, entry.plan, compiled.machine)  # type: ignore[arg-type]
            assert entry.kernels.endswith(f"{again}\n"), level
