"""A window of a residency problem: what is decided anew, and what is decided already, prepared for the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .candidates import FetchCandidates
from .decisions import Decisions, NoFetch, Source, Timing
from .evaluation import effects, link_load, resident_effect, slot_waits, spilled_effect
from .problem import ResidencyProblem


@dataclass(frozen=True)
class Tail:
    """The longest ways from the last slot that can change to the end, in cycles: from its begin, and from when the link
    has done what was issued up to each slot (0 if nothing later waits for that)."""

    from_begin: int
    from_done: tuple[int, ...]


@dataclass(frozen=True)
class Window:
    """What the constraint model decides; everything else stays as ``decided``, which takes ``timing``.

    Open are: uses in ``slots``, intermediates that live in them, and what reads those. Slots up to ``first`` begin when
    they did, and those after ``stop`` follow it at the distances of ``tail``.
    """

    problem: ResidencyProblem
    room: NDArray[np.int64]
    decided: Decisions
    timing: Timing
    slots: range
    intermediates: tuple[bool, ...]
    """Whether it is open that an intermediate is resident."""
    issue: tuple[tuple[tuple[int, ...], ...], ...]
    """By item and use: slots in which the fetch may be issued, latest first; none for a use that is decided."""
    first: int
    stop: int
    tail: Tail

    def open_use(self, i: int, k: int) -> bool:
        """Whether it is open how a use is served."""
        return bool(self.issue[i][k])

    def may_be_retained(self, i: int, k: int) -> bool:
        """Whether an open use could be served by what is there since the use before."""
        return k > 0 and (self.open_use(i, k - 1) or self.decided.source[i][k - 1] is not NoFetch.CIRCULAR)


def window(
    problem: ResidencyProblem,
    room: NDArray[np.int64],
    candidates: FetchCandidates,
    decided: Decisions,
    timing: Timing,
    slots: range,
) -> Window:
    """The window of ``slots``; a fetch may be issued in the slots of ``candidates``, or as it is."""
    lives = [t.live[0] < slots.stop and slots.start < t.live[1] for t in problem.intermediates]
    issue = tuple(
        tuple(
            _issue_slots(candidates(i, k), decided.source[i][k])
            if use.slot in slots or (item.intermediate is not None and lives[item.intermediate])
            else ()
            for k, use in enumerate(item.uses)
        )
        for i, item in enumerate(problem.items)
    )
    intermediates = tuple(t.may_be_resident and live for t, live in zip(problem.intermediates, lives, strict=True))
    loaded = [f for row in issue for options in row for f in options]
    loaded += [slot for _, slot in problem.circular if slot in slots]
    open_effects = (e(problem, p) for e in (spilled_effect, resident_effect) for p, o in enumerate(intermediates) if o)
    loaded += [slot for effect in open_effects for slot, _ in effect.load]
    after_uses = [
        use.slot + 1
        for item, row in zip(problem.items, issue, strict=True)
        for use, options in zip(item.uses, row, strict=True)
        if options
    ]
    stop = min(len(problem.cycles), max([slots.stop, *loaded, *after_uses]) + 1)
    first = min([slots.start, *loaded])
    tail = _tail(problem, decided, stop)
    return Window(problem, room, decided, timing, slots, intermediates, issue, first, stop, tail)


def _issue_slots(candidates: Sequence[int], decided: Source) -> tuple[int, ...]:
    own = () if isinstance(decided, NoFetch) else (decided,)
    return tuple(sorted({*candidates, *own}, reverse=True))


def _tail(problem: ResidencyProblem, decided: Decisions, stop: int) -> Tail:
    """What comes after slot ``stop`` is decided: no open decision has an effect there."""
    slots = len(problem.cycles)
    added = list(effects(problem, decided))
    load: list[int] = link_load(slots, added).tolist()
    waits, duration = slot_waits(problem.cycles, added)
    from_begin, from_done = [0] * (slots + 1), [0] * (slots + 1)
    from_begin[slots] = load[slots] if stop < slots else 0
    for s in range(slots - 1, stop - 1, -1):
        for f, remaining in waits[s]:
            from_done[f] = max(from_done[f], from_begin[s + 1] + remaining)
        from_done[s] = max(from_done[s], load[s + 1] + from_done[s + 1])
        from_begin[s] = max(from_begin[s + 1] + duration[s], load[s] + from_done[s])
    return Tail(from_begin[stop], tuple(from_done[: stop + 1]))
