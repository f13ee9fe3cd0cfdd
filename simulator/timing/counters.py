"""What a run is counted by, for each core and for the cluster; :mod:`girih.ir.counters` says what the names mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from ...ir.counters import UNITS, Counters
from ...ir.isa.timing import matrix_shape, vector_shape
from ...ir.machine import Machine
from ...ir.program import Program
from ..tasks.places import Banks
from ..tasks.tasks import Prepared
from ..tasks.templates import InstructionTemplate
from .clock import RunTimeline

_CLUSTER = -1
_OF_CORES = ("vme", "mme", "mte")
_OF_CLUSTERS = ("sysdma", "host", "scalar")
_PAIRS = (("vme", "mme"), ("mte", "mme"), ("vme", "mte"))

Spans = tuple[np.ndarray, np.ndarray]
"""Begins and ends of disjoint half-open intervals, in cycles."""


@dataclass(frozen=True)
class Ended:
    """The instructions of one queue that came to their ends, as columns. ``owner``: a core, or :data:`_CLUSTER`.

    ``template``: the number of each one's template; ``span``: when it held its engine, or waited if it is one of the
    ``waits``.
    """

    owner: int
    unit: str
    template: np.ndarray
    span: Spans
    waits: np.ndarray

    def spans(self, waits: bool) -> Spans:
        chosen = self.waits == waits
        return self.span[0][chosen], self.span[1][chosen]

    def cycles(self, waits: bool) -> int:
        begin, end = self.spans(waits)
        return int((end - begin).sum())


def what_ended(
    program: Program, machine: Machine, prepared: Prepared, timeline: RunTimeline
) -> tuple[list[InstructionTemplate], list[Ended]]:
    """All templates of a program, and what ended in each queue."""
    templates = list({id(t): t for stream in prepared.templates for t in stream}.values())
    number = {id(template): n for n, template in enumerate(templates)}
    sync = np.array([template.row.kind == "sync" for template in templates], bool)
    queues: list[Ended] = []
    for queue, queue_templates, start, end in zip(
        program.queues, prepared.templates, timeline.start, timeline.end, strict=True
    ):
        stop = np.array(end, np.int64)
        done = stop >= 0
        used = np.fromiter((number[id(template)] for template in queue_templates), np.int64, len(queue_templates))[done]
        unit = UNITS[machine.engine[queue.engine].classes[0]]
        owner = _CLUSTER if queue.core is None else queue.core
        queues.append(Ended(owner, unit, used, (np.array(start, np.int64)[done], stop[done]), sync[used]))
    return templates, queues


def busy_cycles(program: Program, queues: Sequence[Ended]) -> dict[str, int]:
    """Cycles in which engines held an instruction, by engine, summed over its instances."""
    busy = dict.fromkeys((queue.engine for queue in program.queues), 0)
    for queue, ended in zip(program.queues, queues, strict=True):
        busy[queue.engine] += ended.cycles(waits=False)
    return busy


def count(
    machine: Machine,
    banks: Banks,
    timeline: RunTimeline,
    templates: Sequence[InstructionTemplate],
    queues: Sequence[Ended],
) -> Counters:
    """All counters; every core has the same names."""
    rows: dict[int, dict[str, int]] = {}
    for owner in (*range(machine.cores), _CLUSTER):
        owner_queues = [queue for queue in queues if queue.owner == owner]
        total = {} if owner == _CLUSTER else {"mcu_total_cycle": timeline.cycles}
        units = _times(owner_queues, _OF_CLUSTERS if owner == _CLUSTER else _OF_CORES)
        rows[owner] = (
            total | units | _work(machine, templates, owner_queues, owner) | _conflicts(banks, timeline, owner)
        )
    cores = [rows[core] for core in range(machine.cores)]
    names = list(dict.fromkeys(name for row in cores for name in row))
    return Counters(tuple({name: row.get(name, 0) for name in names} for row in cores), rows[_CLUSTER])


def _times(queues: Sequence[Ended], units: Sequence[str]) -> dict[str, int]:
    """What the units of a core, or of the cluster, did when, alone and side by side."""
    row: dict[str, int] = {}
    queues_of = {unit: [queue for queue in queues if queue.unit == unit] for unit in units}
    groups = [[queue.spans(waits=False) for queue in queues_of[unit]] for unit in units]
    cycles, running = _side_by_side([*groups, [queue.spans(waits=True) for queue in queues]])
    during = dict(zip(units, running, strict=False))
    for unit in units:
        row[f"{unit}_total_cycle"] = int(cycles[during[unit]].sum())
        row[f"{unit}_inst"] = sum(int((~queue.waits).sum()) for queue in queues_of[unit])
        row[f"{unit}_slot_wait"] = sum(queue.cycles(waits=True) for queue in queues_of[unit])
    row["syn_total_cycle"] = int(cycles[running[-1]].sum())
    row["syn_inst"] = sum(int(queue.waits.sum()) for queue in queues)
    row["syn_wait"] = sum(queue.cycles(waits=True) for queue in queues)
    pairs = [(first, second) for first, second in _PAIRS if first in during and second in during]
    for first, second in pairs:
        row[f"pal_{first}_{second}_cycle"] = int(cycles[during[first] & during[second]].sum())
    if pairs:
        row["pal_total_cycle"] = int(cycles[running[:-1].sum(0) > 1].sum())
    return row


def _side_by_side(groups: Sequence[Sequence[Spans]]) -> tuple[np.ndarray, np.ndarray]:
    """(cycles, running): the time cut into pieces, ``cycles`` long; ``running[g]``: in which of them group g runs."""
    times = [moment for group in groups for span in group for moment in span]
    moments = np.unique(np.concatenate([np.zeros(1, np.int64), *times]))
    running = np.zeros((len(groups), len(moments)), np.int64)
    for level, group in zip(running, groups, strict=True):
        for begin, end in group:
            np.add.at(level, np.searchsorted(moments, begin), 1)
            np.add.at(level, np.searchsorted(moments, end), -1)
    return np.diff(moments), np.cumsum(running, axis=1)[:, :-1] > 0


def _work(
    machine: Machine, templates: Sequence[InstructionTemplate], queues: Sequence[Ended], owner: int
) -> dict[str, int]:
    """What was moved and computed; what the engines of the machine could have done besides is 0."""
    row: Counter[str] = Counter(dict.fromkeys(_possible(machine, "cluster" if owner == _CLUSTER else "core"), 0))
    for queue in queues:
        begin, end = queue.span
        often = np.bincount(queue.template, minlength=len(templates))
        cycles = np.bincount(queue.template, end - begin, len(templates))
        for number in np.flatnonzero(often).tolist():
            template = templates[number]
            for name, value in _each(machine, template):
                row[name] += value * int(often[number])
            if path := _path_of(machine, template):
                row[f"{path}_cycle"] += int(cycles[number])
    return dict(row)


def _possible(machine: Machine, scope: str) -> Iterator[str]:
    """The names of what engines of this scope can do."""
    for engine in machine.engines:
        for kind in engine.classes if engine.scope == scope else ():
            if kind == "matrix":
                yield "macs"
            if kind == "vector":
                yield "vector_elements"
            if kind in ("host", "scalar"):
                yield f"{kind}_byte"
            if kind in ("copy", "broadcast", "dma"):
                for source, target in product(engine.reads, engine.writes):
                    yield f"{_path(machine, kind, source, target)}_byte"
                    yield f"{_path(machine, kind, source, target)}_cycle"
    yield from (f"{link.name}_link_byte" for link in machine.links)


def _each(machine: Machine, template: InstructionTemplate) -> Iterator[tuple[str, int]]:
    """What one instruction adds to counters, besides its cycles."""
    row, cost = template.row, template.cost
    if path := _path_of(machine, template):
        yield f"{path}_byte", cost.payload
    if row.latency == "kernel":
        yield f"{row.kind}_byte", cost.payload
    if row.kind == "matrix":
        yield "macs", prod(matrix_shape(template.instruction))
    if row.kind == "vector":
        yield "vector_elements", prod(vector_shape(template.instruction))
    for number, crossed in cost.links:
        yield f"{machine.links[number].name}_link_byte", crossed


def _path_of(machine: Machine, template: InstructionTemplate) -> str | None:
    """The way that a transfer takes; ``None`` for what is no transfer."""
    if template.row.kind not in ("copy", "broadcast", "dma") or not template.operands:
        return None
    target, *sources = (machine.memories[operand.memory].name for operand in template.operands)
    return _path(machine, template.row.kind, sources[0] if sources else "", target)


def _path(machine: Machine, kind: str, source: str, target: str) -> str:
    """The name of the way between two memories; ``source`` is empty for a fill."""
    main = machine.levels.home.name
    if kind == "broadcast":
        return f"{UNITS[kind]}_pld"
    if kind == "dma" and (source in machine.levels.homes or target == main):
        return f"{UNITS[kind]}_{'c1' if target == main else 'c0'}"
    return f"{UNITS[kind]}_{source.lower()}2{target.lower()}"


def _conflicts(banks: Banks, timeline: RunTimeline, owner: int) -> dict[str, int]:
    """Cycles lost to the banks of each memory of a core, or of the cluster."""
    lost: dict[str, float] = {}
    for (memory, core), first in banks.first.items():
        if core == owner:
            kind = banks.machine.memories[memory]
            lost[f"{kind.name.lower()}_conflict"] = sum(timeline.conflict[first : first + kind.banks])
    return {name: round(cycles) for name, cycles in lost.items()}
