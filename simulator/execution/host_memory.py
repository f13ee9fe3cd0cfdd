"""How much memory of the host a run takes, and whether there is as much: asked before it starts, not when it dies."""

from __future__ import annotations

import os
from math import prod
from pathlib import Path

from ...ir.errors import UsageError
from ...ir.graph import DTYPES
from ...ir.isa.footprint import WINDOW, taps
from ...ir.isa.timing import matrix_shape, vector_shape
from ...ir.machine import Machine
from ...ir.program import Program
from ..tasks.places import Place, home_numbers
from ..tasks.tasks import Prepared, operand_cores
from ..tasks.templates import InstructionTemplate

_INSTRUCTION, _ACCESSES = 300, 700
"""Bytes that an instruction takes in lists of times and order, and what the sanitizer keeps of it; measured."""


def check_host_memory(program: Program, machine: Machine, prepared: Prepared, *, sanitize: bool) -> None:
    """Raises :class:`UsageError` where a run on data needs more memory than is free."""
    need, free = needed(program, machine, prepared, sanitize=sanitize), available()
    if free is None or need <= free:
        return
    ways = ["--no-sanitize"] if sanitize else []
    raise UsageError(
        f"the run needs about {need / 1e9:.2f} GB of memory for the data of {program.replicas} clusters, and "
        f"{free / 1e9:.2f} GB are free; {' or '.join(['compile for a smaller batch', *ways])}, or free some memory"
    )


def needed(program: Program, machine: Machine, prepared: Prepared, *, sanitize: bool) -> int:
    """About how many bytes: pages that nothing touches take none, and constants are the caller's."""
    constants = sum(DTYPES[c.dtype] * prod(c.shape) for c in program.constants)
    _, home = home_numbers(machine)
    touched = {p: max(0, size - constants) if p[0] == home else size for p, size in prepared.used.items()}
    total = sum(touched.values()) * program.replicas + program.instructions * _INSTRUCTION
    templates_by_queue = [{id(t): t for t in templates if not t.problems}.values() for templates in prepared.templates]
    total += program.replicas * max((_temporary(t) for templates in templates_by_queue for t in templates), default=0)
    if sanitize:
        granule = min(
            (o.itemsize for templates in templates_by_queue for t in templates for o in t.operands), default=1
        )
        seen: set[tuple[Place, int, bool]] = set()
        for number, (queue, templates) in enumerate(zip(program.queues, templates_by_queue, strict=True)):
            for template in templates:
                for at in template.operands:
                    cores = operand_cores(machine, queue, template.instruction, at)
                    seen |= {((at.memory, core), number, at.writes) for core in cores}
        # A byte of the mask for each byte, and a number for each granule and each queue that reads or writes there.
        total += sum(touched.values()) + sum(4 * touched[place] // granule for place, _, _ in seen)
        total += program.instructions * _ACCESSES
    return total


def _temporary(template: InstructionTemplate) -> int:
    """Bytes of the wide copies that an instruction is computed with, for one replica."""
    row, values = template.row, template.instruction.values
    map_ = 0
    for operand, at in zip(row.operands, template.operands, strict=False):
        if operand.window:
            visited = (taps(*(int(values[row.position[n]]) for n in names)).length for names in WINDOW)
            map_ = prod((*visited, *at.extents[2:]))
    if row.kind == "matrix":
        m, n, k = matrix_shape(template.instruction)
        return 8 * (map_ + m * k + k * n + m * n)
    if row.kind == "vector":
        return 8 * (map_ + 3 * prod(vector_shape(template.instruction)))
    return 0


def available() -> int | None:
    """Bytes that a process may still take, as far as the system and its container say; ``None`` where they do not."""
    limits: list[int] = []
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            limits.append(int(line.split()[1]) * 1024)
    if not limits and hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for limit, usage in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        most, used = "".join(_lines(limit)), "".join(_lines(usage))
        if most.isdigit() and used.isdigit():
            limits.append(max(0, int(most) - int(used)))
    return min(limits, default=None)


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().split("\n")
    except OSError:
        return []
