"""The published heuristics of GraphTurbo, as an opponent for the constraint models.

Zhao et al., "Effectively Scheduling Computational Graphs of Deep Neural Networks toward Their Domain-Specific
Accelerators", OSDI 2023. No solver decides anything here; what comes out is a plan like any other, for the same
checker, the same lowering and the same simulator:

    split into instances   :mod:`.split`                      algorithm 1
    group into sub-graphs  :mod:`.group`                      algorithm 2
    order the instances    :mod:`...subproblem.step_order`    algorithm 3; less traffic to main memory wins
    bind to cores          :mod:`.binding`                    algorithm 4
    tile                   :mod:`.tile_size`                  largest divisors that fit
    keep or spill          :mod:`.spill`                      longest life first, first-fit addresses

Where a plan cannot say what the paper does, the nearest plan is made. Sub-graphs exchange data through the shared
memory, where the paper may leave it in local memory (its spilling sends nearly all of it to the shared memory, too);
so there is nothing to redistribute between cores. Up-sampling and manual schedules are left out, as in the paper's
evaluation.
"""

from __future__ import annotations

from .build import Heuristics
from .level import LEVELS, AblationLevel
from .segments import Segments

__all__ = ["LEVELS", "AblationLevel", "Heuristics", "Segments"]
