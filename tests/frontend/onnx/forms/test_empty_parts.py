"""Parts without elements, which a Split and a Concat leave out."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import parser

from girih.frontend import import_onnx
from girih.ir.errors import UnsupportedError
from tests.support.onnx_models import Model, check_both


@pytest.mark.parametrize("opset", [11, 13, 18])
@pytest.mark.parametrize("sizes", [[6, 0], [0, 2, 4], [2, 0, 4, 0]])
def test_a_part_of_nothing(opset: int, sizes: list[int]) -> None:
    m = Model(opset)
    x = m.node("Relu", m.input("x", 3, 6))
    parts = [f"part{n}" for n in range(len(sizes))]
    if opset < 13:
        m.node("Split", x, outputs=parts, axis=-1, split=sizes)
    else:
        m.node("Split", x, m.constant("sizes", np.array(sizes, np.int64)), outputs=parts, axis=-1)
    check_both(m.build(m.node("Concat", *reversed(parts), axis=1)))


@pytest.mark.parametrize("sizes", [[6, 0], [0, 2, 4]])
def test_parts_that_are_outputs(sizes: list[int]) -> None:
    m = Model()
    parts = [f"part{n}" for n in range(len(sizes))]
    x, lengths = m.input("x", 3, 6), m.constant("sizes", np.array(sizes, np.int64))
    m.node("Split", x, lengths, outputs=parts, axis=1, name="divide")
    check_both(m.build(*(part for part, size in zip(parts, sizes, strict=True) if size)))
    with pytest.raises(UnsupportedError, match="node 'divide': Split of tensors without elements is not supported"):
        import_onnx(m.build(*parts))


@pytest.mark.parametrize("rotated", [0, 4])
def test_rotary_embedding(rotated: int) -> None:
    half = (rotated or 8) // 2
    attributes = f"<rotary_embedding_dim = {rotated}, num_heads = 2>" if rotated else ""
    model: onnx.ModelProto = parser.parse_model(f"""<ir_version: 10, opset_import: ["": 23]>
        g (float[1, 2, 4, 8] x, float[4, {half}] c, float[4, {half}] s, int64[1, 4] at) => (float[1, 2, 4, 8] y)
        {{ y = RotaryEmbedding {attributes} (x, c, s, at) }}""")
    check_both(model, 1e-6)
