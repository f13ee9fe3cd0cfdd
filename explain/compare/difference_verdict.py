"""The verdict of a comparison: which schedule is faster, by how much and mainly why, and what is decided otherwise."""

from __future__ import annotations

from ..units import plural, size
from .rows import Differences

_MOST_REASONS = 2
"""Causes that are named at most."""
_WORTH_NAMING = 0.1
"""Share of the difference from which on a cause is named."""


def verdict(comparison: Differences, same_decisions: bool) -> tuple[str, ...]:
    """Two sentences; one if nothing differs. ``same_decisions``: the plans decide the same for the same network."""
    a, change = comparison.a, comparison.change
    if comparison.same:
        return (f"The same schedule: {a.cycles:,} cycles.",)
    if same_decisions:
        machines = f"the machines differ in {plural(len(comparison.machine), 'figure')}"
        if not change:
            return f"The same decisions on different machines: both take {a.cycles:,} cycles.", _sentence(machines)
        return _faster(comparison), _sentence(f"{machines}; all decisions are the same")
    if not change:
        return f"Both take {a.cycles:,} cycles, though by other schedules.", _otherwise(comparison)
    return _faster(comparison), _otherwise(comparison)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _faster(comparison: Differences) -> str:
    a, b, change = comparison.a, comparison.b, comparison.change
    names = "B", "A"
    fast, slow = (b, a) if change < 0 else (a, b)
    name, other = names if change < 0 else names[::-1]
    milliseconds = ""
    if (fast.milliseconds - slow.milliseconds) * (fast.cycles - slow.cycles) <= 0 or fast.machine != slow.machine:
        milliseconds = f" ({fast.milliseconds:,.3f} ms against {slow.milliseconds:,.3f} ms)"
    share = abs(change) / slow.cycles
    return (
        f"{name} takes {abs(change):,} cycles ({share:.1%}) fewer than {other}: {fast.cycles:,} instead of "
        f"{slow.cycles:,}{milliseconds}{_reason(comparison)}."
    )


def _reason(comparison: Differences) -> str:
    """The causes that favour the faster one most, and the operator that gains most."""
    sign = 1 if comparison.change > 0 else -1
    ranked = sorted(comparison.causes, key=lambda row: -sign * row.change)
    worth = [row for row in ranked[:_MOST_REASONS] if sign * row.change >= _WORTH_NAMING * abs(comparison.change)]
    causes = " and ".join(f"{row.title} ({abs(row.change):,} fewer)" for row in worth)
    first = max(comparison.operators, key=lambda row: sign * row.change)
    gains = f"; most in {first.name} ({abs(first.change):,})" if sign * first.change > 0 else ""
    return f", mainly by {causes}{gains}" if causes else gains


def _otherwise(comparison: Differences) -> str:
    """What differs, as one sentence."""
    a, b, parts = comparison.a, comparison.b, list[str]()
    if comparison.machine:
        parts.append(f"the machines differ in {plural(len(comparison.machine), 'figure')}")
    if a.segments != b.segments:
        parts.append(f"B has {plural(b.segments, 'segment')} and A {a.segments:,}")
    elif comparison.segments:
        parts.append(f"both have {plural(b.segments, 'segment')}")
    if comparison.tiles:
        parts.append(f"{plural(len({row.op for row in comparison.tiles}), 'operator')} have other tiles")
    moved = b.fetched + b.stored - a.fetched - a.stored
    if moved:
        parts.append(f"B moves {size(abs(moved))} {'more' if moved > 0 else 'less'} to and from main memory")
    if not parts and comparison.order:
        parts.append("operators run in another order")
    if not parts and (comparison.movement or comparison.addresses):
        parts.append("only transfers and addresses differ")
    return _sentence("; ".join(parts) or "decisions differ only in where cells run and in details of buffers")
