"""ConvInteger and MatMulInteger are exact, whichever of their zero points and factors are constant; and so is the reference."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import girih
from girih.api.exact.evaluate_graph import evaluate_graph
from girih.frontend import import_onnx
from girih.frontend.quantised.integer_sums import fitting
from girih.frontend.reference.run import reference_outputs
from girih.ir.errors import UnsupportedError
from tests.support.onnx_models import Model, run_on_host
from tests.support.quantised_models import expected, quantised_inputs
from tests.support.quantised_networks import product_dtypes

RNG = np.random.default_rng(5)


def integers(dtype: str, *shape: int) -> np.ndarray:
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max + 1, shape).astype(dtype)


def model_of(
    op: str,
    factors: tuple[np.ndarray, np.ndarray],
    zeros: tuple[np.ndarray | None, ...],
    fixed: str,
    **attributes: object,
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A network of one operator, and its inputs: those operands of a, b, az and bz that ``fixed`` does not name."""
    model, inputs = Model(), dict[str, np.ndarray]()
    names: list[str] = []
    for name, array in zip(("a", "b", "az", "bz"), (*factors, *zeros), strict=True):
        if array is None:
            names.append("")
        elif name in fixed.split():
            names.append(model.constant(name, array))
        else:
            names.append(model.input(name, *array.shape, kind=array.dtype.name))
            inputs[name] = array
    return model.build(model.node(op, *names, **attributes)), inputs


@pytest.mark.parametrize("fixed", ["b az bz", "b bz", "az bz", "b", ""])
@pytest.mark.parametrize(
    "shapes", [((), ()), ((1,), (1,)), ((), (9,)), ((5, 1), (9,)), ((5,), ()), ((3, 5, 1), (3, 1, 9))], ids=str
)
def test_zeros_of_matrices(shapes: tuple[tuple[int, ...], ...], fixed: str) -> None:
    """One for all elements, for each row of the left and each column of the right factor, and for those of a batch."""
    a, b = integers("uint8", 3, 5, 16), integers("uint8", 3, 16, 9)
    zeros = tuple(integers("uint8", *shape) for shape in shapes)
    model, inputs = model_of("MatMulInteger", (a, b), zeros, fixed)
    rows = zeros[0].reshape(-1, 1) if zeros[0].ndim == 1 else zeros[0]
    graph = import_onnx(model)
    (got,), (reference,) = evaluate_graph(graph, inputs).values(), reference_outputs(model, inputs).outputs.values()
    want = (a.astype(np.int64) - rows) @ (b.astype(np.int64) - zeros[1])
    np.testing.assert_array_equal(got, want.astype(np.int32), strict=True)
    np.testing.assert_array_equal(reference, got, strict=True)
    assert product_dtypes(graph) <= {"int8", "uint8"}


@given(
    st.sampled_from(["int8", "uint8"]).flatmap(
        lambda dtype: st.tuples(
            arrays(dtype, (4, 6)), st.just(0) | arrays(dtype, (1, 6)).map(lambda zeros: zeros.astype(np.int64))
        )
    )
)
def test_integers_without_their_zeros_are_sums_of_integers_of_eight_bits(
    drawn: tuple[np.ndarray, np.ndarray | int],
) -> None:
    values, zeros = drawn
    parts = fitting(values, zeros, values.dtype.name)
    assert all(part.dtype.name in ("int8", "uint8") for part in parts) and len(parts) <= 3
    np.testing.assert_array_equal(sum(part.astype(np.int64) for part in parts), values.astype(np.int64) - zeros)


def far_apart(dtype: str, *shape: int) -> tuple[np.ndarray, np.ndarray]:
    """Integers that have both ends of the range in each row, and zeros for each row at one end or the other."""
    info = np.iinfo(dtype)
    values = integers(dtype, *shape)
    values.reshape(shape[0], -1)[:, :2] = info.min, info.max
    return values, np.where(np.arange(shape[0]) % 2, info.min, info.max).astype(dtype)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("fixed", ["b az bz", "b bz"])
def test_zeros_of_columns_that_are_far_apart(fixed: str, dtype: str) -> None:
    """As quantize_dynamic of ONNX Runtime writes them: weights without them are from -255 to 255."""
    weights, zeros = far_apart(dtype, 9, 16)
    a, zero = integers("uint8", 5, 16), np.uint8(7)
    model, inputs = model_of("MatMulInteger", (a, weights.T.copy()), (zero[None], zeros), fixed)
    graph = import_onnx(model)
    (got,), (reference,) = evaluate_graph(graph, inputs).values(), reference_outputs(model, inputs).outputs.values()
    want = (a.astype(np.int64) - zero) @ (weights.T.astype(np.int64) - zeros)
    np.testing.assert_array_equal(got, want.astype(np.int32), strict=True)
    np.testing.assert_array_equal(reference, got, strict=True)
    assert product_dtypes(graph) <= {"int8", "uint8"}
    assert sum(op.contraction is not None for op in graph.ops) == 1, "zeros are subtracted by a sum of each row"


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("fixed", ["b az bz", "b bz"])
def test_zeros_of_filters_that_are_far_apart(fixed: str, dtype: str) -> None:
    weights, zeros = far_apart(dtype, 6, 4, 3, 3)
    x, zero = integers("uint8", 2, 4, 7, 8), np.uint8(7)
    model, inputs = model_of("ConvInteger", (x, weights), (zero[None], zeros), fixed, pads=[1] * 4)
    graph = import_onnx(model)
    (got,), (reference,) = evaluate_graph(graph, inputs).values(), reference_outputs(model, inputs).outputs.values()
    want = convolved(x.astype(np.int64) - zero, weights.astype(np.int64) - zeros.reshape(-1, 1, 1, 1), 1)
    np.testing.assert_array_equal(got, want, strict=True)
    np.testing.assert_array_equal(reference, got, strict=True)
    assert product_dtypes(graph) <= {"int8", "uint8"}


