"""What crosses between segments: what an activation costs in each column, kept in shared memory or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from ...ir.graph import Graph
from .candidates import Column

SHARES = 16
"""Weights are kept between instances in such shares of a column's weights."""


@dataclass(frozen=True)
class Activation:
    """A tensor that may cross between segments. ``first`` and ``last``: positions of the operators that touch it.

    ``produced`` is false where its home in main memory is filled anyway (an input of the graph, a host's result), and
    ``stored`` true where it must be written there (an output, a host's operand). Without a ``reader`` on the cores it
    is never kept.
    """

    name: str
    bytes: int
    first: int
    last: int
    produced: bool
    stored: bool
    reader: bool


@dataclass(frozen=True)
class Item:
    """One activation in one column, in bytes: what it takes of shared memory, and what it moves through main memory,
    if it is kept and if it is not."""

    name: str
    keepable: bool
    held_kept: int
    held: int
    moved_kept: int
    moved: int


@dataclass(frozen=True)
class Residence:
    """Which activations stay in shared memory, and how many shares of its weights each column of a path keeps there."""

    kept: frozenset[str]
    shares: tuple[int, ...]


def activations(graph: Graph) -> tuple[Activation, ...]:
    """All tensors but constants that some operator touches, in the order of the graph's tensors."""
    position = {op.name: i for i, op in enumerate(graph.ops)}
    found: list[Activation] = []
    for tensor in graph.tensors:
        if tensor.name in graph.constant_names:
            continue
        producer = graph.producer.get(tensor.name)
        readers = graph.consumers[tensor.name]
        touched = [position[op.name] for op in (*((producer,) if producer else ()), *readers)]
        if not touched:
            continue
        found.append(
            Activation(
                tensor.name,
                tensor.bytes,
                min(touched),
                max(touched),
                producer is not None and producer.host is None,
                tensor.name in graph.output_tensors or any(op.host is not None for op in readers),
                any(op.host is None for op in readers),
            )
        )
    return tuple(found)


class Touching:
    """Activations by the positions of the operators between which they matter."""

    def __init__(self, known: Sequence[Activation], count: int) -> None:
        self._known = known
        self._starting: list[list[int]] = [[] for _ in range(count)]
        self._across: list[list[int]] = [[] for _ in range(count)]
        """Those that begin before a position and matter there."""
        for number, a in enumerate(known):
            self._starting[a.first].append(number)
            for position in range(a.first + 1, a.last + 1):
                self._across[position].append(number)

    def between(self, first: int, last: int) -> list[Activation]:
        """Those that some operator in ``first .. last`` touches or passes by, in order."""
        found = [n for position in range(first, last + 1) for n in self._starting[position]]
        return [self._known[n] for n in sorted([*self._across[first], *found])]


def items(column: Column, known: Sequence[Activation], versions: int = 2) -> tuple[Item, ...]:
    """The activations that enter or leave a column, or pass it by if they are kept.

    What is not kept has room for ``versions`` instances: with two, one is filled while the other is used.
    """
    return tuple(_items(column, known, versions))


def _items(column: Column, known: Sequence[Activation], versions: int) -> Iterator[Item]:
    steps = dict(column.steps)
    for a in known:
        if a.first > column.last or a.last < column.first:
            continue
        inside = column.first <= a.first
        crosses = not inside or a.last > column.last or not a.produced
        step = steps.get(a.name)
        if not crosses and step is None:
            continue
        held = moved_kept = moved = 0
        if step is not None:
            # Fetched once if that is all of it.
            held = min(a.bytes, step * min(versions, column.instances))
            if not inside or not a.produced:
                moved += a.bytes if held == a.bytes else step * column.instances
        if inside and not a.produced:
            moved_kept += a.bytes
        if inside and a.produced:
            moved_kept += a.bytes if a.stored else 0
            moved += a.bytes if a.stored or a.last > column.last else 0
        yield Item(a.name, a.reader and crosses, a.bytes if crosses else held, held, moved_kept, moved)


def demand(column: Column, of: Sequence[Item], kept: frozenset[str], shares: int, reserve: int) -> int:
    """Bytes of shared memory that a column needs; ``reserve`` for weights on their way."""
    total = sum([i.held_kept if i.keepable and i.name in kept else i.held for i in of])
    return total + min(reserve, column.weights) + -(-column.weights * shares // SHARES)


def moved(column: Column, of: Sequence[Item], kept: frozenset[str], shares: int) -> int:
    """Bytes that a column moves through main memory."""
    total = sum([i.moved_kept if i.keepable and i.name in kept else i.moved for i in of])
    return total + column.weights + column.again * (SHARES - shares) // SHARES


def least_moved(column: Column, of: Sequence[Item], capacity: int, reserve: int) -> int | None:
    """Bytes that a column moves through main memory at least; ``None`` if it never fits.

    Exact for the column alone: tries what to keep. What passes by can be evicted at the expense of other columns.
    """
    free = capacity - demand(column, of, frozenset(), 0, reserve)
    if free < 0:
        return None
    choices = [i for i in of if i.keepable and i.moved > i.moved_kept]
    fixed = sum(min(i.moved, i.moved_kept) if i.keepable else i.moved for i in of if i not in choices) + column.weights
    best: int | None = None
    for keep in product((True, False), repeat=len(choices)):
        room = free - sum(i.held_kept - i.held for k, i in zip(keep, choices, strict=True) if k)
        if room < 0:
            continue
        shares = min(SHARES, SHARES * room // column.weights) if column.weights else SHARES
        total = fixed + sum(i.moved_kept if k else i.moved for k, i in zip(keep, choices, strict=True))
        total += column.again * (SHARES - shares) // SHARES
        best = total if best is None else min(best, total)
        if all(keep) and shares == SHARES:
            break
    return best


def fit(
    path: Sequence[Column], of: Sequence[Sequence[Item]], keepable: frozenset[str], capacity: int, reserve: int
) -> Residence | None:
    """A good residence for a path whose columns have the items ``of``: evict what costs least for each byte.

    ``None`` if a column does not fit even with nothing kept.
    """
    spill: dict[str, int] = {}
    for here in of:
        for i in here:
            spill[i.name] = spill.get(i.name, 0) + i.moved - i.moved_kept
    kept = keepable
    for column, here in zip(path, of, strict=True):
        while demand(column, here, kept, 0, reserve) > capacity:
            able = {
                i.name: i.held_kept - i.held for i in here if i.name in kept and i.keepable and i.held_kept > i.held
            }
            if not able:
                return None
            kept -= {_cheapest(able, spill)}
    shares: list[int] = []
    for column, here in zip(path, of, strict=True):
        q = SHARES if column.again else 0
        while q and demand(column, here, kept, q, reserve) > capacity:
            q -= 1
        shares.append(q)
    return Residence(kept, tuple(shares))


def _cheapest(able: Mapping[str, int], spill: Mapping[str, int]) -> str:
    return min(able, key=lambda name: (spill[name] / able[name], name))
