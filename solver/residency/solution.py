"""In and out of the residency model: an answer made by hand as its hint, and the solver's answer as decisions."""

from __future__ import annotations

from ..cpsat.backend import Solution
from .greedy import KEPT, RINGED, STAYS, Decisions, Outcome
from .model import ResidencyModel


def hint(built: ResidencyModel, decisions: Decisions, outcome: Outcome) -> None:
    """Start from an answer made by hand."""
    m, v = built.model, built.v
    true: set[int] = set()
    for var, stays in zip(v.stay, decisions.stay, strict=True):
        if var is not None:
            m.hint(var, int(stays))
    for i, fetch in enumerate(decisions.fetch):
        for k, at in enumerate(fetch):
            for f, x in v.fetch[i][k].items():
                m.hint(x, int(f == at))
                if f == at:
                    true.add(x.index)
            still = v.keep[i][k]
            if still is not None:
                m.hint(still, int(at == KEPT))
    for key, rings in v.ring.items():
        for o, z in enumerate(rings):
            m.hint(z, int(decisions.ring.get(key) == o))
            if decisions.ring.get(key) == o:
                true.add(z.index)
    for need, any_of in v.any_of:
        m.hint(need, int(any(x.index in true for x in any_of)))
    for s in range(built.first, built.stop + 1):
        m.hint(v.begin[s], outcome.begin[s])
    for s in range(built.first, built.stop + 1):
        m.hint(v.done[s], outcome.done[s] if s < built.slots else outcome.end)
    m.hint(v.end, outcome.end)


def decisions(built: ResidencyModel, solution: Solution) -> Decisions:
    """Read the answer."""
    v, window = built.v, built.window
    stay = tuple(
        solution.true(var) if var is not None else window is not None and window.decided.stay[p]
        for p, var in enumerate(v.stay)
    )
    ring = dict(window.decided.ring) if window is not None else {}
    for key, rings in v.ring.items():
        ring.pop(key, None)
        for o, z in enumerate(rings):
            if solution.true(z):
                ring[key] = o
    fetch = [
        tuple(_answer(built, solution, i, k, stay, ring) for k in range(len(item.uses)))
        for i, item in enumerate(built.demand.fetched)
    ]
    return Decisions(stay, tuple(fetch), ring)


def _answer(
    built: ResidencyModel, solution: Solution, i: int, k: int, stay: tuple[bool, ...], ring: dict[tuple[str, int], int]
) -> int:
    fixed = built.fixed(i, k)
    if fixed is not None:
        return fixed
    item, still = built.demand.fetched[i], built.v.keep[i][k]
    if item.piece is not None and stay[item.piece]:
        return STAYS
    if item.stream is not None and (item.stream, item.uses[k].slot) in ring:
        return RINGED
    if still is not None and solution.true(still):
        return KEPT
    return next(f for f, x in built.v.fetch[i][k].items() if solution.true(x))
