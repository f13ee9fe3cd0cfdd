"""The memory maps: which buffer is at which address when, how full each memory is, and how busy its banks are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ....ir.graph import Graph
from ....ir.machine import Memory
from ....ir.plan import LocalBuffer, Plan, SharedBuffer
from ...compilation import Compilation
from ...memory_use import Peak, name_of, plan_peak
from ...report import Report
from ...run.bank_load import bank_load
from ...run.covered_bytes import covered_bytes
from ...run.home_lives import home_lives
from ...run.local_lives import local_lives
from ...run.shared_lives import SharedLives, shared_lives
from ...run.slot_spans import simulated_spans
from ..view import View

ROLES = ("activation", "constant", "input or output", "scratch")
"""What a buffer holds; the page has a colour and a filter for each."""
BINS = 600
"""Parts of the run for each of which the load of a bank is one number."""

_CAPTION = (
    "Each rectangle is a buffer: its addresses upwards, and the cycles of the simulated run from the first access to "
    "its contents to the last. The curve above it is how many bytes are in use. The rows below are the banks: "
    "the darker, the more of what a bank can serve was used; red where instructions asked for more, and so met in a "
    "bank conflict. Press a buffer to select its tensor."
)


def memory_view(report: Report, compilation: Compilation) -> View:
    """A map of each memory."""
    graph, plan, program, machine = compilation.graph, compilation.plan, compilation.program, compilation.machine
    run = compilation.execution
    names: dict[str, int] = {}
    spans = simulated_spans(plan, program, run)
    slot_cycles = {int(s): (int(a), int(b)) for s, a, b in zip(spans.slot, spans.start, spans.stop, strict=True)}
    memories: list[dict[str, object]] = []
    for number, memory in enumerate(machine.memories):
        cores: list[int | None] = list(range(machine.cores)) if memory.scope == "core" else [None]
        if memory.scope == "core":
            local = local_lives(plan, machine, run.columns, run.slots, run.accesses, number)
            buffers: Sequence[LocalBuffer | SharedBuffer] = local.buffers
            peak = plan_peak(plan, local.buffers)
            size = np.array([b.bytes // b.depth for b in local.buffers] or [0], np.int64)[local.buffer]
            address = np.array([b.address for b in local.buffers] or [0], np.int64)[local.buffer] + local.version * size
            rows = {"buffer": local.buffer, "version": local.version, "core": local.core, "step": local.step}
            begin, end, more = local.begin, local.end, dict[str, object]()
        else:
            if memory.name in machine.levels.homes:
                lives = home_lives(graph, plan, program, machine, run.columns, compilation.trace.cycles, memory.name)
                more = {}
            else:
                lives = shared_lives(graph, plan, program, machine, run.columns, run.slots, run.accesses)
                more = _transfers(lives)
            buffers, peak = lives.buffers, plan_peak(plan, lives.buffers)
            seen = np.flatnonzero(lives.begin >= 0)
            begin, end = lives.begin[seen], lives.end[seen]
            size = np.array([b.bytes for b in lives.buffers] or [0], np.int64)[seen]
            address = np.array([b.address for b in lives.buffers] or [0], np.int64)[seen]
            rows = {"buffer": seen, "version": seen * 0, "core": seen * 0, "step": seen * 0}
        levels = [
            covered_bytes(*(c[rows["core"] == (core or 0)] for c in (begin, end, address, size))) for core in cores
        ]
        loads = [
            bank_load(machine, run.columns, run.accesses, number, core, compilation.trace.cycles, BINS)
            for core in cores
        ]
        memories.append(
            {
                **_described(memory, compilation),
                "peak": _peak(peak, memory, slot_cycles),
                "at": _place(peak, compilation),
                "buffers": _buffers(buffers, graph, names),
                "lives": {
                    **{key: _delta(column) for key, column in rows.items()},
                    "begin": _delta(begin),
                    "length": end - begin,
                },
                "levels": [{"time": _delta(time), "bytes": _delta(level)} for time, level in levels],
                "used": _shares(load.used for load in loads),
                "overloaded": _shares(load.overloaded for load in loads),
                **more,
            }
        )
    data = {
        "cycles": compilation.trace.cycles,
        "bins": BINS,
        "cores": machine.cores,
        "roles": list(ROLES),
        "names": list(names),
        "operators": _touched(graph, plan, names),
        "memories": memories,
    }
    return View("memory", "Memory maps", _CAPTION, data)


def _described(memory: Memory, compilation: Compilation) -> dict[str, object]:
    counter = f"{memory.name.lower()}_conflict"
    counters = compilation.trace.summary.counters
    places = counters.cores if memory.scope == "core" else (counters.cluster,)
    return {
        "name": memory.name,
        "role": compilation.machine.use_of(memory.name),
        "scope": memory.scope,
        "capacity": memory.capacity,
        "banks": memory.banks,
        "interleave": memory.interleave,
        "served": memory.bytes_per_cycle,
        "conflicts": [place.get(counter, 0) for place in places],
    }


def _peak(peak: Peak, memory: Memory, slot_cycles: Mapping[int, tuple[int, int]]) -> dict[str, object]:
    return {
        "bytes": peak.bytes,
        "share": peak.bytes / memory.capacity,
        "slot": peak.slot,
        "cycles": list(slot_cycles.get(peak.slot, ())),
        "buffers": list(peak.buffers),
    }


def _place(peak: Peak, compilation: Compilation) -> dict[str, object] | None:
    if peak.slot < 0:
        return None
    step, op = compilation.plan.slots[peak.slot]
    return {"operator": op, "step": step, "segment": compilation.plan.steps[step].segment}


def _buffers(buffers: Sequence[LocalBuffer | SharedBuffer], graph: Graph, names: dict[str, int]) -> dict[str, object]:
    """Columns of the plan's buffers; names are numbered by ``names``."""
    tensors = [name_of(b) for b in buffers]
    return {
        "name": np.array([names.setdefault(name, len(names)) for name in tensors], np.int64),
        "role": np.array([ROLES.index(_role(name, graph)) for name in tensors], np.uint8),
        "address": np.array([b.address for b in buffers], np.int64),
        "bytes": np.array([b.bytes for b in buffers], np.int64),
        "first": np.array([b.live[0] for b in buffers], np.int64),
        "last": np.array([b.live[1] for b in buffers], np.int64),
        "depth": np.array([b.depth if isinstance(b, LocalBuffer) else 1 for b in buffers], np.int64),
        "segment": np.array([b.segment if isinstance(b, LocalBuffer) else -1 for b in buffers], np.int64),
        "ring": np.array(
            [isinstance(b, SharedBuffer) and b.ring_position + b.ring_lead > 0 for b in buffers], np.uint8
        ),
        "use": [b.use if isinstance(b, LocalBuffer) else "" for b in buffers],
    }


