"""How many bytes of a memory hold a living buffer, over time; bytes that several share count once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def covered_bytes(
    begin: np.ndarray, end: np.ndarray, address: np.ndarray, size: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(times, bytes): so much is covered from each of these cycles on, by buffers that live from begin to end."""
    edges, places = np.unique(np.concatenate([address, address + size]), return_inverse=True)
    low, high = places[: len(address)], places[len(address) :]
    widths = np.diff(edges)
    holders = np.zeros(len(widths), np.int64)
    times: list[int] = [0]
    levels: list[int] = [0]
    covered = 0
    for time, starts, number in _events(begin.tolist(), end.tolist()):
        span = slice(low[number], high[number])
        holders[span] += 1 if starts else -1
        change = int(widths[span][holders[span] == (1 if starts else 0)].sum())
        covered += change if starts else -change
        if times[-1] != time:
            times.append(time)
            levels.append(covered)
        levels[-1] = covered
    return np.array(times, np.int64), np.array(levels, np.int64)


def _events(begin: Sequence[int], end: Sequence[int]) -> list[tuple[int, bool, int]]:
    """(cycle, whether a life starts, its number); what ends does so before what begins in the same cycle."""
    starts = [(time, True, number) for number, time in enumerate(begin)]
    return sorted([*starts, *((time, False, number) for number, time in enumerate(end))])
