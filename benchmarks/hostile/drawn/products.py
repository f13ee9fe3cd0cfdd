"""Matrix products, convolutions and pools."""

from __future__ import annotations

from random import Random

import numpy as np

from benchmarks.hostile.drawn.draft import SIZES, Draft, Value


def matmul(draft: Draft) -> object:
    value = draft.floats(1)
    if value is None:
        return None
    inner = value.shape[-1]
    other = draft.pick(lambda v: v.dtype == np.float32 and v.rank >= 2 and v.shape[-2] == inner)
    if other is None or draft.rng.random() < 0.6:
        lead = value.shape[:-2] if draft.rng.random() < 0.2 else ()
        other = draft.noise(*lead, inner, draft.rng.choice(SIZES), scale=inner**-0.5)
    return draft.node("MatMul", [value, other])


def gemm(draft: Draft) -> object:
    value = draft.pick(lambda v: v.dtype == np.float32 and v.rank == 2)
    if value is None:
        return None
    rng, turned, turned_b = draft.rng, draft.rng.random() < 0.4, draft.rng.random() < 0.5
    rows, inner = value.shape[::-1] if turned else value.shape
    columns = rng.choice(SIZES)
    weights = draft.noise(*((columns, inner) if turned_b else (inner, columns)), scale=inner**-0.5)
    bias = rng.choice(((columns,), (1, columns), (rows, 1), (rows, columns), (), None))
    operands = [value, weights, *([] if bias is None else [draft.noise(*bias)])]
    factors = {"alpha": rng.choice((None, 0.5, -1.5)), "beta": rng.choice((None, 0.0, 2.0))}
    return draft.node("Gemm", operands, transA=int(turned), transB=int(turned_b), **factors)


def einsum(draft: Draft) -> object:
    value = draft.pick(lambda v: v.dtype == np.float32 and v.rank in (2, 3))
    if value is None:
        return None
    size = draft.rng.choice(SIZES)
    if value.rank == 2:
        a, b = value.shape
        equation, shape = draft.rng.choice((("ab,bc->ca", (b, size)), ("ab,ab->a", (a, b)), ("ab,cb->ac", (size, b))))
    else:
        a, b, c = value.shape
        equation, shape = draft.rng.choice(
            (("abc,cd->adb", (c, size)), ("abc,abd->acd", (a, b, size)), ("abc,dc->abd", (size, c)))
        )
    return draft.node("Einsum", [value, draft.noise(*shape, scale=0.3)], equation=equation)


def _window(rng: Random, spatial: tuple[int, ...]) -> dict[str, object]:
    """Kernel, strides, dilations and padding that fit a shape mostly."""
    rank = len(spatial)
    kernel = [min(size, rng.choice((1, 2, 3, 3, 5))) for size in spatial]
    window: dict[str, object] = {"kernel_shape": kernel}
    if rng.random() < 0.5:
        window["strides"] = [rng.choice((1, 2, 3)) for _ in spatial]
    if rng.random() < 0.15:
        window["auto_pad"] = rng.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))
    elif rng.random() < 0.6:
        window["pads"] = [rng.randrange(kernel[axis % rank]) for axis in range(2 * rank)]
    if rng.random() < 0.25:
        window["dilations"] = [rng.choice((1, 2)) for _ in spatial]
    return window


def _images(draft: Draft) -> Value | None:
    return draft.pick(lambda v: v.dtype == np.float32 and 3 <= v.rank <= 5)


def conv(draft: Draft) -> object:
    value = _images(draft)
    if value is None:
        return None
    channels = value.shape[1]
    groups = draft.rng.choice([g for g in range(1, channels + 1) if channels % g == 0])
    out = groups * draft.rng.choice((1, 2, 3))
    window = _window(draft.rng, value.shape[2:])
    kernel: list[int] = window["kernel_shape"]  # type: ignore[assignment]
    size = channels // groups * int(np.prod(kernel))
    weights = draft.noise(out, channels // groups, *kernel, scale=size**-0.5)
    bias = [draft.noise(out)] if draft.rng.random() < 0.5 else []
    return draft.node("Conv", [value, weights, *bias], group=groups, **window)


def conv_transpose(draft: Draft) -> object:
    value = _images(draft)
    if value is None:
        return None
    channels = value.shape[1]
    groups = draft.rng.choice([g for g in range(1, channels + 1) if channels % g == 0])
    each = draft.rng.choice((1, 2, 3))
    window = _window(draft.rng, value.shape[2:])
    window.pop("auto_pad", None)
    kernel: list[int] = window["kernel_shape"]  # type: ignore[assignment]
    weights = draft.noise(channels, each, *kernel, scale=channels**-0.5)
    bias = [draft.noise(groups * each)] if draft.rng.random() < 0.5 else []
    return draft.node("ConvTranspose", [value, weights, *bias], group=groups, **window)


def pool(draft: Draft) -> object:
    value = _images(draft)
    if value is None:
        return None
    rng = draft.rng
    if rng.random() < 0.25:
        return draft.node(rng.choice(("GlobalAveragePool", "GlobalMaxPool")), [value])
    window = _window(rng, value.shape[2:])
    ceil = int(rng.random() < 0.3) if "auto_pad" not in window else None
    if "auto_pad" in window:
        window.pop("dilations", None)  # ONNX Runtime pads as if there were none.
    if rng.random() < 0.5:
        return draft.node("MaxPool", [value], ceil_mode=ceil, **window)
    window.pop("dilations", None)
    return draft.node("AveragePool", [value], ceil_mode=ceil, count_include_pad=rng.choice((None, 0, 1)), **window)
