"""Inter-segment tensors: what an activation costs in each column, resident in shared memory or spilled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from ...ir.graph import Graph
from .column_cost import Column

WEIGHT_PARTS = 16
"""The pinned fraction of a column's weights is a multiple of 1 / 16: the granularity of the reserve for weights."""
MOST_CHOICES = 12
"""Activations of which all sets are tried as residents of one column, at most. Chosen: a group of segments may have
many."""


@dataclass(frozen=True)
class Activation:
    """A tensor that may cross between segments. ``first`` and ``last``: positions of the operators that touch it.

    ``produced`` is false where main memory holds it anyway (an input of the graph, a host's result), and ``stored``
    true where it must be written there (an output, a host's operand). One that is not ``read_on_cores`` never resides
    in shared memory.
    """

    name: str
    bytes: int
    first: int
    last: int
    produced: bool
    stored: bool
    read_on_cores: bool


@dataclass(frozen=True)
class ActivationCost:
    """One activation in one column, in bytes: of shared memory, and of traffic with main memory.

    Resident, it takes ``resident_bytes`` and ``resident_traffic``; otherwise ``staged_bytes`` and ``spilled_traffic``.
    """

    name: str
    can_reside: bool
    resident_bytes: int
    staged_bytes: int
    resident_traffic: int
    spilled_traffic: int


@dataclass(frozen=True)
class ResidentSet:
    """The activations that reside in shared memory, and for each column of a path how many of the
    :data:`WEIGHT_PARTS` parts of its weights are pinned there while its instances run."""

    resident: frozenset[str]
    pinned: tuple[int, ...]


def activations(graph: Graph) -> tuple[Activation, ...]:
    """All tensors but constants that some operator touches, in the order of the graph's tensors."""
    position = {op.name: i for i, op in enumerate(graph.ops)}
    touched: list[Activation] = []
    for tensor in graph.tensors:
        if tensor.name in graph.constant_names:
            continue
        producer = graph.producer.get(tensor.name)
        readers = graph.consumers[tensor.name]
        positions = [position[op.name] for op in (*((producer,) if producer else ()), *readers)]
        if not positions:
            continue
        touched.append(
            Activation(
                tensor.name,
                tensor.bytes,
                min(positions),
                max(positions),
                producer is not None and producer.host is None,
                tensor.name in graph.output_tensors or any(op.host is not None for op in readers),
                any(op.host is None for op in readers),
            )
        )
    return tuple(touched)


class ActivationIndex:
    """Activations by the positions of the operators between which they live."""

    def __init__(self, known: Sequence[Activation], count: int) -> None:
        self._known = known
        self._starting: list[list[int]] = [[] for _ in range(count)]
        self._live_in: list[list[int]] = [[] for _ in range(count)]
        """Those that begin before a position and live there."""
        for number, a in enumerate(known):
            self._starting[a.first].append(number)
            for position in range(a.first + 1, a.last + 1):
                self._live_in[position].append(number)

    def live_in(self, first: int, last: int) -> list[Activation]:
        """Those that live at some operator in ``first .. last``, in order."""
        starting = [n for position in range(first, last + 1) for n in self._starting[position]]
        return [self._known[n] for n in sorted([*self._live_in[first], *starting])]


def activation_costs(column: Column, live: Sequence[Activation], versions: int = 2) -> tuple[ActivationCost, ...]:
    """The costs of the ``live`` activations that enter or leave a column, or that live across it if resident.

    What is not resident has room for ``versions`` instances: with two, one is filled while the other is used.
    """
    return tuple(_costs(column, live, versions))


def _costs(column: Column, live: Sequence[Activation], versions: int) -> Iterator[ActivationCost]:
    footprints = {name: (size, moved) for name, size, moved in column.footprints}
    for a in live:
        if a.first > column.last or a.last < column.first:
            continue
        begins_inside = column.first <= a.first
        crosses = not begins_inside or a.last > column.last or not a.produced
        footprint, moved = footprints.get(a.name, (0, 0))
        if not crosses and not footprint:
            continue
        staged = resident_traffic = spilled_traffic = 0
        stored = a.bytes
        if footprint:
            # Fetched once if that is all of it.
            staged = min(a.bytes, footprint * min(versions, column.instances))
            stored = a.bytes * moved // footprint
            if not begins_inside or not a.produced:
                spilled_traffic += a.bytes if staged == a.bytes else moved * column.instances
        if begins_inside and not a.produced:
            resident_traffic += a.bytes
        if begins_inside and a.produced:
            resident_traffic += stored if a.stored else 0
            spilled_traffic += stored if a.stored or a.last > column.last else 0
        resident = a.bytes if crosses else staged
        yield ActivationCost(a.name, a.read_on_cores and crosses, resident, staged, resident_traffic, spilled_traffic)


