"""The columns of segmentation in stages: short runs of operators first, where there are many kinds of operators and the
timeout is too short for all columns at once."""

from __future__ import annotations

from contextlib import suppress

from ...ir.equivalence import EquivalenceClasses
from ...ir.errors import InfeasibleError
from ...ir.graph import Graph
from ...ir.machine import Machine
from ..options import Options
from ..parallel.questions import price_columns
from ..parallel.workers import Workers
from ..segmentation.candidates import Candidates
from ..subproblem.time_budget import ENUMERATION_SECONDS, affords

MANY_KINDS = 100
"""Structural equivalence classes of operators beyond which there are two stages. Chosen: the columns of a network with
fewer take some seconds."""
SHORT_RUN = 8
"""Operators in a column of the first of two stages at most. Measured with 4, 8 and 12 on DenseNet-121 on four machines:
with 8, columns take from a third to half of the time of all of them, and what segmentation expects is 0 to 12 % above
that with all."""


class ColumnStages:
    """``candidates``: the columns that segmentation chooses from. ``kinds``: structural equivalence classes."""

    def __init__(self, graph: Graph, machine: Machine, options: Options, workers: Workers | None) -> None:
        self.kinds = len(set(graph.analysis(EquivalenceClasses).class_of.values()))
        at_once = affords(options.timeout, ENUMERATION_SECONDS, len(graph.ops), self.kinds)
        self.are_two = self.kinds > MANY_KINDS and not at_once
        self.candidates = Candidates(
            graph, machine, at_first=SHORT_RUN if self.are_two else None, disabled=options.disabled
        )
        self._workers = workers

    @property
    def is_last(self) -> bool:
        """Whether there are no longer columns than the current ones."""
        return self.candidates.length == self.candidates.longest

    def go_on(self) -> None:
        """To the columns of runs of any length: those that are longer are priced."""
        self.candidates.lengthen()
        self.price()

    def price(self) -> None:
        """Price the current columns; what fits nowhere is for segmentation to tell."""
        if self._workers is not None:
            price_columns(self.candidates, self._workers)
        with suppress(InfeasibleError):
            self.candidates.columns()
