"""Linear and cubic interpolation, one dimension after the other.

Along one dimension, an output is a weighted sum of a few neighbouring inputs. With ``p`` outputs for each ``q`` inputs
the weights repeat after ``p`` outputs, except near the borders: a loop for each of these phases, and for each output at
a border, computes them all. In two dimensions at a time there would be a loop for each pair of phases.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor, gcd

import numpy as np

from ...ir.errors import UsageError
from ...ir.graph import FLOATS
from ..net.linear import Linear
from ..net.net import Extent, Info, Loop, NetStep, Operand, Ref
from ..onnx.forms.resizing import POSITIONS
from ..onnx.inline import Node
from .template import Template, TemplateCall

MAX_RUNS = 64
"""More loops than these are worth less than one product with the matrix of all weights."""

Row = tuple[int, tuple[float, ...]]
"""What an output is made of: the first input that it needs, and the weights from there on."""


@dataclass(frozen=True)
class Interpolation:
    """What happens to one dimension of a tensor: the rows of its outputs."""

    axis: int
    rows: tuple[Row, ...]


def interpolated(node: Node, infos: Sequence[Info | None], values: Sequence[np.ndarray | None]) -> Template | None:
    """What a Resize of constant scales or sizes becomes; ``None`` for any other node, or any other kind of Resize."""
    if node.op_type != "Resize" or len(infos) < 3 or infos[0] is None or infos[0].dtype not in FLOATS:
        return None
    changes = _changes(node, infos[0].shape, values)
    if changes is None:
        return None
    source, info = "in0", infos[0]
    template = Template({source: info})
    for number, change in enumerate(changes):
        weights, target = f"c{number}", f"t{number}"
        step, table = interpolate(change, info, source, target, weights)
        shape = tuple(len(change.rows) if d == change.axis else n for d, n in enumerate(info.shape))
        info = Info(shape, info.dtype)
        template.tensors |= {target: info, weights: Info(table.shape, info.dtype)}
        template.constants[weights] = table
        template.calls.append(TemplateCall(None, None, step.name, [source, weights], [target], [step]))
        source = target
    template.outputs = [source]
    return template


def _changes(node: Node, shape: tuple[int, ...], values: Sequence[np.ndarray | None]) -> list[Interpolation] | None:
    """What happens to each dimension that gets another size."""
    mode, where = node.attribute("mode", b"nearest"), node.attribute(_WHERE, b"half_pixel")
    if mode not in (b"linear", b"cubic") or where not in POSITIONS:
        return None
    axes = node.attribute("axes", list(range(len(shape))))
    cubic = node.attribute("cubic_coeff_a", -0.75)
    if not isinstance(axes, list) or not isinstance(cubic, float):
        raise UsageError(f"node {node.name!r}: an attribute of Resize is of a wrong type")
    scales, sizes = values[2], values[3] if len(values) > 3 else None
    if sizes is not None:
        new = [int(n) for n in sizes]
    elif scales is not None:
        new = [round(shape[a] * float(s)) for a, s in zip(axes, scales, strict=True)]
    else:
        return None
    changes: list[Interpolation] = []
    for axis, outputs in zip(axes, new, strict=True):
        inputs = shape[axis]
        if inputs != outputs:
            rows = tuple(_row(o, inputs, outputs, where, mode, Fraction(cubic)) for o in range(outputs))
            changes.append(Interpolation(axis % len(shape), rows))
    return changes


_WHERE = "coordinate_transformation_mode"


def _row(output: int, old: int, new: int, where: object, mode: object, cubic: Fraction) -> Row:
    """The weights of one of ``new`` outputs on ``old`` inputs. Those of inputs beyond a border go to the border."""
    place: Fraction = POSITIONS[where](output, old, new)
    base = floor(place)
    rest = place - base
    taps = (1 - rest, rest) if mode == b"linear" else _cubic(rest, cubic)
    first = base - (len(taps) - 2) // 2
    weights: dict[int, Fraction] = {}
    for position, weight in enumerate(taps):
        if weight:
            inside = min(max(first + position, 0), old - 1)
            weights[inside] = weights.get(inside, Fraction(0)) + weight
    low, high = min(weights), max(weights)
    return low, tuple(float(weights.get(i, Fraction(0))) for i in range(low, high + 1))


def _cubic(rest: Fraction, a: Fraction) -> tuple[Fraction, ...]:
    """The weights of four neighbours at a distance of ``rest`` from the second (Keys, IEEE Transactions on Acoustics,
    Speech, and Signal Processing 29(6), 1981)."""

    def near(x: Fraction) -> Fraction:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1

    def far(x: Fraction) -> Fraction:
        return a * (x**3 - 5 * x**2 + 8 * x - 4)

    return far(rest + 1), near(rest), near(1 - rest), far(2 - rest)


@dataclass(frozen=True)
class _Run:
    """Outputs ``first, first + stride, ...`` with the same weights, on inputs from ``low, low + step, ...`` on."""

    first: int
    count: int
    stride: int
    low: int
    step: int
    weights: tuple[float, ...]


def _runs(rows: tuple[Row, ...], stride: int) -> Iterator[_Run]:
    for phase in range(stride):
        places = range(phase, len(rows), stride)
        start = 0
        while start < len(places):
            low, weights = rows[places[start]]
            count, step = 1, 0
            while start + count < len(places):
                ahead, others = rows[places[start + count]]
                step = ahead - low if count == 1 else step
                if others != weights or ahead != low + count * step:
                    break
                count += 1
            yield _Run(places[start], count, stride, low, step if count > 1 else 0, weights)
            start += count


def interpolate(
    change: Interpolation, info: Info, source: str, target: str, weights: str
) -> tuple[NetStep, np.ndarray]:
    """The step that computes ``target`` from ``source``, of ``info``; and what it needs of ``weights``: an array."""
    rows, old = change.rows, info.shape[change.axis]
    runs = list(_runs(rows, len(rows) // gcd(len(rows), old)))
    if len(runs) <= MAX_RUNS:
        length = max(len(run.weights) for run in runs)
        table = np.zeros((len(runs), length), info.dtype)
        for number, run in enumerate(runs):
            table[number, : len(run.weights)] = run.weights
        loops = [_loop(change, info, source, target, run, weights, n) for n, run in enumerate(runs)]
    else:
        table = np.zeros((old, len(rows)), info.dtype)
        for output, (low, row) in enumerate(rows):
            table[low : low + len(row), output] = row
        loops = [_product(change, info, source, target, weights)]
    return NetStep("interpolate", (), ("", 0), (target,), loops), table


def _others(change: Interpolation, info: Info) -> dict[str, Extent]:
    return {f"i{d}": Extent(n) for d, n in enumerate(info.shape) if d != change.axis and n > 1}


def _at(change: Interpolation, info: Info, tensor: str, place: Linear) -> Ref:
    """The tensor at ``place`` of the dimension that changes, and at the loops' own axes of the others."""
    index = [Linear.axis(f"i{d}") if n > 1 else Linear() for d, n in enumerate(info.shape)]
    index[change.axis] = place
    return Ref(tensor, tuple(index))


def _loop(change: Interpolation, info: Info, source: str, target: str, run: _Run, weights: str, number: int) -> Loop:
    axes = _others(change, info)
    write, read = {}, {}
    if run.count > 1:
        axes["o"] = Extent(run.count)
        write["o"], read["o"] = run.stride, run.step
    if len(run.weights) > 1:
        axes["k"] = Extent(len(run.weights), True)
        read["k"] = 1
    to = _at(change, info, target, Linear.from_terms(write, run.first))
    value = _at(change, info, source, Linear.from_terms(read, run.low))
    if len(run.weights) == 1:
        return Loop(axes, to, "copy", (value,))
    weight: Operand = Ref(weights, (Linear.from_terms({}, number), Linear.axis("k")))
    return Loop(axes, to, "mul", (value, weight), "sum")


def _product(change: Interpolation, info: Info, source: str, target: str, weights: str) -> Loop:
    axes = {**_others(change, info), "o": Extent(len(change.rows)), "k": Extent(info.shape[change.axis], True)}
    to, value = (_at(change, info, t, Linear.axis(a)) for t, a in ((target, "o"), (source, "k")))
    return Loop(axes, to, "mul", (value, Ref(weights, (Linear.axis("k"), Linear.axis("o")))), "sum")
