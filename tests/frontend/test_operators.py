"""Each class of operator, in float32 and float16, against ONNX Runtime."""

from __future__ import annotations

import pytest
from onnx.reference import ReferenceEvaluator

from girih.api.exact import evaluate_graph
from girih.frontend import import_onnx, reference_outputs
from tests.support.onnx_models import compare, error, random_inputs
from tests.support.operator_cases import CASES, local_response


@pytest.mark.parametrize("name", CASES)
def test_float32(name: str) -> None:
    compare(CASES[name]())


@pytest.mark.parametrize("name", CASES)
def test_float16(name: str) -> None:
    graph = compare(CASES[name](), precision="fp16")
    for tensor in graph.tensors:
        assert tensor.dtype != "float32", f"{tensor.name} is still float32"


@pytest.mark.parametrize("size", [2, 4, 8, 12])
def test_local_response_norm_over_an_even_number(size: int) -> None:
    """ONNX Runtime has none; ONNX's own evaluator is right where there are as many samples as channels."""
    model = local_response(size, batch=9)()
    inputs = random_inputs(model)
    (expected,) = ReferenceEvaluator(model).run(None, inputs)
    (got,) = evaluate_graph(import_onnx(model), inputs).values()
    assert error(got, expected) < 1e-5
    (again,) = reference_outputs(model, inputs).outputs.values()
    assert error(again, expected) < 1e-5
