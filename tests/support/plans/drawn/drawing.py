"""What the parts of a plan are drawn from: the network, the machine, two random generators, and what is known so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from random import Random

from girih.ir.box import Box
from girih.ir.graph import DTYPES, Graph
from girih.ir.machine import Machine
from girih.ir.plan import Segment
from girih.ir.semantics.cell import Cell, Cells, count


@dataclass(frozen=True)
class Drawing:
    """One plan that is being drawn. Its parts are drawn in one order, since all of them take from ``rng``."""

    graph: Graph
    machine: Machine
    rng: Random
    of_homes: Random
    """For the homes of results alone."""
    longest: int
    """Operators of a segment at most."""
    tiles: int
    """Tiles of an operator on a core, about."""
    instances: int
    """Instances of a segment at most."""
    on_vector: float
    """The share of the small contractions that the vector engine is given."""
    walks: dict[tuple[str, Box], list[Box]] = field(default_factory=dict[tuple[str, Box], list[Box]])
    """Tiles of weights by operator and the part of its result that a core computes."""

    @cached_property
    def cells(self) -> Cells:
        return Cells(self.graph)

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def all_cells(self, segment: Segment) -> list[Cell]:
        return [c for i in range(count(segment.instances)) for c in self.cells_of(segment, i)]

    def cells_of(self, segment: Segment, instance: int) -> list[Cell]:
        return [self.cells.cell(segment, instance, core) for core in range(self.machine.cores)]

    def itemsize(self, name: str) -> int:
        return DTYPES[self.graph.tensor[name].dtype]
