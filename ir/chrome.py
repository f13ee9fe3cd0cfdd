"""A trace as events for Chrome's trace viewer and for Perfetto."""

from __future__ import annotations

from typing import Any

from .program import Program
from .trace import Trace


def chrome_trace(program: Program, trace: Trace) -> dict[str, Any]:
    """One process a core (0: the cluster's own engines), one track a queue; a microsecond of the viewer is a cycle."""
    events: list[dict[str, Any]] = []
    for number, (queue, stream) in enumerate(zip(program.queues, program.streams, strict=True)):
        process = 0 if queue.core is None else queue.core + 1
        track = {"pid": process, "tid": number, "ph": "M"}
        name = "cluster" if queue.core is None else f"core {queue.core}"
        events.append({**track, "name": "process_name", "args": {"name": name}})
        events.append({**track, "name": "thread_name", "args": {"name": queue.engine}})
        starts, ends = trace.start[number].tolist(), trace.end[number].tolist()
        for instruction, start, end in zip(stream, starts, ends, strict=True):
            if end < start or start < 0 or (instruction.row.kind == "sync" and start == end):
                continue
            op = program.ops[instruction.op].name if instruction.op < len(program.ops) else "?"
            events.append(
                {"pid": process, "tid": number, "ph": "X", "ts": start, "dur": end - start, "cat": op,
                 "name": f"{instruction.mnemonic} {op}"}
            )  # fmt: skip
    return {"traceEvents": events, "displayTimeUnit": "ns"}
