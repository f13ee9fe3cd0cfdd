"""From residency's decisions to shared buffers, and to what the banks are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from ...ir.graph import Graph
from ...ir.machine import Machine
from ...ir.plan import SharedBuffer, Solved
from ..banks.model import Request
from ..cpsat.backend import Budget
from .greedy import RINGED, STAYS, Decisions, Outcome, evaluate
from .main_addresses import homes
from .neighbourhood import Improved
from .problem import Demand
from .repair import Wish, settle


@dataclass(frozen=True)
class Residence:
    """Shared buffers in the order of the program, then homes in main memory, which have their addresses.

    ``requests`` ask for the places in the shared memory, ``place_of`` says which of them each of its buffers takes:
    two buffers of a ring take turns in one. ``outcome``: what the model expects (slot begins in cycles).
    """

    buffers: tuple[SharedBuffer, ...]
    requests: tuple[Request, ...]
    place_of: tuple[int, ...]
    solved: Solved
    outcome: Outcome
    seconds: float = 0.0
    deterministic_seconds: float = 0.0

    def placed(self, addresses: Sequence[int]) -> tuple[SharedBuffer, ...]:
        """The buffers at the ``addresses`` of the requests."""
        number = len(self.place_of)
        here = (replace(b, address=addresses[r]) for b, r in zip(self.buffers[:number], self.place_of, strict=True))
        return (*here, *self.buffers[number:])


@dataclass(frozen=True)
class Spot:
    """A buffer to be placed; ``use``: the slot that it is there for, which a fetch may come as late as.

    ``source``: the item and the use that it is fetched for; ``region``: the turn-taking place of a ring's buffer.
    """

    buffer: SharedBuffer
    use: int
    source: tuple[int, int] | None = None
    region: tuple[str, int, int, int] | None = None


def residence(
    graph: Graph, machine: Machine, wanted: Demand, answer: Improved, *, budget: Budget, seed: int
) -> Residence:
    """The buffers that follow from the decisions; fetches give way where the memory cannot be packed otherwise."""
    memory = machine.role("shared")
    spots = list(occupied(wanted, answer.decisions, memory.name))
    wishes, place_of = places(spots)
    quarter = Budget(budget.seconds / 4, budget.limit / 4)

    def judge(settled: Sequence[Request]) -> float:
        there = [_moved(s, settled[r]) for s, r in zip(spots, place_of, strict=True)]
        return evaluate(wanted, _put_off(answer.decisions, there)).objective

    settled = settle(wishes, memory, judge=judge, budget=quarter, seed=seed)
    decided, requests = answer.decisions, tuple(w.request for w in wishes)
    if settled is not None:
        requests = settled
        spots = [_moved(s, settled[r]) for s, r in zip(spots, place_of, strict=True)]
        decided = _put_off(decided, spots)
    outcome = evaluate(wanted, decided)
    late = outcome.objective > answer.outcome.objective
    order = sorted(range(len(spots)), key=lambda i: (spots[i].buffer.live[0], spots[i].use, i))
    away = (p.part.tensor for p, stays in zip(wanted.kept, decided.stay, strict=True) if not stays)
    return Residence(
        (
            *(spots[i].buffer for i in order),
            *homes(graph, machine, (*wanted.homes, *away), len(wanted.cycles)),
        ),
        requests,
        tuple(place_of[i] for i in order),
        Solved(
            "residency",
            "feasible" if late and answer.status == "optimal" else answer.status,
            float(outcome.objective),
            answer.bound,
            "cycles, weighted",
        ),
        outcome,
        answer.seconds,
        answer.deterministic_seconds,
    )


def occupied(wanted: Demand, decided: Decisions, memory: str) -> Iterator[Spot]:
    for piece, stays in zip(wanted.kept, decided.stay, strict=True):
        part = piece.part
        if stays:
            buffer = SharedBuffer(part.tensor, part.box, memory, -1, part.bytes, piece.live, False, piece.stored)
            yield Spot(buffer, piece.live[0])
        else:
            for slot, made in piece.made:
                live = (slot, slot + 1)
                yield Spot(SharedBuffer(part.tensor, made.box, memory, -1, made.bytes, live, False, True), slot)
    for i, (item, row) in enumerate(zip(wanted.fetched, decided.fetch, strict=True)):
        uses = [
            (k, use.slot, at)
            for k, (use, at) in enumerate(zip(item.uses, row, strict=True))
            if at not in (STAYS, RINGED)
        ]
        # A fetch and the uses that it is kept for are one buffer.
        runs = [0]
        for *_, at in uses:
            runs.append(runs[-1] + (at >= 0))
        for _, group in groupby(zip(runs[1:], uses, strict=True), key=lambda g: g[0]):
            run = [use for _, use in group]
            k, slot, at = run[0]
            for part in item.parts:
                live = (at, run[-1][1] + 1)
                yield Spot(SharedBuffer(part.tensor, part.box, memory, -1, part.bytes, live, True), slot, (i, k))
    for (tensor, slot), option in decided.ring.items():
        for v in wanted.rings[tensor, slot][option].visits:
            buffer = SharedBuffer(tensor, v.box, memory, -1, v.bytes, (slot, slot + 1), True, False, v.phase)
            yield Spot(buffer, slot, None, (tensor, slot, v.part, v.phase % 2))


def places(spots: Sequence[Spot]) -> tuple[list[Wish], list[int]]:
    """What to place, and which of it each spot takes."""
    wishes: list[Wish] = []
    place_of: list[int] = []
    known: dict[tuple[str, int, int, int], int] = {}
    for spot in spots:
        buffer = spot.buffer
        if spot.region is not None and spot.region in known:
            place = known[spot.region]
            before = wishes[place].request
            wishes[place] = replace(wishes[place], request=replace(before, bytes=max(before.bytes, buffer.bytes)))
        else:
            place = len(wishes)
            name = buffer.tensor if spot.region is None else f"{buffer.tensor} (region {spot.region[3]})"
            wishes.append(Wish(Request(name, buffer.bytes, buffer.live), spot.use))
            if spot.region is not None:
                known[spot.region] = place
        place_of.append(place)
    return wishes, place_of


def _moved(spot: Spot, request: Request) -> Spot:
    return replace(spot, buffer=replace(spot.buffer, live=request.live))


def _put_off(decided: Decisions, spots: Sequence[Spot]) -> Decisions:
    """The decisions with fetches in the slots that they were moved to."""
    fetch = [list(row) for row in decided.fetch]
    late: dict[tuple[int, int], int] = {}
    for spot in spots:
        if spot.source is not None:
            late[spot.source] = max(late.get(spot.source, 0), spot.buffer.live[0])
    for (i, k), at in late.items():
        fetch[i][k] = at
    return Decisions(decided.stay, tuple(tuple(row) for row in fetch), decided.ring)
