"""What ran when, what it cost, what was wrong with it, and what came out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from .codec import from_json, to_json
from .counters import Counters
from .program import ProgramOp

ViolationKind = Literal["operand", "access", "bounds", "alignment", "uninitialised", "race", "deadlock"]


@dataclass(frozen=True)
class Site:
    """An instruction that has to do with a violation of another one; ``address`` is where it meets the other."""

    queue: int
    index: int
    mnemonic: str
    op: str
    address: int
    cycle: int

    def __str__(self) -> str:
        return (
            f"queue {self.queue}, instruction {self.index}, {self.mnemonic} of {self.op} from {self.address:#x} on, "
            f"cycle {self.cycle:,}"
        )


@dataclass(frozen=True)
class Violation:
    """Something that the machine does not allow.

    ``docs/simulator.md`` explains the kinds. ``queue`` and ``index`` say which instruction; -1 is after the program.
    Of a race, ``address`` is the first byte that both touch, and ``other`` the instruction that came first.
    """

    kind: ViolationKind
    queue: int
    index: int
    mnemonic: str
    op: str
    address: int
    cycle: int
    message: str
    other: Site | None = None

    def __str__(self) -> str:
        where = f"queue {self.queue}, instruction {self.index}" if self.queue >= 0 else "at the end"
        other = f"; the other: {self.other}" if self.other else ""
        return f"{self.kind}: {self.message} ({where}, {self.mnemonic} of {self.op}, cycle {self.cycle:,}{other})"


@dataclass(frozen=True)
class NpuShare:
    """Which part of the arithmetic ran on the machine's engines rather than on the host: 1.0 is all of it."""

    macs: float
    elements: float


def npu_share(ops: Iterable[ProgramOp]) -> NpuShare:
    """Shares of multiply-accumulates and of element operations; 1.0 where a network has none."""
    shares: list[float] = []
    rows = list(ops)
    for unit in ("macs", "elements"):
        total = sum(getattr(op, unit) for op in rows)
        host = sum(getattr(op, unit) for op in rows if op.host)
        shares.append(1.0 - host / total if total else 1.0)
    return NpuShare(*shares)


@dataclass(frozen=True)
class Summary:
    """The numbers of a run. ``seconds`` is at the machine's clock; ``items_per_second`` counts the whole batch.

    ``busy`` are the cycles of each kind of engine, summed over one cluster. ``violation_count`` counts all;
    ``violations`` holds the first.
    """

    machine: str
    cycles: int
    lower_bound_cycles: int
    seconds: float
    items_per_second: float | None
    instructions: int
    npu: NpuShare
    busy: dict[str, int]
    counters: Counters
    violation_count: int = 0
    violations: tuple[Violation, ...] = ()

    @property
    def npu_fraction(self) -> float:
        """The smaller one of the two shares."""
        return min(self.npu.macs, self.npu.elements)

    def to_json(self) -> bytes:
        return to_json(self)

    @classmethod
    def from_json(cls, data: bytes | str) -> Summary:
        return from_json(data, cls)

    def __str__(self) -> str:
        rate = f", {self.items_per_second:,.1f} items/s" if self.items_per_second is not None else ""
        lines = [
            f"{self.cycles:,} cycles on {self.machine} ({self.seconds * 1e3:.3f} ms{rate}), "
            f"at least {self.lower_bound_cycles:,}; {self.violation_count} violations",
            *(f"  {name}: busy {cycles:,} cycles" for name, cycles in self.busy.items()),
            *(f"  {name} = {value:,}" for name, value in self.counters.total.items()),
            *(f"  {violation}" for violation in self.violations),
        ]
        return "\n".join(lines)


def _no_waits() -> np.ndarray:
    return np.zeros((0, 4), np.int64)


@dataclass(frozen=True)
class Trace:
    """A run. ``start[q][i]`` and ``end[q][i]`` are the cycles in which instruction i of queue q held its engine.

    -1 marks an instruction that never began or ended. Rows of ``waits`` are (queue, index, other queue, count): this
    instruction waited until the other queue had retired so many. ``outputs`` are by port name, for the whole batch;
    empty when only time was simulated.
    """

    summary: Summary
    start: tuple[np.ndarray, ...] = field(compare=False, repr=False)
    end: tuple[np.ndarray, ...] = field(compare=False, repr=False)
    outputs: dict[str, np.ndarray] = field(default_factory=dict[str, np.ndarray], compare=False, repr=False)
    waits: np.ndarray = field(default_factory=_no_waits, compare=False, repr=False)

    @property
    def cycles(self) -> int:
        return self.summary.cycles

    @property
    def counters(self) -> dict[str, int]:
        """Summed over the cores of one cluster."""
        return self.summary.counters.total

    @property
    def violations(self) -> tuple[Violation, ...]:
        return self.summary.violations

    def __str__(self) -> str:
        return str(self.summary)
