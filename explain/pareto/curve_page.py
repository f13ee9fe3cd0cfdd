"""A curve as one small page of HTML with a picture in SVG, by the template ``templates/curve.html.j2``."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import log2
from typing import cast

from jinja2 import Environment, PackageLoader, StrictUndefined

from ..text import number
from .curve_rows import CurveData

WIDTH, HEIGHT = 640, 320
"""Of the picture, in its own units."""
LEFT, BOTTOM, EDGE = 80, 40, 20
"""Room for numbers at its axes, and at the other sides."""


def curve_page(curve: CurveData) -> str:
    """The whole page, which refers to no other file."""
    environment = Environment(
        loader=PackageLoader("girih.explain", "templates"),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        autoescape=True,
    )
    cast("dict[str, Callable[..., str]]", environment.filters).update(number=number)
    spots = places(curve)
    # More bytes change nothing until the next plan fits: the curve is one of steps.
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in steps(spots))
    return environment.get_template("curve.html.j2").render(
        c=curve, spots=list(zip(spots, curve.points, strict=True)), line=line, width=WIDTH, height=HEIGHT, left=LEFT,
        bottom=HEIGHT - BOTTOM, right=WIDTH - EDGE, top=EDGE,
    )  # fmt: skip


def places(curve: CurveData) -> list[tuple[float, float]]:
    """Where the points are in the picture: bytes and cycles in a logarithmic scale each."""
    across = [log2(max(1, row.bytes)) for row in curve.points]
    up = [log2(max(1, row.cycles)) for row in curve.points]
    return [
        (LEFT + _share(x, across) * (WIDTH - EDGE - LEFT), HEIGHT - BOTTOM - _share(y, up) * (HEIGHT - BOTTOM - EDGE))
        for x, y in zip(across, up, strict=True)
    ]


def steps(spots: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The corners of a line that goes across to the next point, and then down to it."""
    corners = spots[:1]
    for (_, before), (x, y) in pairwise(spots):
        corners += [(x, before), (x, y)]
    return corners


def _share(value: float, values: list[float]) -> float:
    least, most = min(values), max(values)
    return (value - least) / (most - least) if most > least else 0.5
