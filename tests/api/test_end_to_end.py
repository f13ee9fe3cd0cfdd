"""From a network to checked outputs, through the front door."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

import girih
from girih.api.run import compare_with_graph, compare_with_network, make_inputs
from girih.models import build
from girih.solver.options import Strategy
from tests.support.onnx_models import Model
from tests.support.sampled import sampled, sampled_pairs

pytestmark = pytest.mark.usefixtures("unhurried_solver")


@pytest.fixture(scope="module")
def compiled() -> girih.Compiled:
    return girih.compile(build("tiny-cnn").SerializeToString(), target="tiny", batch=3, solver_timeout=6)


def test_outputs_agree_with_the_network(compiled: girih.Compiled) -> None:
    result = compiled.run(check=True)
    assert result.check is not None
    assert result.check.rel_err <= 1e-4
    assert not result.violations
    assert result.npu_fraction.macs == 1
    assert result.cycles >= compiled.plan.lower_bound_cycles > 0


def test_half_precision_on_the_default_target() -> None:
    network = build("tiny-transformer").SerializeToString()
    result = girih.compile(network, precision="fp16", batch=2, solver_timeout=6).run(check=True)
    assert result.check is not None
    assert 5e-4 < result.check.rel_err <= result.check.tolerance < 1e-2


@pytest.mark.parametrize("strategy", sampled(["solver", "graphturbo", "layerwise"], 3))
def test_a_chain_of_600_operators_is_one_operator_that_fits(strategy: Strategy) -> None:
    """On a machine with 16 KiB for private buffers, of which there are hundreds, two at a time."""
    model = Model()
    x = model.input("x", 1, 64)
    for i in range(150):
        x = model.node("Sigmoid", model.node("Mul", x, model.weight(f"scale{i}", 64)))
        x = model.node("Tanh", model.node("Add", x, model.weight(f"shift{i}", 64)))
    compiled = girih.compile(model.build(x).SerializeToString(), target="tiny", strategy=strategy, solver_timeout=1)
    assert len(compiled.graph.ops) == 1 and len(compiled.graph.ops[0].stages) == 600
    result = compiled.run(check=True)
    assert result.check is not None and result.check.passed
    assert not result.violations


def test_a_saved_network_runs_the_same(compiled: girih.Compiled, tmp_path: Path) -> None:
    compiled.save(tmp_path / "net.girih")
    inputs = {"input": np.random.default_rng(1).standard_normal((3, 3, 16, 16), dtype=np.float32)}
    one, two = compiled.run(inputs), girih.load(tmp_path / "net.girih").run(inputs)
    assert one.cycles == two.cycles
    assert one.outputs.keys() == two.outputs.keys()
    for name, array in one.outputs.items():
        np.testing.assert_array_equal(array, two.outputs[name])


def test_the_same_command_gives_the_same_bytes(compiled: girih.Compiled) -> None:
    again = girih.compile(build("tiny-cnn").SerializeToString(), target="tiny", batch=3, solver_timeout=6)
    assert again.plan_sha256 == compiled.plan_sha256
    assert again.program_sha256 == compiled.program_sha256


def test_layerwise_takes_longer(compiled: girih.Compiled) -> None:
    network = build("tiny-cnn").SerializeToString()
    layerwise = girih.compile(network, target="tiny", batch=3, solver_timeout=2, strategy="layerwise")
    assert layerwise.run(check=True).cycles > compiled.run().cycles


def test_a_wrong_answer_does_not_pass(compiled: girih.Compiled) -> None:
    weights = dict(compiled.graph.data)
    try:
        name = next(c.tensor for c in compiled.graph.constants)
        compiled.graph.data[name] = weights[name] + 1
        with pytest.raises(girih.CheckError, match="differ from the reference"):
            compiled.run(check=True)
    finally:
        compiled.graph.data.update(weights)


@pytest.mark.parametrize(("network", "target"), sampled_pairs(["tiny-cnn", "tiny-transformer"], ["tiny", "stcp920"], 2))
def test_every_element_is_what_graph_and_plan_say(network: str, target: str) -> None:
    precision = "as-is" if target == "tiny" else "fp16"
    model = build(network).SerializeToString()
    made = girih.compile(model, target=target, batch=2, precision=precision, solver_timeout=1)
    result = made.run(check="exact")
    assert result.check is not None and result.check.exact
    assert all(o.different == 0 < o.elements for o in result.check.outputs)


def test_products_are_rounded_once() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[50, 7] x) => (y) { y = ReduceProd <axes = [1]> (x) }'
    )
    result = girih.compile(model, target="tiny", strategy="graphturbo", cache=False).run(check="exact")
    assert result.check is not None and result.check.tolerance == 0


def test_a_single_wrong_bit_is_reported(compiled: girih.Compiled) -> None:
    result = compiled.run(check="exact")
    (name,) = result.outputs
    result.outputs[name][1, 2] = np.nextafter(result.outputs[name][1, 2], np.float32(9e9))
    inputs = make_inputs(compiled, 0)
    wrong = replace(result, check=compare_with_graph(compiled, inputs, result.outputs))
    with pytest.raises(girih.CheckError, match=rf"'{name}' in 1 of 30 elements, by at most .*, first at \[1, 2\]"):
        wrong.verify()
    # Which is much less than a network in float32 may differ by.
    assert compare_with_network(compiled, inputs, result.outputs).passed


def test_checks_that_there_are(compiled: girih.Compiled) -> None:
    with pytest.raises(girih.UsageError, match=r'check is .*; pass True, False or "exact"'):
        compiled.run(check="precise")  # type: ignore[arg-type]


def test_the_report_explains_the_run(compiled: girih.Compiled) -> None:
    result = compiled.run()
    report = compiled.explain(result.trace)
    assert report.summary.cycles == result.cycles
    # Without a run, the program is run in time alone, which tells the same.
    assert compiled.explain() == report
    assert {row.model.partition(":")[0] for row in report.models} >= {
        "segmentation", "residency", "tiling", "pipeline", "banks",
    }  # fmt: skip
    assert report.summary.plans >= 1


def test_progress_is_reported() -> None:
    heard: list[str] = []
    girih.compile(
        build("tiny-cnn").SerializeToString(),
        target="tiny",
        batch=1,
        solver_timeout=1,
        progress=lambda news: heard.append(news.model),
    )
    assert {"import", "plan", "lower", "tiling"} <= set(heard)


def test_the_name_of_the_file_decides_nothing(tmp_path: Path) -> None:
    made: list[girih.Compiled] = []
    for name in ("one.onnx", "another.onnx"):
        (tmp_path / name).write_bytes(build("tiny-cnn").SerializeToString(deterministic=True))
        made.append(girih.compile(tmp_path / name, target="tiny", batch=1, solver_timeout=1))
    one, another = made
    assert (one.graph.name, another.graph.name) == ("one", "another")
    assert one.graph.digest == another.graph.digest == one.plan.graph_sha256
    assert one.plan_sha256 == another.plan_sha256
    assert one.program_sha256 == another.program_sha256


def test_a_product_with_nothing_loads_what_its_bound_counts() -> None:
    """``Gemm`` with ``alpha = 0``: no program is shorter than the lower bound."""
    model = Model()
    factors, added = (model.input("x", 4, 2), model.input("w", 4, 4)), model.constant("c", -2.0, "float32")
    product = model.node("Gemm", *factors, added, alpha=0.0, transA=1)
    compiled = girih.compile(model.build(product), target="tiny", solver_timeout=1.0)
    run = compiled.run(check=True)
    assert run.check is not None and run.check.passed
    assert run.cycles >= compiled.plan.lower_bound_cycles
