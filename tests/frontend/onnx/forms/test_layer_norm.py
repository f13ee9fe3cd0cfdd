"""LayerNormalization whose parameters are broadcast, against ONNX Runtime."""

from __future__ import annotations

import pytest

from girih.frontend import import_onnx
from girih.ir.errors import UsageError
from tests.support.onnx_models import Model, check_both

Shape = tuple[int, ...]


@pytest.mark.parametrize("weights", [True, False])
@pytest.mark.parametrize(
    ("shape", "axis", "scale", "bias"),
    [
        ((4, 4, 4), 0, (4, 4), None),
        ((4, 4, 4), 1, (4,), (4,)),
        ((2, 6, 4), 0, (1, 4), (2, 1, 1)),
        ((2, 6, 4), -1, (4,), (1,)),
        ((2, 6, 4), -1, (6, 4), (2, 1, 4)),
    ],
)
def test_broadcast_parameters(shape: Shape, axis: int, scale: Shape, bias: Shape | None, weights: bool) -> None:
    m = Model()
    x = m.input("x", *shape)
    shapes = {"scale": scale} if bias is None else {"scale": scale, "bias": bias}
    parameters = [m.weight(n, *s) if weights else m.input(n, *s) for n, s in shapes.items()]
    check_both(m.build(m.node("LayerNormalization", x, *parameters, axis=axis, epsilon=1e-3)), 1e-5)


def test_a_scale_that_does_not_fit() -> None:
    m = Model()
    y = m.node("LayerNormalization", m.input("x", 2, 6, 4), m.weight("scale", 3), name="norm")
    with pytest.raises(UsageError, match=r"node 'norm': LayerNormalization: 'scale' has shape \[3\], which cannot"):
        import_onnx(m.build(y))
