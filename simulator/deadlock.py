"""Why queues did not reach their ends."""

from __future__ import annotations

from ..ir.program import Program
from .clock import Timeline
from .tasks import Task
from .violations import Violations


def report_deadlocks(program: Program, tasks: list[list[Task]], timeline: Timeline, found: Violations) -> None:
    """One violation for each cycle of waits, and for each wait that nothing can satisfy.

    Queues that only wait for stuck ones are not reported.
    """
    waiting = {queue: _pending(queue, tasks, timeline) for queue in timeline.stuck}
    reported: set[int] = set()
    for queue, (index, task) in waiting.items():
        target = task.wait_queue
        assert target is not None
        if target >= len(tasks):
            found.add("deadlock", queue, index, 0, f"waits for queue {target}; there are {len(tasks)}")
        elif task.wait_count > len(tasks[target]):
            message = f"waits for {task.wait_count} instructions of queue {target}, which has {len(tasks[target])}"
            found.add("deadlock", queue, index, 0, message)
        elif queue not in reported:
            cycle = _cycle(queue, waiting)
            if queue in cycle:
                reported |= set(cycle)
                steps = [_step(program, q, *waiting[q]) for q in cycle]
                found.add("deadlock", queue, index, 0, "; ".join(steps))


def _step(program: Program, queue: int, index: int, task: Task) -> str:
    name = program.queues[queue]
    return f"queue {queue} ({name}) at instruction {index} waits for {task.wait_count} of queue {task.wait_queue}"


def _pending(queue: int, tasks: list[list[Task]], timeline: Timeline) -> tuple[int, Task]:
    """The wait at which a queue is stuck."""
    index = timeline.end[queue].index(-1)
    return index, tasks[queue][index]


def _cycle(queue: int, waiting: dict[int, tuple[int, Task]]) -> list[int]:
    """The queues that are met from ``queue`` on, until one repeats or is not stuck itself."""
    path: list[int] = []
    while queue in waiting and queue not in path:
        path.append(queue)
        target = waiting[queue][1].wait_queue
        assert target is not None
        queue = target
    return path if queue == path[0] else []
