"""Addresses in the memories of a core, by first fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ....ir.machine import Memory
from ....ir.plan import LocalBuffer
from ...banks.first_fit import Item, by_size, first_fit, neighbours, peak
from ...cost.local_buffers import in_place_groups


def addresses(
    buffers: Sequence[LocalBuffer], groupings: Iterable[list[list[LocalBuffer]]], memory: Memory
) -> list[int] | int:
    """An address for each buffer of a segment in one memory; or the bytes that they would take, if they do not fit.

    ``groupings``: groups of buffers that share an address, in the order in which they are tried.
    """
    top = 0
    for groups in groupings:
        items = [Item(max(b.bytes for b in g), g[0].live[0], g[-1].live[1]) for g in groups]
        at = first_fit(items, neighbours(items), by_size(items))
        top = peak(items, at)
        if top <= memory.capacity:
            address_of = {id(b): a for a, group in zip(at, groups, strict=True) for b in group}
            return [address_of[id(b)] for b in buffers]
    return top


def in_place_last(buffers: Sequence[LocalBuffer], before: Mapping[str, str]) -> list[list[list[LocalBuffer]]]:
    """Groupings for :func:`addresses`: each buffer alone; then, where room is short, results in the place of inputs.

    ``before``: by result, the input that it may replace.
    """
    return [[[b] for b in buffers], in_place_groups(buffers, before)]
