"""How the points of a stage or an instruction are divided among engines that work side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def divisions(extents: Sequence[int], engines: int) -> Iterator[tuple[int, ...]]:
    """Numbers of parts, one for each extent, that together make no more than so many ``engines``: the whole first.

    One extent is cut as often as it can be, or two are; not every division is among them.
    """
    whole = [1] * len(extents)
    known = {tuple(whole)}
    yield tuple(whole)
    for outer, extent in enumerate(extents):
        for inner, other in enumerate(extents):
            counts = list(whole)
            counts[outer] = max(1, min(engines, extent))
            if inner != outer:
                counts[inner] = max(1, min(engines // counts[outer], other))
            if tuple(counts) not in known:
                known.add(tuple(counts))
                yield tuple(counts)
