"""Every instruction, run by a whole program, against loops over numbers."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from girih.ir.graph import DTYPES
from girih.ir.isa import ROWS, Row, make
from girih.simulator import simulate

from .micro import SIZES, TINY, around, array

F = np.float32


def whole(function: Any) -> Any:
    return lambda x: x if isinstance(x, np.integer) else function(x)


FUNCTIONS: dict[str, Any] = {
    "copy": lambda x: x, "neg": lambda x: -x, "abs": abs, "floor": whole(np.floor), "ceil": whole(np.ceil),
    "round": whole(np.rint),
    "sign": np.sign, "not": lambda x: x == 0, "exp": lambda x: math.exp(x), "log": lambda x: math.log(x),
    "sqrt": lambda x: math.sqrt(x), "rsqrt": lambda x: 1 / math.sqrt(x), "recip": lambda x: 1 / float(x),
    "erf": lambda x: math.erf(x), "tanh": lambda x: math.tanh(x), "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "sin": lambda x: math.sin(x), "cos": lambda x: math.cos(x), "add": lambda a, b: a + b, "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b, "div": lambda a, b: a // b if isinstance(a, np.integer) else a / b,
    "mod": lambda a, b: a - b * np.floor(a / b), "pow": lambda a, b: math.pow(a, b), "max": max, "min": min,
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b, "and": lambda a, b: a != 0 and b != 0,
    "or": lambda a, b: a != 0 or b != 0, "select": lambda a, b, c: b if a != 0 else c,
}  # fmt: skip
COMBINE: dict[str, Any] = {"sum": lambda a, b: a + b, "max": max, "min": min, "prod": lambda a, b: a * b}
POSITIVE = {"log", "sqrt", "rsqrt", "recip", "div", "mod", "pow"}
VECTOR_ROWS = [row for row in ROWS.values() if row.kind == "vector"]


class Bytes:
    """Core 0's memories, and single elements in them."""

    def __init__(self) -> None:
        self.memory = {name: np.zeros(size, np.uint8) for name, size in SIZES.items()}

    def get(self, memory: str, address: int, dtype: str) -> Any:
        return self.memory[memory][address : address + DTYPES[dtype]].view(dtype)[0]

    def set(self, memory: str, address: int, dtype: str, value: Any) -> None:
        if dtype == "bool":
            value = value != 0
        elif dtype != "float32" and dtype != "float16" and not isinstance(value, (int, np.integer, bool, np.bool_)):
            info = np.iinfo(dtype)
            value = min(max(int(value), info.min), info.max)
        elif dtype not in ("float32", "float16"):
            value = np.int64(value).astype(dtype)
        self.memory[memory][address : address + DTYPES[dtype]] = np.array([value]).astype(dtype).view(np.uint8)


