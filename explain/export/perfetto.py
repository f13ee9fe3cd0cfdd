"""A run as events for Perfetto and for Chrome's trace viewer.

One process for each core, and process 0 for the cluster, with a track for each engine. On a track, the instructions of
one operator lie within a slice of that operator; arrows lead from the last instruction that a wait waits for to the
first one behind the wait; memories have counters. A process has the links, with a slice for each operator while its
transfers are in flight and a counter of bytes a cycle; another, above all, what the plan predicted of each slot. A
microsecond of the viewer is a cycle.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from ...ir.machine import Machine
from ...ir.plan import Plan
from ...ir.program import Program
from ...ir.trace import Trace
from .occupancy import Steps, occupancy
from .spans import Span, lanes, merged
from .timed_instructions import link_transfers

Event = dict[str, Any]

PREDICTION = 100_000
"""The process of what the plan predicted; machines have fewer cores."""
LINKS = 100_001
"""The process of links."""


def chrome_trace(program: Program, machine: Machine, trace: Trace, plan: Plan | None = None) -> dict[str, Any]:
    """The JSON object that such viewers open; with ``plan`` it has the prediction, too."""
    events = [*_names(program), *_slices(program, trace), *_arrows(program, trace)]
    events += _links(program, machine, trace)
    if plan is not None and plan.predictions:
        events += _prediction(plan)
    memories, links = occupancy(program, machine, trace)
    for (memory, core), steps in memories.items():
        events += _counter(_process(core), f"{memory} occupied", "bytes", steps)
    for link, steps in links.items():
        events += _counter(LINKS, f"{link} link", "bytes a cycle", steps)
    return {"traceEvents": events, "displayTimeUnit": "ns"}


def _process(core: int | None) -> int:
    return 0 if core is None else core + 1


def _names(program: Program) -> Iterator[Event]:
    for number, queue in enumerate(program.queues):
        process = _process(queue.core)
        name = "cluster" if queue.core is None else f"core {queue.core}"
        yield {"ph": "M", "pid": process, "name": "process_name", "args": {"name": name}}
        yield {"ph": "M", "pid": process, "name": "process_sort_index", "args": {"sort_index": process}}
        yield {"ph": "M", "pid": process, "tid": number, "name": "thread_name", "args": {"name": queue.engine}}


def _slices(program: Program, trace: Trace) -> Iterator[Event]:
    """Instructions within operators; what took no time at a wait is left out."""
    for number, (queue, stream) in enumerate(zip(program.queues, program.streams, strict=True)):
        track = {"ph": "X", "pid": _process(queue.core), "tid": number}
        starts, ends = trace.start[number].tolist(), trace.end[number].tolist()
        shown = [
            (index, instruction, start, end)
            for index, (instruction, start, end) in enumerate(zip(stream, starts, ends, strict=True))
            if end >= 0 and not (instruction.row.kind == "sync" and start == end)
        ]
        for op, group in groupby(shown, key=lambda row: row[1].op):
            rows = list(group)
            known = program.ops[op] if op < len(program.ops) else None
            name = known.name if known else "?"
            arguments = {"operator": name, "nodes": list(known.origin) if known else []}
            begin, stop = rows[0][2], rows[-1][3]
            yield {**track, "ts": begin, "dur": stop - begin, "cat": "operator", "name": name, "args": arguments}
            for index, instruction, start, end in rows:
                kind = instruction.row.kind
                event = {**track, "ts": start, "dur": end - start, "cat": kind, "name": instruction.mnemonic}
                yield {**event, "args": {**arguments, "index": index}}


def _arrows(program: Program, trace: Trace) -> Iterator[Event]:
    """Both ends of each dependence: an arrow leaves in the last cycle of one slice and meets the start of another."""
    ran = [
        [index for index, instruction in enumerate(stream) if instruction.row.kind != "sync" and ends[index] >= 0]
        for stream, ends in zip(program.streams, (ends.tolist() for ends in trace.end), strict=True)
    ]
    for identity, ((awaited, before), (queue, behind)) in enumerate(_dependences(trace, ran)):
        common = {"cat": "dependence", "name": "dependence", "id": identity}
        leaves = max(int(trace.start[awaited][before]), int(trace.end[awaited][before]) - 1)
        meets = int(trace.start[queue][behind])
        yield {"ph": "s", "pid": _process(program.queues[awaited].core), "tid": awaited, "ts": leaves, **common}
        yield {"ph": "f", "pid": _process(program.queues[queue].core), "tid": queue, "ts": meets, "bp": "e", **common}


def _dependences(trace: Trace, ran: Sequence[Sequence[int]]) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """(queue, index) of the last instruction that each wait waited for, and of the first one behind the wait."""
    for queue, index, awaited, count in trace.waits.tolist():
        before = bisect_left(ran[awaited], count) if awaited < len(ran) else 0
        behind = bisect_right(ran[queue], index)
        if before and behind < len(ran[queue]):
            yield (awaited, ran[awaited][before - 1]), (queue, ran[queue][behind])


def _counter(process: int, name: str, unit: str, steps: Steps) -> Iterator[Event]:
    """One event for each change."""
    before = None
    for number, value in enumerate(steps.values.tolist()):
        if value != before:
            yield {"ph": "C", "pid": process, "ts": number * steps.width, "name": name, "args": {unit: value}}
        before = value
    yield {"ph": "C", "pid": process, "ts": len(steps.values) * steps.width, "name": name, "args": {unit: 0}}


def _process_name(process: int, name: str, sort_index: int) -> Iterator[Event]:
    yield {"ph": "M", "pid": process, "name": "process_name", "args": {"name": name}}
    yield {"ph": "M", "pid": process, "name": "process_sort_index", "args": {"sort_index": sort_index}}


def _thread_name(process: int, thread: int, name: str) -> Iterator[Event]:
    yield {"ph": "M", "pid": process, "tid": thread, "name": "thread_name", "args": {"name": name}}
    yield {"ph": "M", "pid": process, "tid": thread, "name": "thread_sort_index", "args": {"sort_index": thread}}


def _links(program: Program, machine: Machine, trace: Trace) -> Iterator[Event]:
    """On each link, a slice of an operator while transfers for it are in flight; those at once lie in several rows."""
    transfers: list[dict[int, list[Span[int]]]] = [{} for _ in machine.links]
    for t in link_transfers(program, machine, trace):
        transfers[t.link].setdefault(t.op, []).append((t.begin, t.end, t.bytes))
    yield from _process_name(LINKS, "links", 0)
    thread = 0
    for link, by_op in zip(machine.links, transfers, strict=True):
        spans = [(begin, end, (op, counts)) for op in sorted(by_op) for begin, end, counts in merged(by_op[op])]
        rows, first, used = lanes(spans), thread, 0
        for row, (begin, end, (op, counts)) in rows:
            used = max(used, row + 1)
            known = program.ops[op] if op < len(program.ops) else None
            yield {
                "ph": "X",
                "pid": LINKS,
                "tid": first + row,
                "ts": begin,
                "dur": end - begin,
                "cat": "link",
                "name": known.name if known else "?",
                "args": {"bytes": sum(counts), "transfers": len(counts)},
            }
        for row in range(used):
            yield from _thread_name(LINKS, first + row, f"{link.name} {row + 1}" if row else link.name)
        thread += max(1, used)


def _prediction(plan: Plan) -> Iterator[Event]:
    """A slice for each slot, when the plan expected it to compute on the busiest core."""
    yield from _process_name(PREDICTION, "predicted", -1)
    used = 0
    for row, (begin, end, (step, op)) in lanes([(p.start, p.stop, (p.step, p.op)) for p in plan.predictions]):
        used = max(used, row + 1)
        where = {"segment": plan.steps[step].segment, "instance": plan.steps[step].instance, "step": step}
        track = {"ph": "X", "pid": PREDICTION, "tid": row, "cat": "prediction"}
        yield {**track, "ts": begin, "dur": end - begin, "name": op, "args": where}
    for row in range(used):
        yield from _thread_name(PREDICTION, row, f"slots {row + 1}" if row else "slots")
