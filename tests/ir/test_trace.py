"""Traces: their numbers as text and JSON."""

from __future__ import annotations

from girih.ir.counters import Counters
from girih.ir.program import ProgramOp
from girih.ir.trace import NpuShare, Summary, Violation, npu_share

FOUND = Violation("bounds", 1, 2, "dcopy", "op", 64, 5, "too far")
SUMMARY = Summary(
    "tiny", 100, 80, 1e-7, 3e7, 2, NpuShare(1.0, 0.75), {"VME": 9}, Counters(({"macs": 5},), {}), 3, (FOUND,)
)


def test_summary_round_trip() -> None:
    assert Summary.from_json(SUMMARY.to_json()) == SUMMARY
    assert SUMMARY.npu_fraction == 0.75


def test_text() -> None:
    text = str(SUMMARY)
    assert text.startswith("100 cycles on tiny (0.000 ms, 30,000,000.0 items/s), at least 80; 3 violations")
    assert "bounds: too far (queue 1, instruction 2, dcopy of op, cycle 5)" in text


def test_npu_share() -> None:
    ops = [ProgramOp("a", macs=30, elements=10), ProgramOp("b", macs=10, elements=30, host=True)]
    assert npu_share(ops) == NpuShare(0.75, 0.25)
    assert npu_share([]) == NpuShare(1.0, 1.0)
