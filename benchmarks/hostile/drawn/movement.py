"""Operators that move elements: shapes, slices, indices, images of another size."""

from __future__ import annotations

import numpy as np

from benchmarks.hostile.drawn.draft import SIZES, Draft, Value
from benchmarks.hostile.drawn.operands import axis_of


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
    axis = axis_of(rng, value.rank)
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
    axis = axis_of(rng, value.rank)
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
    axis = axis_of(draft.rng, value.rank)

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
    axis = axis_of(draft.rng, value.rank)
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
