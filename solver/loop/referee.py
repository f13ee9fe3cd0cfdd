"""Simulations of plans in a search, as far as their number and the timeout allow.

Simulated are plans that are predicted to meet the lower bound, or to beat a simulated best plan, and what these have to
be compared with: the best plan before them (:mod:`.incumbent` asks).

A prediction leaves out what a simulation knows, so that "no plan is better" cannot be said of a prediction. What judges
comes from outside (:data:`girih.solver.options.Judge`): the solver knows neither lowering nor simulator.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ...ir.graph import Graph
from ...ir.plan import Plan
from ...ir.semantics.cell import count
from ..options import Judge

MOST_JUDGED = 8
"""Simulations in one search at most; chosen, not measured."""
JUDGED_SHARE = 0.5
"""Of the timeout, for simulations; chosen, not measured."""
OPERATOR_SECONDS = 0.03
"""What lowering takes for an operator, about: SqueezeNet to ResNet-50 took 0.03 to 0.05 s."""
TILE_SECONDS = 0.00015
"""What lowering and simulation take for a tile besides, about: SqueezeNet on `tiny`, 33,000 tiles in 5 s."""


class Referee:
    """Asks ``judge`` about plans of ``graph``, each of them once; ``timeout`` in seconds is that of the whole search.

    What it may cost is estimated from counts, so that a busy machine does the same. Without a judge, predictions are
    believed.
    """

    def __init__(self, graph: Graph, timeout: float, judge: Judge | None) -> None:
        self._graph = graph
        self._judge = judge
        self._seconds = JUDGED_SHARE * timeout
        self._judged: list[tuple[Plan, int]] = []
        self.used_up = False
        """Whether a simulation was refused because there were :data:`MOST_JUDGED`, whatever the timeout."""
        self.unpaid = False
        """Whether a simulation was refused because the timeout does not pay for it."""

    @property
    def believes(self) -> bool:
        """Whether predictions are all that there is."""
        return self._judge is None

    def cycles(self, plan: Plan) -> int | None:
        """The simulated cycles of a plan; ``None`` if a limit refuses the simulation (``used_up`` or ``unpaid``)."""
        decided = replace(
            plan, cycles_predicted=0, lower_bound_cycles=0, lower_bound_reason="", predictions=(), solved=(),
            cycles_simulated=None,
        )  # fmt: skip
        known = next((cycles for judged, cycles in self._judged if judged == decided), None)
        if known is not None or self._judge is None:
            return known
        seconds = judging_seconds(self._graph, plan)
        if len(self._judged) == MOST_JUDGED:
            self.used_up = True
            return None
        if seconds > self._seconds:
            self.unpaid = True
            return None
        self._seconds -= seconds
        cycles = self._judge(plan)
        self._judged.append((decided, cycles))
        return cycles


def judging_seconds(graph: Graph, plan: Plan) -> float:
    """About what lowering and simulating a plan take."""
    tiles = 0
    for segment in plan.segments:
        for tile in segment.tiles:
            op = graph.op[tile.op]
            shape = graph.tensor[op.output].shape
            sizes = (min(size, extent) for size, extent in zip(tile.sizes, shape, strict=True))
            parts = max(count(segment.instances) * count(segment.cores), -(-prod(shape) // prod(sizes)))
            axes = op.stages[op.contraction].axes if op.contraction is not None and tile.reduce else ()
            reduced = [axis.extent for axis in axes if axis.reduce]
            tiles += parts * prod(-(-extent // size) for extent, size in zip(reduced, tile.reduce, strict=True))
    return OPERATOR_SECONDS * len(graph.ops) + TILE_SECONDS * tiles
