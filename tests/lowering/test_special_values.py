"""NaN and infinity are computed as IEEE 754 says: nothing that is wrong for them alone is simplified on the way."""

from __future__ import annotations

import numpy as np
import pytest

from girih.api.compile import compile
from girih.ir.box import Affine
from girih.lowering.schedule.cell_spec import CellSpec
from girih.lowering.schedule.prim_func import prim_func
from girih.lowering.schedule.stage_spec import ACTIVATIONS_SCOPE, LoopSpec, StageSpec, View, ViewRead
from tests.support.onnx_models import Model

SPECIAL = np.array([[np.nan, np.inf, -np.inf, 0.0, 1.5, -2.0]], np.float32)


@pytest.mark.parametrize("precision", ["as-is", "fp16"])
@pytest.mark.filterwarnings("ignore:invalid value")
def test_what_holds_for_finite_numbers_alone_is_not_assumed(precision: str) -> None:
    m = Model()
    x = m.node("Mul", m.input("x", 1, 6), m.constant("one", np.float32(1)))
    two = m.constant("two", np.float32(2))
    results = {
        "x - x": (m.node("Sub", x, x), SPECIAL - SPECIAL),
        "x / x": (m.node("Div", x, x), SPECIAL / SPECIAL),
        "x = x": (m.node("Where", m.node("Equal", x, x), x, two), np.where(np.isnan(SPECIAL), 2, SPECIAL)),
        "x is NaN": (m.node("Where", m.node("IsNaN", x), two, x), np.where(np.isnan(SPECIAL), 2, SPECIAL)),
        "infinity": (m.node("Add", x, m.constant("infinity", np.float32(-np.inf))), SPECIAL - np.inf),
    }
    model = m.build(*(name for name, _ in results.values()))
    compiled = compile(model, target="stcp920", precision=precision, solver_timeout=1, cache=False)  # type: ignore[arg-type]
    outputs = compiled.run({"x": SPECIAL}).outputs
    for (what, (_, expected)), actual in zip(results.items(), outputs.values(), strict=True):
        np.testing.assert_array_equal(actual, expected, err_msg=what)


@pytest.mark.parametrize("func", ["lt", "ne", "sub"])
def test_two_equal_numbers_are_one_number(func: str) -> None:
    """A cell that lies in the padding alone has them; there is no instruction that compares two numbers."""
    axis = Affine((1,), 0)
    loops = (LoopSpec(4, reduce=False),)
    views = (View((4,), (4,), "float32", ACTIVATIONS_SCOPE, private=False),)
    for operands, opaque in (((0.0, 0.0), False), ((ViewRead(0, (axis,), None),) * 2, True)):
        stage = StageSpec("out", loops, 0, (axis,), func, operands, None, None)
        assert (f"girih_{func}" in str(prim_func(CellSpec(views, (stage,), 0, None), ((0,),)))) == opaque