def convolved(x: np.ndarray, weights: np.ndarray, pads: int) -> np.ndarray:
    """The correlation of integers without their zeros, padded by 0."""
    padded = np.pad(x, ((0, 0), (0, 0), (pads, pads), (pads, pads)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, weights.shape[2:], axis=(2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, weights).astype(np.int32)


@pytest.mark.parametrize("pads", [0, 1])
@pytest.mark.parametrize("fixed", ["b az bz", "b bz", "az", ""])
@pytest.mark.parametrize("zero", [(), (1,), (6,)], ids=str)
def test_zeros_of_windows(zero: tuple[int, ...], fixed: str, pads: int) -> None:
    """Weights that the network computes have none."""
    x, weights = integers("uint8", 2, 4, 7, 8), integers("uint8", 6, 4, 3, 3)
    zeros = integers("uint8"), integers("uint8", *zero) if "b" in fixed else None
    model, inputs = model_of("ConvInteger", (x, weights), zeros, fixed, pads=[pads] * 4)
    subtracted = 0 if zeros[1] is None else zeros[1].astype(np.int64).reshape(-1, 1, 1, 1)
    graph = import_onnx(model)
    (got,), (reference,) = evaluate_graph(graph, inputs).values(), reference_outputs(model, inputs).outputs.values()
    want = convolved(x.astype(np.int64) - zeros[0], weights.astype(np.int64) - subtracted, pads)
    np.testing.assert_array_equal(got, want, strict=True)
    np.testing.assert_array_equal(reference, got, strict=True)
    assert product_dtypes(graph) <= {"int8", "uint8"}


@pytest.mark.parametrize("fixed", ["b", "bz", ""])
def test_a_zero_of_weights_that_is_computed_is_refused(fixed: str) -> None:
    factors = integers("uint8", 2, 4, 7, 8), integers("uint8", 6, 4, 3, 3)
    model, _ = model_of("ConvInteger", factors, (np.uint8(3)[None], np.uint8(5)[None]), fixed)
    with pytest.raises(UnsupportedError, match="make both constants, or leave the zero point out"):
        import_onnx(model)


@pytest.mark.parametrize(
    "attributes", [{}, {"pads": [1, 0, 2, 1]}, {"auto_pad": "SAME_UPPER", "strides": [2, 2]}], ids=str
)
@pytest.mark.parametrize("group", [1, 4])
def test_convolutions_of_networks_that_are_quantised_while_they_run(group: int, attributes: dict[str, object]) -> None:
    """As quantize_dynamic of ONNX Runtime writes them, equal to it in every bit."""
    model = Model(opset=17)
    model.node("DynamicQuantizeLinear", model.input("x", 2, 4, 9, 8), outputs=("q", "scale", "zero"))
    weights = model.constant("w", integers("uint8", 8, 4 // group, 3, 3)), model.constant("wz", 131, "uint8")
    built = model.build(
        model.node("ConvInteger", "q", weights[0], "zero", weights[1], name="conv", group=group, **attributes)
    )
    inputs = quantised_inputs(built)
    graph = import_onnx(built)
    (got,) = evaluate_graph(graph, inputs, run_on_host).values()
    np.testing.assert_array_equal(got, expected(built, inputs), strict=True)
    assert product_dtypes(graph) <= {"int8", "uint8"}


def test_programs_pad_by_a_zero_that_is_computed() -> None:
    x, weights = integers("uint8", 1, 4, 7, 8), integers("int8", 6, 4, 3, 3)
    model, inputs = model_of("ConvInteger", (x, weights), (np.uint8(9)[None], None), "b", pads=[1, 2, 0, 1])
    compiled = girih.compile(
        model.SerializeToString(), target="stcp920", strategy="graphturbo", solver_timeout=0, cache=False
    )
    result = compiled.run(inputs, check="exact")
    assert result.check is not None and result.check.passed and not result.violations
    (got,) = result.outputs.values()
    np.testing.assert_array_equal(got, expected(model, inputs))


@pytest.mark.parametrize("fixed", ["b bz az", "b bz"])
def test_weights_of_nine_bits_are_padded_for_once(fixed: str) -> None:
    """Two operators multiply, and what a zero of activations needs is done once."""
    factors = integers("uint8", 2, 4, 7, 8), integers("uint8", 6, 4, 3, 3)
    factors[1][0, 0, 0, :2] = 0, 255
    model, _ = model_of("ConvInteger", factors, (np.uint8(3)[None], np.uint8(131)[None]), fixed, pads=[1] * 4)
    names = [op.name.split(".", 1)[1] for op in import_onnx(model).ops if "." in op.name]
    assert sorted(names) == sorted(
        ["2", "both", "padded"] if "az" in fixed else ["2", "both", "bordered", "share", "zero"]
    )
