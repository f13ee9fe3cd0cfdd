"""What is tried once more for the best plan of the rounds: what only a whole plan can tell to be worth it.

In turn: other cuts for its segments and fewer instances (:mod:`.resegment`), results that are made again where they are
read (:mod:`..residency.rematerialisation`), a longer search for residency, and local memories upside down
(:mod:`..banks.address_reflection`). Each is kept if the prediction says that it is better.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...ir.plan import Plan, Segment, Solved
from ...ir.semantics.rematerialise import recompute
from ..banks.address_reflection import mirrored
from ..residency.rematerialisation.solve import choose_recomputations, recomputed_segments, second_runs
from ..segmentation.candidates import Candidates
from ..subproblem.plan_builder import Realised, Refusal
from ..subproblem.subproblem import Below, under
from ..subproblem.time_budget import LONGEST_SEARCH, SHORT, Round, budget
from ..switches import Switch
from .resegment import aligned, bare, coarser, shifted, uniform

POLISH = 0.5
"""The share of the timeout that residency may search once more for the best plan, about."""
OPEN_GAP = 0.01
"""A gap of residency that is worth it."""


Adopt = Callable[[Below], None]
"""Is told at once who has the best plan, for the user may interrupt at any time."""


def refined(below: Below, candidates: Candidates, number: int, now: Round, adopt: Adopt) -> None:
    """Try all of it as round ``number``; the best plan may be one of a graph with recomputations."""
    disabled = below.options.disabled
    if below.options.timeout >= SHORT:
        recut(below, candidates, number, now)
        if "fewer-instances" not in disabled:
            coarsen(below, candidates, number, now)
        if "rematerialisation" not in disabled:
            below = recomputed(below, number, now, adopt)
    if "longer-residency" not in disabled:
        polish(below, number)
    if below.options.timeout >= SHORT and "address-reflection" not in disabled:
        mirror(below, number)


def recut(below: Below, candidates: Candidates, number: int, now: Round) -> None:
    """Once more with each way to cut the segments of the best plan otherwise."""
    graph, cells = below.graph, below.cells
    changes: dict[Switch, Callable[[Plan], tuple[Segment, ...]]] = {
        "aligned-splits": lambda best: aligned(graph, cells, candidates, best),
        "shifted-operators": lambda best: shifted(graph, best),
        "uniform-layers": lambda best: uniform(graph, cells, bare(graph, best.segments)),
    }
    for switch, change in changes.items():
        if switch in below.options.disabled:
            continue
        if below.is_done:
            return
        best = _best(below)
        segments = change(best)
        if segments != bare(graph, best.segments):
            below.planned(number, segments, now, *_answers(best, "segmentation"))


def coarsen(below: Below, candidates: Candidates, number: int, now: Round) -> None:
    """Once more with fewer instances, where the prediction says that they take the cores less time."""
    if below.is_done:
        return
    best = _best(below)
    segments = bare(below.graph, best.segments)
    also = coarser(below.graph, candidates, segments)
    if also == segments:
        return
    made = below.ways.chosen(segments, now, also)
    if not isinstance(made, Refusal) and any(
        of[0].instances != s.instances for of, s in zip(made, segments, strict=True)
    ):
        below.tiled(number, made, now, *_answers(best, "segmentation"))


def recomputed(below: Below, number: int, now: Round, adopt: Adopt) -> Below:
    """Once more with results made again where they are read, if the model says that it is worth it; who is better."""
    if below.is_done:
        return below
    best = _best(below)
    chosen = choose_recomputations(below.graph, below.machine, best, below.options.seed)
    if chosen is None:
        return below
    names = ", ".join(dict.fromkeys(r.op for r in chosen.recomputed))
    note = f"{len(chosen.recomputed)} once more: {names}" if names else "nothing is worth it"
    below.log(chosen.solved, chosen.seconds, chosen.deterministic_seconds, note)
    if not chosen.recomputed:
        return below
    other = Below(
        recompute(below.graph, chosen.recomputed), below.machine, below.options, below.record,
        (below.bound, below.reason), chosen.recomputed, best.cycles_predicted,
    )  # fmt: skip
    caps, runs = below.ways.caps, second_runs(below.graph, chosen.recomputed)
    other.ways.caps |= caps | {new: caps[old] for new, old in runs if old in caps}
    segments = recomputed_segments(below.graph, bare(below.graph, best.segments), chosen.recomputed)
    try:
        answer = other.planned(number, segments, now, *_answers(best, "segmentation"), chosen.solved)
        if isinstance(answer, Refusal):
            below.record.cut("recomputation", answer.message)
    finally:
        better = below if other.best is None else other
        adopt(better)
    return better


def polish(below: Below, number: int) -> None:
    """Residency once more for the best plan, for longer: it has the widest gap, and gains most from time."""
    best = _best(below)
    gap = next((s for s in best.solved if s.model == "residency"), None)
    closed = gap is None or gap.objective is None or gap.objective <= (1 + OPEN_GAP) * (gap.bound or 0.0)
    if below.asked is None or closed or below.is_done:
        return
    longer = budget(min(POLISH * below.options.timeout, LONGEST_SEARCH))
    asked = replace(below.asked, residency=longer, again=below.asked.residency)
    if asked.residency.limit <= below.asked.residency.limit:
        return
    found = below.realiser.realise(asked)
    if isinstance(found, Realised):
        below.keep(number, under(_answers(best, "segmentation", "tiling", "recomputation"), found).plan, asked)


def mirror(below: Below, number: int) -> None:
    """The best plan with the local memory of some segments upside down."""
    if below.is_done:
        return
    best = _best(below)
    plan = mirrored(below.graph, below.machine, best)
    if plan.local != best.local:
        below.keep(number, below.realiser.timed(plan)[0], below.asked)


def _best(below: Below) -> Plan:
    assert below.best is not None
    return below.best


def _answers(plan: Plan, *models: str) -> tuple[Solved, ...]:
    """What these models, above those that are asked once more, answered."""
    return tuple(s for s in plan.solved if s.model in models)
