"""Every instruction, one number at a time: what the simulator's arrays are judged by. Written from the manual alone."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from girih.ir.graph import DTYPES
from girih.ir.isa.row import Row
from girih.ir.isa.table import DTYPE_NAMES, Instruction
from girih.ir.machine import Machine

F = np.float32
Index = tuple[int, ...]


def whole(function: Any) -> Any:
    """On integers, a function that rounds changes nothing."""
    return lambda x: x if isinstance(x, np.integer) else function(x)


def extreme(find: Any) -> Any:
    """The largest or smallest number; a NaN where there is one."""
    return lambda *numbers: next((n for n in numbers if n != n), find(numbers))


FUNCTIONS: dict[str, Any] = {
    "copy": lambda x: x, "neg": lambda x: -x, "abs": abs, "floor": whole(np.floor), "ceil": whole(np.ceil),
    "round": whole(np.rint),
    "sign": np.sign, "not": lambda x: x == 0, "exp": lambda x: math.exp(x), "log": lambda x: math.log(x),
    "sqrt": lambda x: math.sqrt(x), "rsqrt": lambda x: 1 / math.sqrt(x), "recip": lambda x: 1 / float(x),
    "erf": lambda x: math.erf(x), "tanh": lambda x: math.tanh(x), "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "sin": lambda x: math.sin(x), "cos": lambda x: math.cos(x), "add": lambda a, b: a + b, "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b, "div": lambda a, b: a // b if isinstance(a, np.integer) else a / b,
    "mod": lambda a, b: a - b * np.floor(a / b), "pow": lambda a, b: math.pow(a, b), "max": extreme(max),
    "min": extreme(min),
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b, "and": lambda a, b: a != 0 and b != 0,
    "or": lambda a, b: a != 0 or b != 0, "select": lambda a, b, c: b if a != 0 else c,
    "fma": lambda a, b, c: a * b + c,
    "clip": lambda a, b, c: extreme(min)(extreme(max)(a, b), c), "lrelu": lambda a, b: a if a >= 0 else a * b,
    "quant": lambda a, b, c: np.rint(a * b) + c, "dequant": lambda a, b, c: (a - b) * c,
    "gelu": lambda x: float(x) * (1 + math.erf(float(x) / math.sqrt(2))) / 2,
    "silu": lambda x: float(x) / (1 + math.exp(-float(x))), "softplus": lambda x: math.log(1 + math.exp(float(x))),
}  # fmt: skip
COMBINE: dict[str, Any] = {
    "sum": lambda a, b: a + b, "max": extreme(max), "min": extreme(min), "prod": lambda a, b: a * b
}  # fmt: skip
FLOATS = ("bfloat16", "float16", "float32")
ALWAYS_FLOAT = {"pow", "quant", "dequant", "avg"}
"""Functions that are computed in floats whatever their arguments are."""


@dataclass
class State:
    """The memories by name and core (-1: the cluster's)."""

    machine: Machine
    memory: dict[tuple[str, int], np.ndarray] = field(default_factory=dict[tuple[str, int], np.ndarray])

    def get(self, place: tuple[str, int], address: int, dtype: str) -> Any:
        assert address >= 0
        return self.memory[place][address : address + np.dtype(dtype).itemsize].view(dtype)[0]

    def set(self, place: tuple[str, int], address: int, dtype: str, value: Any) -> None:
        assert address >= 0
        self.memory[place][address : address + np.dtype(dtype).itemsize] = np.array([converted(value, dtype)]).view(
            np.uint8
        )


def nearest_bfloat16(value: float) -> float:
    """The nearest number of eight binary digits and exponents of binary32, of two the even one; by rational numbers."""
    if not math.isfinite(value) or not value:
        return value
    last = Fraction(2) ** max(math.frexp(value)[1] - 8, -133)
    nearest = round(Fraction(value) / last) * last
    return math.copysign(math.inf if abs(nearest) >= Fraction(2) ** 128 else float(abs(nearest)), value)


def converted(value: Any, dtype: str) -> Any:
    """A number as the machine stores it."""
    if dtype == "bool":
        return np.bool_(value != 0)
    if dtype == "bfloat16":
        return np.dtype(dtype).type(nearest_bfloat16(float(value)))
    if dtype in FLOATS:
        return np.dtype(dtype).type(value)
    if isinstance(value, int | np.integer | np.bool_):
        return np.int64(value).astype(dtype)
    info = np.iinfo(dtype)
    if not math.isfinite(value):
        return np.dtype(dtype).type(0 if math.isnan(value) else info.max if value > 0 else info.min)
    return np.dtype(dtype).type(min(max(math.trunc(float(value)), info.min), info.max))


@dataclass(frozen=True)
class View:
    """One operand: its elements by index."""

    state: State
    place: tuple[str, int]
    dtype: str
    base: int
    strides: tuple[int, ...]

    def address(self, index: Sequence[int]) -> int:
        return self.base + sum(i * s for i, s in zip(index, self.strides, strict=True))

    def __getitem__(self, index: Sequence[int]) -> Any:
        return self.state.get(self.place, self.address(index), self.dtype)

    def bits(self, index: Sequence[int]) -> Any:
        return self.state.get(self.place, self.address(index), f"u{DTYPES[self.dtype]}")

    @property
    def integral(self) -> bool:
        return self.dtype not in FLOATS


@dataclass(frozen=True)
class Step:
    """An instruction with its fields by name, and its operands."""

    instruction: Instruction
    fields: dict[str, Any]
    views: dict[str, View]
    integers: bool
    """Whether the instruction computes in integers."""

    def number(self, name: str, *index: int) -> Any:
        """An element as vector instructions compute with it."""
        value = self.views[name][index]
        return np.int64(value) if self.integers else F(value)

    def exact(self, name: str, *index: int) -> Any:
        """An element as it is, for sums without rounding."""
        view = self.views[name]
        return np.int64(view[index]) if self.integers and view.integral else np.float64(view[index])

    def ranges(self, *names: str) -> Iterator[Index]:
        return itertools.product(*(range(self.fields[n]) for n in names))


def execute(state: State, instruction: Instruction, core: int = -1) -> set[tuple[tuple[str, int], int]]:
    """Run one instruction of the given core's queue (-1: a cluster's) on the state.

    Returns (place, address) of each element that it wrote.
    """
    row = instruction.row
    fields = dict(zip((f.name for f in row.fields), instruction.values, strict=True))
    views: dict[str, View] = {}
    for operand in row.operands:
        memory = state.machine.memories[fields[f"{operand.name}.mem"]]
        place = memory.name, core if memory.scope == "core" else -1
        strides = tuple(fields[f"{operand.name}.s{i}"] for i in range(len(operand.dims)))
        dtype = DTYPE_NAMES[fields[f"{operand.name}.dtype"]]
        views[operand.name] = View(state, place, dtype, fields[f"{operand.name}.base"], strides)
    reads = [o.name for o in row.operands if "r" in o.access and o.name not in row.indices]
    if row.func == "scatter":
        reads = ["a" if "a" in views else "src", *(["dst"] if "add" in row.mnemonic else [])]
    immediates = [v for n, v in fields.items() if n.startswith("imm")]
    integers = bool(reads) and all(views[n].integral for n in reads) and all(float(v).is_integer() for v in immediates)
    integers &= row.func not in ALWAYS_FLOAT and (not row.special or row.func in ("div", "mod", "sum"))
    step = Step(instruction, fields, views, integers)
    dst = views["dst"]
    dtype = f"u{DTYPES[dst.dtype]}" if row.latency in ("copy", "gather") else dst.dtype
    places = [dst.place]
    if instruction.mnemonic == "mbcast":
        places = [(dst.place[0], c) for c in range(state.machine.cores) if fields["cores"] >> c & 1]
    with np.errstate(all="ignore"):
        written = list(RULES[rule_of(instruction)](step))
        for (index, value), place in itertools.product(written, places):
            state.set(place, dst.address(index), dtype, value)
    return {(place, dst.address(index)) for place in places for index, _ in written}


def rule_of(instruction: Instruction) -> str:
    row = instruction.row
    if row.latency in ("copy", "fill", "matrix") or row.func in ("gather", "scatter"):
        return row.func
    if row.family in ("vfill", "vacc", "vmacc", "vred", "vdot", "varg", "vscan", "vpool", "vdwconv"):
        return row.family
    return "element"


Written = Iterator[tuple[Index, Any]]


def exact(terms: Iterable[Any]) -> Any:
    """The sum of numbers, as if without rounding."""
    numbers = list(terms)
    if all(isinstance(n, int | np.integer) for n in numbers):
        return sum(numbers, np.int64(0))
    if not all(math.isfinite(n) for n in numbers):
        return np.float64(sum(map(float, numbers)))
    return np.float64(float(sum((Fraction(float(n)) for n in numbers), Fraction(0))))


def times(a: Any, b: Any) -> Any:
    """A product that is not rounded."""
    return a * b if isinstance(a, np.integer) and isinstance(b, np.integer) else np.float64(a) * np.float64(b)


def element(step: Step) -> Written:
    form = step.instruction.mnemonic.rpartition(".")[2]
    immediates = [v for n, v in step.fields.items() if n.startswith("imm")]
    load = step.exact if step.instruction.row.func == "fma" else step.number
    for index in step.ranges("n0", "n1", "n2"):
        left = list(immediates)
        arguments = [
            load(name, *index) if kind == "v" else (np.int64 if step.integers else F)(left.pop(0))
            for name, kind in zip("abc", form, strict=False)
        ]
        yield index, FUNCTIONS[step.instruction.row.func](*arguments)


def fill(step: Step) -> Written:
    row = step.instruction.row
    for index in step.ranges(*row.operands[0].dims):
        yield index, F(step.fields["imm0"])


def accumulate(step: Step) -> Written:
    for index in step.ranges("n0", "n1", "n2"):
        yield index, COMBINE[step.instruction.row.func](step.number("dst", *index), step.number("a", *index))


def multiply_accumulate(step: Step) -> Written:
    for index in step.ranges("n0", "n1", "n2"):
        b = step.number("b", *index) if "b" in step.views else (np.int64 if step.integers else F)(step.fields["imm0"])
        yield index, step.number("dst", *index) + step.number("a", *index) * b


def reduction(step: Step) -> Written:
    func = step.instruction.row.func
    for outer in step.ranges("n0", "n1"):
        terms = [step.exact("a", *outer, lane) for lane in range(step.fields["n2"])]
        if func == "dot":
            terms = [times(t, step.exact("b", *outer, lane)) for lane, t in enumerate(terms)]
        old = [step.exact("dst", *outer)] if step.fields["acc"] else []
        if func in ("sum", "dot"):
            yield outer, exact([*old, *terms])
        elif func == "prod":
            value = terms[0]
            for term in [*terms[1:], *old]:
                value = value * term
            yield outer, value
        else:
            yield outer, COMBINE[func](*old, *terms)


def place_of(step: Step) -> Written:
    for outer in step.ranges("n0", "n1"):
        terms = [step.exact("a", *outer, lane) for lane in range(step.fields["n2"])]
        nans = [i for i, t in enumerate(terms) if t != t]
        yield outer, np.int64(nans[0] if nans else terms.index(COMBINE[step.instruction.row.func](*terms)))


def scan(step: Step) -> Written:
    for outer in step.ranges("n0", "n1"):
        terms = [step.exact("a", *outer, lane) for lane in range(step.fields["n2"])]
        for lane in range(len(terms)):
            yield (*outer, lane), exact(terms[: lane + 1])


def visited(step: Step, out: tuple[int, int]) -> Iterator[tuple[Index, Index]]:
    """(kernel position, position in a) for each position of a window that is in bounds."""
    f = step.fields
    for kernel in step.ranges("kh", "kw"):
        row = out[0] * f["sh"] + kernel[0] * f["dh"] + f["h0"]
        column = out[1] * f["sw"] + kernel[1] * f["dw"] + f["w0"]
        if 0 <= row < f["H"] and 0 <= column < f["W"]:
            yield kernel, (row, column)


def pool(step: Step) -> Written:
    func = step.instruction.row.func
    for oh, ow, p, n in step.ranges("oh", "ow", "p", "n"):
        terms = [step.exact("a", *at, p, n) for _, at in visited(step, (oh, ow))]
        old = [step.exact("dst", oh, ow, p, n)] if step.fields.get("acc") else []
        if func == "avg":
            yield (oh, ow, p, n), exact(terms) / len(terms) if terms else F(0)
        elif func == "sum":
            yield (oh, ow, p, n), exact([*old, *terms])
        else:
            found = [*old, *terms]
            yield (oh, ow, p, n), COMBINE[func](*found) if found else np.int64(0)


def depthwise(step: Step) -> Written:
    for oh, ow, p, n in step.ranges("oh", "ow", "p", "n"):
        taps = visited(step, (oh, ow))
        terms = [times(step.exact("a", *at, p, n), step.exact("b", *kernel, n)) for kernel, at in taps]
        yield (oh, ow, p, n), exact([*([step.exact("dst", oh, ow, p, n)] if step.fields["acc"] else []), *terms])


def product(step: Step, index: Index, column: int, terms: list[Any]) -> tuple[Index, Any]:
    """The end of a matrix instruction: the old value, the bias, and no negative numbers."""
    if step.fields["acc"]:
        terms.append(step.exact("dst", *index))
    if "c" in step.views:
        terms.append(step.exact("c", column))
    value = exact(terms)
    return index, value if not step.fields.get("relu") or value > 0 or math.isnan(value) else np.int64(0)


def matmul(step: Step) -> Written:
    for m, n in step.ranges("m", "n"):
        terms = [times(step.exact("a", m, k), step.exact("b", k, n)) for k in range(step.fields["k"])]
        yield product(step, (m, n), n, terms)


def conv(step: Step) -> Written:
    for oh, ow, n in step.ranges("oh", "ow", "n"):
        terms = [
            times(step.exact("a", *at, c), step.exact("b", *kernel, c, n))
            for kernel, at in visited(step, (oh, ow))
            for c in range(step.fields["ci"])
        ]
        yield product(step, (oh, ow, n), n, terms)


def copy(step: Step) -> Written:
    turned = "trans" in step.instruction.mnemonic
    for n0, n1, n2, n3 in step.ranges("n0", "n1", "n2", "n3"):
        yield (n0, n2, n1, n3) if turned else (n0, n1, n2, n3), step.views["src"].bits((n0, n1, n2, n3))


def index_of(step: Step, index: Index) -> int:
    view = step.views["index" if "index" in step.views else "b"]
    found = int(view[index[: len(view.strides)]])
    assert 0 <= found < step.fields["entries"]
    return found


def gather(step: Step) -> Written:
    source = step.views["src" if "src" in step.views else "a"]
    for n0, n1, n2 in step.ranges("n0", "n1", "n2"):
        at = index_of(step, (n0, n1, n2))
        place = (n0, n1, at) if step.instruction.mnemonic.endswith("lane") else (n0, at, n2)
        yield (n0, n1, n2), source[place] if step.instruction.row.kind == "vector" else source.bits(place)


def scatter(step: Step) -> Written:
    add = step.instruction.mnemonic.endswith("add")
    source = step.views["src" if "src" in step.views else "a"]
    sums: dict[Index, list[Any]] = {}
    for n0, n1, n2 in step.ranges("n0", "n1", "n2"):
        target = (n0, index_of(step, (n0, n1)), n2)
        if add:
            sums.setdefault(target, [step.exact("dst", *target)]).append(step.exact("a", n0, n1, n2))
        else:
            at = (n0, n1, n2)
            yield target, source[at] if step.instruction.row.kind == "vector" else source.bits(at)
    yield from ((target, exact(terms)) for target, terms in sums.items())


RULES: dict[str, Any] = {
    "element": element, "vfill": fill, "fill": fill, "vacc": accumulate, "vmacc": multiply_accumulate,
    "vred": reduction, "vdot": reduction, "varg": place_of, "vscan": scan, "vpool": pool, "vdwconv": depthwise,
    "matmul": matmul, "conv": conv, "copy": copy, "gather": gather, "scatter": scatter,
}  # fmt: skip


SPECIAL = 2e-6
"""The relative error of binary32 that is allowed for functions that are no exact operations."""


SUMS = 2.0**-22
"""The same for sums and products of many numbers, which are exact up to binary64 and then rounded."""


def tolerance(row: Row) -> float:
    if row.kind == "matrix" or row.func in ("dot", "sum", "prod", "avg", "dwconv") or row.mnemonic == "vscatter.add":
        return SUMS
    return SPECIAL if row.special and row.func != "gather" else 0.0
