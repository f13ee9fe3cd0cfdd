"""What workers are asked below segmentation: what a tiled segment takes, tiles of it that are chosen for each other,
and a plan."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeAlias

from ...ir.graph import Graph
from ...ir.machine import Machine
from ...ir.plan import Segment
from ...ir.semantics.cell import Cells
from ..cpsat.backend import NO_SEARCH
from ..options import ModelRun
from ..parallel.workers import Workers
from ..switches import Disabled
from ..tiling.solve import Caps, Tiler
from .plan_builder import EvaluatedPlan, Infeasibility, PlanBuilder, PlanRequest, ignore_run
from .tile_descent import Descent, Descents

FEWEST_ALTERNATIVES = 4
"""With fewer segments to predict, workers are not asked. Chosen."""
FEWEST_OPERATORS = 12
"""With fewer operators in the segments whose tiles are to be chosen for each other, workers are not asked. Chosen."""
FEWEST_SLOTS = 40
"""For plans with fewer slots, workers are not asked. Chosen."""


@dataclass(frozen=True)
class Searched:
    """The machine that plans are searched for, the switches that are off, and the seed."""

    machine: Machine
    disabled: Disabled
    seed: int

    def builder(self, graph: Graph, kept: dict[Any, Any]) -> PlanBuilder:
        """A worker's own, until it is asked about another search."""
        key = repr(self.machine), self.disabled, self.seed
        if kept.get("searched") != key:
            if "cells" not in kept:
                kept["cells"] = Cells(graph)
            builder = PlanBuilder(graph, self.machine, kept["cells"], self.seed, ignore_run, self.disabled)
            kept |= {"searched": key, "builder": builder, "descents": Descents(graph, kept["cells"], builder.on_cores)}
            # Which tiles are tried does not depend on how long those of one operator may be searched for.
            kept["tiler"] = Tiler(graph, self.machine, budget=NO_SEARCH, seed=self.seed, disabled=self.disabled)
        return kept["builder"]


@dataclass(frozen=True)
class OnCores:
    """Cycles that a tiled segment takes on the cores (:meth:`PlanBuilder.on_cores`)."""

    searched: Searched
    segment: Segment

    def answer(self, graph: Graph, kept: dict[Any, Any]) -> tuple[int | None]:
        return (self.searched.builder(graph, kept).on_cores(self.segment),)


@dataclass(frozen=True)
class ChosenTogether:
    """Tiles of a segment that are chosen for each other (:meth:`Descents.descend`)."""

    searched: Searched
    segment: Segment
    caps: tuple[tuple[str, Caps], ...]

    def answer(self, graph: Graph, kept: dict[Any, Any]) -> Descent:
        self.searched.builder(graph, kept)
        descents: Descents = kept["descents"]
        return descents.descend(kept["tiler"], self.segment, dict(self.caps), lambda: False)


BuiltPlan: TypeAlias = "tuple[EvaluatedPlan | Infeasibility, list[ModelRun]]"


@dataclass(frozen=True)
class BuildPlan:
    """A plan (:meth:`PlanBuilder.build`), and what models answered for it."""

    searched: Searched
    request: PlanRequest

    def answer(self, graph: Graph, kept: dict[Any, Any]) -> BuiltPlan:
        runs: list[ModelRun] = []
        return self.searched.builder(graph, kept).heard_by(runs.append).build(self.request), runs


def cycles_on_cores(
    workers: Workers | None, searched: Searched, segments: Sequence[Segment]
) -> Sequence[tuple[int | None] | None]:
    """What each segment takes on the cores, in a tuple; ``None`` for what workers are not worth, or do not answer."""
    if workers is None or workers.idle or len(segments) < FEWEST_ALTERNATIVES:
        return [None] * len(segments)
    return workers.answers([OnCores(searched, segment) for segment in segments])


def worth_descents(segments: Sequence[Segment]) -> bool:
    """Whether workers should choose tiles for each other in these segments."""
    return sum(len(segment.ops) for segment in segments) >= FEWEST_OPERATORS


def ask_plans(
    workers: Workers | None, searched: Searched, requests: Sequence[PlanRequest]
) -> Sequence[Future[BuiltPlan | None] | None]:
    """The plans to come, if there are several, and they are worth workers."""
    fewest = min((sum(len(r.segments[step.segment].ops) for step in r.steps) for r in requests), default=0)
    if workers is None or workers.idle or len(requests) < 2 or fewest < FEWEST_SLOTS:
        return [None] * len(requests)
    return [workers.ask(BuildPlan(searched, request)) for request in requests]
