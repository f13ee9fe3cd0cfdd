"""Infinities, NaNs, zeros and numbers at the ends of their range: as IEEE 754 says, in every class of instruction."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from girih.ir.graph import Graph
from girih.ir.isa.table import ROWS, make
from girih.ir.load_machine import load_machine
from tests.support import graphs
from tests.support.numpy_check import check
from tests.support.plans.sequential_plans import sequential_plan
from tests.support.simulator.memory_images import empty, in_order, simulated
from tests.support.simulator.programs import array

INF, NAN, TINIEST = np.inf, np.nan, 2.0**-149


def vector(
    mnemonic: str,
    *sources: list[float],
    to: str = "float32",
    of: str = "float32",
    out: int | None = None,
    **fields: float,
) -> list[float]:
    """What an instruction makes of lists along the lanes; ``out`` is the length of the result if it is another one."""
    state, count = empty(), len(sources[0])
    values: dict[str, int | float] = {"n0": 1, "n1": 1, "n2": count, **fields}
    operands = [o for o in ROWS[mnemonic].operands if o.name != "dst"]
    for number, (operand, data) in enumerate(zip(operands, sources, strict=True)):
        typed = np.array(data).astype(of)
        state.memory["L1", 0][1024 * number : 1024 * number + typed.nbytes] = typed.view(np.uint8)
        values |= array(operand.name, "L1", 1024 * number, of, 0, 0, typed.itemsize)
    length = count if out is None else out
    size = np.dtype(to).itemsize
    values |= array("dst", "L1", 4096, to, 0, *([size] if out is not None else [0, size]))
    after = simulated(in_order([("VME0", make(mnemonic, 0, values))]), state)
    return after.memory["L1", 0][4096 : 4096 + length * size].view(to).tolist()


def same(got: list[float], expected: list[float]) -> bool:
    """Also in the sign of zeros."""
    a, b = np.array(got, np.float64), np.array(expected, np.float64)
    numbers = ~np.isnan(b)
    return np.array_equal(a, b, equal_nan=True) and np.array_equal(np.signbit(a[numbers]), np.signbit(b[numbers]))


CASES: list[tuple[str, list[list[float]], list[float]]] = [
    ("vadd.vv", [[INF, INF, 1e38, -0.0, NAN], [-INF, 1, 3e38, -0.0, 1]], [NAN, INF, INF, -0.0, NAN]),
    ("vsub.vv", [[INF, 0.0, TINIEST], [INF, 0.0, 0]], [NAN, 0.0, TINIEST]),
    ("vmul.vv", [[0, INF, -INF, -0.0, 1e-38], [INF, -2, NAN, 3, 1e-38]], [NAN, -INF, NAN, -0.0, 0]),
    ("vdiv.vv", [[1, -1, 0, INF, 1, 1], [0, 0, 0, INF, INF, -0.0]], [INF, -INF, NAN, NAN, 0, -INF]),
    ("vmax.vv", [[NAN, 1, INF, -INF], [1, NAN, 1, -1]], [NAN, NAN, INF, -1]),
    ("vmin.vv", [[NAN, 1, INF, -INF], [1, NAN, 1, -1]], [NAN, NAN, 1, -INF]),
    ("veq.vv", [[NAN, INF, 0.0], [NAN, INF, -0.0]], [0, 1, 1]),
    ("vne.vv", [[NAN, INF, 0.0], [NAN, INF, -0.0]], [1, 0, 0]),
    ("vlt.vv", [[NAN, 1, -INF, -0.0], [1, NAN, INF, 0.0]], [0, 0, 1, 0]),
    ("vge.vv", [[NAN, 1, INF, -0.0], [1, NAN, INF, 0.0]], [0, 0, 1, 1]),
    ("vselect.vvv", [[NAN, 0.0, -0.0, INF], [1, 1, 1, 1], [2, NAN, 2, 2]], [1, NAN, 2, 1]),
    ("vfma.vvv", [[INF, 1e38, 2], [0, 1e38, 3], [1, -INF, -6]], [NAN, -INF, 0]),
    ("vpow.vv", [[NAN, 1, 0, -8, INF, 2], [0, NAN, -1, 1 / 3, -1, INF]], [1, 1, INF, NAN, 0, INF]),
    ("vabs.v", [[-INF, NAN, -0.0]], [INF, NAN, 0.0]),
    ("vneg.v", [[INF, 0.0]], [-INF, -0.0]),
    ("vfloor.v", [[INF, -0.0, NAN]], [INF, -0.0, NAN]),
    ("vround.v", [[0.5, 1.5, -0.5, 2.5, -INF]], [0.0, 2, -0.0, 2, -INF]),
    ("vexp.v", [[INF, -INF, NAN, 1000, -1000]], [INF, 0, NAN, INF, 0]),
    ("vlog.v", [[0, -1, INF, NAN]], [-INF, NAN, INF, NAN]),
    ("vsqrt.v", [[-1, -0.0, INF]], [NAN, -0.0, INF]),
    ("vrsqrt.v", [[0.0, -0.0, INF, -1]], [INF, -INF, 0, NAN]),
    ("vrecip.v", [[0.0, -0.0, INF, -INF]], [INF, -INF, 0.0, -0.0]),
    ("verf.v", [[INF, -INF, NAN]], [1, -1, NAN]),
    ("vtanh.v", [[INF, -INF, NAN]], [1, -1, NAN]),
    ("vsigmoid.v", [[INF, -INF, NAN]], [1, 0, NAN]),
    ("vsin.v", [[INF, NAN]], [NAN, NAN]),
    ("vsoftplus.v", [[INF, -INF, NAN]], [INF, 0, NAN]),
    ("vsilu.v", [[INF, -INF, NAN]], [INF, NAN, NAN]),
    ("vgelu.v", [[INF, NAN]], [INF, NAN]),
    ("vle.vv", [[NAN, -INF, INF], [NAN, INF, INF]], [0, 1, 1]),
    ("vgt.vv", [[NAN, INF, 0.0], [1, -INF, -0.0]], [0, 1, 0]),
    ("vand.vv", [[NAN, INF, -0.0], [INF, -0.0, NAN]], [1, 0, 0]),
    ("vor.vv", [[NAN, -0.0, 0.0], [0.0, -INF, -0.0]], [1, 1, 0]),
    ("vnot.v", [[NAN, -0.0, INF]], [0, 1, 0]),
    ("vmod.vv", [[INF, NAN, 1, -1], [2, 1, NAN, 0.0]], [NAN, NAN, NAN, NAN]),
    ("vceil.v", [[INF, -0.5, NAN]], [INF, -0.0, NAN]),
    ("vsign.v", [[INF, -INF, NAN]], [1, -1, NAN]),
    ("vcos.v", [[INF, -INF, NAN]], [NAN, NAN, NAN]),
    ("vlrelu.vv", [[-INF, -INF, NAN, INF], [0.5, 0, 0.5, 0]], [-INF, NAN, NAN, INF]),
    ("vscan.sum", [[1, INF, -INF, 1]], [1, INF, NAN, NAN]),
]  # fmt: skip


@pytest.mark.parametrize(("mnemonic", "sources", "expected"), CASES, ids=[c[0] for c in CASES])
def test_vector(mnemonic: str, sources: list[list[float]], expected: list[float]) -> None:
    got = vector(mnemonic, *sources)
    assert same(got, expected), got


def test_clipping() -> None:
    assert same(vector("vclip.vss", [NAN, INF, -INF, 2], imm0=0.0, imm1=6.0), [NAN, 6, 0, 2])
    assert same(vector("vclip.vss", [INF, -INF], imm0=-INF, imm1=INF), [INF, -INF])
    assert same(vector("vmax.vs", [-INF, NAN, 1], imm0=-INF), [-INF, NAN, 1])
    assert same(vector("vfma.vss", [INF, 0, 1], imm0=NAN, imm1=INF), [NAN, NAN, NAN])
    assert same(vector("vdequant.vss", [INF, NAN, -INF], imm0=1.0, imm1=0.0), [NAN, NAN, NAN])


@pytest.mark.parametrize(
    ("combine", "old", "expected"),
    [
        ("sum", [INF, NAN, -INF, 1], [NAN, NAN, -INF, INF]), ("max", [INF, NAN, -INF, 1], [INF, NAN, 2, INF]),
        ("min", [INF, NAN, -INF, 1], [-INF, NAN, -INF, 1]), ("prod", [0, NAN, -INF, 1], [NAN, NAN, -INF, INF]),
    ],
)  # fmt: skip
def test_accumulations(combine: str, old: list[float], expected: list[float]) -> None:
    state = empty()
    for at, values in ((0, [-INF, 1, 2, INF]), (4096, old)):
        state.memory["L1", 0][at : at + 16] = np.array(values, np.float32).view(np.uint8)
    ends = array("a", "L1", 0, "float32", 0, 0, 4) | array("dst", "L1", 4096, "float32", 0, 0, 4)
    made = make(f"vacc.{combine}", 0, {"n0": 1, "n1": 1, "n2": 4} | ends)
    after = simulated(in_order([("VME0", made)]), state).memory["L1", 0][4096:4112].view(np.float32)
    assert same(after.tolist(), expected)


WINDOW = {"oh": 1, "ow": 4, "n": 1, "kh": 1, "kw": 3, "sh": 1, "sw": 1, "dh": 1, "dw": 1, "w0": -1, "H": 1, "W": 4}
"""Three taps along a row of four numbers, with one of padding on either side."""


def windows(mnemonic: str, row: list[float], taps: list[float], dtype: str) -> list[float]:
    """What an instruction makes of a row, and of the taps of its kernel if it has one."""
    state, size = empty(), np.dtype(dtype).itemsize
    matrix = mnemonic == "mconv"
    weights = ("L1W", 0) if matrix else ("L1", 0)
    data, kernel = np.array(row, dtype).view(np.uint8), np.array(taps, dtype).view(np.uint8)
    state.memory["L1", 0][: data.size] = data
    state.memory[weights][2048 : 2048 + kernel.size] = kernel
    lanes, single = ((), {"ci": 1}) if matrix else ((0,), {"p": 1})
    ends = array("a", "L1", 0, dtype, 4 * size, size, *lanes, size) | array("dst", "IM", 0, "float32", 16, 4, *lanes, 4)
    if taps:
        ends |= array("b", weights[0], 2048, dtype, 3 * size, size, size, *([size] if matrix else []))
    instruction = make(mnemonic, 0, WINDOW | single | ends)
    queue = "MME0" if matrix else "VME0"
    return simulated(in_order([(queue, instruction)]), state).memory["IM", 0][:16].view(np.float32).tolist()


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    ("mnemonic", "row", "taps", "expected"),
    [
        ("vpool.max", [1, NAN, -INF, -INF], [], [NAN, NAN, NAN, -INF]),
        ("vpool.sum", [INF, 1, 1, -INF], [], [INF, INF, -INF, -INF]),
        ("vpool.sum", [1, INF, -INF, 1], [], [INF, NAN, NAN, -INF]),
        # The mean is over what is in bounds, so that padding makes no infinity smaller and no NaN.
        ("vpool.avg", [INF, 1, 1, NAN], [], [INF, INF, NAN, NAN]),
        # What is out of bounds is not multiplied, even with an infinity.
        ("vdwconv.vv", [1, 2, 0, 3], [INF, 1, 1], [3, INF, INF, NAN]),
        ("vdwconv.vv", [0, NAN, 1, 1], [1, 1, 0], [NAN, NAN, NAN, 2]),
        ("mconv", [0, NAN, 1, 1], [1, 1, 0], [NAN, NAN, NAN, 2]),
        ("mconv", [INF, 1, 1, -INF], [1, 1, 1], [INF, INF, -INF, -INF]),
        ("mconv", [INF, 1, 1, 1], [0, 1, 1], [INF, NAN, 2, 1]),
    ],
)  # fmt: skip
def test_windows(mnemonic: str, row: list[float], taps: list[float], dtype: str, expected: list[float]) -> None:
    assert same(windows(mnemonic, row, taps, dtype), expected)


@pytest.mark.parametrize(
    ("mnemonic", "source", "expected"),
    [
        ("vred.sum", [INF, 1, -INF], NAN), ("vred.sum", [INF, 1], INF), ("vred.max", [1, NAN, 2], NAN),
        ("vred.min", [-INF, 1], -INF), ("vred.prod", [0, INF], NAN), ("varg.max", [1, NAN, 2, NAN], 1),
        ("varg.min", [1, -INF, NAN], 2), ("varg.max", [1, 3, 3], 1),
    ],
)  # fmt: skip
def test_reductions(mnemonic: str, source: list[float], expected: float) -> None:
    assert same(vector(mnemonic, source, out=1), [expected])


def test_conversions() -> None:
    values = [INF, -INF, NAN, 1e30, -1e30, 300.9, -1.9, 0.0]
    assert vector("vcopy.v", values, to="int8") == [127, -128, 0, 127, -128, 127, -1, 0]
    assert vector("vcopy.v", values, to="bool") == [True, True, True, True, True, True, True, False]
    # The largest half is 65504; from 65520 on numbers round to infinity, and below 2**-25 to zero.
    halves = [INF, -INF, NAN, 65519.0, 65520.0, -1e30, 2.0**-24, 2.0**-25]
    assert same(vector("vcopy.v", halves, to="float16"), [INF, -INF, NAN, 65504, INF, -INF, 2.0**-24, 0])
    assert same(vector("vneg.v", [INF, NAN, 65504], of="float16"), [-INF, NAN, -65504])
    assert vector("vquant.vss", [INF, -INF, NAN, 0.5], to="int8", imm0=1.0, imm1=3.0) == [127, -128, 0, 3]


def test_copies_keep_the_bits_of_a_nan() -> None:
    state = empty()
    bits = np.array([0x7FC12345, 0xFF800001], np.uint32).view(np.uint8)
    state.memory["L1", 0][:8] = bits
    ends = array("src", "L1", 0, "float32", 0, 0, 0, 4) | array("dst", "L1", 64, "float32", 0, 0, 0, 4)
    copy = make("mcopy", 0, {"n0": 1, "n1": 1, "n2": 1, "n3": 2} | ends)
    assert simulated(in_order([("MTI0", copy)]), state).memory["L1", 0][64:72].tolist() == bits.tolist()


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_products(dtype: str) -> None:
    # 0 * inf is a NaN and spreads along its row; inf alone is an infinity; what is not met stays finite.
    state, size = empty(), np.dtype(dtype).itemsize
    a = np.array([[INF, 0], [1, 2], [INF, 1]], dtype)
    b = np.array([[0, 1], [1, 1]], dtype)
    state.memory["L1", 0][: a.nbytes] = a.view(np.uint8).reshape(-1)
    state.memory["L1W", 0][: b.nbytes] = b.view(np.uint8).reshape(-1)
    ends = array("a", "L1", 0, dtype, 2 * size, size) | array("b", "L1W", 0, dtype, 2 * size, size)
    matmul = make("mmatmul", 0, {"m": 3, "n": 2, "k": 2} | ends | array("dst", "IM", 0, "float32", 8, 4))
    after = simulated(in_order([("MME0", matmul)]), state).memory["IM", 0][:24].view(np.float32)
    assert same(after.tolist(), [NAN, INF, 2, 3, NAN, INF])


SPECIAL = (INF, -INF, NAN, -0.0, 65504.0, TINIEST)
NETWORKS: dict[str, Callable[[str], Graph]] = {
    "conv": lambda dtype: graphs.conv(size=9, channels=5, out=7, dtype=dtype),
    "chain": lambda dtype: graphs.chain(3, size=8, channels=6, dtype=dtype),
    "attention": lambda dtype: graphs.attention(batch=1, length=7, width=10, dtype=dtype),
}
TARGETS = {"tiny": ("float32", 2e-5), "stcp920": ("float16", 4e-3)}


@pytest.mark.parametrize(("name", "special", "target"), list(itertools.product(NETWORKS, SPECIAL, TARGETS)))
def test_a_network_on_special_inputs(name: str, special: float, target: str) -> None:
    """The same numbers, infinities and NaNs as NumPy computes."""
    dtype, tolerance = TARGETS[target]
    graph, machine = NETWORKS[name](dtype), load_machine(target)
    random = np.random.default_rng(0)
    inputs = {p.name: random.standard_normal(p.shape).astype(p.dtype) for p in graph.inputs}
    for data in inputs.values():
        data.reshape(-1)[:: max(1, data.size // 3)] = special
    check(graph, machine, sequential_plan(graph, machine), inputs, tolerance)
