"""Which operators form a sub-graph: merged while the factors of their splits allow it (Zhao et al., algorithm 2).

Every operator begins as a sub-graph of its own. Neighbours are merged, kind by kind, until nothing changes:

    straight   a - b            each is the only neighbour of the other on that side
    diamond    e < (a, b) > x   several paths from one entry to one exit: all but the entry are merged
    branch         (a, b) > x   several producers that only x reads

Straight and branch: the consumer's factor is at least each producer's, and the merged factor at most the consumer's.
Diamond: the merged factor is at most the largest of the parts'. So a network that is wide at the top and narrow at the
bottom falls into stages of falling factors.

A segment is a run of consecutive operators of the graph, so only runs are merged; in the usual order of a network,
what the paper would merge is one. Runs of more than :data:`LONGEST` operators are not tried: what a merge costs grows
with the operators in it, and thousands in a row, all of them small, would take hours.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

from ....ir.graph import Graph
from .split import SplitInfo

LONGEST = 64
"""Operators in a sub-graph at most; in the networks of the paper none comes near. Chosen, not measured."""

Find = Callable[[int, int, int | None], SplitInfo | None]
"""The split of a run of operators (first and last position) into so many instances at most (``None``: any number);
``None`` if it cannot be a sub-graph."""


@dataclass(frozen=True)
class SubGraph:
    """Operators ``first .. last``; ``split`` is ``None`` for one on the host, and where no split of one fits."""

    first: int
    last: int
    split: SplitInfo | None


def group(graph: Graph, find: Find) -> tuple[SubGraph, ...]:
    """The sub-graphs, in the order of the graph."""
    grouping = _Grouping(graph, find)
    size = 0
    while len(grouping.subs) != size:
        size = len(grouping.subs)
        for kind in (grouping.straight, grouping.diamond, grouping.branch):
            grouping.merge(kind)
    return tuple(grouping.subs)


class _Grouping:
    def __init__(self, graph: Graph, find: Find) -> None:
        self.graph = graph
        self.find = find
        self.subs = [SubGraph(i, i, None if op.host else find(i, i, None)) for i, op in enumerate(graph.ops)]
        position = {op.name: i for i, op in enumerate(graph.ops)}
        self._producers = [
            {position[graph.producer[n].name] for n in op.inputs if n in graph.producer} for op in graph.ops
        ]
        self._consumers = [{position[c.name] for n in op.outputs for c in graph.consumers[n]} for op in graph.ops]
        self._outputs = {i for i, op in enumerate(graph.ops) if any(n in graph.output_tensors for n in op.outputs)}

    def merge(self, kind: Callable[[int], int | None]) -> None:
        """Merge what ``kind`` finds: by exit (an index), the first sub-graph that it is merged with."""
        last = 0
        while last < len(self.subs):
            first = kind(last)
            merged = None if first is None else self._merged(first, last, kind == self.diamond)
            if first is None or merged is None:
                last += 1
            else:
                self.subs[first : last + 1] = [merged]
                last = first

    def straight(self, last: int) -> int | None:
        """The producer, if the two are neighbours of no other on that side."""
        first = last - 1
        return first if first >= 0 and self._entries(last, last) == {first} and self._closed(first, last) else None

    def diamond(self, last: int) -> int | None:
        """The first of the shortest run that is left only from here, with several paths from one entry."""
        if len(self._entries(last, last)) < 2:
            return None
        for first in range(last - 1, 0, -1):
            if self._long(first, last) or not self._closed(first, last) or not self._entries(first, first):
                return None
            if len(self._entries(first, last)) == 1:
                return first
        return None

    def branch(self, last: int) -> int | None:
        """The first of several producers that nothing else reads; those nearest to the exit, as far as they adjoin."""
        first = last
        entries = self._entries(last, last)
        while first - 1 in entries and not self._long(first - 1, last) and self._closed(first - 1, last):
            first -= 1
        return first if last - first > 1 else None

    def _closed(self, first: int, last: int) -> bool:
        """Whether the results of sub-graph ``first`` are read within ``first .. last`` only, and are."""
        sub = self.subs[first]
        ops = range(sub.first, sub.last + 1)
        readers = {c for i in ops for c in self._consumers[i]}
        within = all(sub.first <= c <= self.subs[last].last for c in readers)
        return within and bool(self._consumers[sub.last]) and not self._outputs & set(ops)

    def _entries(self, first: int, last: int) -> set[int]:
        """The sub-graphs that ``first .. last`` read from."""
        low, high = self.subs[first].first, self.subs[last].last
        producers = {p for i in range(low, high + 1) for p in self._producers[i] if p < low}
        return {bisect_right(self.subs, p, key=lambda sub: sub.first) - 1 for p in producers}

    def _long(self, first: int, last: int) -> bool:
        return self.subs[last].last - self.subs[first].first >= LONGEST

    def _merged(self, first: int, last: int, diamond: bool) -> SubGraph | None:
        """The run as one sub-graph, if the rules of the factors allow it."""
        if self._long(first, last):
            return None
        splits = [s.split for s in self.subs[first : last + 1]]
        parts = [s.factor for s in splits if s is not None]
        if len(parts) < len(splits):
            return None
        if not diamond and max(parts) > parts[-1]:
            return None
        run = self.subs[first].first, self.subs[last].last
        split = self.find(*run, max(parts))
        return None if split is None else SubGraph(*run, split)
