"""Neural networks as small deterministic builders that write ONNX: same name and seed, same bytes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import onnx

from ..ir.errors import UsageError
from .bert import bert_base
from .conformer import conformer
from .densenet import densenet121
from .dlrm import dlrm
from .mobilenet import mobilenet_v2
from .resnet import resnet50
from .tiny import tiny_cnn, tiny_transformer
from .vit import vit_b16

__all__ = ["MODELS", "Model", "build", "names"]


@dataclass(frozen=True)
class Model:
    """One network that `build` can make. `builder` takes a seed and the params, all by keyword."""

    name: str
    builder: Callable[..., onnx.ModelProto]
    description: str
    paper: str

    @property
    def params(self) -> Mapping[str, int]:
        """Name and default of each parameter but the seed. A default of type bool makes a switch."""
        parameters = inspect.signature(self.builder).parameters
        return {name: p.default for name, p in parameters.items() if name != "seed"}


_BERT = "Devlin et al., BERT: Pre-training of Deep Bidirectional Transformers, NAACL 2019"
_RESNET = "He et al., Deep Residual Learning for Image Recognition, CVPR 2016"

MODELS: Mapping[str, Model] = {
    model.name: model
    for model in (
        Model(
            "bert-base",
            bert_base,
            "Text encoder of 12 layers and 110 million weights; 86 million without its word embeddings.",
            _BERT,
        ),
        Model(
            "conformer",
            conformer,
            "Speech encoder of 16 blocks, each of attention and of convolutions over time (medium).",
            "Gulati et al., Conformer: Convolution-augmented Transformer for Speech Recognition, Interspeech 2020",
        ),
        Model(
            "densenet121",
            densenet121,
            "Image classifier of 120 convolutions, each of which reads all that its block made before.",
            "Huang et al., Densely Connected Convolutional Networks, CVPR 2017",
        ),
        Model(
            "dlrm",
            dlrm,
            "Click predictor: two perceptrons around the products of 26 embeddings with one another.",
            "Naumov et al., Deep Learning Recommendation Model for Personalization and Recommendation Systems, 2019",
        ),
        Model(
            "mobilenet-v2",
            mobilenet_v2,
            "Image classifier for phones: inverted residuals around depthwise convolutions.",
            "Sandler et al., MobileNetV2: Inverted Residuals and Linear Bottlenecks, CVPR 2018",
        ),
        Model(
            "resnet50",
            resnet50,
            "Image classifier of 53 convolutions in residual bottlenecks (version 1.5).",
            _RESNET,
        ),
        Model(
            "tiny-cnn",
            tiny_cnn,
            "Four convolutions, a pool, a residual sum and a classifier on 16x16 images.",
            _RESNET,
        ),
        Model(
            "tiny-transformer",
            tiny_transformer,
            "BERT with 2 layers of 32 features.",
            _BERT,
        ),
        Model(
            "vit-b16",
            vit_b16,
            "Image classifier that reads 16x16 patches as the tokens of a transformer.",
            "Dosovitskiy et al., An Image is Worth 16x16 Words, ICLR 2021",
        ),
    )
}


def names() -> tuple[str, ...]:
    """The models that can be built, in alphabetical order."""
    return tuple(sorted(MODELS))


def build(name: str, *, seed: int = 0, **params: int) -> onnx.ModelProto:
    """Make the network `name`. UsageError on unknown names and on values that make no network."""
    if name not in MODELS:
        raise UsageError(f"unknown model {name!r}; choose one of {', '.join(names())}")
    model = MODELS[name]
    for key, value in params.items():
        _check(model, key, value)
    if seed < 0:
        raise UsageError(f"seed = {seed} is negative; give a whole number from 0")
    return model.builder(seed=seed, **params)


def _check(model: Model, key: str, value: int) -> None:
    if key not in model.params:
        choices = ", ".join(f"{k}={v}" for k, v in model.params.items())
        raise UsageError(f"model {model.name!r} has no parameter {key!r}; choose among {choices}")
    switch = isinstance(model.params[key], bool)
    if type(value) is not (bool if switch else int) or (not switch and value < 1):
        wanted = "True or False" if switch else "a positive whole number"
        raise UsageError(f"parameter {key!r} of model {model.name!r} must be {wanted}, not {value!r}")
