"""Normalisations, reductions and sums along an axis."""

from __future__ import annotations

import numpy as np

from benchmarks.hostile.drawn.draft import Draft
from benchmarks.hostile.drawn.operands import axes_of, axis_of

_REDUCTIONS = (
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceSumSquare", "ReduceL1", "ReduceL2", "ReduceProd",
)  # fmt: skip
_AXES_ARE_AN_INPUT = 18
"""The operator set from which axes of all reductions are an input."""


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
        axis = axis_of(draft.rng, value.rank)
        shape = value.shape[axis:]
        bias = [draft.noise(*shape)] if draft.rng.random() < 0.5 else []
        return draft.node(
            operator, [value, draft.noise(*shape), *bias], axis=axis, epsilon=draft.rng.choice((None, 0.1))
        )
    if operator == "InstanceNormalization":
        return draft.node(operator, [value, draft.noise(channels), draft.noise(channels)], epsilon=0.1)
    return draft.node(operator, [value], axis=axis_of(draft.rng, value.rank), p=draft.rng.choice((1, 2)))


def softmax(draft: Draft) -> object:
    value = draft.floats(1)
    return value and draft.node(
        draft.rng.choice(("Softmax", "LogSoftmax")), [value], axis=axis_of(draft.rng, value.rank)
    )


def reduction(draft: Draft) -> object:
    value = draft.floats(1)
    if value is None:
        return None
    operator, keep = draft.rng.choice(_REDUCTIONS), draft.rng.choice((None, 0, 1))
    axes = axes_of(draft.rng, value.rank) if draft.rng.random() < 0.8 else None
    if operator == "ReduceSum" or draft.opset >= _AXES_ARE_AN_INPUT:
        return draft.node(operator, [value, *([] if axes is None else [draft.constant(axes)])], keepdims=keep)
    return draft.node(operator, [value], keepdims=keep, axes=axes)


def arg(draft: Draft) -> object:
    value = draft.pick(lambda v: v.dtype == np.float32 and v.steady and v.rank >= 1)
    axis, last = (0 if value is None else axis_of(draft.rng, value.rank)), draft.rng.choice((None, 0, 1))
    operator = draft.rng.choice(("ArgMax", "ArgMin"))
    return value and draft.node(operator, [value], axis=axis, keepdims=draft.rng.choice((0, 1)), select_last_index=last)


def top(draft: Draft) -> object:
    value = draft.pick(lambda v: v.dtype == np.float32 and v.steady and v.rank >= 1)
    if value is None:
        return None
    axis = axis_of(draft.rng, value.rank)
    count = draft.constant([draft.rng.randrange(1, value.shape[axis] + 1)])
    return draft.node("TopK", [value, count], outputs=2, steady=True, axis=axis, largest=draft.rng.choice((0, 1)))


def cumulative(draft: Draft) -> object:
    value = draft.floats(1)
    if value is None:
        return None
    axis = draft.constant(axis_of(draft.rng, value.rank), "int64")
    return draft.node(
        "CumSum", [value, axis], exclusive=draft.rng.choice((0, 1)), reverse=draft.rng.choice((None, 0, 1))
    )
