"""A buffer of the shared memory in the predicted timeline: what was written to it, and who sees that when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ...ir.box import Box, hull, overlap
from ...ir.plan import SharedBuffer
from .link_sharing import Area

Written = tuple[Box, float, str | None]
"""What was written, when that is visible, and the engine that wrote it."""


def seen(stop: float, by: str | None, engine: str | None) -> float:
    """When an engine sees what another, or itself, has written."""
    return 0.0 if engine is not None and by == engine else stop


@dataclass
class Shared:
    """A buffer of the shared memory while it lives; ``written``: what was stored to it, and when that arrived."""

    buffer: SharedBuffer
    area: Area
    written: list[Written] = field(default_factory=list["Written"])

    def ready(self, box: Box, engine: str | None) -> float:
        """When an engine can read ``box``."""
        # What was stored last arrived last.
        late = (seen(stop, by, engine) for part, stop, by in reversed(self.written) if overlap(part, box))
        return max(next(late, 0.0), self.area.ready.seen_by(engine))

    def write(self, box: Box, stop: float, engine: str | None) -> None:
        """Take note that ``box`` has been stored at ``stop``."""
        self.area.use(stop, engine)
        self.written.append((box, stop, engine))


def by_buffer(parts: Sequence[tuple[Shared, Box]]) -> list[tuple[Shared, Box]]:
    """Each buffer once, with the smallest box that contains its parts."""
    buffers = {id(shared): shared for shared, _ in parts}
    hulls: dict[int, Box | None] = {}
    for shared, part in parts:
        hulls[id(shared)] = hull(hulls.get(id(shared)), part)
    return [(buffers[number], box) for number, box in hulls.items() if box is not None]
