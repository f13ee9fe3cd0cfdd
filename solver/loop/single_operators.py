"""Segments of one operator each: the last resort, where no segments of several operators are feasible."""

from __future__ import annotations

from dataclasses import replace

from ...ir.errors import InfeasibleError
from ...ir.machine import Level
from ..baselines.layerwise import layerwise_segments
from ..subproblem.plan_builder import EvaluatedPlan, Infeasibility
from ..subproblem.tiling_alternatives import TilingCuts
from ..subproblem.time_budget import Iteration
from .benders import Decomposition

STEP_OF_ROOM = 16
"""Where single operators do not fit, they may use one part in so many less of a memory; chosen, not measured."""


def plan_single_operators(decomposition: Decomposition, iteration: Iteration) -> None:
    """Offer a plan of single operators, with more of local and shared memory left free at each infeasibility.

    Raises :class:`InfeasibleError` if an operator fits under no split, or else with what came nearest to fitting until
    all margins were tried or the search was over.
    """
    subproblem, master, incumbent = decomposition.subproblem, decomposition.master, decomposition.incumbent
    graph, machine, strategy = subproblem.graph, subproblem.machine, subproblem.options.strategy
    # What was learned of segments of several operators need not hold for one.
    decomposition.cuts = replace(decomposition.cuts, tiling=TilingCuts())
    local, shared = machine.levels.activations, machine.levels.exchange
    room, shared_room = local.capacity, shared.capacity
    refused: list[Infeasibility] = []
    while not (refused and incumbent.is_over):
        margin, shared_margin = local.capacity - room, shared.capacity - shared_room
        try:
            segments = layerwise_segments(graph, machine, margin=margin, shared_margin=shared_margin)
        except InfeasibleError:
            # That nothing leaves so much free proves nothing; that nothing fits at all does.
            if not refused:
                raise
            break
        answer = decomposition.evaluate(segments, iteration)
        if isinstance(answer, EvaluatedPlan):
            return
        refused.append(answer)
        decomposition.record.cut(strategy, answer.message)
        tiling = master.smaller_tiles(decomposition.cuts.tiling, answer)
        decomposition.cuts = replace(decomposition.cuts, tiling=tiling or decomposition.cuts.tiling)
        if master.is_of_homes(answer) or not (shared_room if answer.level == shared else room):
            break
        if answer.level == shared:
            shared_room = _less_room(shared, shared_room)
        else:
            room = _less_room(local, room)
    raise min(refused, key=lambda r: r.need / r.capacity).error()


def _less_room(level: Level, room: int) -> int:
    """Bytes for the next attempt: down to half of the memory in steps, then half as many each time, at last none."""
    if 2 * room > level.capacity:
        return room - max(1, level.capacity // STEP_OF_ROOM)
    return room // 2 if room // 2 >= level.alignment else 0