class Case:
    """Random operands that do not overlap, filled with random numbers."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.state = Bytes()
        self.fields: dict[str, int | float] = {}
        self.at: dict[str, tuple[str, int, str, tuple[int, ...]]] = {}
        self.free = dict.fromkeys(SIZES, 0)

    def place(self, name: str, memory: str, dtype: str, shape: tuple[int, ...], *, low: float, broadcast: bool) -> None:
        """A random order of dimensions, gaps, sometimes a broadcast or a reversed dimension."""
        size = DTYPES[dtype]
        strides, step, base = [0] * len(shape), size, -(-self.free[memory] // 4) * 4
        for dim in self.random.permutation(len(shape)):
            if broadcast and self.random.random() < 0.2:
                continue
            strides[dim] = step
            step *= shape[dim] + int(self.random.integers(0, 2))
            if self.random.random() < 0.2:
                base += strides[dim] * (shape[dim] - 1)
                strides[dim] = -strides[dim]
        self.free[memory] = -(-self.free[memory] // 4) * 4 + step
        assert self.free[memory] <= SIZES[memory]
        self.fields |= array(name, memory, base, dtype, *strides)
        self.at[name] = memory, base, dtype, tuple(strides)
        for index in itertools.product(*map(range, shape)):
            value = self.random.uniform(low, 4) if dtype.startswith("f") else self.random.integers(math.ceil(low), 5)
            self.put(name, index, abs(value) if dtype == "uint8" else value)

    def address(self, name: str, index: tuple[int, ...]) -> tuple[str, int, str]:
        memory, base, dtype, strides = self.at[name]
        return memory, base + sum(i * s for i, s in zip(index, strides, strict=True)), dtype

    def number(self, name: str, index: tuple[int, ...], integers: bool) -> Any:
        value = self.state.get(*self.address(name, index))
        return np.int64(value) if integers else F(value)

    def put(self, name: str, index: tuple[int, ...], value: Any) -> None:
        self.state.set(*self.address(name, index), value)


def simulated(case: Case, before: dict[str, np.ndarray], mnemonic: str, engine: str) -> Bytes:
    program, _ = around(make(mnemonic, 0, case.fields), engine)
    trace = simulate(program, TINY, {}, {"x": np.concatenate([before[m] for m in SIZES])})
    assert trace.violations == ()
    after = Bytes()
    after.memory = {"L1": trace.outputs["l1"], "IM": trace.outputs["im"], "L1W": before["L1W"]}
    return after


def compare(case: Case, after: Bytes, shape: tuple[int, ...], tolerance: float) -> None:
    """Every byte but those of ``dst`` is as before; ``dst`` is as expected."""
    for index in itertools.product(*map(range, shape)):
        memory, address, dtype = case.address("dst", index)
        got, expected = (np.float64(s.get(memory, address, dtype)) for s in (after, case.state))
        # A float result may round to a neighbour; an integer one may be cut off on the other side.
        slack = {"float16": 2e-3, "float32": 0.0}.get(dtype, 1.0 if tolerance else 0.0) if tolerance else 0.0
        assert got == expected or abs(got - expected) <= (tolerance + slack) * max(1.0, abs(expected)), index
        case.state.memory[memory][address : address + DTYPES[dtype]] = 0
        after.memory[memory][address : address + DTYPES[dtype]] = 0
    for name in ("L1", "IM"):
        assert np.array_equal(after.memory[name], case.state.memory[name])


@pytest.mark.parametrize("row", VECTOR_ROWS, ids=lambda row: row.mnemonic)
@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
def test_vector(row: Row, seed: int) -> None:
    case = Case(seed)
    random = case.random
    shape = tuple(int(n) for n in random.integers(1, 6, 3))
    low = 0.5 if row.func in POSITIVE else -4
    case.fields |= dict(zip(("n0", "n1", "n2"), shape, strict=True))
    accumulate = bool(random.integers(2)) and "acc" in row.position
    case.fields |= {"acc": 1} if accumulate else {}
    immediates = [f.name for f in row.fields if f.number == "float"]
    case.fields |= {n: float(F(random.uniform(max(low, 0.5), 4))) for n in immediates}
    if random.random() < 0.5:
        case.fields |= {n: float(random.integers(1, 4)) for n in immediates}
    dtypes = ["float32", "float16", "int8", "uint8", "int32", "bool"]
    if random.random() < 0.4:
        dtypes = ["int8", "uint8", "int32"]
    for operand in row.operands:
        own = shape[: len(operand.dims)]
        dtype = str(random.choice(dtypes))
        zero_is_bad = row.func in POSITIVE and operand.access == "r"
        case.place(
            operand.name, str(random.choice(["L1", "IM"])), "float32" if zero_is_bad and dtype == "bool" else dtype,
            own, low=low, broadcast=operand.access == "r",
        )  # fmt: skip
    before = {name: data.copy() for name, data in case.state.memory.items()}
    expect_vector(case, row, shape, accumulate, immediates)
    after = simulated(case, before, row.mnemonic, "VME0")
    exact = row.func not in ("sum", "dot") and not row.special and row.func != "prod" and row.func != "macc"
    compare(case, after, tuple(shape[: len(row.operands[0].dims)]), 0.0 if exact else 2e-6 * shape[2])


def expect_vector(case: Case, row: Row, shape: tuple[int, ...], accumulate: bool, immediates: list[str]) -> None:
    values = [F(case.fields[name]) for name in immediates]
    names = [o.name for o in row.operands if o.access == "r"]
    if row.family in ("vacc", "vmacc"):
        names.append("dst")
    integers = bool(names) and all(case.at[n][2] not in ("float32", "float16") for n in names)
    integers &= all(float(v).is_integer() for v in values)
    integers &= row.func == "pow" or row.func not in FUNCTIONS or not row.special or row.func in ("div", "mod")
    integers &= row.func != "pow"
    values = [np.int64(v) for v in values] if integers else values
    old_integers = integers and case.at["dst"][2] not in ("float32", "float16")
    for outer in itertools.product(*map(range, shape[:2])):
        total: Any = case.number("dst", outer, old_integers) if accumulate else None
        for lane in range(shape[2]):
            index = (*outer, lane)
            sources = {n: case.number(n, index, integers) for n in names}
            if row.func == "fill":
                case.put("dst", index, values[0])
            elif row.family == "vacc":
                case.put("dst", index, COMBINE[row.func](sources["dst"], sources["a"]))
            elif row.family == "vmacc":
                case.put("dst", index, sources["dst"] + sources["a"] * (values[0] if values else sources["b"]))
            elif row.family in ("vred", "vdot"):
                value = sources["a"] * sources["b"] if row.func == "dot" else sources["a"]
                combine = COMBINE["sum" if row.func == "dot" else row.func]
                total = value if total is None else combine(total, value)
            else:
                form, left, spare = row.mnemonic.rpartition(".")[2], list(sources.values()), list(values)
                arguments = [left.pop(0) if kind == "v" else spare.pop(0) for kind in form]
                case.put("dst", index, FUNCTIONS[row.func](*arguments))
        if row.family in ("vred", "vdot"):
            case.put("dst", outer, total)


MATRIX_DTYPES = [
    ("float32", "float32"),
    ("float16", "float32"),
    ("float16", "float16"),
    ("float32", "float16"),
    ("int8", "int32"),
]


@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=25, deadline=None)
def test_matmul(seed: int) -> None:
    case = Case(seed)
    m, n, k = (int(v) for v in case.random.integers(1, 9, 3))
    source, target = MATRIX_DTYPES[case.random.integers(len(MATRIX_DTYPES))]
    exact, acc = source == "int8", int(case.random.integers(2))
    zero = np.int64(0) if exact else F(0)
    case.fields |= {"m": m, "n": n, "k": k, "acc": acc}
    case.place("a", str(case.random.choice(["L1", "IM"])), source, (m, k), low=-4, broadcast=True)
    case.place("b", "L1W", source, (k, n), low=-4, broadcast=True)
    case.place("dst", "IM", target, (m, n), low=-4, broadcast=False)
    before = {name: data.copy() for name, data in case.state.memory.items()}
    for i, j in itertools.product(range(m), range(n)):
        total = case.number("dst", (i, j), exact) if acc else zero
        for p in range(k):
            total = total + case.number("a", (i, p), exact) * case.number("b", (p, j), exact)
        case.put("dst", (i, j), total)
    compare(case, simulated(case, before, "mmatmul", "MME0"), (m, n), 1e-5)


@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=40, deadline=None)
def test_conv(seed: int) -> None:
    case = Case(seed)
    random = case.random
    names = ("oh", "ow", "n", "kh", "kw", "ci", "sh", "sw", "dh", "dw")
    size = dict(zip(names, (int(v) for v in random.integers(1, [4, 4, 5, 4, 4, 4, 4, 4, 3, 3])), strict=True))
    size |= {"h0": int(random.integers(-3, 3)), "w0": int(random.integers(-3, 3))}
    size |= {"H": int(random.integers(1, 8)), "W": int(random.integers(1, 8)), "acc": int(random.integers(2))}
    source, target = MATRIX_DTYPES[random.integers(len(MATRIX_DTYPES))]
    exact = source == "int8"
    zero = np.int64(0) if exact else F(0)
    case.fields |= size
    oh, ow, n, kh, kw, ci = (size[name] for name in names[:6])
    case.place("a", "L1", source, (size["H"], size["W"], ci), low=-2, broadcast=False)
    case.place("b", "L1W", source, (kh, kw, ci, n), low=-2, broadcast=False)
    case.place("dst", "IM", target, (oh, ow, n), low=-2, broadcast=False)
    before = {name: data.copy() for name, data in case.state.memory.items()}
    for i, j, c in itertools.product(range(oh), range(ow), range(n)):
        total = case.number("dst", (i, j, c), exact) if size["acc"] else zero
        for p, q, r in itertools.product(range(kh), range(kw), range(ci)):
            row = i * size["sh"] + p * size["dh"] + size["h0"]
            column = j * size["sw"] + q * size["dw"] + size["w0"]
            if 0 <= row < size["H"] and 0 <= column < size["W"]:
                total = total + case.number("a", (row, column, r), exact) * case.number("b", (p, q, r, c), exact)
        case.put("dst", (i, j, c), total)
    compare(case, simulated(case, before, "mconv", "MME0"), (oh, ow, n), 1e-5)


@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=20, deadline=None)
def test_copy(seed: int) -> None:
    case = Case(seed)
    shape = tuple(int(v) for v in case.random.integers(1, 5, 4))
    dtype = str(case.random.choice(["float32", "float16", "int8", "bool"]))
    case.fields |= {f"n{i}": n for i, n in enumerate(shape)}
    case.place("src", "L1", dtype, shape, low=-4, broadcast=True)
    case.place("dst", "L1", dtype, shape, low=-4, broadcast=False)
    before = {name: data.copy() for name, data in case.state.memory.items()}
    for index in itertools.product(*map(range, shape)):
        case.put("dst", index, case.state.get(*case.address("src", index)))
    compare(case, simulated(case, before, "mcopy", "MTI0"), shape, 0.0)
