"""What the cores bring in and send out, cut into portions: which copies there are, whatever they have to wait for.

All that is found here depends on boxes alone, so each answer is remembered: equal layers, and one plan after the other,
ask for the same.

Cores walk in lockstep, tile by tile, and one broadcast brings a weight tile to all that want it at the same tile, for
the same version of their buffers. A core with fewer tiles of the result for each of the weights comes to the next
weights earlier: these are brought to it by a copy of its own, and once more to the others.

    tiles of core 0   a a b b c c        b comes twice, and c as well
    tiles of core 1   a b c
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from ...ir.box import Box
from ...ir.machine import Level
from ...ir.semantics.cell import BoxInBuffer
from ...ir.semantics.portions import interleaved, portions, receivers
from .copy_time import Transfers

WeightFetch = tuple[int, int, int, int]
"""The tile of the walk, the part of its reduction, the weight tile that is brought, and the version it comes to."""
Cores = tuple[int, ...]


@dataclass(frozen=True)
class SharedLoad:
    """The ``cores`` that load the same ``box`` of a tensor, by one broadcast for each of its ``portions``.

    ``room``: what the buffer holds in which it comes to lie.
    """

    box: Box
    room: Box
    cores: tuple[int, ...]
    portions: tuple[Box, ...]


@dataclass(frozen=True)
class TensorLoad:
    """All copies of one tensor to local memories; ``turns``: how many portions its largest box has."""

    groups: tuple[SharedLoad, ...]

    @cached_property
    def turns(self) -> int:
        return max((len(group.portions) for group in self.groups), default=0)


class Copies:
    """The copies of one machine's cores; ``transfers`` tells what each of them takes."""

    def __init__(self, transfers: Transfers) -> None:
        self.transfers = transfers
        self._loads: dict[tuple[tuple[BoxInBuffer | None, ...], tuple[int, ...], Level], TensorLoad] = {}
        self._portions: dict[tuple[Box, tuple[int, ...]], tuple[Box, ...]] = {}
        self._orders: dict[tuple[int, ...], list[tuple[int, int]]] = {}

    def load(self, wanted: tuple[BoxInBuffer | None, ...], extents: tuple[int, ...], source: Level) -> TensorLoad:
        """How a tensor comes to the cores from ``source``; each wants a box in its room (``None``: nothing)."""
        machine, key = self.transfers.machine, (wanted, extents, source)
        if key not in self._loads:
            copied = receivers(wanted, machine.moves("broadcast", source, machine.levels.activations))
            self._loads[key] = TensorLoad(
                tuple(SharedLoad(b, room, tuple(cores), self.portions(b, extents)) for (b, room), cores in copied)
            )
        return self._loads[key]

    def portions(self, box: Box, extents: tuple[int, ...]) -> tuple[Box, ...]:
        """See :func:`girih.ir.semantics.portions.portions`."""
        key = (box, extents)
        if key not in self._portions:
            self._portions[key] = tuple(portions(box, extents))
        return self._portions[key]

    def order(self, loads: Sequence[TensorLoad]) -> list[tuple[int, int]]:
        """Which load's next portion is copied when: see :func:`girih.ir.semantics.portions.interleaved`."""
        key = tuple(load.turns for load in loads)
        if key not in self._orders:
            self._orders[key] = interleaved(key)
        return self._orders[key]


def fetches(weights: Sequence[Sequence[int]], versions: Sequence[int]) -> list[WeightFetch]:
    """What a walk fetches: ``weights[i][r]`` is wanted for reduce tile r of tile i; ``versions`` take turns."""
    held: dict[int, int] = {}
    sequence: list[WeightFetch] = []
    for index, row in enumerate(weights):
        for part, key in enumerate(row):
            if key not in held.values():
                version = versions[len(sequence) % len(versions)]
                held[version] = key
                sequence.append((index, part, key, version))
    return sequence


def simultaneous_fetches(
    own_fetches: Sequence[WeightFetch], others: Iterable[tuple[Cores, Sequence[WeightFetch]]]
) -> list[tuple[Cores, list[Cores]]]:
    """By the fetches of cores that are in step: the other cores that join each, and those that fetch apart meanwhile.

    Others are given by what they fetch in their turn; the n-th fetch of each is taken to be at one time.
    """
    companions: list[tuple[Cores, list[Cores]]] = []
    others = list(others)
    for number, fetch in enumerate(own_fetches):
        joined: Cores = ()
        apart: dict[WeightFetch, Cores] = {}
        for cores, theirs in others:
            if number < len(theirs):
                if theirs[number] == fetch:
                    joined += cores
                else:
                    apart[theirs[number]] = apart.get(theirs[number], ()) + cores
        companions.append((joined, list(apart.values())))
    return companions
