"""Groups of segments whose instances take turns, as columns of the master.

Segment by segment, all of a result waits in shared memory until the next segment begins, or in main memory if it has no
room there. In a group, the instances of all members of one turn run before those of the next turn, so that only a
turn's part of what passes between members has to wait; but the weights of all members are in use at once, and are
fetched again for each instance unless they are pinned:

    a1 a2 a3 a4 b1 b2 b3 b4 c1 c2          turns of two parts        a1 a2 b1 b2 c1  a3 a4 b3 b4 c2

What a member reads of another one in a turn, that one must have written in the same turn: the cuts of both divide the
tensor between them alike. The first turn, one in the middle and the last are looked at. This is the schedule by
sub-batches of layer fusion (Alwani et al., MICRO 2016; depth first in DeFiNES, Mei et al., HPCA 2023), of which the
master decides where groups begin and end, and their turns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ....ir.box import Box, contains, volume
from ....ir.graph import DTYPES, Graph
from ....ir.machine import Machine
from ....ir.plan import Split
from ...cost.operator import Rates
from ..column_cost import Column
from ..inter_segment import activations
from ..splits import SegmentSplit
from .turn_boxes import Turn, TurnBoxes

TURNS = (2, 3, 4, 6, 8, 12, 16, 32)
"""How many turns a group may have."""
MOST_STARTS = 64
"""Operators at which groups begin at most, evenly among those that are given. Chosen, not measured."""
MOST_MEMBERS = 16
"""Members of a group at most. Chosen, not measured."""

Boxes: TypeAlias = tuple[Box | None, ...]
"""Of a tensor in each of some turns; ``None`` if a turn has nothing of it."""


@dataclass(frozen=True)
class _Member:
    """A column of a group of so many turns, and what its turns read of other operators, and write for them."""

    column: Column
    reads: tuple[tuple[str, Boxes], ...]
    writes: tuple[tuple[str, Boxes], ...]


@dataclass(frozen=True)
class _Chain:
    """Members that follow one another, with the cycles that they take at least; ``waiting``: what their turns write
    that operators behind them read."""

    cost: float
    members: tuple[_Member, ...]
    waiting: Mapping[str, Boxes]


class GroupColumns:
    """The groups of columns of a graph; what turns read and write is found once."""

    def __init__(self, graph: Graph, machine: Machine) -> None:
        self._graph = graph
        self._capacity = machine.levels.exchange.capacity
        self._rate = Rates.from_machine(machine).slowest_home
        known = activations(graph)
        self._life = {a.name: (a.first, a.last) for a in known}
        self._produced = {a.name for a in known if a.produced}
        self._inside = {a.name for a in known if a.produced and not a.stored}
        """What may pass between members alone."""
        self._boxes = TurnBoxes(graph)
        self.priced_count = 0
        """Groups that were priced so far."""

    def columns(self, columns: Sequence[Column], starts: Collection[int]) -> list[Column]:
        """The groups of these columns that begin at ``starts`` (positions of operators), without those that another one
        of the same operators beats in cycles, in traffic and in shared memory at once."""
        begins = _thinned(sorted(starts))
        groups: defaultdict[tuple[int, int], list[Column]] = defaultdict(list)
        for turns in TURNS:
            members = self._members(columns, turns)
            for pinned in (True, False):
                cheapest = {first: self._cheapest(of_first, pinned=pinned) for first, of_first in members.items()}
                for start in begins:
                    for chain in self._chains(cheapest, start):
                        group = self._group(chain, turns)
                        self.priced_count += 1
                        if group.internal_bytes <= self._capacity:
                            groups[group.first, group.last].append(group)
        return [group for ends in sorted(groups) for group in _undominated(groups[ends])]

    def _members(self, columns: Sequence[Column], turns: int) -> Mapping[int, list[_Member]]:
        """By their first operators, the columns that so many equal turns divide."""
        members: defaultdict[int, list[_Member]] = defaultdict(list)
        # From long to short, so that the turns of a root are found once.
        for column in sorted(columns, key=lambda c: c.first):
            outermost = column.split.instances[0] if column.split.instances else Split(0, 1)
            shape = self._graph.tensor[self._graph.ops[column.last].output].shape
            if outermost.parts % turns == 0 and shape[outermost.dim] % turns == 0:
                some = self._boxes.some(column, turns)
                members[column.first].append(_Member(column, *self._crossing(column, some)))
        return members

    def _crossing(self, column: Column, turns: Sequence[Turn]) -> tuple[tuple[tuple[str, Boxes], ...], ...]:
        """What a column reads of operators before it, and writes for those behind it, in some turns."""
        reads: list[tuple[str, Boxes]] = []
        writes: list[tuple[str, Boxes]] = []
        for name, _, _ in column.footprints:
            first, last = self._life[name]
            if name not in self._produced:
                continue
            if first < column.first:
                reads.append((name, tuple(turn.reads.get(name) for turn in turns)))
            elif last > column.last:
                writes.append((name, tuple(turn.writes.get(name) for turn in turns)))
        return tuple(reads), tuple(writes)

    def _cheapest(self, members: Iterable[_Member], *, pinned: bool) -> list[tuple[float, _Member]]:
        """Of those that read and write the same, the one that takes the fewest cycles, if all of the weights are pinned
        or none; with these cycles."""
        cheapest: dict[tuple[object, ...], tuple[float, _Member]] = {}
        for member in members:
            column = member.column
            key = column.last, member.reads, member.writes
            fetched = column.weight_bytes + (0 if pinned else column.refetched_bytes)
            cycles = max(column.cycles, fetched / self._rate)
            if key not in cheapest or cycles < cheapest[key][0]:
                cheapest[key] = cycles, member
        return list(cheapest.values())

    def _chains(self, members: Mapping[int, list[tuple[float, _Member]]], start: int) -> Iterator[_Chain]:
        """The cheapest chain from ``start`` to each end, if it has two members or more."""
        ends: dict[int, dict[tuple[tuple[str, Boxes], ...], _Chain]] = {start: {(): _Chain(0.0, (), {})}}
        for boundary in range(start, len(self._graph.ops) + 1):
            chains = ends.pop(boundary, {})
            if boundary > start and chains:
                best = min(chains.values(), key=lambda chain: chain.cost)
                if len(best.members) > 1:
                    yield best
            for chain in chains.values():
                if len(chain.members) == MOST_MEMBERS:
                    continue
                for cycles, member in members.get(boundary, ()):
                    waiting = self._waiting(chain, member, start)
                    if waiting is not None:
                        after = ends.setdefault(member.column.last + 1, {})
                        key = tuple(sorted(waiting.items(), key=lambda item: item[0]))
                        if key not in after or chain.cost + cycles < after[key].cost:
                            after[key] = _Chain(chain.cost + cycles, (*chain.members, member), waiting)
            if not ends:
                return

    def _waiting(self, chain: _Chain, member: _Member, start: int) -> Mapping[str, Boxes] | None:
        """What waits behind one more member of a chain; ``None`` if a turn of it reads what the same turn of another
        member does not write."""
        for name, read in member.reads:
            if self._life[name][0] >= start and not all(map(_written, chain.waiting[name], read)):
                return None
        last = member.column.last
        return {n: boxes for n, boxes in chain.waiting.items() if self._life[n][1] > last} | dict(member.writes)

    def _group(self, chain: _Chain, turns: int) -> Column:
        """A chain as a column, of which a turn is an instance."""
        columns = [member.column for member in chain.members]
        first, last = columns[0].first, columns[-1].last
        waiting = [0] * len(columns)
        crossing: dict[str, tuple[int, int]] = {}
        for number, member in enumerate(chain.members):
            sizes = {name: self._bytes(name, boxes) for name, boxes in (*member.reads, *member.writes)}
            parts = member.column.instances // turns
            for name, footprint, moved in member.column.footprints:
                begin, end = self._life[name]
                written_before = begin < member.column.first and name in self._produced
                if name not in self._inside or begin < first or end > last:
                    if written_before and begin >= first:
                        # Counted where it is written.
                        continue
                    size = sizes.get(name, min(self._graph.tensor[name].bytes, footprint * parts))
                    known = crossing.get(name, (0, 0))
                    # With the bursts of an instance.
                    crossing[name] = max(known[0], size), max(known[1], size * moved // max(1, footprint))
                elif not written_before:
                    for place in range(number, len(columns)):
                        waiting[place] += sizes[name] if columns[place].first <= end else 0
        return Column(
            first,
            last,
            SegmentSplit((Split(0, turns),), ()),
            sum(c.cycles for c in columns),
            sum(c.weight_bytes for c in columns),
            sum(c.refetched_bytes for c in columns),
            sum(c.pin_bytes for c in columns if c.refetched_bytes),
            tuple((name, *sizes) for name, sizes in sorted(crossing.items())),
            max(c.local_bytes for c in columns),
            (),
            tuple(columns),
            max(waiting),
        )

    def _bytes(self, name: str, boxes: Boxes) -> int:
        largest = max((volume(box) for box in boxes if box is not None), default=0)
        return largest * DTYPES[self._graph.tensor[name].dtype]


def _thinned(starts: Sequence[int]) -> Sequence[int]:
    """At most :data:`MOST_STARTS` of them, evenly."""
    count = len(starts)
    return starts if count <= MOST_STARTS else [starts[count * i // MOST_STARTS] for i in range(MOST_STARTS)]


def _written(written: Box | None, read: Box | None) -> bool:
    """Whether a turn writes all that another one reads."""
    return read is None or (written is not None and contains(written, read))


def _undominated(groups: Iterable[Column]) -> list[Column]:
    """Those that no other beats in cycles, in traffic and in shared memory at once."""
    chosen: list[tuple[int, int, int]] = []
    best: list[Column] = []
    for group in sorted(groups, key=lambda g: (g.cycles, _moved(g), _held(g), g.instances)):
        costs = group.cycles, _moved(group), _held(group)
        if not any(all(a <= b for a, b in zip(known, costs, strict=True)) for known in chosen):
            chosen.append(costs)
            best.append(group)
    return best


def _moved(group: Column) -> int:
    """Bytes that cross the link of main memory for all turns, if nothing is resident or pinned."""
    return group.refetched_bytes + group.instances * sum(moved for _, _, moved in group.footprints)


def _held(group: Column) -> int:
    """Bytes of shared memory with all weights pinned, and one turn of what crosses the border of a group."""
    return group.internal_bytes + group.pin_bytes + sum(size for _, size, _ in group.footprints)
