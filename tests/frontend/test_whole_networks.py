"""Whole networks against ONNX Runtime."""

from __future__ import annotations

from functools import lru_cache

import onnx
import pytest

from girih import models
from girih.models.light import light, light_names
from tests.support.onnx_models import compare
from tests.support.sampled import sampled_pairs

BUILT = ("resnet50", "mobilenet-v2", "bert-base", "vit-b16", "dlrm", "densenet121", "conformer")

SMALL = {
    "conformer": {"frames": 36, "layers": 2, "hidden": 32, "heads": 2, "ffn": 64, "kernel": 7},
    "densenet121": {"size": 32, "growth": 4},
    "dlrm": {"tables": 5, "features": 16, "width": 64},
}
"""Sizes of large networks that every run of the tests can afford."""

TOLERANCE = {"as-is": 1e-5, "fp16": 8e-3}
"""Well below what the outputs for two inputs differ by (2.5e-2 at least, tests/models): to ignore the input is an error."""


LARGEST = "vgg19"
"""Of the light networks: 144 million weights, and no operator that the others do not have."""


@lru_cache(maxsize=1)
def network(name: str) -> onnx.ModelProto:
    return light(name.removeprefix("light/")) if name.startswith("light/") else models.build(name)


@pytest.mark.parametrize("precision", ["as-is", "fp16"])
@pytest.mark.parametrize("name", ["tiny-cnn", "tiny-transformer"])
def test_small(name: str, precision: str) -> None:
    for batch, clusters in ((1, 1), (3, 2), (8, 4)):
        compare(models.build(name), batch=batch, clusters=clusters, precision=precision)


@pytest.mark.parametrize("precision", ["as-is", "fp16"])
@pytest.mark.parametrize("name", SMALL)
def test_large_made_small(name: str, precision: str) -> None:
    compare(models.build(name, **SMALL[name]), batch=3, clusters=2, precision=precision, tolerance=TOLERANCE[precision])


@pytest.mark.parametrize("precision", ["as-is", "fp16"])
def test_only_the_look_up_of_embeddings_is_on_the_host(precision: str) -> None:
    model = models.build("dlrm", **SMALL["dlrm"], embeddings=True)
    graph = compare(model, batch=8, clusters=4, precision=precision, host=True)
    assert [op.name for op in graph.ops if op.host] == ["tables"]
    assert graph.replicas == 4


@pytest.mark.slow
@pytest.mark.parametrize(("name", "precision"), sampled_pairs(BUILT, ["as-is", "fp16"], 2))
def test_large(name: str, precision: str) -> None:
    compare(network(name), batch=1, precision=precision, tolerance=TOLERANCE[precision])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "precision"), [
    *sampled_pairs([f"light/{n}" for n in light_names() if n != LARGEST], ["as-is", "fp16"], 2),
    *(pytest.param(f"light/{LARGEST}", precision, marks=pytest.mark.thorough) for precision in ("as-is", "fp16")),
])  # fmt: skip
def test_light(name: str, precision: str) -> None:
    compare(network(name), precision=precision, tolerance=TOLERANCE[precision])
