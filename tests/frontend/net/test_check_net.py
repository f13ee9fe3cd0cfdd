"""The checker of nets finds what is broken in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from girih.frontend.net.check_net import check_net
from girih.frontend.net.linear import Linear
from girih.frontend.net.net import Extent, Info, Loop, Net, NetStep, Ref
from girih.ir.errors import CheckError
from girih.ir.graph import Host

ROW, COLUMN, TERM = (Linear.axis(a) for a in "ijk")


def net() -> Net:
    """Two steps: product = Σ x · w, then y = relu(product + x0) through a private tensor."""
    axes = {"i": Extent(4), "j": Extent(8), "k": Extent(6, reduce=True)}
    product = Loop(axes, Ref("p", (ROW, COLUMN)), "mul", (Ref("x", (ROW, TERM)), Ref("w", (TERM, COLUMN))), "sum")
    plain = {"i": Extent(4), "j": Extent(8)}
    total = Loop(
        plain, Ref("t", (ROW, COLUMN)), "add", (Ref("p", (ROW, COLUMN)), Ref("x", (ROW, COLUMN + Linear((), -1)), 0.0))
    )
    relu = Loop(plain, Ref("y", (ROW, COLUMN)), "max", (Ref("t", (ROW, COLUMN)), 0.0))
    steps = [
        NetStep("first", ("n0",), ("n0", 0), ("p",), [product]),
        NetStep("second", ("n1",), ("n1", 0), ("y",), [total, relu], {"t": Info((4, 8), "float32")}),
    ]
    tensors = {n: Info(s, "float32") for n, s in {"x": (4, 6), "w": (6, 8), "p": (4, 8), "y": (4, 8)}.items()}
    return Net(tensors, {"w": np.zeros((6, 8), np.float32)}, steps, ["x"], ["y"])


def test_a_whole_net_passes() -> None:
    check_net(net())


def loop(step: int, number: int, change: Callable[[Loop], Loop]) -> Callable[[Net], None]:
    def mutate(n: Net) -> None:
        n.steps[step].loops[number] = change(n.steps[step].loops[number])

    return mutate


def tensor(name: str, shape: tuple[int, ...], dtype: str = "float32") -> Callable[[Net], None]:
    return lambda n: n.tensors.update({name: Info(shape, dtype)})


def write_input(n: Net) -> None:
    n.inputs.append("p")


def write_twice(n: Net) -> None:
    n.steps.append(replace(n.steps[0], name="again"))


def unwritten(n: Net) -> None:
    del n.steps[0]


def unknown_output(n: Net) -> None:
    n.outputs.append("w")


def cycle(n: Net) -> None:
    change = n.steps[0].loops[0]
    n.steps[0].loops[0] = replace(change, start=Ref("y", (ROW, COLUMN)))


def wrong_data(n: Net) -> None:
    n.constants["w"] = np.zeros((6, 8), np.float64)


def public_temporary(n: Net) -> None:
    n.tensors["t"] = Info((4, 8), "float32")


def read_too_early(n: Net) -> None:
    n.steps[1].loops.reverse()


def host_with_loops(n: Net) -> None:
    n.steps[1].host = Host("", "")


def two_outputs(n: Net) -> None:
    n.tensors["z"] = Info((4, 8), "float32")
    n.steps[1].outputs = ("y", "z")


def extent(axis: str, size: int, reduce: bool = False) -> Callable[[Loop], Loop]:
    return lambda p: replace(p, axes={**p.axes, axis: Extent(size, reduce)})


def operand(number: int, new: Ref | float) -> Callable[[Loop], Loop]:
    return lambda p: replace(p, operands=tuple(new if n == number else o for n, o in enumerate(p.operands)))


def overlapping(p: Loop) -> Loop:
    return replace(p, axes={"i": Extent(4), "j": Extent(5)}, write=Ref("y", (Linear(), ROW + COLUMN)))


BROKEN: dict[str, tuple[Callable[[Net], None], str]] = {
    "an input is written": (write_input, "writes p, which is an input or a constant"),
    "two writers": (write_twice, "writes p, which another step writes"),
    "no writer": (unwritten, "step second reads p, which nothing writes"),
    "an output without a writer": (unknown_output, "no step writes the outputs w"),
    "a cycle": (cycle, "in a cycle: first, second"),
    "data of another dtype": (wrong_data, r"constant w is float32\(6, 8\), but its data is float64"),
    "a private tensor of the net": (public_temporary, "private tensor t is also a tensor of the net"),
    "read before written": (read_too_early, "reads t before it is written"),
    "a host kernel with loops": (host_with_loops, "is a host kernel and has loops"),
    "two outputs": (two_outputs, "has 2 outputs"),
    "an unknown dtype": (tensor("y", (4, 8), "float7"), "unknown dtype float7"),
    "an empty tensor": (tensor("y", (4, 0)), "shape"),
    "another rank": (tensor("p", (4, 8, 1)), "p has rank 3, not 2"),
    "out of bounds": (tensor("x", (4, 5)), r"dimension 1 of x is accessed in \[0, 5\], it has 5"),
    "partly written": (tensor("y", (4, 9)), "writes 32 of 36 of y"),
    "no fill": (loop(1, 0, operand(1, Ref("x", (ROW, COLUMN)))), "dimension 1 of x is accessed"),
    "an unknown axis": (loop(1, 0, operand(1, Ref("x", (ROW, TERM), 0.0))), "indices of unknown axes k"),
    "an unused axis": (loop(0, 0, extent("l", 3, reduce=True)), "axes that no access uses: l"),
    "an empty axis": (loop(0, 0, extent("i", 0)), "an axis is empty"),
    "an unknown function": (loop(1, 1, lambda p: replace(p, func="frob")), "unknown function 'frob'"),
    "too few operands": (loop(1, 1, lambda p: replace(p, operands=p.operands[:1])), "takes 2 operands, not 1"),
    "no combiner": (loop(0, 0, lambda p: replace(p, combine=None)), "reduced axes need a combiner"),
    "an unknown combiner": (loop(0, 0, lambda p: replace(p, combine="mean")), "unknown combiner mean"),
    "a start of a copy": (
        loop(1, 1, lambda p: replace(p, start=Ref("x", (ROW, COLUMN)))),
        "only sums of products start",
    ),
    "a guarded write": (loop(1, 1, lambda p: replace(p, write=Ref("y", (ROW, COLUMN), 0.0))), "a write has a fill"),
    "a foreign target": (
        loop(1, 1, lambda p: replace(p, write=Ref("x", (ROW, COLUMN)))),
        "neither its output nor private",
    ),
    "a diagonal": (loop(1, 1, lambda p: replace(p, write=Ref("y", (ROW, ROW)))), "axis i writes 2 dimensions"),
    "written over and over": (loop(1, 1, lambda p: replace(p, write=Ref("y", (ROW, Linear())))), "writes one element"),
    "a reduced axis written": (loop(0, 0, extent("j", 8, reduce=True)), "the reduced axis j is in the write"),
    "two points of one element": (loop(1, 1, overlapping), "two points write the same element"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_nets_are_found(case: str) -> None:
    mutate, message = BROKEN[case]
    broken = net()
    mutate(broken)
    with pytest.raises(CheckError, match=message):
        check_net(broken)
