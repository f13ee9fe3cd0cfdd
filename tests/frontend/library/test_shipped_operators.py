"""Operators that ship as kernels for a scalar engine: imported, placed, timed, run and compared."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest

from girih import Compiled, GirihError, compile
from girih.frontend.import_network import import_onnx
from girih.ir.custom_operators import register_operator, registered_for_now
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine

RANDOM = np.random.default_rng(11)


def top_k_model(k: int = 5, attributes: str = "axis = 1") -> onnx.ModelProto:
    return onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["": 17]> net (float[N, 40] x) => (float[N, {k}] v, int64[N, {k}] p)
        <int64[1] k = {{{k}}}> {{ a = Relu (x)   t, p = TopK <{attributes}> (a, k)   v = Sqrt (t) }}"""
    )


def shipped(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17, "girih": 1]> net {text}')


def without_scalar(machine: Machine) -> Machine:
    return replace(machine, engines=tuple(e for e in machine.engines if "scalar" not in e.classes))


def mnemonics(compiled: Compiled) -> set[str]:
    return {instruction.mnemonic for stream in compiled.program.streams for instruction in stream}


@pytest.mark.parametrize("target", ["tiny", "stcp920"])
def test_top_k_runs_on_the_scalar_engine_sample_by_sample(target: str) -> None:
    x = RANDOM.normal(size=(3, 40)).astype(np.float32)
    compiled = compile(top_k_model(), target=target, batch=3, solver_timeout=2)
    result = compiled.run({"x": x}, check=True)
    positions = np.argsort(-np.maximum(x, 0), 1, kind="stable")[:, :5]
    np.testing.assert_array_equal(result.outputs["p"], positions)
    assert result.npu_fraction.elements == 1.0 and not result.trace.violations
    assert {"scall"} == mnemonics(compiled) & {"scall", "hcall"}
    assert compiled.graph.replicas == min(3, compiled.machine.clusters)
    assert result.cycles == pytest.approx(compiled.plan.cycles_predicted, rel=0.01)
    assert result.trace.counters["scalar_total_cycle"] > result.trace.counters["host_total_cycle"] == 0


def test_a_machine_without_scalar_engine_runs_it_on_the_host() -> None:
    x = RANDOM.normal(size=(2, 40)).astype(np.float32)
    machine = without_scalar(load_machine("tiny"))
    compiled = compile(top_k_model(), target=machine, batch=2, strategy="layerwise")
    result = compiled.run({"x": x}, check=True)
    assert {"hcall"} == mnemonics(compiled) & {"scall", "hcall"} and result.npu_fraction.elements < 1.0


@pytest.mark.parametrize("attributes", ["axis = 0", "largest = 0", "sorted = 0", "axis = -1, largest = 0"])
def test_attributes_of_top_k(attributes: str) -> None:
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["": 17]> net (float[9, 9] x) => (v, p) <int64[1] k = {{4}}>
        {{ v, p = TopK <{attributes}> (x, k) }}"""
    )
    x = RANDOM.permutation(81).reshape(9, 9).astype(np.float32)
    result = compile(model, target="tiny", strategy="layerwise").run({"x": x}, check=True)
    axis = 0 if attributes == "axis = 0" else 1
    order = np.argsort(x if "largest = 0" in attributes else -x, axis).take(range(4), axis)
    np.testing.assert_array_equal(result.outputs["p"], order)


@pytest.mark.parametrize("precision", ["as-is", "fp16"])
def test_sort(precision: str) -> None:
    model = shipped("(float[3, 53] x) => (float[3, 53] v, int64[3, 53] p) { v, p = girih.Sort <descending = 1> (x) }")
    x = RANDOM.permutation(159).reshape(3, 53).astype(np.float32)
    result = compile(model, target="stcp920", strategy="layerwise", precision=precision).run({"x": x}, check=True)
    np.testing.assert_array_equal(result.outputs["v"], -np.sort(-x, 1))
    np.testing.assert_array_equal(result.outputs["p"], np.argsort(-x, 1))


def test_non_maximum_suppression() -> None:
    model = shipped(
        """(float[1, 60, 4] b, float[1, 2, 60] s) => (int64[50, 3] y, int64[1] n)
        { y, n = girih.NonMaxSuppression
            <max_output_boxes_per_class = 25, iou_threshold = 0.1, score_threshold = 0.2> (b, s) }"""
    )
    b, s = (RANDOM.random(shape).astype(np.float32) for shape in ((1, 60, 4), (1, 2, 60)))
    result = compile(model, target="tiny", strategy="layerwise").run({"b": b, "s": s}, check=True)
    count = int(result.outputs["n"][0])
    chosen = result.outputs["y"][:count]
    scores = [s[0, c, i] for _, c, i in chosen]
    assert 0 < count < 50 and (result.outputs["y"][count:] == -1).all()
    assert all(a >= b for (_, c, _), (_, d, _), a, b in zip(chosen, chosen[1:], scores, scores[1:]) if c == d)  # noqa: B905
    assert result.npu_fraction.elements == 1.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(float[4] x) => (v, p) { v, p = girih.TopK <k = 5> (x) }", "k is 5, and there are 4 entries along axis -1"),
        (
            "(float[4] x) => (y) { y = girih.Median (x) }",
            "the domain girih has no Median, but NonMaxSuppression, Sort, TopK",
        ),
        ("(float[4] x) => (v, p) { v, p = girih.Sort <axis = 1> (x) }", "axis 1 is none of the 1 dimensions"),
        ("(float[4] x) => (v, p) { v, p = girih.Sort <direction = 1> (x) }", "unexpected keyword argument 'direction'"),
        (
            "(float[1, 4, 4] b, float[1, 2, 5] s) => (y, n) "
            "{ y, n = girih.NonMaxSuppression <max_output_boxes_per_class = 1> (b, s) }",
            r"boxes \[1, 4, 4\] and scores \[1, 2, 5\] are not \[B, N, 4\] and \[B, C, N\]",
        ),
    ],
)
def test_what_cannot_be_is_refused(text: str, message: str) -> None:
    with pytest.raises(GirihError, match=message):
        import_onnx(shipped(text))


def test_a_user_may_register_another_one() -> None:
    model = shipped("(float[4] x) => (float[4] y) { y = girih.Sort (x) }")
    with registered_for_now():
        register_operator("girih", "Sort", height="graph")(lambda x: x)
        compiled = compile(model, target="tiny", strategy="layerwise")
        x = np.array([3, 1, 2, 0], np.float32)
        np.testing.assert_array_equal(compiled.run({"x": x}).outputs["y"], x)


def test_what_has_no_fixed_size_names_what_has() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]> net (float[1, 5, 4] b, float[1, 2, 5] s) => (int64[n, 3] y)
        <int64[1] k = {3}> { y = NonMaxSuppression (b, s, k) }"""
    )
    with pytest.raises(GirihError, match=r"depends on data .*; girih\.NonMaxSuppression has results of fixed size"):
        import_onnx(model)
