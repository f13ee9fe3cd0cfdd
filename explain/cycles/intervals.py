"""Half-open intervals of cycles that overlap: how many hold at a time, and how they share it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def concurrency(intervals: Sequence[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    """(moments, count): ``count[i]`` intervals hold from ``moments[i]`` to the next moment."""
    times = np.array(intervals, np.int64).reshape(-1, 2)
    moments = np.unique(times)
    changes = np.zeros(len(moments), np.int64)
    np.add.at(changes, np.searchsorted(moments, times[:, 0]), 1)
    np.add.at(changes, np.searchsorted(moments, times[:, 1]), -1)
    return moments, np.cumsum(changes)


def even_shares(intervals: Sequence[tuple[int, int]]) -> list[float]:
    """The cycles of each interval, if intervals that overlap share each cycle evenly."""
    moments, count = concurrency(intervals)
    shares = np.diff(moments) / np.maximum(1, count[:-1])
    elapsed = np.concatenate([np.zeros(1), np.cumsum(shares)])
    ends = np.searchsorted(moments, np.array(intervals, np.int64).reshape(-1, 2))
    return np.diff(elapsed[ends], axis=1)[:, 0].tolist()
