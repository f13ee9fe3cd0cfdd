"""The data of a curve of cycles against bytes."""

from __future__ import annotations

from dataclasses import dataclass

FORMAT = 1
"""The version of the JSON; it grows when a key changes its meaning or goes."""


@dataclass(frozen=True)
class CurveRow:
    """A plan that takes ``bytes`` of the memory, and ``cycles`` in a simulation.

    ``activations`` and ``constants`` are the peaks of either in the memory. ``saved``: cycles fewer than the row before
    takes, ``saved_per_kib`` the same for each KiB more; ``None`` in the first row. ``ratio``: cycles by those of the
    lower bound.
    """

    bytes: int
    cycles: int
    cycles_predicted: int
    ratio: float | None
    activations: int
    constants: int
    segments: int
    saved: int | None
    saved_per_kib: float | None


@dataclass(frozen=True)
class CurveData:
    """The points that no other beats, with fewer and fewer cycles for more and more bytes.

    ``least``: fewer bytes of the memory were not found to be enough; fewer than ``bound`` are proven not to be.
    ``complete``: neither the user nor the clock ended the search.
    """

    network: str
    machine: str
    memory: str
    capacity: int
    least: int
    bound: int
    proven: bool
    complete: bool
    lower_bound_cycles: int
    points: tuple[CurveRow, ...]
    format: int = FORMAT
