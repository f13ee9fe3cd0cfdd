"""Where everything lies: queues of the machine, and addresses of the plan's buffers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ...ir.box import Box, shape_of, spread
from ...ir.errors import GirihError
from ...ir.graph import DTYPES, Graph
from ...ir.machine import Machine
from ...ir.plan import Plan, SharedBuffer
from ...ir.program import Queue
from ..schedule.cell_spec import byte_strides


@dataclass(frozen=True)
class QueueTable:
    """The machine's queues, and which one moves or computes what."""

    machine: Machine

    @cached_property
    def all(self) -> tuple[Queue, ...]:
        return tuple(
            Queue(engine.name, core)
            for engine in self.machine.engines
            for core in (range(self.machine.cores) if engine.scope == "core" else (None,))
        )

    @cached_property
    def _numbers(self) -> dict[tuple[str, int | None], int]:
        return {(q.engine, q.core): n for n, q in enumerate(self.all)}

    def core_queue(self, engine: str, core: int) -> int:
        """The queue of an engine of a core, by its name."""
        return self._numbers[(engine, core)]

    def move(self, kind: str, source: str, target: str, core: int | None) -> int:
        """The queue that copies (``kind``: copy, broadcast, dma) from one memory to another."""
        engine = self.machine.mover(kind, source, target)
        return self._numbers[(engine.name, core if engine.scope == "core" else None)]

    def kernel(self, kind: str) -> int:
        """The queue of the engine that runs kernels: of the host, or the scalar engine of a cluster."""
        return self._numbers[(self.machine.engine_for(kind).name, None)]


def box_offset(box: Box, outer: Box, strides: tuple[int, ...]) -> int:
    """Bytes from the corner of ``outer`` to that of ``box``."""
    return sum((b.lo - o.lo) * s for b, o, s in zip(box, outer, strides, strict=True))


@dataclass(frozen=True)
class PlannedBuffers:
    """The plan's buffers, found by what they hold."""

    graph: Graph
    plan: Plan
    machine: Machine

    @cached_property
    def memory(self) -> dict[str, int]:
        """The index of each memory by name."""
        return {m.name: i for i, m in enumerate(self.machine.memories)}

    @cached_property
    def homes(self) -> dict[str, SharedBuffer]:
        """The place of each tensor that has one in main memory, or in that of constants."""
        return {b.tensor: b for b in self.plan.shared if b.memory in self.machine.levels.homes}

    @cached_property
    def shared(self) -> dict[str, tuple[SharedBuffer, ...]]:
        """The buffers of each tensor in the memory that cores load it from, in plan order."""
        loaded = {self.machine.levels.source_of(constant=constant).name for constant in (False, True)}
        buffers_of: dict[str, list[SharedBuffer]] = {}
        for buffer in self.plan.shared:
            if buffer.memory in loaded:
                buffers_of.setdefault(buffer.tensor, []).append(buffer)
        return {tensor: tuple(buffers) for tensor, buffers in buffers_of.items()}

    def live(self, tensor: str, slot: int) -> list[SharedBuffer]:
        """The shared buffers of a tensor that live in ``slot``, in plan order."""
        return [b for b in self.shared.get(tensor, ()) if b.live[0] <= slot < b.live[1]]

    def holding(self, tensor: str, box: Box, slot: int) -> list[tuple[SharedBuffer, Box]]:
        """The shared buffers that hold ``box`` in ``slot``, and what of it; the checker guarantees them."""
        parts = spread(box, ((b, b.box) for b in self.live(tensor, slot)))
        if parts is None:
            raise GirihError(f"no buffer of {tensor} holds {box} in slot {slot}")
        return parts

    def strides(self, tensor: str, box: Box) -> tuple[int, ...]:
        """Byte strides of a box of a tensor, row-major."""
        return byte_strides(shape_of(box), DTYPES[self.graph.tensor[tensor].dtype])

    def itemsize(self, tensor: str) -> int:
        return DTYPES[self.graph.tensor[tensor].dtype]
