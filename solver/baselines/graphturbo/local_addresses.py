"""Addresses in the memories of a core, by first fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ....ir.machine import Memory
from ....ir.plan import LocalBuffer
from ...cost.local_buffers import in_place_groups
from .fit import Item, first_fit


def addresses(buffers: Sequence[LocalBuffer], before: Mapping[str, str], memory: Memory) -> list[int] | int:
    """An address for each buffer of a segment in one memory; or the bytes that they would take, if they do not fit.

    ``before``: by result, the input that it may replace, which is made use of only where room is short.
    """
    top = 0
    for groups in _groups(buffers, before):
        items = [Item(max(b.bytes for b in g), g[0].live[0], g[-1].live[1]) for g in groups]
        at = first_fit(items)
        top = max((a + item.size for a, item in zip(at, items, strict=True)), default=0)
        if top <= memory.capacity:
            of = {id(b): a for a, group in zip(at, groups, strict=True) for b in group}
            return [of[id(b)] for b in buffers]
    return top


def _groups(buffers: Sequence[LocalBuffer], before: Mapping[str, str]) -> Iterator[list[list[LocalBuffer]]]:
    """The buffers in groups that share an address: each alone; then each result behind the input that it replaces."""
    yield [[b] for b in buffers]
    yield in_place_groups(buffers, before)
