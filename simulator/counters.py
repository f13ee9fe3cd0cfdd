"""What a run is counted by; the names follow the profilers of such machines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import prod

import numpy as np

from ..ir.machine import Machine
from ..ir.program import Program
from ..ir.timing import matrix_shape
from .clock import Timeline
from .tasks import Prepared
from .templates import Template

_UNITS = {"matrix": "mme", "vector": "vme", "copy": "mte", "broadcast": "mte", "dma": "sysdma", "host": "host"}
"""Counter names of the units, by the first class of an engine."""

Intervals = tuple[np.ndarray, np.ndarray]
"""Begins and ends of disjoint half-open intervals."""


def busy_cycles(program: Program, intervals: Sequence[Intervals]) -> dict[str, int]:
    """Cycles in which engines held an instruction, by engine, summed over its instances."""
    busy = dict.fromkeys((queue.engine for queue in program.queues), 0)
    for queue, (begin, end) in zip(program.queues, intervals, strict=True):
        busy[queue.engine] += int((end - begin).sum())
    return busy


def count(
    program: Program, machine: Machine, prepared: Prepared, timeline: Timeline, intervals: Sequence[Intervals]
) -> dict[str, int]:
    """All counters, summed over the queues of one cluster; ``intervals`` are :func:`engine_intervals`."""
    used = Counter(template for stream in prepared.templates for template in stream)
    counters: dict[str, int] = {"macs": 0, "vector_elements": 0}
    counters |= {f"{unit}_{what}": 0 for unit in dict.fromkeys(_UNITS.values()) for what in ("cycle", "inst")}
    counters |= {"mte_byte": 0, "sysdma_byte": 0, "host_byte": 0, "syn_inst": 0}
    counters |= {f"{link.name}_byte": 0 for link in machine.links}
    for template, times in used.items():
        for name, value in _counts(machine, template):
            counters[name] += value * times
    for queue, (begin, end) in zip(program.queues, intervals, strict=True):
        counters[f"{_unit(machine, queue.engine)}_cycle"] += int((end - begin).sum())
    counters["syn_wait_cycle"] = _wait_cycles(prepared, timeline)
    for memory, cycles in zip(machine.memories, timeline.conflict, strict=True):
        counters[f"{memory.name.lower()}_conflict_cycle"] = round(cycles)
    for one, other in (("vme", "mme"), ("mte", "mme"), ("mte", "vme")):
        counters[f"pal_{one}_{other}_cycle"] = sum(
            _both(_of(program, machine, intervals, one, core), _of(program, machine, intervals, other, core))
            for core in range(machine.cores)
        )
    return counters


def engine_intervals(prepared: Prepared, timeline: Timeline) -> list[Intervals]:
    """For each queue, when its engine held an instruction that was no wait and came to its end."""
    intervals: list[Intervals] = []
    for tasks, start, end in zip(prepared.tasks, timeline.start, timeline.end, strict=True):
        held = [(s, e) for task, s, e in zip(tasks, start, end, strict=True) if task.waits is None and e >= 0]
        both = np.array(held, np.int64).reshape(-1, 2)
        intervals.append((both[:, 0], both[:, 1]))
    return intervals


def _counts(machine: Machine, template: Template) -> Iterable[tuple[str, int]]:
    row, cost = template.row, template.cost
    if row.kind == "sync":
        yield "syn_inst", 1
        return
    unit = _UNITS[row.kind]
    yield f"{unit}_inst", 1
    if cost.payload:
        yield f"{unit}_byte", cost.payload
    if row.kind == "matrix":
        yield "macs", prod(matrix_shape(template.instruction))
    if row.kind == "vector":
        yield "vector_elements", prod(int(v) for v in template.instruction.values[:3])
    for number, crossed in cost.links:
        yield f"{machine.links[number].name}_byte", crossed


def _wait_cycles(prepared: Prepared, timeline: Timeline) -> int:
    return sum(
        end - start
        for tasks, starts, ends in zip(prepared.tasks, timeline.start, timeline.end, strict=True)
        for task, start, end in zip(tasks, starts, ends, strict=True)
        if task.waits is not None and end >= 0
    )


def _unit(machine: Machine, engine: str) -> str:
    return _UNITS[machine.engine[engine].classes[0]]


def _of(program: Program, machine: Machine, intervals: Sequence[Intervals], unit: str, core: int) -> list[Intervals]:
    """The intervals of all queues of one unit of one core."""
    return [
        times
        for queue, times in zip(program.queues, intervals, strict=True)
        if queue.core == core and _unit(machine, queue.engine) == unit
    ]


def _both(one: list[Intervals], other: list[Intervals]) -> int:
    """Cycles in which some interval of each side runs."""
    times: list[np.ndarray] = []
    steps: list[np.ndarray] = []
    for side, group in enumerate((one, other)):
        for begin, end in group:
            for moment, change in ((begin, 1), (end, -1)):
                times.append(moment)
                step = np.zeros((len(moment), 2), np.int64)
                step[:, side] = change
                steps.append(step)
    if not one or not other:
        return 0
    moments = np.concatenate(times)
    order = np.argsort(moments, kind="stable")
    moments = moments[order]
    running = np.cumsum(np.concatenate(steps)[order], axis=0)
    together = (running[:-1, 0] > 0) & (running[:-1, 1] > 0)
    return int((np.diff(moments) * together).sum())
