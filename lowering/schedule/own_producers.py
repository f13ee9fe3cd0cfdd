"""Stages that write parts of the result share nothing: what several of them need, each computes for its own tiles.

A concatenation may hold a tensor twice. The tiles of one part are not those of the other, and TVM's ``compute_at`` puts
a block at the tiles of one reader.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from .stage_spec import StageSpec, ViewRead


def with_own_producers(
    stages: Sequence[StageSpec], output: int, views: int, contraction: int | None
) -> tuple[list[StageSpec], list[int]]:
    """The stages, so that those that write ``output`` share none that they need.

    Where they do, the stages that each needs stand in front of it, in their order, and have views of their own after
    the first time: these are numbered from ``views`` on, and the list says of which view each is a copy. What shares
    the ``contraction`` stays as it is, because its stationary operand is streamed once.
    """
    needs = {p: _needed(stages, p, output) for p, stage in enumerate(stages) if stage.write == output}
    every = [p for needed in needs.values() for p in needed]
    shared = {p for p in every if every.count(p) > 1}
    if not shared or contraction in shared:
        return list(stages), []
    placed: set[int] = set()
    separate: list[StageSpec] = []
    copied: list[int] = []
    for position, needed in needs.items():
        renamed: dict[int, int] = {}
        for view in sorted({stages[p].write for p in needed & placed}):
            renamed[view] = views + len(copied)
            copied.append(view)
        for p in sorted(needed):
            name = stages[p].name + (f"_of_{stages[position].name}" if p in placed else "")
            separate.append(_renamed(stages[p], renamed, name))
        separate.append(_renamed(stages[position], renamed, stages[position].name))
        placed |= needed
    return separate, copied


def _needed(stages: Sequence[StageSpec], position: int, output: int) -> frozenset[int]:
    """The stages whose results one stage reads, if only through others, but for parts of the result."""
    producers: set[int] = set()
    waiting = [position]
    while waiting:
        read = _read(stages[waiting.pop()]) - {output}
        direct = {p for p, stage in enumerate(stages) if stage.write in read} - producers
        producers |= direct
        waiting += sorted(direct)
    return frozenset(producers)


def _read(stage: StageSpec) -> set[int]:
    return {read.view for read in (*stage.operands, stage.start) if isinstance(read, ViewRead)}


def _renamed(stage: StageSpec, views: Mapping[int, int], name: str) -> StageSpec:
    """The stage with other views in place of those that ``views`` names."""

    def read(operand: ViewRead) -> ViewRead:
        return replace(operand, view=views.get(operand.view, operand.view))

    return replace(
        stage,
        name=name,
        write=views.get(stage.write, stage.write),
        operands=tuple(read(o) if isinstance(o, ViewRead) else o for o in stage.operands),
        start=None if stage.start is None else read(stage.start),
    )
