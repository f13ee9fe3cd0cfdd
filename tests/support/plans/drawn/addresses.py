"""Addresses of the buffers of drawn plans."""

from __future__ import annotations

from random import Random

from girih.ir.machine import Machine
from girih.ir.plan import LocalBuffer, SharedBuffer


def addresses(machine: Machine, buffers: list[LocalBuffer] | list[SharedBuffer], rng: Random) -> list[int]:
    """The lowest address that is free while a buffer lives; buffers come in any order."""
    found: dict[int, int] = {}
    for i in rng.sample(range(len(buffers)), len(buffers)):
        mine = buffers[i]
        rivals = sorted(
            (found[j], found[j] + buffers[j].bytes)
            for j in found
            if buffers[j].memory == mine.memory
            and buffers[j].live[0] < mine.live[1]
            and mine.live[0] < buffers[j].live[1]
        )
        alignment = machine.memory[mine.memory].alignment
        at = 0
        for low, high in rivals:
            if at + mine.bytes <= low:
                break
            at = max(at, round_up(high, alignment))
        found[i] = at
    return [found[i] for i in range(len(buffers))]


def round_up(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment
