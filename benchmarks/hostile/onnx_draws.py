"""Operators with attributes at random, by kind; each draw appends a node or two to a draft, or nothing.

Draws keep to what has one right answer: functions that jump see only values that rounding does not change, and those
with a pole stay away from it.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np

from benchmarks.hostile.onnx_draft import SIZES, Draft, Value

Draw = Callable[[Draft], object]

_SMOOTH = (
    "Relu", "Sigmoid", "Tanh", "Abs", "Neg", "Erf", "Softplus", "LeakyRelu", "Elu", "Selu", "HardSigmoid", "HardSwish",
    "Softsign", "Sin", "Cos", "Atan", "Identity", "ThresholdedRelu", "Celu", "Mish", "Gelu",
)  # fmt: skip
_JUMPS = ("Floor", "Ceil", "Round", "Sign")
_COMPARISONS = ("Less", "Greater", "Equal", "LessOrEqual", "GreaterOrEqual")
_REDUCTIONS = (
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceSumSquare", "ReduceL1", "ReduceL2", "ReduceProd",
)  # fmt: skip
_AXES_ARE_AN_INPUT = 18
"""The operator set from which axes of all reductions are an input."""


def _axis(rng: Random, rank: int) -> int:
    return rng.randrange(-rank, rank)


def _axes(rng: Random, rank: int) -> list[int]:
    axes = rng.sample(range(rank), rng.randrange(1, rank + 1))
    return [axis - rank if rng.random() < 0.3 else axis for axis in axes]


def _same(draft: Draft, value: Value, scalar: bool = False) -> str | Value:
    """Another operand that broadcasts with a value: a value of the network, or weights with fewer or single axes."""
    other = draft.pick(lambda v: v.dtype == value.dtype and _broadcast(v.shape, value.shape))
    if other is not None and not scalar and draft.rng.random() < 0.5:
        return other
    kept = value.shape[draft.rng.randrange(value.rank + 1) :]
    shape = [1 if draft.rng.random() < 0.3 else size for size in kept]
    if value.dtype == np.float32:
        return draft.noise(*shape)
    generator = np.random.Generator(np.random.PCG64(draft.rng.getrandbits(32)))
    high = 2 if value.dtype == np.bool_ else 9
    return draft.constant(generator.integers(1 if high > 2 else 0, high, shape).astype(value.dtype))


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return all(m == n or 1 in (m, n) for m, n in zip(reversed(a), reversed(b), strict=False))


# Element functions.


def smooth(draft: Draft) -> object:
    value = draft.floats()
    operator = draft.rng.choice(_SMOOTH)
    steady = value is not None and value.steady and operator in ("Relu", "Abs", "Neg", "Identity")
    return value and draft.node(operator, [value], steady=steady)


def with_pole(draft: Draft) -> object:
    """Roots, logarithms, powers and quotients of what is above a half; the exponential of what is not large."""
    value = draft.floats()
    if value is None:
        return None
    operator = draft.rng.choice(("Sqrt", "Log", "Reciprocal", "Pow", "Div", "Exp"))
    if operator == "Exp":
        bounded = draft.node("Clip", [value, draft.constant(-4, "float32"), draft.constant(2.5, "float32")])
        return bounded and draft.node("Exp", bounded)
    positive = draft.node("Abs", [value])
    positive = positive and draft.node("Add", [positive[0], draft.constant(0.5, "float32")])
    if not positive:
        return None
    if operator == "Pow":
        exponent = draft.rng.choice((0.0, 0.5, 1.0, 2.0, 3.0, -1.0, -0.5, 1.7))
        dtype = draft.rng.choice(("float32", "float32", "int64")) if exponent == int(exponent) else "float32"
        return draft.node("Pow", [positive[0], draft.constant(exponent, dtype)])
    if operator == "Div":
        return draft.node("Div", [_same(draft, positive[0]), positive[0]])
    return draft.node(operator, positive)


def jump(draft: Draft) -> object:
    value = draft.pick(lambda v: v.dtype == np.float32 and v.steady)
    return value and draft.node(draft.rng.choice(_JUMPS), [value], steady=True)


def binary(draft: Draft) -> object:
    value = draft.pick(lambda v: v.dtype in (np.float32, np.int64, np.int32))
    if value is None:
        return None
    operands = [value, _same(draft, value)]
    operator = draft.rng.choice(("Add", "Sub", "Mul", "Max", "Min"))
    if value.dtype == np.float32 and draft.rng.random() < 0.15:
        return draft.node("PRelu", [value, draft.noise(*value.shape[draft.rng.randrange(value.rank + 1) :])])
    draft.rng.shuffle(operands)
    return draft.node(operator, operands)


def variadic(draft: Draft) -> object:
    value = draft.floats()
    if value is None:
        return None
    operands = [value, *(_same(draft, value) for _ in range(draft.rng.randrange(3)))]
    return draft.node(draft.rng.choice(("Sum", "Mean", "Max", "Min")), operands)


def integers(draft: Draft) -> object:
    value = draft.pick(lambda v: v.dtype in (np.int64, np.int32))
    if value is None:
        return None
    operator = draft.rng.choice(("Div", "Mod", "Mul", "Neg", "Abs", "Sub"))
    if operator in ("Neg", "Abs"):
        return draft.node(operator, [value])
    divisor = draft.constant(draft.rng.choice((1, 2, 3, 7, -2)), str(value.dtype))
    return draft.node(operator, [value, divisor])


def comparison(draft: Draft) -> object:
    value = draft.pick(lambda v: v.steady and v.dtype in (np.float32, np.int64, np.int32))
    if value is None:
        return None
    mask = draft.node(draft.rng.choice(_COMPARISONS), [value, _same(draft, value, scalar=True)])
    if mask and draft.rng.random() < 0.3:
        mask = draft.node("Not", mask)
    return mask


def where(draft: Draft) -> object:
    mask = draft.pick(lambda v: v.dtype == np.bool_)
    if mask is None:
        return comparison(draft)
    value = draft.pick(lambda v: v.dtype == np.float32 and _broadcast(v.shape, mask.shape))
    if value is None:
        return draft.node(draft.rng.choice(("And", "Or", "Xor")), [mask, _same(draft, mask)])
    operands = [value, _same(draft, value) if draft.rng.random() < 0.5 else draft.constant(-2.5, "float32")]
    draft.rng.shuffle(operands)
    return draft.node("Where", [mask, *operands])


def cast(draft: Draft) -> object:
    value = draft.pick(lambda v: v.steady or v.dtype != np.float32)
    kinds = {"float32": 1, "int32": 6, "int64": 7, "bool": 9, "int8": 3, "uint8": 2}
    kind = draft.rng.choice(("float32", "float32", "int32", "int64", "bool"))
    return value and draft.node("Cast", [value], to=kinds[kind], steady=not draft.half)


def clip(draft: Draft) -> object:
    value = draft.floats()
    low = draft.constant(draft.rng.choice((-1.0, 0.0, -0.3)), "float32") if draft.rng.random() < 0.7 else ""
    high = draft.constant(draft.rng.choice((1.0, 6.0, 0.3)), "float32") if draft.rng.random() < 0.7 else ""
    return value and draft.node("Clip", [value, low, high] if high else [value, low] if low else [value])


# Products and windows.


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
    if rng.random() < 0.5:
        return draft.node("MaxPool", [value], ceil_mode=ceil, **window)
    window.pop("dilations", None)
    return draft.node("AveragePool", [value], ceil_mode=ceil, count_include_pad=rng.choice((None, 0, 1)), **window)


# Normalisations and reductions.


def norm(draft: Draft) -> object:
    value = draft.floats(2)
    if value is None:
        return None
    channels = value.shape[1]
    operator = draft.rng.choice(
        ("BatchNormalization", "LayerNormalization", "InstanceNormalization", "LpNormalization")
    )
    if operator == "BatchNormalization":
        spread = draft.constant(np.linspace(0.5, 2.0, channels, dtype=np.float32))
        return draft.node(operator, [value, *(draft.noise(channels) for _ in range(3)), spread])
    if operator == "LayerNormalization":
        axis = _axis(draft.rng, value.rank)
        shape = value.shape[axis:]
        bias = [draft.noise(*shape)] if draft.rng.random() < 0.5 else []
        return draft.node(
            operator, [value, draft.noise(*shape), *bias], axis=axis, epsilon=draft.rng.choice((None, 0.1))
        )
    if operator == "InstanceNormalization":
        return draft.node(operator, [value, draft.noise(channels), draft.noise(channels)], epsilon=0.1)
    return draft.node(operator, [value], axis=_axis(draft.rng, value.rank), p=draft.rng.choice((1, 2)))


def softmax(draft: Draft) -> object:
    value = draft.floats(1)
    return value and draft.node(draft.rng.choice(("Softmax", "LogSoftmax")), [value], axis=_axis(draft.rng, value.rank))


def reduction(draft: Draft) -> object:
    value = draft.floats(1)
    if value is None:
        return None
    operator, keep = draft.rng.choice(_REDUCTIONS), draft.rng.choice((None, 0, 1))
    axes = _axes(draft.rng, value.rank) if draft.rng.random() < 0.8 else None
    if operator == "ReduceSum" or draft.opset >= _AXES_ARE_AN_INPUT:
        return draft.node(operator, [value, *([] if axes is None else [draft.constant(axes)])], keepdims=keep)
    return draft.node(operator, [value], keepdims=keep, axes=axes)


def arg(draft: Draft) -> object:
    value = draft.pick(lambda v: v.dtype == np.float32 and v.steady and v.rank >= 1)
    axis, last = (0 if value is None else _axis(draft.rng, value.rank)), draft.rng.choice((None, 0, 1))
    operator = draft.rng.choice(("ArgMax", "ArgMin"))
    return value and draft.node(operator, [value], axis=axis, keepdims=draft.rng.choice((0, 1)), select_last_index=last)


def top(draft: Draft) -> object:
    value = draft.pick(lambda v: v.dtype == np.float32 and v.steady and v.rank >= 1)
    if value is None:
        return None
    axis = _axis(draft.rng, value.rank)
    count = draft.constant([draft.rng.randrange(1, value.shape[axis] + 1)])
    return draft.node("TopK", [value, count], outputs=2, steady=True, axis=axis, largest=draft.rng.choice((0, 1)))


def cumulative(draft: Draft) -> object:
    value = draft.floats(1)
    if value is None:
        return None
    axis = draft.constant(_axis(draft.rng, value.rank), "int64")
    return draft.node(
        "CumSum", [value, axis], exclusive=draft.rng.choice((0, 1)), reverse=draft.rng.choice((None, 0, 1))
    )


# Movement.


def _movable(draft: Draft, rank: int = 0) -> Value | None:
    return draft.pick(lambda v: v.rank >= rank)


def transpose(draft: Draft) -> object:
    value = _movable(draft, 1)
    if value is None:
        return None
    order = draft.rng.sample(range(value.rank), value.rank)
    return draft.node("Transpose", [value], perm=order if draft.rng.random() < 0.9 else None, steady=value.steady)


def reshape(draft: Draft) -> object:
    value = _movable(draft)
    if value is None:
        return None
    factors = [f for size in value.shape for f in _factors(size)]
    draft.rng.shuffle(factors)
    shape: list[int] = [1] * draft.rng.randrange(1, 5)
    for factor in factors:
        shape[draft.rng.randrange(len(shape))] *= factor
    if draft.rng.random() < 0.4:
        shape[draft.rng.randrange(len(shape))] = -1
    if shape[0] == value.shape[:1][0] if value.rank else False:
        shape[0] = draft.rng.choice((0, shape[0]))
    return draft.node("Reshape", [value, draft.constant(shape)], steady=value.steady)


def _factors(number: int) -> list[int]:
    for factor in range(2, number + 1):
        if number % factor == 0:
            return [factor, *_factors(number // factor)]
    return []


def rank_change(draft: Draft) -> object:
    value = _movable(draft)
    if value is None:
        return None
    operator = draft.rng.choice(("Flatten", "Squeeze", "Unsqueeze"))
    if operator == "Flatten":
        return draft.node(
            "Flatten", [value], axis=draft.rng.randrange(-value.rank, value.rank + 1), steady=value.steady
        )
    if operator == "Squeeze":
        single = [axis for axis, size in enumerate(value.shape) if size == 1]
        axes = [draft.constant([draft.rng.choice(single)])] if single and draft.rng.random() < 0.7 else []
        return draft.node("Squeeze", [value, *axes], steady=value.steady)
    rank = value.rank + draft.rng.choice((1, 1, 2))
    axes = draft.rng.sample(range(rank), rank - value.rank)
    return draft.node("Unsqueeze", [value, draft.constant(axes)], steady=value.steady)


def repetition(draft: Draft) -> object:
    value = _movable(draft, 1)
    if value is None:
        return None
    if draft.rng.random() < 0.5:
        repeats = [draft.rng.choice((1, 1, 2, 3)) for _ in value.shape]
        return draft.node("Tile", [value, draft.constant(repeats)], steady=value.steady)
    shape = [draft.rng.choice((1, 2, 3)) if size == 1 else draft.rng.choice((1, size)) for size in value.shape]
    lead = [draft.rng.choice((1, 2))] if draft.rng.random() < 0.3 else []
    return draft.node("Expand", [value, draft.constant([*lead, *shape])], steady=value.steady)


def slice_(draft: Draft) -> object:
    value = _movable(draft, 1)
    if value is None:
        return None
    axes = draft.rng.sample(range(value.rank), draft.rng.randrange(1, value.rank + 1))
    starts, ends, steps = [], [], []
    for axis in axes:
        size, step = value.shape[axis], draft.rng.choice((1, 1, 1, 2, 3, -1, -2))
        low, high = sorted((draft.rng.randrange(size + 1), draft.rng.randrange(size + 1)))
        start, end = (low, max(high, low + 1)) if step > 0 else (high, low - 1 if low else -size - 1)
        starts.append(start - size if draft.rng.random() < 0.2 and start < size else start)
        ends.append(draft.rng.choice((end, end, 1 << 40)) if step > 0 else end)
        steps.append(step)
    operands = [draft.constant(part) for part in (starts, ends, axes, steps)]
    return draft.node("Slice", [value, *operands], steady=value.steady)


def gather(draft: Draft) -> object:
    value = _movable(draft, 1)
    if value is None:
        return None
    rng = draft.rng
    generator = np.random.Generator(np.random.PCG64(rng.getrandbits(32)))
    axis = _axis(rng, value.rank)
    size = value.shape[axis]
    operator = rng.choice(("Gather", "GatherElements", "GatherND"))
    if operator == "GatherND":
        width = rng.randrange(1, value.rank + 1)
        columns = [generator.integers(-s, s, rng.choice(SIZES)) for s in value.shape[:width]]
        indices = np.stack([np.resize(column, len(columns[0])) for column in columns], axis=-1)
        return draft.node(operator, [value, draft.constant(indices)], steady=value.steady)
    if operator == "Gather":
        known = draft.inputs and draft.pick(lambda v: v in draft.inputs and v.dtype == np.int64)
        if known and rng.random() < 0.4:
            table = draft.noise(rng.choice((3, 10, 100)), *value.shape[1:2])
            return draft.node("Gather", [table, known], axis=0, steady=not draft.half)
        shape = rng.choice(((), (3,), (2, 2), (1,)))
    else:
        shape = tuple(rng.randrange(1, s + 1) if at != axis % value.rank else 3 for at, s in enumerate(value.shape))
    indices = np.asarray(generator.integers(-size, size, shape))
    return draft.node(operator, [value, draft.constant(indices)], axis=axis, steady=value.steady)


def scatter(draft: Draft) -> object:
    value = draft.floats(1)
    if value is None:
        return None
    rng = draft.rng
    generator = np.random.Generator(np.random.PCG64(rng.getrandbits(32)))
    axis = _axis(rng, value.rank)
    if rng.random() < 0.5:
        places = generator.permutation(value.shape[0])[: rng.randrange(1, value.shape[0] + 1)]
        updates = draft.noise(len(places), *value.shape[1:])
        return draft.node("ScatterND", [value, draft.constant(places[:, None]), updates])
    count = rng.randrange(1, value.shape[axis] + 1)
    shape = tuple(count if at == axis % value.rank else s for at, s in enumerate(value.shape))
    line = generator.permutation(value.shape[axis])[:count]
    turned = line.reshape([count if at == axis % value.rank else 1 for at in range(value.rank)])
    indices = np.ascontiguousarray(np.broadcast_to(turned, shape))
    return draft.node("ScatterElements", [value, draft.constant(indices), draft.noise(*shape)], axis=axis)


def concat(draft: Draft) -> object:
    value = _movable(draft, 1)
    if value is None:
        return None
    axis = _axis(draft.rng, value.rank)

    def fits(other: Value) -> bool:
        rest = [
            (a, b) for at, (a, b) in enumerate(zip(other.shape, value.shape, strict=False)) if at != axis % value.rank
        ]
        return other.dtype == value.dtype and other.rank == value.rank and all(a == b for a, b in rest)

    others = [draft.pick(fits) or value for _ in range(draft.rng.randrange(3))]
    steady = all(v.steady for v in (value, *others))
    return draft.node("Concat", [value, *others], axis=axis, steady=steady)


def split(draft: Draft) -> object:
    value = _movable(draft, 1)
    if value is None:
        return None
    axis = _axis(draft.rng, value.rank)
    size = value.shape[axis]
    first = draft.rng.randrange(1, size) if size > 1 else 1
    parts = [first, size - first] if size > first else [first]
    return draft.node("Split", [value, draft.constant(parts)], outputs=len(parts), axis=axis, steady=value.steady)


def pad(draft: Draft) -> object:
    value = draft.floats(1)
    if value is None:
        return None
    rng, mode = draft.rng, draft.rng.choice(("constant", "constant", "reflect", "edge"))
    most = [min(2, size - 1) if mode == "reflect" else 2 for size in value.shape]
    pads = [rng.choice((0, 0, rng.randrange(-1 if mode == "constant" else 0, m + 1))) for m in most + most]
    fill = (
        [draft.constant(rng.choice((0.0, 1.5, -2.0)), "float32")] if mode == "constant" and rng.random() < 0.6 else []
    )
    return draft.node("Pad", [value, draft.constant(pads), *fill], mode=mode)


def resize(draft: Draft) -> object:
    value = draft.pick(lambda v: v.dtype == np.float32 and v.rank == 4)
    if value is None:
        return None
    rng, mode = draft.rng, draft.rng.choice(("nearest", "linear", "cubic"))
    turn = rng.choice(("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"))
    # A position between two pixels jumps to either: nearest in exact steps alone.
    turn, rule = ("asymmetric", rng.choice(("floor", "ceil"))) if mode == "nearest" else (turn, None)
    scales = [1.0, 1.0, rng.choice((1.0, 2.0, 3.0, 0.5)), rng.choice((1.0, 2.0, 0.5))]
    attributes = {"mode": mode, "coordinate_transformation_mode": turn, "nearest_mode": rule}
    if rng.random() < 0.5:
        return draft.node("Resize", [value, "", draft.constant(scales, "float32")], **attributes)
    sizes = [*value.shape[:2], *(max(1, int(s * f)) for s, f in zip(value.shape[2:], scales[2:], strict=True))]
    return draft.node("Resize", [value, "", "", draft.constant(sizes)], **attributes)


def depth_and_space(draft: Draft) -> object:
    value = draft.pick(lambda v: v.dtype == np.float32 and v.rank == 4)
    if value is None:
        return None
    channels, *image = value.shape[1:]
    size = draft.rng.choice((1, 2, 3))
    if all(length % size == 0 for length in image) and draft.rng.random() < 0.5:
        return draft.node("SpaceToDepth", [value], blocksize=size)
    if channels % (size * size):
        return None
    return draft.node("DepthToSpace", [value], blocksize=size, mode=draft.rng.choice((None, "DCR", "CRD")))


def triangle(draft: Draft) -> object:
    value = draft.floats(2)
    offset = [draft.constant(draft.rng.randrange(-3, 4), "int64")] if draft.rng.random() < 0.6 else []
    return value and draft.node("Trilu", [value, *offset], upper=draft.rng.choice((None, 0, 1)))


def one_hot(draft: Draft) -> object:
    value = draft.pick(lambda v: v.dtype in (np.int64, np.int32) and v.rank <= 3)
    depth, ends = draft.constant(draft.rng.choice((3, 10)), "int64"), draft.constant(np.array([-0.5, 2.0], np.float32))
    return value and draft.node("OneHot", [value, depth, ends], axis=draft.rng.choice((None, -1, 0)))


def quantised(draft: Draft) -> object:
    value = draft.pick(lambda v: v.dtype == np.float32 and v.steady)
    if value is None:
        return None
    kind = draft.rng.choice(("uint8", "int8"))
    scale, zero = (
        draft.constant(draft.rng.choice((0.05, 0.1, 0.03)), "float32"),
        draft.constant(draft.rng.randrange(5, 100), kind),
    )
    levels = draft.node("QuantizeLinear", [value, scale, zero])
    return levels and draft.node("DequantizeLinear", [levels[0], scale, zero], steady=not draft.half)


DRAWS: tuple[Draw, ...] = (
    smooth, smooth, smooth, with_pole, jump, binary, binary, binary, variadic, integers, comparison, where, cast, clip,
    matmul, matmul, matmul, gemm, einsum, conv, conv, conv, conv_transpose, pool, pool,
    norm, norm, softmax, reduction, reduction, arg, top, cumulative,
    transpose, transpose, reshape, reshape, rank_change, repetition, slice_, slice_, gather, gather, scatter,
    concat, concat, split, pad, resize, depth_and_space, triangle, one_hot, quantised,
)  # fmt: skip
