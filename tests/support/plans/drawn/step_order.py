"""The order of the steps of drawn plans."""

from __future__ import annotations

from collections.abc import Iterator

from girih.ir.box import Box, full, intersect, is_empty, volume
from girih.ir.plan import Segment, Step
from girih.ir.semantics.cell import count
from tests.support.plans.drawn.drawing import Drawing


def drawn_steps(drawing: Drawing, segments: tuple[Segment, ...]) -> Iterator[Step]:
    """All instances: in order, or each as soon as what it reads is there."""
    waiting = [Step(s, i) for s, segment in enumerate(segments) for i in range(count(segment.instances))]
    eager = drawing.chance(0.4)
    done: dict[str, list[Box]] = {}
    made_here = {name for op in drawing.graph.ops for name in op.outputs}
    while waiting:
        step = waiting[0]
        if eager:
            ready = [s for s in waiting if _is_ready(drawing, segments[s.segment], s.instance, done, made_here)]
            step = drawing.rng.choice(ready)
        waiting.remove(step)
        segment = segments[step.segment]
        for name in drawing.graph.op[segment.ops[0]].outputs if not segment.tiles else ():
            done.setdefault(name, []).append(full(drawing.graph.tensor[name].shape))
        for cell in drawing.cells_of(segment, step.instance):
            for name, box in cell.owned.items():
                done.setdefault(name, []).append(box)
        yield step


def _is_ready(
    drawing: Drawing, segment: Segment, instance: int, done: dict[str, list[Box]], made_here: set[str]
) -> bool:
    own = {name for op in segment.ops for name in drawing.graph.op[op].outputs}
    wanted: list[tuple[str, Box]] = []
    if not segment.tiles:
        wanted = [(n, full(drawing.graph.tensor[n].shape)) for n in drawing.graph.op[segment.ops[0]].inputs]
    for cell in drawing.cells_of(segment, instance):
        wanted += [(n, b) for n, b in cell.tensors.items() if n not in own]
    return all(
        n not in made_here
        or sum(volume(intersect(b, d)) for d in done.get(n, ()) if not is_empty(intersect(b, d))) == volume(b)
        for n, b in wanted
    )
