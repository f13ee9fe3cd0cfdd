"""Lowered functions as text, for before/after tests of the passes over their loops."""

from __future__ import annotations

from textwrap import dedent, indent

from tvm import tirx
from tvm.script import from_source  # pyright: ignore[reportUnknownVariableType]

from girih.lowering.loops.fission import TileLoops, fission
from girih.lowering.loops.nest_tiles import NestTiles

COPY = 'a: T.Buffer((12,), "float32"), b: T.Buffer((12,), "float32")'
"""Parameters of functions that need no more than a source and a destination."""


def function(body: str, parameters: str = COPY) -> tirx.PrimFunc:
    """The TIR function with this body."""
    return from_source(f"@T.prim_func\ndef main({parameters}):\n{indent(dedent(body).strip(), '    ')}\n")


def loops(body: str, parameters: str = COPY) -> TileLoops:
    """What loop fission makes of it."""
    return fission(function(body, parameters))


def nest(body: str, parameters: str = COPY) -> NestTiles:
    """Its only nest."""
    (group,) = loops(body, parameters).groups
    (only,) = group.nests
    return only


def texts(nests: tuple[NestTiles, ...]) -> list[list[str]]:
    """For each tile the nests that it runs, in order."""
    tiles = len(nests[0].present)
    return [[str(n.at(tile)) for n in nests if n.present[tile]] for tile in range(tiles)]
