"""Movement of drawn plans: portions, the cores that issue a broadcast, versions of tiles of weights."""

from __future__ import annotations

from collections.abc import Iterator

from girih.ir.plan import LocalBuffer, Segment, Transfer, WeightStream
from girih.ir.semantics.cell import leaving
from tests.support.plans.drawn.drawing import Drawing


def transfers(drawing: Drawing, index: int, segment: Segment, local: tuple[LocalBuffer, ...]) -> Iterator[Transfer]:
    if not segment.tiles:
        return
    ops = tuple(drawing.graph.op[name] for name in segment.ops)
    results = {op.output for op in ops}
    data = [b.name for b in local if b.segment == index and b.use == "data"]
    for name in (*data, *segment.aliased):
        if name not in results:
            yield Transfer(index, name, _portion(drawing, name), _issuers(drawing))
    for op in leaving(drawing.graph, ops):
        yield Transfer(index, op.output, _portion(drawing, op.output))


def _portion(drawing: Drawing, name: str) -> tuple[int, ...]:
    """Half of the dimensions whole, the others in up to three parts."""
    return tuple(-(-n // drawing.rng.choice([1, 1, 2, 3])) for n in drawing.graph.tensor[name].shape)


def _issuers(drawing: Drawing) -> tuple[int, ...]:
    return tuple(drawing.rng.randrange(drawing.machine.cores) for _ in range(drawing.rng.randint(1, 4)))


def weight_streams(
    drawing: Drawing, index: int, segment: Segment, local: tuple[LocalBuffer, ...]
) -> Iterator[WeightStream]:
    data = {b.name for b in local if b.segment == index and b.use == "data"}
    for tile in segment.tiles:
        op = drawing.graph.op[tile.op]
        if tile.engine != "matrix" or op.contraction is None:
            continue
        depth = tile.weight_depth
        versions = tuple(drawing.rng.randrange(depth) for _ in range(drawing.rng.randint(1, 2 * depth)))
        right = op.stages[op.contraction].reads[1].tensor
        if right in drawing.graph.constant_names and right not in data:
            most = next((n for n, v in enumerate(versions) if v in versions[:n]), len(versions))
            yield WeightStream(index, op.name, versions, drawing.rng.randint(0, most), _issuers(drawing))
        else:
            yield WeightStream(index, op.name, versions)
