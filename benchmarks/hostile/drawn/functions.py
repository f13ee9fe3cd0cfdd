"""Element functions: those that jump see only what rounding does not change, those with a pole stay away from it."""

from __future__ import annotations

import numpy as np

from benchmarks.hostile.drawn.draft import Draft
from benchmarks.hostile.drawn.operands import broadcasts, operand_like

_SMOOTH = (
    "Relu", "Sigmoid", "Tanh", "Abs", "Neg", "Erf", "Softplus", "LeakyRelu", "Elu", "Selu", "HardSigmoid", "HardSwish",
    "Softsign", "Sin", "Cos", "Atan", "Identity", "ThresholdedRelu", "Celu", "Mish", "Gelu",
)  # fmt: skip
_JUMPS = ("Floor", "Ceil", "Round", "Sign")
_COMPARISONS = ("Less", "Greater", "Equal", "LessOrEqual", "GreaterOrEqual")


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
        return draft.node("Div", [operand_like(draft, positive[0]), positive[0]])
    return draft.node(operator, positive)


def jump(draft: Draft) -> object:
    value = draft.pick(lambda v: v.dtype == np.float32 and v.steady)
    return value and draft.node(draft.rng.choice(_JUMPS), [value], steady=True)


def binary(draft: Draft) -> object:
    value = draft.pick(lambda v: v.dtype in (np.float32, np.int64, np.int32))
    if value is None:
        return None
    operands = [value, operand_like(draft, value)]
    operator = draft.rng.choice(("Add", "Sub", "Mul", "Max", "Min"))
    if value.dtype == np.float32 and draft.rng.random() < 0.15:
        return draft.node("PRelu", [value, draft.noise(*value.shape[draft.rng.randrange(value.rank + 1) :])])
    draft.rng.shuffle(operands)
    return draft.node(operator, operands)


def variadic(draft: Draft) -> object:
    value = draft.floats()
    if value is None:
        return None
    operands = [value, *(operand_like(draft, value) for _ in range(draft.rng.randrange(3)))]
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
    mask = draft.node(draft.rng.choice(_COMPARISONS), [value, operand_like(draft, value, scalar=True)])
    if mask and draft.rng.random() < 0.3:
        mask = draft.node("Not", mask)
    return mask


def where(draft: Draft) -> object:
    mask = draft.pick(lambda v: v.dtype == np.bool_)
    if mask is None:
        return comparison(draft)
    value = draft.pick(lambda v: v.dtype == np.float32 and broadcasts(v.shape, mask.shape))
    if value is None:
        return draft.node(draft.rng.choice(("And", "Or", "Xor")), [mask, operand_like(draft, mask)])
    operands = [value, operand_like(draft, value) if draft.rng.random() < 0.5 else draft.constant(-2.5, "float32")]
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
