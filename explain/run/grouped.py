"""Rows of a column by their value."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np


def grouped(values: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """(value, positions where it is, in order), by ascending value, in the time that sorting takes."""
    order = np.argsort(values, kind="stable")
    ends = np.flatnonzero(np.diff(values[order])) + 1
    for positions in np.split(order, ends):
        if len(positions):
            yield int(values[positions[0]]), positions
