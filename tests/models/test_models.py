"""The builders: same bytes in every process, valid ONNX, and activations of a healthy size down to the output."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest

from girih import models
from girih.ir.errors import UsageError
from girih.models.light import light, light_names

SMALL = {
    "bert-base": {"seq": 16, "layers": 2, "hidden": 64, "heads": 4, "ffn": 128},
    "mobilenet-v2": {"size": 32},
    "resnet50": {"size": 64},
    "tiny-cnn": {},
    "tiny-transformer": {},
    "vit-b16": {"size": 64, "layers": 2, "hidden": 64, "heads": 4, "ffn": 128},
}
"""Every model, at a size that a test can afford."""

Array = npt.NDArray[np.generic]


def specification(model: onnx.ModelProto) -> tuple[str, int, list[int | str]]:
    """Name, element type and shape of the only input."""
    (value,) = model.graph.input
    tensor = value.type.tensor_type
    return value.name, tensor.elem_type, [d.dim_param or d.dim_value for d in tensor.shape.dim]


def inputs(model: onnx.ModelProto, batch: int, seed: int = 0) -> dict[str, Array]:
    name, dtype, shape = specification(model)
    sizes = [batch if dim == "N" else int(dim) for dim in shape]
    rng = np.random.default_rng(seed)
    if dtype == onnx.TensorProto.INT64:
        return {name: rng.integers(0, 30522, sizes)}
    return {name: rng.standard_normal(sizes, dtype=np.float32)}


def activations(model: onnx.ModelProto, feeds: dict[str, Array]) -> dict[str, Array]:
    """What every node gives out, by name."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    del copy.graph.output[:]
    copy.graph.output.extend(
        onnx.ValueInfoProto(name=name) for node in model.graph.node for name in node.output if name
    )
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(copy.SerializeToString(), options, ["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def assert_healthy(model: onnx.ModelProto, seen: dict[str, Array]) -> None:
    for node in model.graph.node:
        value = seen[node.output[0]]
        # Probabilities sum to one, so that their size says nothing.
        if value.dtype != np.float32 or node.op_type == "Softmax" or value.size < 10:
            continue
        assert 0.05 <= value.std() <= 20, f"{node.name} ({node.op_type}) has std {value.std()}"


@pytest.mark.parametrize("name", models.names())
def test_model_is_valid_and_takes_a_symbolic_batch(name: str) -> None:
    model = models.build(name, **SMALL[name])
    onnx.checker.check_model(model, full_check=True)
    assert specification(model)[2][0] == "N"
    assert model.ir_version == 8
    assert [(o.domain, o.version) for o in model.opset_import] == [("", 17)]
    output = model.graph.output[0].type.tensor_type.shape.dim
    assert output[0].dim_param == "N"
    names = [node.name for node in model.graph.node]
    assert all(names) and len(set(names)) == len(names)


@pytest.mark.parametrize("name", models.names())
def test_activations_are_healthy_and_tell_inputs_apart(name: str) -> None:
    model = models.build(name, **SMALL[name])
    seen = activations(model, inputs(model, batch=3))
    assert_healthy(model, seen)
    output = seen[model.graph.output[0].name]
    assert 0.3 <= output.std() <= 10
    assert (output - output.mean(axis=0)).std() >= 0.1 * output.std()


def test_resnet50_is_healthy_at_full_size() -> None:
    model = models.build("resnet50")
    seen = activations(model, inputs(model, batch=1))
    assert_healthy(model, seen)
    assert seen["fc"].shape == (1, 1000)
    assert sum(node.op_type == "Conv" for node in model.graph.node) == 53
    # Version 1.5 puts the stride on the 3×3 convolution.
    assert seen["layer2.0.conv1"].shape == (1, 128, 56, 56)
    assert seen["layer2.0.conv2"].shape == (1, 128, 28, 28)


def weights(model: onnx.ModelProto) -> int:
    floats = (t for t in model.graph.initializer if t.data_type == onnx.TensorProto.FLOAT)
    return sum(int(np.prod(t.dims)) for t in floats if t.dims)


def test_sizes_are_those_of_the_papers() -> None:
    """The counts that the public implementations have, plus BatchNormalization's statistics."""
    assert weights(models.build("resnet50")) == 25_557_032 + 53_120
    assert weights(models.build("mobilenet-v2")) == 3_504_872 + 34_112
    assert weights(models.build("vit-b16", layers=1)) == 86_567_656 - 11 * 7_087_872


def test_word_embeddings_can_be_part_of_bert() -> None:
    model = models.build("bert-base", **SMALL["bert-base"], embeddings=True)
    onnx.checker.check_model(model, full_check=True)
    assert specification(model) == ("input_ids", onnx.TensorProto.INT64, ["N", 16])
    seen = activations(model, inputs(model, batch=2))
    assert_healthy(model, seen)
    assert seen[model.graph.output[0].name].shape == (2, 16, 64)


@pytest.mark.parametrize("name", ["tiny-cnn", "tiny-transformer"])
def test_bytes_are_the_same_in_every_process(name: str) -> None:
    program = (
        "import hashlib, sys; from girih.models import build;"
        "print(hashlib.sha256(build(sys.argv[1], seed=7).SerializeToString()).hexdigest())"
    )

    def digest(hash_seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", program, name]
        return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.strip()

    here = hashlib.sha256(models.build(name, seed=7).SerializeToString()).hexdigest()
    assert digest("1") == digest("2") == here


def test_seed_changes_every_drawn_weight_and_nothing_else() -> None:
    first, second = (models.build("tiny-cnn", seed=seed) for seed in (0, 1))
    assert first.graph.node == second.graph.node
    assert all(a != b for a, b in zip(first.graph.initializer, second.graph.initializer, strict=True))


@pytest.mark.parametrize("name", models.names())
def test_every_model_says_what_it_is(name: str) -> None:
    model = models.MODELS[name]
    assert model.name == name
    assert model.description.endswith(".") and model.paper
    assert "seed" not in model.params


@pytest.mark.parametrize(
    ("name", "params", "said"),
    [
        ("resnet51", {}, ["resnet51", *models.names()]),
        ("tiny-cnn", {"depth": 3}, ["depth", "size=16", "width=16", "classes=10"]),
        ("tiny-cnn", {"size": 0}, ["size", "positive whole number", "0"]),
        ("tiny-cnn", {"size": True}, ["size", "positive whole number", "True"]),
        ("bert-base", {"embeddings": 1}, ["embeddings", "True or False"]),
        ("tiny-transformer", {"heads": 5}, ["hidden = 32", "heads = 5"]),
        ("vit-b16", {"size": 225}, ["size = 225", "16"]),
        ("tiny-cnn", {"seed": -1}, ["seed = -1"]),
    ],
)
def test_wrong_use_names_the_choices(name: str, params: dict[str, int], said: list[str]) -> None:
    with pytest.raises(UsageError) as error:
        models.build(name, **params)
    for part in said:
        assert part in str(error.value)


def computed(model: onnx.ModelProto, seen: dict[str, Array]) -> dict[str, Array]:
    """The float values that depend on the input, but for probabilities: they sum to one, which decides their size."""
    fixed = {weight.name for weight in model.graph.initializer}
    values: dict[str, Array] = {}
    for node in model.graph.node:
        if fixed.issuperset(node.input):
            fixed.update(node.output)
        elif node.op_type != "Softmax" and seen[node.output[0]].dtype == np.float32:
            values[f"{node.name} ({node.op_type})"] = seen[node.output[0]]
    return values


HEAVY = ("bvlc_alexnet", "vgg19", "zfnet512")
"""Networks with hundreds of megabytes of weights."""


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if n in HEAVY else []) for n in light_names()]
)
def test_light_networks_stay_healthy_to_the_last_layer(name: str) -> None:
    model = light(name, seed=3)
    onnx.checker.check_model(model, full_check=True)
    assert not any(node.op_type == "ConstantOfShape" for node in model.graph.node)
    assert all(node.name for node in model.graph.node)
    first, second = (activations(model, inputs(model, batch=1, seed=seed)) for seed in (0, 1))
    for place, value in computed(model, first).items():
        assert 0.25 <= value.std() <= 3, f"{place} has std {value.std()}"
    output = model.graph.output[0].name
    assert np.linalg.norm(first[output] - second[output]) >= 0.025 * np.linalg.norm(first[output])
    for node in model.graph.node:
        if node.op_type == "Softmax":
            assert first[node.output[0]].max() <= 0.1, "one class takes it all"


def test_light_networks_are_named_and_seeded() -> None:
    assert len(light_names()) == 9
    assert light("squeezenet", 1) == light("squeezenet", 1) != light("squeezenet", 2)
    with pytest.raises(UsageError, match="squeezenet"):
        light("squeezenet2")