def shared_bytes(
    column: Column, costs: Sequence[ActivationCost], resident: frozenset[str], pinned: int, reserve: int
) -> int:
    """Bytes of shared memory that a column needs; ``reserve`` for weights on their way."""
    total = sum([i.resident_bytes if i.can_reside and i.name in resident else i.staged_bytes for i in costs])
    total += column.internal_bytes
    return total + min(reserve, column.weight_bytes) + -(-column.pin_bytes * pinned // WEIGHT_PARTS)


def pinned_parts(column: Column, room: int) -> int:
    """How many parts of its weights a column can pin in so many bytes."""
    return min(WEIGHT_PARTS, WEIGHT_PARTS * room // column.pin_bytes) if column.pin_bytes else WEIGHT_PARTS


def main_traffic(column: Column, costs: Sequence[ActivationCost], resident: frozenset[str], pinned: int) -> int:
    """Bytes that a column moves from and to main memory."""
    total = sum([i.resident_traffic if i.can_reside and i.name in resident else i.spilled_traffic for i in costs])
    return total + column.weight_bytes + column.refetched_bytes * (WEIGHT_PARTS - pinned) // WEIGHT_PARTS


def least_main_traffic(column: Column, costs: Sequence[ActivationCost], capacity: int, reserve: int) -> int | None:
    """Bytes that a column moves from and to main memory at least; ``None`` if it never fits.

    Exact for the column alone: tries which activations reside, if they are not too many; a bound otherwise. One that
    only lives across it can be spilled at the expense of other columns.
    """
    free = capacity - shared_bytes(column, costs, frozenset(), 0, reserve)
    if free < 0:
        return None
    choices = [i for i in costs if i.can_reside and i.spilled_traffic > i.resident_traffic]
    fixed = column.weight_bytes + sum(
        min(i.spilled_traffic, i.resident_traffic) if i.can_reside else i.spilled_traffic
        for i in costs
        if i not in choices
    )
    if len(choices) > MOST_CHOICES:
        return fixed + sum(i.resident_traffic for i in choices)
    best: int | None = None
    for resides in product((True, False), repeat=len(choices)):
        room = free - sum(i.resident_bytes - i.staged_bytes for r, i in zip(resides, choices, strict=True) if r)
        if room < 0:
            continue
        pinned = pinned_parts(column, room)
        total = fixed + sum(
            i.resident_traffic if r else i.spilled_traffic for r, i in zip(resides, choices, strict=True)
        )
        total += column.refetched_bytes * (WEIGHT_PARTS - pinned) // WEIGHT_PARTS
        best = total if best is None else min(best, total)
        if all(resides) and pinned == WEIGHT_PARTS:
            break
    return best


def greedy_residency(
    path: Sequence[Column],
    costs: Sequence[Sequence[ActivationCost]],
    can_reside: frozenset[str],
    capacity: int,
    reserve: int,
) -> ResidentSet | None:
    """A good residency for a path: spills the activation that costs least for each byte until every column fits.

    ``costs``: by column. ``None`` if a column does not fit even with nothing resident.
    """
    spill_traffic: dict[str, int] = {}
    for of_column in costs:
        for i in of_column:
            spill_traffic[i.name] = spill_traffic.get(i.name, 0) + i.spilled_traffic - i.resident_traffic
    resident = can_reside
    for column, of_column in zip(path, costs, strict=True):
        while shared_bytes(column, of_column, resident, 0, reserve) > capacity:
            freed = {
                i.name: i.resident_bytes - i.staged_bytes
                for i in of_column
                if i.name in resident and i.can_reside and i.resident_bytes > i.staged_bytes
            }
            if not freed:
                return None
            resident -= {_cheapest(freed, spill_traffic)}
    pinned: list[int] = []
    for column, of_column in zip(path, costs, strict=True):
        parts = WEIGHT_PARTS if column.refetched_bytes else 0
        while parts and shared_bytes(column, of_column, resident, parts, reserve) > capacity:
            parts -= 1
        pinned.append(parts)
    return ResidentSet(resident, tuple(pinned))


def _cheapest(freed: Mapping[str, int], spill_traffic: Mapping[str, int]) -> str:
    return min(freed, key=lambda name: (spill_traffic[name] / freed[name], name))
