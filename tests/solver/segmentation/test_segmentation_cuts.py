"""What Benders cuts ask of segmentation: columns that are left out, and costs that are raised."""

from __future__ import annotations

from dataclasses import replace

import pytest

from girih.ir.errors import InfeasibleError
from girih.ir.load_machine import load_machine
from girih.solver.segmentation.candidates import Candidates
from girih.solver.segmentation.solve import BendersCut, segment
from tests.support import graphs

TINY, STCP = load_machine("tiny"), load_machine("stcp920")


def test_a_cut_forbids_a_column() -> None:
    graph = graphs.residual(2, batch=8, size=28)
    candidates = Candidates(graph, STCP)
    before = segment(graph, STCP, candidates=candidates)
    victim = before.segments[0]
    cut = BendersCut(victim.ops, victim.instances, victim.cores)
    after = segment(graph, STCP, candidates=candidates, cuts=(cut,))
    assert victim not in after.segments
    every = BendersCut(victim.ops)
    assert victim.ops not in {s.ops for s in segment(graph, STCP, candidates=candidates, cuts=(every,)).segments}


def test_where_cuts_leave_nothing_no_memory_is_blamed() -> None:
    graph = graphs.chain(3, batch=2, size=8)
    runs = [graph.ops[a : b + 1] for a in range(3) for b in range(1, 3) if a <= 1 <= b]
    cuts = [BendersCut(tuple(op.name for op in run)) for run in runs]
    with pytest.raises(InfeasibleError, match=f"{graph.ops[1].name}: no segment with it is left") as refused:
        segment(graph, TINY, cuts=cuts)
    assert "bytes" not in str(refused.value)


def test_a_cut_of_one_split_says_nothing_of_others() -> None:
    """With one split left of each operator, the segments are those; what the others would cost does not matter."""
    graph = graphs.chain(3, batch=2, size=8)
    candidates = Candidates(graph, TINY)
    single = [c for c in candidates.columns() if c.first == c.last]
    for pick in (min, max):
        chosen = [pick((c for c in single if c.first == p), key=lambda c: c.cycles) for p in range(len(graph.ops))]
        cuts = [BendersCut((graph.ops[c.first].name,), c.split.instances, c.split.cores) for c in single]
        kept = {(graph.ops[c.first].name, c.split.instances, c.split.cores) for c in chosen}
        cuts = [cut for cut in cuts if (*cut.ops, cut.instances, cut.cores) not in kept]
        longer = {(c.first, c.last) for c in candidates.columns()} - {(c.first, c.last) for c in single}
        cuts += [BendersCut(tuple(op.name for op in graph.ops[a : b + 1])) for a, b in sorted(longer)]
        answer = segment(graph, TINY, candidates=candidates, cuts=cuts)
        assert answer.columns == tuple(chosen)
        dearer = [cut if cut.instances is None else replace(cut, cycles=10**6) for cut in cuts]
        assert segment(graph, TINY, candidates=candidates, cuts=dearer).columns == tuple(chosen)


def test_a_cut_raises_a_price() -> None:
    graph = graphs.residual(2, batch=8, size=28)
    candidates = Candidates(graph, STCP)
    before = segment(graph, STCP, candidates=candidates)
    assert before.solved.objective is not None
    dearer = [BendersCut(s.ops, cycles=10**6) for s in before.segments]
    after = segment(graph, STCP, candidates=candidates, cuts=dearer)
    assert after.solved.objective is not None
    assert after.solved.objective >= before.solved.objective


def test_a_cut_lowers_no_price() -> None:
    """A lower model says what a column takes at least: the price may be higher already."""
    graph = graphs.residual(2, batch=8, size=28)
    candidates = Candidates(graph, STCP)
    before = segment(graph, STCP, candidates=candidates)
    cuts = [BendersCut(s.ops, cycles=1) for s in before.segments]
    after = segment(graph, STCP, candidates=candidates, cuts=cuts)
    assert (after.columns, after.solved) == (before.columns, before.solved)
