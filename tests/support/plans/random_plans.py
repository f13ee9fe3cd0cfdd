"""Plans drawn at random: any segments, splits, tiles, buffers and addresses that the rules of a plan allow.

They are bad plans on purpose: partial last tiles, single rows, memory reused as soon as it may be. The sizes are
counted here box by box, without the solver, and every plan passes :func:`check_plan` before it is handed out.
A file in ``drawn/`` draws each part of a plan.
"""

from __future__ import annotations

from random import Random

from girih.ir.checks.check_plan import check_plan
from girih.ir.errors import CheckError
from girih.ir.graph import Graph
from girih.ir.machine import Machine
from girih.ir.plan import Plan
from girih.ir.semantics.cell import count
from tests.support.plans.drawn.cluster_memories import shared_buffers
from tests.support.plans.drawn.core_memories import local_buffers
from tests.support.plans.drawn.cuts import drawn_segments
from tests.support.plans.drawn.drawing import Drawing
from tests.support.plans.drawn.movement import transfers, weight_streams
from tests.support.plans.drawn.step_order import drawn_steps


class NoPlanFitsError(AssertionError):
    """All plans that were drawn need more memory than there is."""


def random_plan(
    graph: Graph, machine: Machine, seed: int, *, longest: int = 1, tiles: int = 6, tries: int = 40,
    on_vector: float = 0.15,
) -> Plan:  # fmt: skip
    """A valid plan; at most ``longest`` operators a segment, about ``tiles`` tiles an operator and core.

    ``on_vector`` is the share of the small contractions that the vector engine is given.
    What does not fit is drawn again, with smaller tiles each time.
    """
    reason = ""
    for attempt in range(tries):
        rng, of_homes = Random(f"{seed}.{attempt}"), Random(f"{seed}.{attempt} homes")
        crowded = 1 + attempt // 4
        plan = _drawn(Drawing(graph, machine, rng, of_homes, longest, tiles * crowded, 3 * crowded, on_vector))
        try:
            check_plan(plan, graph, machine)
        except CheckError as error:
            reason = str(error)
            if "beyond" not in reason and "is still needed" not in reason:
                raise
            continue
        return plan
    raise NoPlanFitsError(f"no plan of {tries} fits: {reason}")


def _drawn(drawing: Drawing) -> Plan:
    """A plan that need not fit."""
    graph, machine, rng = drawing.graph, drawing.machine, drawing.rng
    segments = tuple(drawn_segments(drawing))
    steps = tuple(drawn_steps(drawing, segments))
    local = tuple(b for i, s in enumerate(segments) for b in local_buffers(drawing, i, s))
    shared = tuple(shared_buffers(drawing, segments, steps, local))
    barrier = rng.random() < 0.1
    cores = tuple(tuple(rng.sample(range(machine.cores), count(s.cores) if s.tiles else 0)) for s in segments)
    loads_and_stores = tuple(t for i, s in enumerate(segments) for t in transfers(drawing, i, s, local))
    streams = tuple(w for i, s in enumerate(segments) for w in weight_streams(drawing, i, s, local))
    return Plan(
        "drawn", machine.name, graph.digest, 0, segments, cores, steps, local, shared, loads_and_stores, streams,
        barrier, 0, 0, "", (), (),
    )  # fmt: skip
