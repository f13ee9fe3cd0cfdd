"""Operators that ONNX or the model defines by others, with attributes that are left out, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from girih.api.exact.evaluate_graph import evaluate_graph
from girih.frontend import import_onnx
from girih.ir.errors import UnsupportedError, UsageError
from tests.support.onnx_models import Model, check_both, random_inputs, run_on_host


def test_normalisation_over_the_default_axes() -> None:
    m = Model()
    check_both(m.build(m.node("MeanVarianceNormalization", m.input("x", 2, 3, 4, 5))), 1e-5)


@pytest.mark.parametrize("window", ["HannWindow", "HammingWindow", "BlackmanWindow"])
def test_windows_of_the_default_kind(window: str) -> None:
    m = Model()
    y = m.node(window, m.constant("size", 6))
    check_both(m.build(m.node("Mul", m.input("x", 6), y)), 1e-6)


@pytest.mark.parametrize("op", ["Celu", "Selu", "Shrink", "ThresholdedRelu", "Mish", "Softplus"])
def test_activations_with_default_parameters(op: str) -> None:
    m = Model(opset=18)
    check_both(m.build(m.node(op, m.input("x", 3, 7))), 1e-6)


def model_of(body: str, *functions: str, opset: int = 18) -> onnx.ModelProto:
    """A network ``(x) => (y)`` on 2 x 3 numbers, with functions of a domain ``local``."""
    header = f'<ir_version: 10, opset_import: ["": {opset}, "local": 1]>'
    return onnx.parser.parse_model(f"{header}\ng (float[2,3] x) => (float[2,3] y) {{ {body} }}\n{' '.join(functions)}")


def function_of(signature: str, body: str, opset: int = 18, overload: str = "") -> str:
    overloaded = f'overload: "{overload}", ' if overload else ""
    return f'<domain: "local", {overloaded}opset_import: ["": {opset}, "local": 1]> {signature} {{ {body} }}'


LEAKY = function_of("Leaky <alpha: float = 0.2>(x) => (y)", "y = LeakyRelu <alpha: float = @alpha> (x)")
MIDDLE = "Middle <a>(x) => (y)"
MIDDLE_OF_0_3 = "Middle <a: float = 0.3>(x) => (y)"
PASSES_ON = "y = local.Leaky <alpha: float = @a> (x)"


@pytest.mark.parametrize(
    ("call", "functions"),
    [
        ("y = local.Leaky (x)", [LEAKY]),
        ("y = local.S (x)", [function_of("S <axis: int = 0>(x) => (y)", "y = Softmax <axis: int = @axis> (x)")]),
        ("y = local.C (x)", [function_of("C <v: float = 1.5>(x) => (y)",
                                         "c = Constant <value_float: float = @v> () y = Mul (x, c)")]),
        ("y = local.Middle (x)", [LEAKY, function_of(MIDDLE, PASSES_ON)]),
        ("y = local.Middle (x)", [LEAKY, function_of(MIDDLE_OF_0_3, PASSES_ON)]),
        ("y = local.Middle <a: float = 0.4> (x)", [function_of(MIDDLE_OF_0_3, PASSES_ON), LEAKY]),
        ("t = local.Leaky <alpha: float = 0.5> (x) y = local.Leaky (t)", [LEAKY]),
    ],
    ids=["float", "int", "constant", "passed_on_but_absent", "passed_on", "given", "one_given_one_not"],
)  # fmt: skip
def test_attributes_of_functions_that_a_call_leaves_out(call: str, functions: list[str]) -> None:
    check_both(model_of(call, *functions), 1e-6)


def test_values_of_nested_functions_that_are_called_alike() -> None:
    inner = function_of("Inner <a: float = 0.3>(x) => (y)", "t = LeakyRelu <alpha: float = @a> (x) y = Neg (t)")
    outer = function_of("Outer (x) => (y)", "t = local.Inner (x) s = local.Inner <a: float = 0.7> (t) y = Sub (t, s)")
    check_both(model_of("t = local.Outer (x) s = local.Outer (t) y = Add (t, s)", inner, outer), 1e-6)


@pytest.mark.parametrize(("of_function", "of_model"), [(17, 18), (18, 17), (13, 21)])
def test_function_of_another_operator_set(of_function: int, of_model: int) -> None:
    swish = function_of("Swish (x) => (y)", "s = Sigmoid (x) y = Mul (x, s)", of_function)
    check_both(model_of("y = local.Swish (x)", swish, opset=of_model), 1e-6)


@pytest.mark.parametrize(("of_function", "of_model"), [(13, 18), (18, 13)])
def test_function_of_another_operator_set_that_adds_attributes(of_function: int, of_model: int) -> None:
    body = "s = Constant <value: tensor = int64[2] {2, 3}> () t = Cast <to: int = 1> (x) y = Reshape (t, s)"
    flat = function_of("Flat (x) => (y)", body, of_function)
    check_both(model_of("t = local.Flat (x) y = Relu (t)", flat, opset=of_model))


def test_functions_of_several_operator_sets_call_each_other() -> None:
    inner = function_of("Inner (x) => (y)", "y = Tanh (x)", 13)
    outer = function_of("Outer (x) => (y)", "t = local.Inner (x) y = Neg (t)", 17)
    check_both(model_of("t = local.Outer (x) y = local.Inner (t)", inner, outer), 1e-6)


@pytest.mark.parametrize(
    ("of_function", "of_model", "body", "changed"),
    [
        (13, 18, "y = ReduceMean <axes: ints = [1]> (x)", "ReduceMean"),
        (12, 18, "t = Relu (x) y = Softmax <axis: int = 0> (t)", "Softmax"),
        (18, 17, "y = Mish (x)", "Mish"),
        (6, 18, "y = PRelu (x, x)", "PRelu"),
        (
            18,
            13,
            "s = Constant <value: tensor = int64[2] {0, 3}> () y = Reshape <allowzero: int = 1> (x, s)",
            "Reshape",
        ),
    ],
)
def test_function_whose_operators_mean_something_else(of_function: int, of_model: int, body: str, changed: str) -> None:
    model = model_of("y = local.F (x)", function_of("F (x) => (y)", body, of_function), opset=of_model)
    message = rf"function local\.F is of operator set {of_function}.*model of {of_model}.* {changed} .*export"
    with pytest.raises(UnsupportedError, match=message):
        import_onnx(model)


def test_function_of_an_operator_set_that_does_not_exist() -> None:
    model = model_of("y = local.F (x)", function_of("F (x) => (y)", "y = Relu (x)", 999))
    with pytest.raises(UnsupportedError, match=r"function local\.F is of operator set 999; known are 1 to"):
        import_onnx(model)


def test_function_that_nothing_calls_may_be_of_any_operator_set() -> None:
    unused = function_of("F (x) => (y)", "y = ReduceMean <axes: ints = [1]> (x)", 13)
    check_both(model_of("y = Relu (x)", unused))


OVERLOADS = (
    function_of("F (x) => (y)", "y = Relu (x)", overload="a"),
    function_of("F <alpha: float = 0.2>(x) => (y)", "y = LeakyRelu <alpha: float = @alpha> (x)", overload="b"),
    function_of("F (x) => (y)", "y = Neg (x)"),
)


@pytest.mark.parametrize("call", ["F:a", "F:b", "F"])
def test_overloads_of_a_function(call: str) -> None:
    check_both(model_of(f"t = local.F (x) y = local.{call} (t)", *OVERLOADS), 1e-6)


def negative_parts(model: onnx.ModelProto) -> bool:
    """Whether the model computes -max(x, 0). ONNX Runtime takes one overload for another inside a function, or hangs."""
    inputs = random_inputs(model)
    got = evaluate_graph(import_onnx(model), inputs, run_on_host)["y"]
    return np.array_equal(got, -np.maximum(inputs["x"], 0))


@pytest.mark.parametrize("caller", ["F", "G"])
def test_overload_that_another_function_calls(caller: str) -> None:
    body = "t = local.F:a (x) y = Neg (t)"
    assert negative_parts(
        model_of(f"y = local.{caller} (x)", *OVERLOADS[:2], function_of(f"{caller} (x) => (y)", body))
    )


def test_overload_and_a_function_that_is_called_like_both() -> None:
    model = model_of("t = local.F:a (x) y = local.G (t)", OVERLOADS[0], function_of("G (x) => (y)", "y = Neg (x)"))
    model.functions[-1].name = model.graph.node[-1].op_type = "F:a"
    assert negative_parts(model)


@pytest.mark.parametrize("call", ["local.F:c", "local.F"])
def test_overload_that_is_not_defined(call: str) -> None:
    wanted = call.partition(":")[2]
    with pytest.raises(UsageError, match=rf"node 'y' calls the overload '{wanted}' of local\.F.*only 'a', 'b'"):
        import_onnx(model_of(f"y = {call} (x)", *OVERLOADS[:2]))


def test_overload_that_is_defined_twice() -> None:
    with pytest.raises(UsageError, match=r"overload 'a' of the function local\.F is defined twice"):
        import_onnx(model_of("y = local.F:a (x)", OVERLOADS[0], OVERLOADS[0]))


def test_functions_that_call_themselves_in_control_flow() -> None:
    body = "c = Constant <value: tensor = bool {1}> () y = If (c) <then_branch = t () => (a) { a = local.F (x) }, "
    body += "else_branch = e () => (b) { b = Relu (x) }>"
    with pytest.raises(UsageError, match=r"functions call themselves.*local\.F"):
        import_onnx(model_of("y = local.F (x)", function_of("F (x) => (y)", body)))
