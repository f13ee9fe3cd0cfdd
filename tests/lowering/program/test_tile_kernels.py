"""A product of which every factor is padding has no weights to fetch: its result is the bias."""

from __future__ import annotations

import numpy as np
import pytest

import girih
from tests.support.onnx_models import Model


@pytest.mark.parametrize("target", ["tiny", "stcp920"])
def test_a_convolution_whose_windows_miss_the_input(target: str) -> None:
    m = Model()
    inputs = m.input("x", 1, 8, 1, 4), m.weight("w", 3, 8, 3, 1), m.weight("b", 3)
    model = m.build(m.node("Conv", *inputs, dilations=[3, 1], strides=[2, 1], pads=[4, 0, 5, 0]))
    compiled = girih.compile(model, target=target, strategy="layerwise", solver_timeout=0, jobs=1, cache=False)
    (got,) = compiled.run(check="exact").outputs.values()
    np.testing.assert_array_equal(got, np.broadcast_to(m.weights["b"][:, None, None], got.shape))
