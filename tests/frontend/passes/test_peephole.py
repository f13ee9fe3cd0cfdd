"""Chains that one function computes become that function; their neighbours that mean something else do not."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
import pytest

from girih.frontend.net.linear import Linear
from girih.frontend.net.net import Extent, Info, Loop, Net, NetStep, Ref
from girih.frontend.passes.peephole import fuse_functions
from tests.support.onnx_models import Model, compare

Write = Callable[[Model, str], str]


def number(m: Model, value: float) -> str:
    return m.constant(f"c{len(m.weights)}", np.float32(value))


def gelu(scale: str, order: int, root: float = 0.5**0.5, one: float = 1.0, half: float = 0.5) -> Write:
    """x * (1 + erf(x / √2)) / 2, the last two products in one of three orders."""

    def write(m: Model, x: str) -> str:
        inner = m.node(scale, x, number(m, root if scale == "Mul" else 1 / root))
        gate = m.node("Add", number(m, one), m.node("Erf", inner))
        if order == 0:
            return m.node("Mul", m.node("Mul", x, gate), number(m, half))
        if order == 1:
            return m.node("Mul", m.node("Mul", x, number(m, half)), gate)
        return m.node("Mul", x, m.node("Mul", number(m, half), gate))

    return write


def silu(m: Model, x: str) -> str:
    return m.node("Mul", m.node("Sigmoid", x), x)


def relu6(m: Model, x: str) -> str:
    return m.node("Clip", m.node("Relu", x), "", number(m, 6.0))


def softplus(m: Model, x: str) -> str:
    return m.node("Log", m.node("Add", m.node("Exp", x), number(m, 1.0)))


def affine(m: Model, x: str) -> str:
    return m.node("Add", m.weight("shift", 5), m.node("Mul", x, m.weight("scale", 5)))


def residual(m: Model, x: str) -> str:
    return m.node("Sub", x, m.node("Mul", number(m, 0.5), m.node("Tanh", x)))


def leaky(m: Model, x: str) -> str:
    return m.node("LeakyRelu", x, alpha=0.1)


def parametric(m: Model, x: str) -> str:
    return m.node("PRelu", x, m.weight("slope", 5))


def sign(m: Model, x: str, least: float, other: str = "") -> str:
    """``least`` where x (or ``other``) is less than zero."""
    below = m.node("Where", m.node("Less", other or x, number(m, 0.0)), number(m, least), number(m, 0.0))
    above = m.node("Where", m.node("Greater", x, number(m, 0.0)), number(m, 1.0), below)
    return m.node("Where", m.node("IsNaN", x), x, above)


FUSED: dict[str, tuple[Write, list[str]]] = {
    **{f"gelu {s} {o}": (gelu(s, o), ["gelu"]) for s in ("Mul", "Div") for o in range(3)},
    "gelu, constants of half precision": (gelu("Mul", 0, float(np.float16(0.5**0.5))), ["gelu"]),
    "gelu, factors of another split": (gelu("Mul", 0, one=1.0, half=0.5), ["gelu"]),
    "silu": (silu, ["silu"]),
    "relu6": (relu6, ["clip"]),
    "softplus": (softplus, ["softplus"]),
    "Softplus": (lambda m, x: m.node("Softplus", x), ["softplus"]),
    "affine": (affine, ["fma"]),
    "residual": (residual, ["tanh", "fma"]),
    "LeakyRelu": (leaky, ["lrelu"]),
    "PRelu": (parametric, ["lrelu"]),
    "clip from above first": (lambda m, x: m.node("Relu", m.node("Clip", x, "", number(m, 6.0))), ["clip"]),
    "HardSigmoid": (lambda m, x: m.node("HardSigmoid", x), ["fma", "clip"]),
    "Sign": (lambda m, x: m.node("Sign", x), ["sign"]),
    "sign, written down": (lambda m, x: sign(m, x, -1.0), ["sign"]),
}


@pytest.mark.parametrize("precision", ["as-is", "fp16"])
@pytest.mark.parametrize("name", FUSED)
def test_a_chain_becomes_one_function(name: str, precision: str) -> None:
    write, expected = FUSED[name]
    m = Model()
    # Rounded constants make another function, though not by much.
    tolerance = 1e-3 if "half" in name and precision == "as-is" else None
    graph = compare(m.build(write(m, m.input("x", 3, 5))), precision=precision, tolerance=tolerance)
    assert [[s.func for s in op.stages] for op in graph.ops] == [expected]
    assert {b.name for op in graph.ops for b in op.buffers} == {
        s.write.tensor for op in graph.ops for s in op.stages[:-1]
    }


NEARLY: dict[str, tuple[Write, str]] = {
    "gelu, another root": (gelu("Mul", 0, 0.7), "gelu"),
    "gelu, another one": (gelu("Mul", 1, one=1.01), "gelu"),
    "gelu, another half": (gelu("Div", 2, half=0.51), "gelu"),
    "gelu of another": (lambda m, x: m.node("Mul", m.node("Tanh", x), gelu_gate(m, x)), "gelu"),
    "silu of another": (lambda m, x: m.node("Mul", m.node("Neg", x), m.node("Sigmoid", x)), "silu"),
    "softplus, another one": (
        lambda m, x: m.node("Log", m.node("Add", m.node("Exp", x), number(m, 1.1))), "softplus",
    ),
    "clip, low above high": (
        lambda m, x: m.node("Clip", m.node("Clip", x, "", number(m, -1.0)), number(m, 1.0)), "clip",
    ),
    "lrelu at another place": (
        lambda m, x: m.node("Where", m.node("Less", x, number(m, 0.5)), m.node("Mul", x, number(m, 2.0)), x), "lrelu",
    ),
    "sign, another least": (lambda m, x: sign(m, x, -2.0), "sign"),
    "sign of two": (lambda m, x: sign(m, x, -1.0, m.node("Tanh", m.node("Add", x, m.weight("w", 5)))), "sign"),
}  # fmt: skip


def gelu_gate(m: Model, x: str) -> str:
    return m.node("Add", m.node("Erf", m.node("Mul", x, number(m, 0.5**0.5))), number(m, 0.5))


@pytest.mark.parametrize("name", NEARLY)
def test_what_means_something_else_stays(name: str) -> None:
    write, unwanted = NEARLY[name]
    m = Model()
    graph = compare(m.build(write(m, m.input("x", 3, 5))))
    assert unwanted not in {s.func for op in graph.ops for s in op.stages}


def test_values_that_others_read_stay() -> None:
    m = Model()
    x = m.input("x", 3, 5)
    product = m.node("Mul", x, m.weight("scale", 5))
    total = m.node("Add", product, m.weight("shift", 5))
    graph = compare(m.build(m.node("Mul", total, m.node("Sigmoid", product))))
    assert {s.func for op in graph.ops for s in op.stages} == {"mul", "add", "sigmoid"}
    m = Model()
    x = m.input("x", 3, 5)
    gate = m.node("Sigmoid", x)
    graph = compare(m.build(m.node("Mul", x, gate), gate))
    assert "silu" not in {s.func for op in graph.ops for s in op.stages}


def test_values_that_are_spread_stay() -> None:
    """One product a row is not computed once an element."""
    m = Model()
    x = m.input("x", 3, 5)
    scaled = m.node("Mul", m.node("ReduceSum", x, m.constant("axes", [1]), keepdims=1), number(m, 0.3))
    graph = compare(m.build(m.node("Add", x, scaled)))
    assert "fma" not in {s.func for op in graph.ops for s in op.stages}


def test_a_chain_in_another_layout_reads_the_right_elements() -> None:
    """Axes have other names and another order, and two of them are one, in the loop before."""

    def ref(tensor: str, *index: str) -> Ref:
        return Ref(tensor, tuple(Linear.axis(a) for a in index))

    i, j, k = (Extent(n) for n in (2, 3, 4))
    digits = Linear.from_terms({"j": 4, "k": 1})
    first = Loop({"j": Extent(6), "k": k}, Ref("t", (digits,)), "mul", (ref("x", "k", "j"), ref("s", "j")))
    index = Linear.from_terms({"a": 12, "b": 4, "c": 1})
    second = Loop({"c": k, "b": j, "a": i}, ref("y", "a", "b", "c"), "add", (ref("z", "b"), Ref("t", (index,))))
    step = NetStep("s", (), ("s", 0), ("y",), [first, second], {"t": Info((24,), "float32")})
    fuse_functions(Net(steps=[step]))
    (loop,) = step.loops
    j = Linear.from_terms({"a": 3, "b": 1})
    assert (loop.func, loop.axes, step.temps) == ("fma", second.axes, {})
    assert loop.operands == (Ref("x", (Linear.axis("c"), j)), Ref("s", (j,)), ref("z", "b"))


def test_a_softplus_of_another_size_stays() -> None:
    m = Model()
    x = m.input("x", 3, 5)
    graph = compare(m.build(m.node("Add", m.node("Clip", x, number(m, 0.1)), softplus(m, m.node("Abs", x)))))
    assert [s.func for op in graph.ops for s in op.stages] == ["max", "abs", "softplus", "add"]


@pytest.mark.parametrize(("dtype", "left"), [("int32", 2), ("int8", 2), ("float16", 1), ("float32", 1)])
def test_whole_numbers_stay(dtype: str, left: int) -> None:
    """They may wrap in between."""
    x, t, y = (Ref(n, (Linear.axis("i"),)) for n in "xty")
    axes = {"i": Extent(6)}
    step = NetStep("s", (), ("s", 0), ("y",), [], {"t": Info((6,), dtype)})
    step.loops = [Loop(axes, t, "mul", (x, 3.0)), Loop(axes, y, "add", (t, 4.0))]
    fuse_functions(Net(steps=[step]))
    assert len(step.loops) == left


@pytest.mark.parametrize("seed", range(30))
def test_random_chains_mean_the_same(seed: int) -> None:
    """Compared with ONNX Runtime, in both precisions; many of them contain patterns or parts of them."""
    rng = Random(seed)

    def grow(m: Model) -> list[str]:
        values = [m.input("x", 3, 5)]
        for step in range(rng.randint(3, 9)):
            a, b = rng.choice(values), rng.choice(values[-2:])
            kind = rng.randrange(8)
            if kind == 0:
                made = m.node(rng.choice(["Sigmoid", "Tanh", "Erf", "Neg", "Abs"]), b)
            elif kind <= 3:
                func = rng.choice(["Add", "Sub", "Mul"])
                pair = [b, number(m, rng.choice([0.0, 0.5, 1.0, -0.25, 0.5**0.5]))]
                rng.shuffle(pair)
                made = m.node(func, *pair)
            elif kind <= 5:
                made = m.node(rng.choice(["Add", "Sub", "Mul"]), a, b)
            elif kind == 6:
                made = rng.choice([silu, relu6, leaky, gelu("Mul", rng.randrange(3))])(m, b)
            else:
                made = m.node(rng.choice(["Add", "Mul"]), b, m.weight(f"w{step}", 5))
            values.append(m.node("Clip", made, number(m, -8.0), number(m, 8.0)) if rng.random() < 0.3 else made)
        return [values[-1], rng.choice(values[1:-1])] if rng.random() < 0.3 else [values[-1]]

    for precision in ("as-is", "fp16"):
        state = rng.getstate()
        m = Model(seed=seed)
        outputs = grow(m)
        compare(m.build(*dict.fromkeys(outputs)), precision=precision)
        rng.setstate(state)
