"""Why queues did not reach their ends."""

from __future__ import annotations

import networkx as nx

from ...ir.program import Program
from ..tasks.sync import NEVER, Wait, lack
from ..tasks.tasks import Task
from ..tasks.violations import Violations
from .clock import RunTimeline

Pending = tuple[int, Wait]
"""The instruction at which a queue is stuck, and the first of its waits that nothing satisfied."""


def report_deadlocks(program: Program, tasks: list[list[Task]], timeline: RunTimeline, violations: Violations) -> None:
    """One violation for each cycle of waits, and for each wait that nothing can satisfy.

    Queues that only wait for stuck ones are not reported.
    """
    done = [end.index(-1) if -1 in end else len(end) for end in timeline.end]
    waiting = {queue: (done[queue], _open(tasks[queue][done[queue]], done)) for queue in timeline.stuck}
    cycles = _cycles(waiting)
    reported: set[int] = set()
    for queue, (index, (target, count)) in waiting.items():
        if count == NEVER:
            violations.add("deadlock", queue, index, 0, lack(program, program.streams[queue][index]))
        elif target >= len(tasks):
            violations.add("deadlock", queue, index, 0, f"waits for queue {target}; there are {len(tasks)}")
        elif count > len(tasks[target]):
            message = f"waits for {count} instructions of queue {target}, which has {len(tasks[target])}"
            violations.add("deadlock", queue, index, 0, message)
        elif queue in cycles and queue not in reported:
            reported |= set(cycles[queue])
            steps = [_step(program, q, *waiting[q]) for q in cycles[queue]]
            violations.add("deadlock", queue, index, 0, "; ".join(steps))


def _step(program: Program, queue: int, index: int, wait: Wait) -> str:
    target, count = wait
    instruction = program.streams[queue][index]
    name, op = program.queues[queue], instruction.op
    awaited = f"{instruction.mnemonic} of {program.ops[op].name}" if op < len(program.ops) else instruction.mnemonic
    return f"queue {queue} ({name}) at instruction {index} waits for {count} of queue {target} ({awaited})"


def _open(task: Task, done: list[int]) -> Wait:
    """The first wait of a stuck queue that is not satisfied; ``done``: how many instructions of each queue ended."""
    assert task.waits is not None
    return next((q, count) for q, count in task.waits if q >= len(done) or count > done[q])


def _cycles(waiting: dict[int, Pending]) -> dict[int, list[int]]:
    """For each queue on a cycle of waits, the queues of that cycle from itself on; each waits for the next one."""
    waits = nx.DiGraph((queue, target) for queue, (_, (target, _)) in waiting.items())
    cycles = list(nx.simple_cycles(waits))
    return {queue: cycle[at:] + cycle[:at] for cycle in cycles for at, queue in enumerate(cycle)}
