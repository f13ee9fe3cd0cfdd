"""What differs between two schedules, A and B: the rows of the tables, and all of them together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

FORMAT = 1
"""The version of the JSON; it grows when a key changes its meaning or goes."""


@dataclass(frozen=True)
class Change:
    """A figure or setting that differs; values as texts, empty where there is none."""

    what: str
    a: str
    b: str


@dataclass(frozen=True)
class Side:
    """One of the two schedules in a few numbers.

    ``cycles`` and ``milliseconds`` are of a run in time alone; ``fetched`` and ``stored`` are bytes from and to main
    memory in one cluster, those of the host included; ``peaks`` are the most bytes in use at once, by memory.
    """

    file: str
    network: str
    machine: str
    strategy: str
    batch: int | None
    operators: int
    segments: int
    steps: int
    instructions: int
    cycles: int
    milliseconds: float
    cycles_predicted: int
    lower_bound_cycles: int
    lower_bound_reason: str
    fetched: int
    stored: int
    peaks: Mapping[str, int]


@dataclass(frozen=True)
class CauseChange:
    """The cycles that a cause takes in each schedule.

    All rows add up to the cycles of the runs, and so their changes to the change; ``cause`` is one of
    :data:`..overview.waterfall.Cause`, and ``title`` says it in words.
    """

    cause: str
    title: str
    a: int
    b: int

    @property
    def change(self) -> int:
        """Cycles that B takes more than A."""
        return self.b - self.a


@dataclass(frozen=True)
class OperatorChange:
    """An operator in both schedules, or operators that are made from the same ONNX nodes.

    ``a`` and ``b`` are the cycles of the runs that belong to it; all rows add up to the cycles of the runs.
    ``ops_a`` and ``ops_b`` are its names in each, empty where a schedule lacks it. ``causes`` has the rounded changes
    by cause, most first, without those below a cycle. ``decisions`` are short texts about what was decided otherwise.
    """

    name: str
    ops_a: tuple[str, ...]
    ops_b: tuple[str, ...]
    a: int
    b: int
    causes: Mapping[str, int]
    decisions: tuple[str, ...]

    @property
    def change(self) -> int:
        """Cycles that B takes more than A."""
        return self.b - self.a


@dataclass(frozen=True)
class SegmentChange:
    """The fewest segments of A and of B that have the same operators; all rows add up to the cycles of the runs.

    ``splits_a`` and ``splits_b`` say for each of them how it is cut, as ``instances; cores``.
    """

    first: str
    last: str
    operators: int
    segments_a: tuple[int, ...]
    segments_b: tuple[int, ...]
    splits_a: tuple[str, ...]
    splits_b: tuple[str, ...]
    a: int
    b: int

    @property
    def change(self) -> int:
        """Cycles that B takes more than A."""
        return self.b - self.a


@dataclass(frozen=True)
class TileChange:
    """A decision about the tile of one operator that both schedules have: ``what`` is the field of the tile."""

    op: str
    what: str
    a: str
    b: str


@dataclass(frozen=True)
class ResidencyChange:
    """A tensor that is moved to and from main memory otherwise: bytes each way in each schedule.

    ``text`` says what B does and A does not.
    """

    tensor: str
    kind: str
    bytes: int
    fetched_a: int
    fetched_b: int
    stored_a: int
    stored_b: int
    text: str

    @property
    def change(self) -> int:
        """Bytes that B moves more than A."""
        return self.fetched_b + self.stored_b - self.fetched_a - self.stored_a


@dataclass(frozen=True)
class Differences:
    """What differs between the schedules A and B, and what each difference cost.

    ``same`` says whether the network, the machine and every decision are the same. ``verdict`` is two sentences: which
    is faster, by how much and why, and what is scheduled otherwise. ``notes`` say what could not be compared.
    ``resource`` is the engine or link whose cycles ``causes`` and ``operators`` divide. ``order`` is about the steps,
    ``movement`` counts what is moved otherwise, and ``addresses`` buffers of both schedules with another address.
    """

    same: bool
    verdict: tuple[str, ...]
    notes: tuple[str, ...]
    a: Side
    b: Side
    resource: str
    causes: tuple[CauseChange, ...]
    operators: tuple[OperatorChange, ...]
    machine: tuple[Change, ...]
    options: tuple[Change, ...]
    versions: tuple[Change, ...]
    segments: tuple[SegmentChange, ...]
    tiles: tuple[TileChange, ...]
    residency: tuple[ResidencyChange, ...]
    order: tuple[Change, ...]
    movement: tuple[Change, ...]
    addresses: int
    format: int = FORMAT

    @property
    def change(self) -> int:
        """Cycles that B takes more than A."""
        return self.b.cycles - self.a.cycles
