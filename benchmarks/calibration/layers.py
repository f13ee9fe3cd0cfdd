"""Layers of real networks, one item each, on which our matrix engine is compared with somebody else's."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Layer:
    """A convolution without padding; its ``height`` and ``width`` are of the padded input.

    A matrix product ``m x k`` by ``k x n`` is a 1x1 convolution of ``k`` channels over an ``m x 1`` image. ``count``:
    how often the network has it.
    """

    network: str
    name: str
    height: int
    width: int
    kernel: int
    channels: int
    filters: int
    stride: int = 1
    count: int = 1

    @property
    def key(self) -> str:
        return f"{self.network} {self.name}"

    @property
    def rows(self) -> int:
        """Of the output."""
        return (self.height - self.kernel) // self.stride + 1

    @property
    def columns(self) -> int:
        """Of the output."""
        return (self.width - self.kernel) // self.stride + 1

    @property
    def m(self) -> int:
        """Output positions."""
        return self.rows * self.columns

    @property
    def n(self) -> int:
        """Output channels."""
        return self.filters

    @property
    def k(self) -> int:
        """Products in a sum."""
        return self.kernel**2 * self.channels

    @property
    def macs(self) -> int:
        return self.m * self.n * self.k


def _conv(
    network: str, size: int, channels: int, filters: int, kernel: int = 1, stride: int = 1, count: int = 1
) -> Layer:
    """A square convolution over ``size x size`` outputs of the kind that keeps the size at stride 1."""
    padded = (size - 1) * stride + kernel
    step = f"/{stride}" if stride > 1 else ""
    name = f"{kernel}x{kernel}{step} {channels}-{filters} @{size}"
    return Layer(network, name, padded, padded, kernel, channels, filters, stride, count)


def _product(network: str, name: str, m: int, n: int, k: int, count: int = 1) -> Layer:
    return Layer(network, f"{name} {m}x{k}x{n}", m, 1, 1, k, n, count=count)


def _resnet50() -> list[Layer]:
    """Version 1.5: the distinct convolutions, and the classifier (He et al., CVPR 2016)."""
    net = "resnet50"
    layers = [_conv(net, 112, 3, 64, 7, 2), _conv(net, 56, 64, 64)]
    layers += [_conv(net, 56, 256, 64, count=2), _conv(net, 56, 64, 64, 3, count=3), _conv(net, 56, 64, 256, count=4)]
    for size, wide, inner, blocks in ((28, 512, 128, 4), (14, 1024, 256, 6), (7, 2048, 512, 3)):
        layers += [_conv(net, 2 * size, wide // 2, inner), _conv(net, size, inner, inner, 3, 2)]
        layers += [_conv(net, size, wide // 2, wide, 1, 2), _conv(net, size, wide, inner, count=blocks - 1)]
        layers += [_conv(net, size, inner, inner, 3, count=blocks - 1), _conv(net, size, inner, wide, count=blocks)]
    return [*layers, _product(net, "classifier", 1, 1000, 2048)]


def _attention(network: str, tokens: int) -> list[Layer]:
    """Of a transformer of the base size: 12 layers of 768 features, 12 heads of 64."""
    return [
        _product(network, "projection", tokens, 768, 768, 48),
        _product(network, "scores", tokens, tokens, 64, 144),
        _product(network, "context", tokens, 64, tokens, 144),
    ]


def _mobilenet_v2() -> list[Layer]:
    """The stem and a selection of pointwise layers (Sandler et al., CVPR 2018); one channel of a depthwise one."""
    pointwise = ((112, 32, 16), (112, 16, 96), (56, 96, 24), (56, 24, 144), (28, 144, 32), (14, 192, 64))
    pointwise += ((14, 64, 384), (7, 576, 160), (7, 160, 960), (7, 320, 1280))
    layers = [_conv("mobilenet-v2", 112, 3, 32, 3, 2), _conv("mobilenet-v2", 28, 1, 1, 3)]
    return layers + [_conv("mobilenet-v2", *shape) for shape in pointwise]


WHOLE = ("resnet50", "bert-base")
"""The networks of which every layer is there."""

LAYERS: tuple[Layer, ...] = (
    *_resnet50(),
    *_attention("bert-base", 128),
    _product("bert-base", "expand", 128, 3072, 768, 12),
    _product("bert-base", "contract", 128, 768, 3072, 12),
    *_mobilenet_v2(),
    _conv("vit-b16", 14, 3, 768, 16, 16),
    *_attention("vit-b16", 197),
)
"""Every layer of the comparison."""
