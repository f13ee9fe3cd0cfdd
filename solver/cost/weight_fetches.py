"""Which cores fetch a weight tile together: those that come to it in the same tile of their walks.

Cores walk in lockstep, tile by tile, and one broadcast brings a weight tile to all that want it at the same tile, for
the same version of their buffers. A core with fewer tiles of the result for each of the weights comes to the next
weights earlier: these are brought to it by a copy of its own, and once more to the others.

    tiles of core 0   a a b b c c        b comes twice, and c as well
    tiles of core 1   a b c
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Fetch = tuple[int, int, int, int]
"""The tile of the walk, the part of its reduction, the weight tile that is brought, and the version it comes to."""
Cores = tuple[int, ...]


def fetches(weights: Sequence[Sequence[int]], versions: Sequence[int]) -> list[Fetch]:
    """What a walk fetches: ``weights[i][r]`` is wanted for reduce tile r of tile i; ``versions`` take turns."""
    held: dict[int, int] = {}
    found: list[Fetch] = []
    for index, row in enumerate(weights):
        for part, key in enumerate(row):
            if key not in held.values():
                version = versions[len(found) % len(versions)]
                held[version] = key
                found.append((index, part, key, version))
    return found


def together(own: Sequence[Fetch], others: Iterable[tuple[Cores, Sequence[Fetch]]]) -> list[tuple[Cores, list[Cores]]]:
    """By the fetches of cores that are in step: the other cores that join each, and those that fetch apart meanwhile.

    Others are given by what they fetch in their turn; the n-th fetch of each is taken to be at one time.
    """
    found: list[tuple[Cores, list[Cores]]] = []
    others = list(others)
    for number, fetch in enumerate(own):
        joined: Cores = ()
        apart: dict[Fetch, Cores] = {}
        for cores, theirs in others:
            if number < len(theirs):
                if theirs[number] == fetch:
                    joined += cores
                else:
                    apart[theirs[number]] = apart.get(theirs[number], ()) + cores
        found.append((joined, list(apart.values())))
    return found
