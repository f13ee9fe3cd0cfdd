"""The instructions of a program before they have an order: what each takes, and what it comes after."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from ..errors import CheckError
from ..isa.timing import Cost
from ..plan import QueueOrder


@dataclass(frozen=True)
class TaskGraph:
    """Tasks are instructions, numbered in the order of emission, which is right if they ran one after the other.

    Of each task: ``queue``, an index into ``queues``, its ``cost``, the tasks ``after`` which it comes, all of them
    with smaller numbers, and the ``slot`` of the plan that it belongs to. ``computes``: whether a queue has tiles or
    kernels, and not copies. ``link_rates``: bytes a cycle of each link, by the index that costs name.
    """

    queues: tuple[str, ...]
    computes: tuple[bool, ...]
    link_rates: tuple[float, ...]
    queue: tuple[int, ...]
    cost: tuple[Cost, ...]
    after: tuple[tuple[int, ...], ...]
    slot: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.queue)


def queue_orders(queues: Sequence[str], queue: Sequence[int], order: Iterable[int]) -> tuple[QueueOrder, ...]:
    """What a plan says of tasks in this ``order``; ``queue``: that of each, by index; see :func:`sequence`."""
    place = _places(queue)
    issued: dict[int, list[int]] = {}
    for task in order:
        issued.setdefault(queue[task], []).append(place[task])
    orders: list[QueueOrder] = []
    for number, places in sorted(issued.items()):
        if places != sorted(places):
            runs: list[tuple[int, int]] = []
            for _, run in groupby(enumerate(places), key=lambda pair: pair[1] - pair[0]):
                members = list(run)
                runs.append((members[0][1], len(members)))
            orders.append(QueueOrder(queues[number], tuple(runs)))
    return tuple(orders)


def sequence(
    queues: Sequence[str], queue: Sequence[int], after: Sequence[Sequence[int]], orders: Sequence[QueueOrder]
) -> Sequence[int]:
    """The tasks in an order in which each comes after those before it in its queue, and after those of ``after``.

    Raises :class:`CheckError` if the orders of the plan are of other instructions, or wait for each other.
    """
    if not orders:
        return range(len(queue))
    tasks: list[list[int]] = [[] for _ in queues]
    for task, number in enumerate(queue):
        tasks[number].append(task)
    by_name: Mapping[str, int] = {name: number for number, name in enumerate(queues)}
    for order in orders:
        queue_tasks = tasks[by_name[order.queue]]
        places = order.places
        if len(places) != len(queue_tasks):
            raise CheckError(
                f"invalid plan: its order of {order.queue} is one of {len(places):,} instructions, and the operators "
                f"give it {len(queue_tasks):,}"
            )
        tasks[by_name[order.queue]] = [queue_tasks[place] for place in places]
    return _merged(queues, queue, after, tasks)


def _merged(
    queues: Sequence[str], queue: Sequence[int], after: Sequence[Sequence[int]], tasks: Sequence[Sequence[int]]
) -> list[int]:
    """All queues as one sequence."""
    waiting: list[list[int]] = [[] for _ in queue]
    missing = [len(set(earlier)) for earlier in after]
    for task, earlier in enumerate(after):
        for other in set(earlier):
            waiting[other].append(task)
    head = [0] * len(queues)
    merged: list[int] = []
    able = list(range(len(queues)))[::-1]
    while able:
        number = able.pop()
        queue_tasks = tasks[number]
        while head[number] < len(queue_tasks) and not missing[queue_tasks[head[number]]]:
            task = queue_tasks[head[number]]
            head[number] += 1
            merged.append(task)
            for later in waiting[task]:
                missing[later] -= 1
                if not missing[later]:
                    other = queue[later]
                    if other != number and tasks[other][head[other]] == later:
                        able.append(other)
    if len(merged) < len(queue):
        stuck = [f"{queues[n]} at instruction {head[n]:,}" for n in range(len(queues)) if head[n] < len(tasks[n])]
        raise CheckError(f"invalid plan: in its order the queues wait for each other: {', '.join(stuck)}")
    return merged


def _places(queue: Sequence[int]) -> list[int]:
    """Of each task, how many of its queue were emitted before it."""
    emitted: dict[int, int] = {}
    places: list[int] = []
    for number in queue:
        places.append(emitted.get(number, 0))
        emitted[number] = places[-1] + 1
    return places