def _role(name: str, graph: Graph) -> str:
    if name in graph.constant_names:
        return "constant"
    if name in graph.input_tensors or name in graph.output_tensors:
        return "input or output"
    return "activation" if name in graph.tensor else "scratch"


def _transfers(lives: SharedLives) -> dict[str, object]:
    """When buffers were fetched from main memory and stored there."""
    moves: dict[str, object] = {}
    for name, begin, end in (
        ("fetches", lives.fetch_begin, lives.fetch_end),
        ("stores", lives.store_begin, lives.store_end),
    ):
        moved = np.flatnonzero(begin >= 0)
        moves[name] = {"buffer": moved, "begin": begin[moved], "length": (end - begin)[moved]}
    return moves


def _touched(graph: Graph, plan: Plan, names: Mapping[str, int]) -> dict[str, list[int]]:
    """For each operator, the numbers of the names that it reads or writes, private buffers included."""
    touched = {op.name: dict.fromkeys((*op.inputs, *op.outputs)) for op in graph.ops}
    for buffer in plan.local:
        if buffer.op in touched:
            touched[buffer.op][buffer.name] = None
    return {op: [names[name] for name in tensors if name in names] for op, tensors in touched.items()}


def _shares(parts: Iterable[np.ndarray]) -> np.ndarray:
    """Shares as whole numbers up to 200, of which none but 0 stands for nothing."""
    return np.clip(np.ceil(np.array(list(parts)) * 200 - 1e-6), 0, 255).astype(np.uint8)


def _delta(values: np.ndarray) -> np.ndarray:
    return np.diff(values, prepend=0)
