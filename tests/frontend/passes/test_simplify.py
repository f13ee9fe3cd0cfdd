"""Copies that are dropped, and those that must stay: the loops before and after, point by point."""

from __future__ import annotations

from copy import deepcopy
from itertools import product
from random import Random

import numpy as np
import pytest

from girih.frontend.net.linear import Linear
from girih.frontend.net.net import Extent, Info, Loop, Net, NetStep, Ref
from girih.frontend.passes.simplify import drop_copies

ROWS, COLUMNS = 3, 4
ROW, COLUMN = (Linear.axis(a) for a in "ij")
AXES = {"i": Extent(ROWS), "j": Extent(COLUMNS)}


def ran(step: NetStep, net: Net) -> np.ndarray:
    """The output, by one point of one loop after the other; a read of what nothing wrote fails."""
    infos = {**net.tensors, **step.temps}
    arrays = {name: np.full(info.shape, np.nan, np.float32) for name, info in infos.items()}
    arrays["x"] = np.random.default_rng(0).standard_normal((ROWS, COLUMNS)).astype(np.float32)
    for loop in step.loops:
        for values in product(*(range(e.size) for e in loop.axes.values())):
            at = dict(zip(loop.axes, values, strict=True))

            def where(ref: Ref, at: dict[str, int] = at) -> tuple[int, ...]:
                return tuple(i.const + sum(c * at[a] for a, c in i.terms) for i in ref.index)

            def load(operand: Ref | float) -> float:
                if not isinstance(operand, Ref):
                    return operand
                index, array = where(operand), arrays[operand.tensor]
                if not all(0 <= i < n for i, n in zip(index, array.shape, strict=True)):
                    assert operand.fill is not None
                    return operand.fill
                assert not np.isnan(array[index])
                return float(array[index])

            operands = [load(o) for o in loop.operands]
            value = {"copy": lambda a: a, "add": lambda a, b: a + b, "lt": lambda a, b: float(a < b)}[loop.func](
                *operands
            )
            name, index = loop.write.tensor, where(loop.write)
            if loop.combine == "sum" and not np.isnan(arrays[name][index]):
                value += float(arrays[name][index])
            arrays[name][index] = np.array(value).astype(infos[name].dtype)
    assert not np.isnan(arrays["y"]).any()
    return arrays["y"]


def checked(loops: list[Loop], shape: tuple[int, ...], temps: dict[str, Info], dtype: str = "float32") -> int:
    """How many loops are left; they compute the same."""
    net = Net({"x": Info((ROWS, COLUMNS), "float32"), "y": Info(shape, dtype)})
    step = NetStep("s", (), ("s", 0), ("y",), loops, temps)
    expected = ran(deepcopy(step), net)
    drop_copies(step, net)
    np.testing.assert_array_equal(ran(step, net), expected)
    assert set(step.temps) == {loop.write.tensor for loop in step.loops} - {"y"}
    return len(step.loops)


def first(func: str = "add", name: str = "t") -> Loop:
    return Loop(AXES, Ref(name, (ROW, COLUMN)), func, (Ref("x", (ROW, COLUMN)), 0.3))


def copy(read: Ref, *write: Linear, tensor: str = "y", rows: int = ROWS, columns: int = COLUMNS) -> Loop:
    return Loop({"i": Extent(rows), "j": Extent(columns)}, Ref(tensor, write), "copy", (read,))


T = Ref("t", (ROW, COLUMN))
FULL = {"t": Info((ROWS, COLUMNS), "float32")}


def shifted(index: Linear, by: int) -> Linear:
    return Linear(index.terms, index.const + by)


def test_a_copy_in_another_layout_is_dropped() -> None:
    assert checked([first(), copy(T, COLUMN, ROW)], (COLUMNS, ROWS), dict(FULL)) == 1
    flat = Linear.from_terms({"i": COLUMNS, "j": 1})
    assert checked([first(), copy(T, flat)], (ROWS * COLUMNS,), dict(FULL)) == 1


def test_one_copy_after_the_other_is_dropped() -> None:
    temps = {**FULL, "u": Info((COLUMNS, ROWS), "float32")}
    back = Loop(AXES, Ref("y", (ROW, COLUMN)), "copy", (Ref("u", (COLUMN, ROW)),))
    assert checked([first(), copy(T, COLUMN, ROW, tensor="u"), back], (ROWS, COLUMNS), temps) == 1


