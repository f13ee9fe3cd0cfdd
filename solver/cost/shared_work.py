"""Cycles of a stage whose points are divided among the engines of a core, as its instructions will be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...ir.box import Box, Span, is_empty
from ...ir.graph import Stage
from ...ir.machine import Engine
from ...ir.semantics.division import divisions
from .instructions import EngineTime, StageBuffers, matrix_run, vector_run


def vector_time(team: Sequence[Engine], stage: Stage, points: Box, layout: StageBuffers) -> EngineTime:
    """See :func:`.instructions.vector_run`: what the engine with the most to do takes of ``points``."""
    return min(
        (vector_run(team[0], stage, part, layout, among=points) for part in _largest_parts(stage, points, len(team))),
        key=lambda time: time.busy,
    )


def matrix_time(
    team: Sequence[Engine], stage: Stage, points: Box, layout: StageBuffers, dtype: str, *, accumulates: bool = False
) -> EngineTime:
    """See :func:`.instructions.matrix_run`: what the engine with the most to do takes of ``points``."""
    return min(
        (
            matrix_run(team[0], stage, part, layout, dtype, accumulates=accumulates, among=points)
            for part in _largest_parts(stage, points, len(team))
        ),
        key=lambda time: time.busy,
    )


def _largest_parts(stage: Stage, points: Box, engines: int) -> Iterator[Box]:
    """The largest part of each division along axes of the result: the whole first."""
    if engines == 1 or is_empty(points):
        yield points
        return
    axes = [number for number, axis in enumerate(stage.axes) if not axis.reduce]
    for counts in divisions([points[a].size for a in axes], engines):
        part = list(points)
        for a, count in zip(axes, counts, strict=True):
            part[a] = Span(points[a].lo, points[a].lo + -(-points[a].size // count))
        yield tuple(part)
