"""Each class of operator as a small ONNX model, for the tests of the importer."""

from __future__ import annotations

from tests.support.operators.cases import Cases
from tests.support.operators.imported import (
    convolution_cases,
    elementwise_cases,
    matrix_product_cases,
    movement_cases,
    network_cases,
    normalisation_cases,
    pooling_cases,
    reduction_cases,
)

CASES = Cases()
for kind in (
    convolution_cases,
    matrix_product_cases,
    elementwise_cases,
    reduction_cases,
    normalisation_cases,
    pooling_cases,
    movement_cases,
    network_cases,
):
    CASES |= kind.CASES
