"""The builders: same bytes in every process, valid ONNX, and activations of a healthy size down to the output."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest

from girih import models
from girih.ir.errors import UsageError
from girih.models.light import light, light_names
from tests.support.small_models import SMALL

Array = npt.NDArray[np.generic]


def specification(model: onnx.ModelProto) -> list[tuple[str, int, list[int | str]]]:
    """Name, element type and shape of each input."""
    tensors = [(value.name, value.type.tensor_type) for value in model.graph.input]
    return [(name, t.elem_type, [d.dim_param or d.dim_value for d in t.shape.dim]) for name, t in tensors]


def inputs(model: onnx.ModelProto, batch: int, seed: int = 0, below: int = 30522) -> dict[str, Array]:
    """Normal floats, and whole numbers from 0 to ``below``."""
    rng = np.random.default_rng(seed)
    arrays: dict[str, Array] = {}
    for name, dtype, shape in specification(model):
        sizes = [batch if dim == "N" else int(dim) for dim in shape]
        whole = dtype == onnx.TensorProto.INT64
        arrays[name] = rng.integers(0, below, sizes) if whole else rng.standard_normal(sizes, dtype=np.float32)
    return arrays


def activations(model: onnx.ModelProto, feeds: dict[str, Array]) -> dict[str, Array]:
    """What every node gives out, by name."""
    return all_activations(model, [feeds])[0]


def all_activations(model: onnx.ModelProto, several: Sequence[dict[str, Array]]) -> list[dict[str, Array]]:
    """What every node gives out, by name, for each of several inputs; the network is loaded once."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    del copy.graph.output[:]
    copy.graph.output.extend(
        onnx.ValueInfoProto(name=name) for node in model.graph.node for name in node.output if name
    )
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(copy.SerializeToString(), options, ["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return [dict(zip(names, session.run(names, feeds), strict=True)) for feeds in several]


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
    assert all(shape[0] == "N" for _, _, shape in specification(model))
    assert model.ir_version == 8
    assert [(o.domain, o.version) for o in model.opset_import] == [("", 17)]
    output = model.graph.output[0].type.tensor_type.shape.dim
    assert output[0].dim_param == "N"
    names = [node.name for node in model.graph.node]
    assert all(names) and len(set(names)) == len(names)


@pytest.mark.parametrize("name", models.names())
def test_activations_are_healthy_and_tell_inputs_apart(name: str) -> None:
    model = models.build(name, **SMALL[name])
    seen = activations(model, inputs(model, batch=16))
    assert_healthy(model, seen)
    output = seen[model.graph.output[0].name]
    assert 0.3 <= output.std() <= 10
    assert (output - output.mean(axis=0)).std() >= 0.1 * output.std()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["conformer", "densenet121", "dlrm"])
def test_full_size_is_healthy_and_tells_inputs_apart(name: str) -> None:
    model = models.build(name)
    seen = activations(model, inputs(model, batch=2))
    assert_healthy(model, seen)
    first, second = seen[model.graph.output[0].name]
    assert np.linalg.norm(first - second) >= 0.05 * np.linalg.norm(first)


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
    assert weights(models.build("densenet121")) == 7_978_856 + 83_648


def test_dlrm_has_the_perceptrons_of_its_authors() -> None:
    """A weight for each pair of sizes, and a row of 64 for each index of a table."""
    bottom, top = (13, 512, 256, 64), (64 + 27 * 26 // 2, 512, 512, 256, 1)
    sizes = [pair for layers in (bottom, top) for pair in pairwise(layers)]
    assert weights(models.build("dlrm")) == sum(fan_in * fan_out + fan_out for fan_in, fan_out in sizes)
    tables = models.build("dlrm", embeddings=True, rows=50)
    assert weights(tables) == weights(models.build("dlrm")) + 26 * 50 * 64


def test_dlrm_multiplies_each_pair_of_vectors_once() -> None:
    model = models.build("dlrm", **SMALL["dlrm"])
    feeds = inputs(model, batch=4)
    seen = activations(model, feeds)
    vectors = np.concatenate([seen["bottom.2.relu"][:, None], feeds["embedding"]], axis=1)
    pairs = [(vectors[:, i] * vectors[:, j]).sum(axis=-1) for i in range(6) for j in range(i)]
    np.testing.assert_allclose(seen["interaction"][:, 16:], np.stack(pairs, axis=1), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(seen["interaction"][:, :16], seen["bottom.2.relu"])


def test_embedding_tables_can_be_part_of_dlrm() -> None:
    params = {**SMALL["dlrm"], "rows": 20}
    looked_up, whole = models.build("dlrm", **params), models.build("dlrm", **params, embeddings=True)
    feeds = inputs(whole, batch=4, below=20)
    seen = activations(whole, feeds)
    assert_healthy(whole, seen)
    (table,) = (w for w in whole.graph.initializer if w.name == "tables.weight")
    rows = onnx.numpy_helper.to_array(table).reshape(5, 20, 16)
    found = np.stack([rows[t, feeds["indices"][:, t]] for t in range(5)], axis=1)
    alone = activations(looked_up, {"dense": feeds["dense"], "embedding": found})
    np.testing.assert_array_equal(seen["click"], alone["click"])


def test_conformer_has_the_layers_of_its_paper() -> None:
    """Medium: 16 blocks of 256 features with 4 heads, of which four frames of 10 ms make one token of 40 ms."""
    params = models.MODELS["conformer"].params
    assert [params[k] for k in ("layers", "hidden", "heads", "ffn")] == [16, 256, 4, 4 * 256]
    model = models.build("conformer", layers=1, frames=1001)
    output = model.graph.output[0].type.tensor_type.shape.dim
    assert [d.dim_value for d in output[1:]] == [251, 256]
    d, f, k = 256, 1024, 31
    norms, ffn = 5 * 2 * d, 2 * (2 * d * f + f + d)
    convolution = (2 * d * d + 2 * d) + (k * d + d) + 4 * d + (d * d + d)
    block = norms + ffn + 4 * (d * d + d) + convolution
    subsampling = (9 * d + d) + (9 * d * d + d) + (20 * d * d + d)
    assert weights(model) == subsampling + 251 * d + block
    seen = activations(model, inputs(model, batch=1))
    gate = seen["layer.0.conv.pointwise1"]
    expected = gate[:, :d] / (1 + np.exp(-gate[:, d:]))
    np.testing.assert_allclose(seen["layer.0.conv.glu"], expected, rtol=1e-4, atol=1e-5)
    halved = seen["layer.0.ffn1.residual"] - seen["position"]
    np.testing.assert_allclose(halved, seen["layer.0.ffn1.fc2.add"] / 2, rtol=1e-4, atol=1e-4)


def test_word_embeddings_can_be_part_of_bert() -> None:
    model = models.build("bert-base", **SMALL["bert-base"], embeddings=True)
    onnx.checker.check_model(model, full_check=True)
    assert specification(model) == [("input_ids", onnx.TensorProto.INT64, ["N", 16])]
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


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("tiny-cnn", {"width": 99_999_999_999}, "weights of at least 10,799,999,999,892 bytes"),
        ("tiny-cnn", {"size": 10**30}, r"input 'input' of tiny-cnn .* extent of 1(,000){10}, .* 2,147,483,647"),
        ("dlrm", {"tables": 99_999}, "'pairs.index' with them, .* 2,000,000,000;"),
        ("dlrm", {"tables": 10**12, "embeddings": True}, "input 'indices' of dlrm"),
        ("dlrm", {"rows": 10**30, "embeddings": True}, "'tables.weight' with them"),
        ("bert-base", {"layers": 10**9}, "bert-base would have weights of at least 2,0"),
    ],
)
def test_what_no_file_can_hold_is_refused_before_it_is_computed(
    name: str, params: dict[str, int], message: str
) -> None:
    began = time.perf_counter()
    with pytest.raises(UsageError, match=f"{message}.*give smaller parameters"):
        models.build(name, **params)
    assert time.perf_counter() - began < 2


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
    first, second = all_activations(model, [inputs(model, batch=1, seed=seed) for seed in (0, 1)])
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
