"""The running step in the predicted timeline: what has been loaded and made so far, and which tiles wait for it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...ir.graph import Op
from ...ir.plan import Plan
from ...ir.semantics.cell import Cell
from ..cost.tile_walk import TileWalk, TileWalks
from .link_sharing import Area
from .streams.weight_buffer import Arrivals, WeightBuffer


@dataclass
class RunningStep:
    """The running step: its cells, the one that stands for all, where its tensors are, and what it has made."""

    segment: int
    cells: tuple[Cell, ...]
    cell: Cell
    local: dict[str, Area] = field(default_factory=dict[str, Area])
    computed: dict[str, Arrivals] = field(default_factory=dict[str, Arrivals])
    arrived: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    """Of the tensors that were loaded: when each portion has arrived."""
    rings: dict[str, list[Area]] = field(default_factory=dict[str, list[Area]])
    """Of constants that come tile by tile, the versions of their buffers."""
    versions: dict[tuple[str, str], list[Area]] = field(default_factory=dict[tuple[str, str], list[Area]])
    """Of the buffers for sums and weights whose life has begun, by operator and name."""
    weights: dict[str, WeightBuffer] = field(default_factory=dict[str, WeightBuffer])
    """By operator, if some of its weights have been prefetched and its slot has not begun."""
    simultaneous: int = 1
    """How many cores are at the same point at one time: those that wait for the same weights."""

    def loaded_into(self, op: Op) -> tuple[str, ...]:
        """The inputs that were loaded to where they lie in the result."""
        place = self.local.get(op.output)
        return tuple(name for name in op.inputs if name in self.arrived and self.local[name] is place)

    def arrivals(self, walks: TileWalks, plan: Plan, walk: TileWalk, names: tuple[str, ...]) -> list[float]:
        """By tile, when all that it reads of loaded tensors has arrived."""
        ready: NDArray[np.float64] | None = None
        for name in names:
            times = self.arrived.get(name)
            if times and name in walk.reads:
                portion = plan.transfer[self.segment, name].portion
                last = walks.last_portions_read(walk, name, self.cell.tensors[name], portion)
                # Nothing is read before time 0: what is not read is there.
                arrived = np.array([*times, 0.0])[last]
                ready = arrived if ready is None else np.maximum(ready, arrived)
        return [0.0] * len(walk) if ready is None else ready.tolist()

    def produced(self, walks: TileWalks, walk: TileWalk, names: tuple[str, ...]) -> list[float]:
        """By tile, when all that it reads of tensors that this step computes can be read, in cycles."""
        ready = [0.0] * len(walk)
        for name in names:
            if name in self.computed and name in walk.reads:
                producer, times = self.computed[name]
                last = walks.last_tiles_read(walk, name, producer)
                ready = [max(t, times[tile]) if tile >= 0 else t for t, tile in zip(ready, last, strict=True)]
        return ready

    def available(self, walks: TileWalks, plan: Plan, walk: TileWalk, names: tuple[str, ...]) -> list[float]:
        """By tile, when all that it reads of these tensors has arrived and has been computed, in cycles."""
        arrivals, produced = self.arrivals(walks, plan, walk, names), self.produced(walks, walk, names)
        return [max(arrived, ready) for arrived, ready in zip(arrivals, produced, strict=True)]
