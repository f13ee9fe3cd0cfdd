"""Addresses by a search of our own: lowest first, with what is learned from failures kept over restarts.

Any packing can be pushed down until every item rests on the floor or on another; placed in the order of their
addresses, items then always go to the lowest address that is free above all that is there. The search decides "the
item whose floor is lowest goes there" or "it does not"; refused, it has to rest on something that is still to come.

What is known of a state, all of it independent of the order:

* floor: the lowest address above the placed neighbours;
* low: the floor, or for a refused item at least the lowest top that a neighbour can still have;
* a clique fails if what it has left, put on its lowest ``low``, does not fit;
* a refused item fails if no neighbour can still come between it and its floor: it would fall there.

A failure is traced to the decisions that matter to it, and the search jumps back to the last of them
(conflict-directed backjumping). Whatever takes part in failures is preferred in the next restart: of the items with
the lowest floor, which one goes first is all that restarts differ in.

Reference: MiniMalloc (Moffitt, ASPLOS 2023) for the canonical order and the inference by cliques; Prosser (1993) for
backjumping; Boussemart et al. (2004) for weights from failures.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from girih.solver.banks.first_fit import Item, cliques

Ints: TypeAlias = NDArray[np.integer]
"""Of 32 bits where they will do: copying rows is most of the work."""
Bools: TypeAlias = NDArray[np.bool_]

FAILURES = 200
"""Failures in one restart: what was learned is worth more than a longer search. To end is for the solver."""
MEMORY = 0.9
"""How much of its weight an item keeps from one restart to the next."""
NARROW = 2**27
"""Capacities below this are counted in 32 bits."""


@dataclass(frozen=True)
class Attempt:
    """One restart: addresses if it found any, its failures, and the order of preference that it went by.

    ``refuted``: all was tried and nothing fits.
    """

    at: list[int] | None
    failures: int
    order: list[int]
    refuted: bool = False


@dataclass(frozen=True)
class _Field:
    """What does not change: n items, m cliques of at most w."""

    sizes: Ints
    alive: Bools
    """(m, n): whether the item belongs to the clique."""
    members: Ints
    """(w, m): the items of each clique in a column, filled up with n."""
    apart: Ints
    """(n, n): 0 for neighbours and ``never`` for others."""
    near: tuple[int, ...]
    """The neighbours of each item, as bits."""
    capacity: int
    never: int
    """Above all addresses."""


@dataclass(frozen=True)
class _State:
    at: Ints
    floor: Ints
    low: Ints
    """(n + 1): as defined above; ``never`` for placed ones and behind the last."""
    unplaced: Bools
    refused: Bools
    remaining: Ints
    """(m): units still to be placed in each clique."""
    placed: int
    """The placed items, as bits."""
    blame: dict[int, int]
    """For refused items the decisions because of which they were refused, as bits."""


def restarts(items: Sequence[Item], capacity: int, seed: int) -> Iterator[Attempt]:
    """Attempts to place the items below ``capacity`` (units); ends after one that finds or refutes.

    Deterministic; nobody but the caller limits the number of attempts. Every clique must fit by itself.
    """
    field = _field(items, capacity)
    n = len(items)
    rng = Random(seed)
    plain = _orders(field)
    weight = np.zeros(n)
    turn = 0
    while True:
        place = plain[turn % len(plain)]
        if turn >= len(plain):
            spread, noise = rng.choice((0.3, 1.0, 3.0)), rng.choice((0.0, 0.02, 0.1))
            typical = float(np.quantile(weight, 0.9)) + 1e-9
            score = place / n - weight / typical * spread + np.array([rng.gauss(0, noise) for _ in range(n)])
            place = np.argsort(np.argsort(score, kind="stable"), kind="stable")
        attempt = _descend(field, place, FAILURES, weight)
        yield attempt
        if attempt.at is not None or attempt.refuted:
            return
        weight *= MEMORY
        turn += 1


def _field(items: Sequence[Item], capacity: int) -> _Field:
    sets = cliques(items)
    n = len(items)
    alive = np.zeros((len(sets), n), np.bool_)
    members = np.full((max(map(len, sets), default=0), len(sets)), n)
    for s, clique in enumerate(sets):
        alive[s, list(clique)] = True
        members[: len(clique), s] = clique
    near = alive.T.astype(np.int64) @ alive.astype(np.int64) > 0
    np.fill_diagonal(near, False)
    bits = tuple(sum(1 << int(j) for j in np.flatnonzero(row)) for row in near)
    kind = np.int32 if capacity < NARROW else np.int64
    never = 2 * capacity + 1
    sizes = np.array([item.size for item in items], kind)
    apart = np.where(near, 0, never).astype(kind)
    return _Field(sizes, alive, members, apart, bits, capacity, never)


def _orders(field: _Field) -> list[Ints]:
    """The place of each item in several plain orders."""
    long = field.alive.sum(axis=0)
    tall = field.sizes
    load = (field.alive @ field.sizes)[:, None] * field.alive
    crowd = load.max(axis=0, initial=0)
    crowded = (field.apart == 0).sum(axis=0)
    keys = (
        (long, long * tall, crowd),
        (crowd, long, long * tall),
        (crowd, long * tall, long),
        (long * tall, long, crowd),
        (tall * crowded,),
        (tall, long),
    )
    return [np.argsort(np.lexsort([-key for key in reversed(by)]), kind="stable") for by in keys]


def _descend(field: _Field, place: Ints, limit: int, weight: NDArray[np.float64]) -> Attempt:
    """Depth first until a packing, the end, or ``limit`` failures; adds to the ``weight`` of what fails."""
    n = len(field.sizes)
    order = [int(i) for i in np.argsort(place, kind="stable")]
    state = _start(field)
    trail: list[tuple[_State, int]] = []
    failures = 0
    while True:
        failed = _failure(field, state)
        if failed is None:
            if not state.unplaced.any():
                return Attempt([int(a) for a in state.at], failures, order)
            floors = np.where(state.unplaced & ~state.refused, state.floor, field.never)
            lowest = np.flatnonzero(floors == floors.min())
            i = int(lowest[np.argmin(place[lowest])])
            trail.append((state, i))
            state = _put(field, state, i)
            continue
        weight[failed] += 1
        failures += 1
        if failures > limit:
            return Attempt(None, failures, order)
        culprits = _culprits(field, state, failed)
        while trail:
            state, i = trail.pop()
            if culprits >> i & 1:
                break
        else:
            return Attempt(None, failures, order, refuted=n > 0)
        state = _refuse(field, state, i, culprits & ~(1 << i))


def _start(field: _Field) -> _State:
    n = len(field.sizes)
    none = np.zeros(n, np.bool_)
    low = np.zeros(n + 1, field.sizes.dtype)
    low[n] = field.never
    zero = np.zeros(n, field.sizes.dtype)
    return _State(zero, zero, low, ~none, none, field.alive @ field.sizes, 0, {})


def _put(field: _Field, state: _State, i: int) -> _State:
    """Item i goes to its floor."""
    at = state.at.copy()
    at[i] = state.floor[i]
    unplaced = state.unplaced.copy()
    unplaced[i] = False
    top = state.floor[i] + field.sizes[i]
    raised = (field.apart[i] == 0) & unplaced & (state.floor < top)
    floor = np.where(raised, top, state.floor)
    low = state.low.copy()
    low[:-1] = np.where(unplaced, np.maximum(low[:-1], floor), field.never)
    remaining = state.remaining - field.alive[:, i] * field.sizes[i]
    return _State(at, floor, low, unplaced, state.refused & ~raised, remaining, state.placed | 1 << i, state.blame)


def _refuse(field: _Field, state: _State, i: int, culprits: int) -> _State:
    """Item i does not go to its floor, because of the culprits."""
    refused = state.refused.copy()
    refused[i] = True
    low = state.low.copy()
    waiting = np.flatnonzero(refused & state.unplaced)
    tops = low[:-1] + np.where(state.unplaced, field.sizes, field.never)
    low[waiting] = np.maximum(low[waiting], np.minimum((tops + field.apart[waiting]).min(axis=1), field.never))
    return _State(
        state.at, state.floor, low, state.unplaced, refused, state.remaining, state.placed, {**state.blame, i: culprits}
    )


def _failure(field: _Field, state: _State) -> list[int] | None:
    """Items that cannot all be placed any more, or ``None`` if none were found."""
    lowest = state.low.take(field.members, mode="clip").min(axis=0, initial=field.never)
    high = np.where(state.remaining > 0, lowest + state.remaining, 0)
    if len(high) and high.max() > field.capacity:
        clique = field.alive[int(high.argmax())]
        return [int(i) for i in np.flatnonzero(clique & state.unplaced)]
    waiting = np.flatnonzero(state.refused & state.unplaced)
    if len(waiting):
        support = (state.low[:-1] + field.apart[waiting]).min(axis=1)
        falls = support >= state.floor[waiting] + field.sizes[waiting]
        if falls.any():
            return [int(waiting[falls.argmax()])]
    if state.unplaced.any() and not (state.unplaced & ~state.refused).any():
        return [int(i) for i in np.flatnonzero(state.unplaced)]
    return None


def _culprits(field: _Field, state: _State, failed: Sequence[int]) -> int:
    """The decisions that what is known of the failed items depends on, as bits."""
    culprits = 0
    seen = sum(1 << i for i in failed)
    todo = list(failed)
    while todo:
        i = todo.pop()
        culprits |= field.near[i] & state.placed
        if state.refused[i]:
            # Its low depends on what its neighbours can still do.
            culprits |= state.blame[i]
            new = field.near[i] & ~seen & ~state.placed
            seen |= new
            while new:
                bit = new & -new
                todo.append(bit.bit_length() - 1)
                new ^= bit
    return culprits
