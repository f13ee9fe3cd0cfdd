"""Why queues did not reach their ends."""

from __future__ import annotations

from ...ir.program import Program
from ..tasks.sync import NEVER, Wait, lack
from ..tasks.tasks import Task
from ..tasks.violations import Violations
from .clock import Timeline

Pending = tuple[int, Wait]
"""The instruction at which a queue is stuck, and the first of its waits that nothing satisfied."""


def report_deadlocks(program: Program, tasks: list[list[Task]], timeline: Timeline, found: Violations) -> None:
    """One violation for each cycle of waits, and for each wait that nothing can satisfy.

    Queues that only wait for stuck ones are not reported.
    """
    done = [end.index(-1) if -1 in end else len(end) for end in timeline.end]
    waiting = {queue: (done[queue], _open(tasks[queue][done[queue]], done)) for queue in timeline.stuck}
    reported: set[int] = set()
    for queue, (index, (target, count)) in waiting.items():
        if count == NEVER:
            found.add("deadlock", queue, index, 0, lack(program, program.streams[queue][index]))
        elif target >= len(tasks):
            found.add("deadlock", queue, index, 0, f"waits for queue {target}; there are {len(tasks)}")
        elif count > len(tasks[target]):
            message = f"waits for {count} instructions of queue {target}, which has {len(tasks[target])}"
            found.add("deadlock", queue, index, 0, message)
        elif queue not in reported:
            cycle = _cycle(queue, waiting)
            if queue in cycle:
                reported |= set(cycle)
                steps = [_step(program, q, *waiting[q]) for q in cycle]
                found.add("deadlock", queue, index, 0, "; ".join(steps))


def _step(program: Program, queue: int, index: int, wait: Wait) -> str:
    target, count = wait
    instruction = program.streams[queue][index]
    name, op = program.queues[queue], instruction.op
    what = f"{instruction.mnemonic} of {program.ops[op].name}" if op < len(program.ops) else instruction.mnemonic
    return f"queue {queue} ({name}) at instruction {index} waits for {count} of queue {target} ({what})"


def _open(task: Task, done: list[int]) -> Wait:
    """The first wait of a stuck queue that is not satisfied; ``done``: how many instructions of each queue ended."""
    assert task.waits is not None
    return next((q, count) for q, count in task.waits if q >= len(done) or count > done[q])


def _cycle(queue: int, waiting: dict[int, Pending]) -> list[int]:
    """The queues that are met from ``queue`` on, until one repeats or is not stuck itself."""
    path: list[int] = []
    while queue in waiting and queue not in path:
        path.append(queue)
        queue = waiting[queue][1][0]
    return path if queue == path[0] else []
