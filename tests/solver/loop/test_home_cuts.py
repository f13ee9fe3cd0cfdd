"""Segments whose results have no room in main memory: other operators are joined, or the network is refused."""

from __future__ import annotations

from functools import cache

import pytest

import girih
from girih.api.options import Strategy
from girih.ir.errors import InfeasibleError
from girih.ir.load_machine import load_machine
from girih.ir.plan import Segment
from girih.models import build
from girih.solver.loop.master import Cuts, Master
from girih.solver.segmentation.candidates import Candidates
from girih.solver.segmentation.solve import BendersCut
from girih.solver.subproblem.plan_builder import Infeasibility
from tests.support.graphs import matmul
from tests.support.machines import kinds_of, with_capacity

TINY = load_machine("tiny")
FLASH = kinds_of(TINY)["main memory to write"]
"""Constants in DDR, everything else in LLB."""


@cache
def network(name: str) -> bytes:
    return build(name).SerializeToString(deterministic=True)


def compiled(name: str, capacity: int, strategy: Strategy = "solver") -> girih.Compiled:
    machine = with_capacity(FLASH, "LLB", capacity)
    return girih.compile(network(name), target=machine, batch=2, strategy=strategy, solver_timeout=1, cache=False)


@pytest.mark.parametrize(("name", "capacity"), [("tiny-cnn", 5312), ("tiny-transformer", 4544)])
def test_with_less_memory_more_operators_are_joined(name: str, capacity: int) -> None:
    roomy, made = compiled(name, FLASH.memory["LLB"].capacity), compiled(name, capacity)
    assert len(made.plan.segments) < len(roomy.plan.segments)
    assert max(b.address + b.bytes for b in made.plan.shared if b.memory == "LLB") <= capacity
    made.run(check="exact")
    notes = [run.note for run in made.log.runs]
    assert any("not like this: operator" in note and "main memory LLB" in note for note in notes)


def test_where_no_segments_help_the_operator_is_named() -> None:
    with pytest.raises(InfeasibleError, match=r"no proof .* operator \S+: the main memory LLB of .* too many"):
        compiled("tiny-cnn", 5312, "layerwise")


def test_the_segment_goes_under_every_split() -> None:
    graph = matmul(dtype="float32")
    refused = Segment((graph.ops[0].name,), (), (), ())
    for machine in (FLASH, TINY):
        master = Master(graph, machine, Candidates(graph, machine), 0)
        level = machine.levels.home
        overflow = Infeasibility(0, refused.ops[0], level, level.capacity + 64, level.capacity, "too much")
        cuts = master.excluding(Cuts(), refused, overflow)
        everywhere = BendersCut(refused.ops)
        assert cuts.columns == ((everywhere,) if machine is FLASH else (BendersCut(refused.ops, (), ()),))
        assert not cuts.tiling.cap
