"""Addresses of the buffers of drawn plans."""

from __future__ import annotations

from random import Random

from girih.ir.machine import Machine
from girih.ir.plan import LocalBuffer, SharedBuffer


def addresses(machine: Machine, buffers: list[LocalBuffer] | list[SharedBuffer], rng: Random) -> list[int]:
    """The lowest address that is free while a buffer lives; buffers come in any order."""
    placed: dict[int, int] = {}
    for i in rng.sample(range(len(buffers)), len(buffers)):
        buffer = buffers[i]
        rivals = sorted(
            (placed[j], placed[j] + buffers[j].bytes)
            for j in placed
            if buffers[j].memory == buffer.memory
            and buffers[j].live[0] < buffer.live[1]
            and buffer.live[0] < buffers[j].live[1]
        )
        alignment = machine.memory[buffer.memory].alignment
        at = 0
        for low, high in rivals:
            if at + buffer.bytes <= low:
                break
            at = max(at, round_up(high, alignment))
        placed[i] = at
    return [placed[i] for i in range(len(buffers))]


def round_up(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment
