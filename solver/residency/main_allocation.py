"""Addresses in main memory: every tensor that is there gets its own place, for the whole program."""

from __future__ import annotations

from collections.abc import Iterable

from ...ir.box import full
from ...ir.errors import InfeasibleError
from ...ir.graph import Graph
from ...ir.machine import Machine
from ...ir.plan import SharedBuffer
from ..cost.local_buffers import round_up


def allocate_main(graph: Graph, machine: Machine, names: Iterable[str], slots: int) -> tuple[SharedBuffer, ...]:
    """One buffer after the other, in the order of the graph's tensors; ``slots`` is the length of the plan.

    Raises :class:`~girih.ir.errors.InfeasibleError` if main memory is too small.
    """
    memory = machine.role("main")
    chosen = frozenset(names)
    buffers: list[SharedBuffer] = []
    address = 0
    for tensor in graph.tensors:
        if tensor.name in chosen:
            size = round_up(max(1, tensor.bytes), memory.alignment)
            buffers.append(SharedBuffer(tensor.name, full(tensor.shape), memory.name, address, size, (0, slots)))
            address += size
    if address > memory.capacity:
        largest = max(buffers, key=lambda b: b.bytes)
        raise InfeasibleError(
            f"the main memory {memory.name} of {machine.name} holds {memory.capacity:,} bytes, and constants, inputs, "
            f"outputs and stored results need {address:,}, {address - memory.capacity:,} too many; the largest is "
            f"{largest.tensor} with {largest.bytes:,}: take a smaller batch, a lower precision or another target"
        )
    return tuple(buffers)
