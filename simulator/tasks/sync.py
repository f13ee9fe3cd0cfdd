"""What tokens and barriers wait for, as counts of retired instructions.

Posts, takes and barriers are waits in disguise, so that time, deadlocks and races know one kind of order alone:

    take t, for the n-th time      waits for the queue that posts t, up to and with its n-th post
    barrier b, for the n-th time   waits for each queue that meets there, up to its own n-th barrier b
    post t                         waits for nothing; it retires in its turn
"""

from __future__ import annotations

from collections import Counter, defaultdict

from ...ir.isa.table import Instruction
from ...ir.program import Program
from .violations import Violations

Wait = tuple[int, int]
"""Queue, and how many instructions of it must have retired."""

NEVER = 1 << 62
"""A count that no queue reaches."""


def waits_of(instruction: Instruction, resolved: tuple[Wait, ...] | None) -> tuple[Wait, ...]:
    """What a synchronising instruction waits for; ``resolved`` is what :func:`resolve` found for it."""
    if resolved is not None:
        return resolved
    queue, count = instruction.values
    return ((int(queue), int(count)),)


def resolve(program: Program, violations: Violations) -> dict[tuple[int, int], tuple[Wait, ...]]:
    """The waits of each post, take and barrier (queue, index), :data:`NEVER` where nothing can satisfy it.

    Two queues that post one token, or take it, are reported: which of them came first would depend on time.
    """
    places = [
        (queue, index, instruction, int(instruction.values[0]))
        for queue, stream in enumerate(program.streams)
        for index, instruction in enumerate(stream)
        if instruction.mnemonic in ("post", "take", "barrier")
    ]
    posts: dict[int, list[Wait]] = defaultdict(list)
    meetings: dict[tuple[int, int], list[Wait]] = defaultdict(list)
    owners: dict[tuple[str, int], int] = {}
    turns: Counter[tuple[str, int, int]] = Counter()
    for queue, index, instruction, number in places:
        if instruction.mnemonic == "post":
            posts[number].append((queue, index + 1))
        if instruction.mnemonic == "barrier":
            meetings[number, turns["barrier", queue, number]].append((queue, index))
            turns["barrier", queue, number] += 1
        elif owners.setdefault((instruction.mnemonic, number), queue) != queue:
            owner = owners[instruction.mnemonic, number]
            message = f"token {number} is also for queue {owner} to {instruction.mnemonic}; use another token"
            violations.add("operand", queue, index, 0, message)
    waits: dict[tuple[int, int], tuple[Wait, ...]] = {}
    turns.clear()
    for queue, index, instruction, number in places:
        turn = turns[instruction.mnemonic, queue, number]
        turns[instruction.mnemonic, queue, number] += 1
        never = ((queue, NEVER),)
        if instruction.mnemonic == "post":
            waits[queue, index] = ()
        elif instruction.mnemonic == "take":
            waits[queue, index] = (posts[number][turn],) if turn < len(posts[number]) else never
        else:
            met = tuple(meetings[number, turn])
            waits[queue, index] = met if len(met) == int(instruction.values[1]) else never
    return waits


def lack(program: Program, instruction: Instruction) -> str:
    """Why nothing can satisfy a take or a barrier that waits for :data:`NEVER`."""
    number = int(instruction.values[0])
    if instruction.mnemonic == "take":
        posts = sum(i.mnemonic == "post" and i.values[0] == number for stream in program.streams for i in stream)
        return f"takes token {number} more often than the {posts} times that it is posted"
    come = sum(any(i.mnemonic == "barrier" and i.values[0] == number for i in s) for s in program.streams)
    wanted = int(instruction.values[1])
    return f"meets {wanted} queues at barrier {number}, but {come} have one, or not that often, or not for {wanted}"
