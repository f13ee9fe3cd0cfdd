"""What the models could have decided for an operator of a finished plan: tiles, splits, other segments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..ir.graph import Graph
from ..ir.machine import Machine
from ..ir.plan import Plan, Split, Tile
from ..ir.semantics.cell import Cells
from .options import Options
from .segmentation.candidates import Candidates
from .segmentation.segment_alternatives import SegmentAlternative, SegmentAlternatives
from .tiling.solve import Tiler
from .tiling.tile_alternatives import TileAlternatives

CELL = "cycles of its largest cell"
WHOLE = "cycles of the cores for the whole network"


@dataclass(frozen=True)
class ModelAlternative:
    """One answer to one ``decision`` about an operator, in the words of the plan.

    ``cycles``: its cost in the model, in ``unit``; ``None`` where the model has none. ``why_not``: what speaks against
    it; empty for what was ``chosen``.
    """

    decision: str
    choice: str
    cycles: int | None
    unit: str
    chosen: bool
    why_not: str


class ModelAlternatives:
    """The alternatives of one plan.

    The models are asked again, with graph, machine and plan alone: the same question has the same answer. What they
    compute for one operator is kept for the next.
    """

    def __init__(self, graph: Graph, machine: Machine, plan: Plan, options: Options) -> None:
        tiler = Tiler(graph, machine, seed=options.seed, disabled=options.disabled)
        self._tiles = TileAlternatives(tiler, Cells(graph), plan)
        self._segments = SegmentAlternatives(Candidates(graph, machine, disabled=options.disabled), plan)

    def for_operator(self, operator: str) -> tuple[ModelAlternative, ...]:
        """By decision; of tiles the cheapest first, of splits and segments, too."""
        tiles = self._tiles.for_operator(operator)
        segments = self._segments.for_operator(operator)
        chosen_ops = next((row.ops for row in segments if row.chosen), ())
        return (
            *(ModelAlternative("tile", tile_text(t.tile), t.cycles, CELL, t.chosen, t.why_not) for t in tiles),
            *(_segment(row, row.ops == chosen_ops) for row in segments),
        )


def _segment(row: SegmentAlternative, same_operators: bool) -> ModelAlternative:
    split = f"{_split('instances', row.column.split.instances)}, {_split('cores', row.column.split.cores)}"
    if same_operators:
        return ModelAlternative("split of its segment", split, row.cycles, WHOLE, row.chosen, row.why_not)
    ends = " .. ".join(dict.fromkeys((row.ops[0], row.ops[-1])))
    return ModelAlternative("other segments", f"{ends}: {split}", row.cycles, WHOLE, row.chosen, row.why_not)


def tile_text(tile: Tile) -> str:
    """Sizes, of a contraction those of the reduction or that the vector engine runs it, and loops if not row-major."""
    text = "x".join(map(str, tile.sizes))
    if tile.engine == "matrix":
        text += f", reduce {'x'.join(map(str, tile.reduce))}"
    elif tile.reduce:
        text += ", vector engine"
    if tile.order != tuple(sorted(tile.order)):
        text += f", loops {' '.join(map(str, tile.order))}"
    return text


def _split(what: str, splits: Sequence[Split]) -> str:
    parts = " x ".join(f"dim {split.dim} by {split.parts}" for split in splits)
    return f"{what} {parts or '1'}"
