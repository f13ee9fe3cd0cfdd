"""What decisions of segmentation take, by the two clocks of cores and main memory, and by the model with all of them
fixed. One byte takes one cycle of main memory, so that nothing is rounded."""

from __future__ import annotations

from dataclasses import dataclass

from girih.solver.cpsat.backend import Budget, solve
from girih.solver.segmentation.inter_segment import WEIGHT_PARTS
from girih.solver.segmentation.model import SegmentationModel
from girih.solver.segmentation.problem import OVERLAP_PENALTY, SegmentationProblem


@dataclass(frozen=True)
class Decisions:
    """A path of columns, the activations that reside, and of each column the parts of its weights that are pinned."""

    path: tuple[int, ...]
    resident: frozenset[str]
    pinned: dict[int, int]


def by_two_clocks(problem: SegmentationProblem, decisions: Decisions) -> int | None:
    """The objective that these decisions have; ``None`` if a column does not fit."""
    cores = main = work = moved = 0
    for j in decisions.path:
        column, pinned = problem.columns[j], decisions.pinned[j]
        kept = [(c, c.can_reside and c.name in decisions.resident) for c in problem.costs[j]]
        held = sum(c.resident_bytes if r else c.staged_bytes for c, r in kept)
        held += column.internal_bytes + column.pin_bytes * pinned // WEIGHT_PARTS
        if held + min(problem.reserve, column.weight_bytes) > problem.capacity:
            return None
        traffic = column.weight_bytes + sum(c.resident_traffic if r else c.spilled_traffic for c, r in kept)
        traffic += column.refetched_bytes * (WEIGHT_PARTS - pinned) // WEIGHT_PARTS
        ahead = problem.capacity - held + (column.cycles // (2 * column.instances) if column.refetched_bytes else 0)
        cores = max(cores + column.cycles, main + traffic)
        main = max(main + traffic, cores - ahead)
        work += column.cycles
        moved += traffic
    return OVERLAP_PENALTY * cores + work + moved


def by_the_model(problem: SegmentationProblem, decisions: Decisions) -> int | None:
    """The objective of the model with these decisions; ``None`` if it is infeasible."""
    built = SegmentationModel(problem, range(len(problem.columns)))
    for j, used in built.use.items():
        built.model.add(used == (j in decisions.path))
    for name, resident in built.resident.items():
        built.model.add(resident == (name in decisions.resident))
    for j, parts in built.pinned.items():
        built.model.add(parts == decisions.pinned[j])
    solution = solve(built.model, budget=Budget(30.0))
    if solution.status == "infeasible":
        return None
    assert solution.status == "optimal" and solution.objective is not None
    return round(solution.objective)