def test_what_is_no_copy_stays() -> None:
    again = Loop(AXES, Ref("y", (ROW, COLUMN)), "add", (T, 1.0))
    assert checked([first(), again], (ROWS, COLUMNS), dict(FULL)) == 2
    number = Loop(AXES, Ref("y", (ROW, COLUMN)), "copy", (2.5,))
    assert checked([number], (ROWS, COLUMNS), {}) == 1
    # Its start is a copy, but it is a sum.
    total = Loop({"i": Extent(ROWS), "j": Extent(COLUMNS, True)}, Ref("y", (ROW,)), "copy", (T,), "sum")
    assert checked([first(), total], (ROWS,), dict(FULL)) == 2


def test_copies_of_what_others_read_or_have_written_stay() -> None:
    assert checked([copy(Ref("x", (ROW, COLUMN)), ROW, COLUMN)], (ROWS, COLUMNS), {}) == 1
    both = Loop(AXES, Ref("y", (shifted(ROW, ROWS), COLUMN)), "add", (T, T))
    assert checked([first(), copy(T, ROW, COLUMN), both], (2 * ROWS, COLUMNS), dict(FULL)) == 3
    halves = [
        Loop({"i": Extent(n), "j": Extent(COLUMNS)}, Ref("t", (at, COLUMN)), "add", (Ref("x", (at, COLUMN)), 0.5))
        for n, at in ((1, ROW), (ROWS - 1, shifted(ROW, 1)))
    ]
    assert checked([*halves, copy(T, COLUMN, ROW)], (COLUMNS, ROWS), dict(FULL)) == 3


def test_copies_of_a_part_or_with_a_border_stay() -> None:
    part = copy(Ref("t", (shifted(ROW, 1), COLUMN)), ROW, COLUMN, rows=ROWS - 1)
    assert checked([first(), part], (ROWS - 1, COLUMNS), dict(FULL)) == 2
    border = copy(Ref("t", (shifted(ROW, -1), COLUMN), 7.0), ROW, COLUMN, rows=ROWS + 2)
    assert checked([first(), border], (ROWS + 2, COLUMNS), dict(FULL)) == 2
    rolled = copy(Ref("t", (shifted(ROW, -1), COLUMN), 7.0), ROW, COLUMN)
    assert checked([first(), rolled], (ROWS, COLUMNS), dict(FULL)) == 2


@pytest.mark.parametrize("func", ["add", "lt"])
def test_values_are_rounded_as_before(func: str) -> None:
    """A sum is stored in half precision in between, a truth is the same in every dtype; only outputs take it so."""
    temps = {"t": Info((ROWS, COLUMNS), "float16")}
    assert checked([first(func), copy(T, ROW, COLUMN)], (ROWS, COLUMNS), temps) == (1 if func == "lt" else 2)
    temps = {"t": Info((ROWS, COLUMNS), "float16"), "u": Info((ROWS, COLUMNS), "float32")}
    last = Loop(AXES, Ref("y", (ROW, COLUMN)), "add", (Ref("u", (ROW, COLUMN)), 1.0))
    assert checked([first(func), copy(T, ROW, COLUMN, tensor="u"), last], (ROWS, COLUMNS), temps) == 3


def test_a_copy_that_runs_backwards_stays() -> None:
    backwards = Linear.from_terms({"i": -1}, ROWS - 1)
    assert checked([first(), copy(T, backwards, COLUMN)], (ROWS, COLUMNS), dict(FULL)) == 2
    assert checked([first(), copy(Ref("t", (backwards, COLUMN)), ROW, COLUMN)], (ROWS, COLUMNS), dict(FULL)) == 2


def test_sums_stay_contiguous() -> None:
    """A sum over rows goes on in memory, which a transposing copy would end."""
    total = Loop(
        {"k": Extent(2, True), "i": Extent(ROWS), "j": Extent(COLUMNS)}, T, "copy", (Ref("x", (ROW, COLUMN)),), "sum"
    )
    assert checked([total, copy(T, COLUMN, ROW)], (COLUMNS, ROWS), dict(FULL)) == 2
    assert checked([total, copy(T, ROW, COLUMN)], (ROWS, COLUMNS), dict(FULL)) == 1


@pytest.mark.parametrize("seed", range(40))
def test_the_order_of_loops_stays(seed: int) -> None:
    """Parts of the output, some of them through copies, in any order."""
    rng = Random(seed)
    loops: list[Loop] = []
    temps: dict[str, Info] = {}
    count = rng.randint(1, 4)
    for part in range(count):
        target = shifted(ROW, part * ROWS)
        if rng.random() < 0.3:
            loops.append(Loop(AXES, Ref("y", (target, COLUMN)), "add", (Ref("x", (ROW, COLUMN)), float(part))))
            continue
        name = f"t{part}"
        temps[name] = Info((ROWS, COLUMNS), "float32")
        loops.insert(0, first(name=name))
        loops.append(copy(Ref(name, (ROW, COLUMN)), target, COLUMN))
    assert checked(loops, (count * ROWS, COLUMNS), temps) == count
