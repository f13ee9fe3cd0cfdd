"""Losses as sentences: which are named, in what order, and who is waited for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from girih.explain.cycles.breakdown import CAUSES, BreakdownRow, WaitReason
from girih.explain.cycles.losses import largest_losses, losses, waits
from girih.ir.load_machine import load_machine


def waiting(cause: str, *reasons: WaitReason, units: int = 1) -> BreakdownRow:
    """A row of ten cycles in which a resource waits."""
    waited = dict.fromkeys(CAUSES, 0.0) | {cause: 10.0}
    return BreakdownRow(
        "MME", units, 0, "", 10.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, waited, 0.0, reasons,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("cycles", "named"),
    [(10.0, "first"), (9.0, "first"), (8.9, "first and others"), (4.0, "first and others"), (3.9, "several operators")],
)
def test_an_operator_is_named_by_its_part_of_a_wait(cycles: float, named: str) -> None:
    machine = load_machine("stcp920")
    # Reasons of other causes are nothing of it.
    other = WaitReason("store", "other", "MTO", 20.0)
    reasons = other, WaitReason("engine", "first", "VME", cycles), WaitReason("engine", "second", "DMR", 10.0 - cycles)
    reason = f"100% waits until VME is done with {named}"
    row = waiting("engine", *reasons)
    assert losses(row, machine) == reason and waits(row, machine) == (reason,)
    assert losses(waiting("engine", other), machine) == "100% waits until another engine is done with several operators"


def test_a_core_waits_for_other_cores_and_the_cluster_for_the_cores() -> None:
    machine = load_machine("stcp920")
    reason = WaitReason("cores", "first", "MME", 10.0)
    assert losses(waiting("cores", reason, units=8), machine) == "100% waits until other cores are done with first"
    assert losses(waiting("cores", reason), machine) == "100% waits until the cores are done with first"


def test_losses_are_ranked_and_the_smallest_are_left_out() -> None:
    machine = load_machine("stcp920")
    row = replace(waiting("store"), cycles=1000.0, waits=dict.fromkeys(CAUSES, 0.0) | {"store": 400.0, "spill": 4.9})
    row = replace(row, extra=5.0, fill=500.0, issue=-30.0)
    texts = [
        "50% fills and drains the array again",
        "40% waits until results of several operators are in LLB",
        "0% computes or moves what the lower bound does not count",
    ]
    assert losses(row, machine) == ", ".join(texts[:2])
    assert [text.split(" ", 1)[1] for text in losses(row, machine, 9).split(", ")] == [
        t.split(" ", 1)[1] for t in texts
    ]
    assert waits(row, machine, 1) == (texts[1],)
    assert len(waits(row, machine, 9)) == 2


def test_the_largest_losses_name_the_operators_that_lose_most_cycles_and_not_the_worst_ratio() -> None:
    machine = load_machine("stcp920")
    nothing = dict.fromkeys(CAUSES, 0.0)
    row = replace(waiting("store"), cycles=0.0, waits=nothing)
    rows = (
        replace(row, op="tiny", cycles=30.0, work=1.0),
        replace(row, op="large", cycles=900.0, work=600.0, waits={**nothing, "store": 300.0}),
        replace(row, op="right", cycles=70.0, work=70.0),
    )
    first, second = largest_losses(rows, machine)
    assert first == (
        "large loses 300 of its 900 cycles, 30% of the run: 33% waits until results of several operators are in LLB"
    )
    assert second == "tiny loses 29 of its 30 cycles, 3% of the run"


def test_every_loss_has_words() -> None:
    machine = load_machine("stcp920")
    base = replace(waiting("store"), waits=dict.fromkeys(CAUSES, 0.0))
    assert losses(base, machine) == ""
    for cause in CAUSES:
        row = replace(base, waits={**base.waits, cause: 5.0})
        assert losses(row, machine).startswith("50% waits")
    for name in ("extra", "rounding", "fill", "issue", "slowed"):
        assert losses(replace(base, **{name: 1.0}), machine).startswith("10% ")
