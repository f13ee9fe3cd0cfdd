"""Valid plans pass; each way to break segments, tiles, steps or predictions is caught, and named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from girih.ir.checks.check_plan import check_plan
from girih.ir.errors import CheckError
from girih.ir.graph import Graph
from girih.ir.machine import Machine
from girih.ir.plan import Prediction, Segment, Split, Step, Tile
from tests.support.graphs import residual, with_host
from tests.support.machines import with_engines
from tests.support.plans.broken_plans import STCP, TINY, graph, layerwise, refused, ring, valid, with_segment, with_tile
from tests.support.plans.rough_plans import rough_plan, rough_segments


def test_valid_plans_pass() -> None:
    check_plan(valid(), graph(), STCP)
    check_plan(layerwise(), graph(), STCP)
    check_plan(ring()[1], ring()[0], TINY)
    assert len(valid().segments) >= 3 and max(s.instance for s in valid().steps) == 1
    assert {b.use for b in valid().local} == {"data", "scratch", "weights"}


def test_another_machine() -> None:
    with pytest.raises(CheckError, match="is for machine stcp920, not tiny"):
        check_plan(valid(), graph(), TINY)


@pytest.mark.parametrize("digest", ["", "0" * 64, residual(1, batch=2, size=10).digest])
def test_another_network(digest: str) -> None:
    refused(replace(valid(), graph_sha256=digest), f"SHA-256 {digest[:12] or 'missing'}, .* has {graph().digest[:12]}")


def test_segments_are_the_graph_in_order() -> None:
    plan = valid()
    refused(replace(plan, segments=plan.segments[::-1]), "segment 0 has .*, and the graph has")
    refused(replace(plan, segments=plan.segments[:-1]), "hold")
    refused(replace(plan, segments=(*plan.segments, plan.segments[-1])), "and the graph has nothing there")
    refused(with_segment(plan, 0, lambda s: replace(s, ops=(*s.ops[::-1],))), "and its root operator is")
    refused(with_segment(plan, 0, lambda s: replace(s, ops=(s.ops[1], *s.ops[1:]))), "an operator twice")
    three = rough_plan(graph(), STCP, group=3)
    a, b, c = three.segments[0].ops
    refused(with_segment(three, 0, lambda s: replace(s, ops=(b, a, c))), f"runs {b} before {a}, which makes its")
    refused(replace(plan, segments=(*plan.segments, Segment((), (), (), ()))), "no operators")


def test_everything_in_a_segment_serves_its_last_operator() -> None:
    made = with_host()
    host = rough_plan(made, STCP)
    joined = Segment(("a", "host", "b"), (), (), ())
    refused(replace(host, segments=(joined,)), "mixes a host operator", made)
    refused(with_segment(host, 1, lambda s: replace(s, cores=(Split(0, 1),))), "neither splits nor tiles", made)
    two = Graph("two", graph().tensors, graph().ops[:2], graph().inputs, (), graph().constants)
    first = two.ops[1].stages[0]
    reads = tuple(replace(o, tensor="x") if o == first.reads[0] else o for o in first.operands)
    stages = (replace(first, operands=reads), *two.ops[1].stages[1:])
    other = replace(two.ops[1], inputs=("x", *two.ops[1].inputs[1:]), stages=stages)
    apart = replace(two, ops=(two.ops[0], other))
    segments = (replace(valid().segments[0], ops=(two.ops[0].name, two.ops[1].name)),)
    plan = replace(valid(), segments=segments, graph_sha256=apart.digest)
    refused(plan, "stem is no ancestor of a0", apart)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda s: replace(s, cores=(Split(9, 2),)), "splits dimension 9"),
        (lambda s: replace(s, cores=(Split(-1, 2),)), "splits dimension -1"),
        (lambda s: replace(s, cores=(Split(0, 3),)), "of 2, into 3"),
        (lambda s: replace(s, cores=(Split(0, 0),)), "into 0"),
        (lambda s: replace(s, cores=(Split(1, 8), Split(2, 2))), "uses 16 cores"),
        (lambda s: replace(s, tiles=s.tiles[:-1]), "has tiles for"),
        (lambda s: replace(s, tiles=s.tiles[::-1]), "has tiles for"),
    ],
)
def test_splits(change: Callable[[Segment], Segment], match: str) -> None:
    refused(with_segment(valid(), 0, change), match)


@pytest.mark.parametrize(
    ("op", "change", "match"),
    [
        ("stem", lambda t: replace(t, sizes=(0, *t.sizes[1:])), "sizes"),
        ("stem", lambda t: replace(t, sizes=t.sizes[:-1]), "sizes"),
        ("stem", lambda t: replace(t, order=(0, 0, 1, 2)), "no permutation"),
        ("stem", lambda t: replace(t, order=t.order[:-1]), "no permutation"),
        ("stem", lambda t: replace(t, engine="tensor"), "names engine"),
        ("stem", lambda t: replace(t, reduce=()), "reduce axes"),
        ("stem", lambda t: replace(t, reduce=(1, 1, 0)), "reduce axes"),
        ("stem", lambda t: replace(t, depth=0), "depth 0"),
        ("stem", lambda t: replace(t, weight_depth=0), "weight depth 0"),
        ("pool", lambda t: replace(t, engine="matrix"), "can run none"),
        ("stem", lambda t: replace(t, depth=3), "versions"),
        ("stem", lambda t: replace(t, weight_depth=1), "versions"),
    ],
)
def test_tiles(op: str, change: Callable[[Tile], Tile], match: str) -> None:
    refused(with_tile(valid(), op, change), match)


def test_larger_tiles_need_larger_buffers() -> None:
    halved = with_tile(valid(), "stem", lambda t: replace(t, sizes=tuple(max(1, s // 2) for s in t.sizes)))
    check_plan(halved, graph(), STCP)
    refused(with_tile(valid(), "stem", lambda t: replace(t, engine="vector")), "has no data buffer of stem.w")


def without_types(machine: Machine, kind: str) -> Machine:
    """With a matrix engine that multiplies 8-bit integers alone, or a vector engine that computes nothing else."""
    narrow = {"rate": {"int8": 1.0}} if kind == "matrix" else {"lanes": {"int8": 8}}
    return with_engines(machine, lambda e: replace(e, **narrow) if kind in e.classes else e)


def test_an_engine_computes_in_the_types_of_its_contraction() -> None:
    plan, stem = valid(), valid().segments[0].tile["stem"]
    assert stem.engine == "matrix"
    with pytest.raises(CheckError, match=r"the tile of stem is for \w+, which has no rate .* in float16"):
        check_plan(plan, graph(), without_types(STCP, "matrix"))
    check_plan(plan, graph(), without_types(STCP, "vector"))
    turned = with_tile(plan, "stem", lambda t: replace(t, engine="vector"))
    with pytest.raises(CheckError, match=r"the tile of stem is for \w+, which has no lanes .* in float32"):
        check_plan(turned, graph(), without_types(STCP, "vector"))
    refused(turned, "has no data buffer of stem.w")


def test_steps() -> None:
    plan = valid()
    first, *rest = plan.steps
    refused(replace(plan, steps=tuple(rest)), "steps for")
    refused(replace(plan, steps=(first, *plan.steps)), "repeats")
    refused(replace(plan, steps=(*rest, first)), "were made before|reads")
    refused(replace(plan, steps=plan.steps[::-1]), "were made before")
    refused(replace(plan, steps=(Step(0, 7), *rest)), "has fewer")
    refused(replace(plan, steps=(Step(99, 0), *rest)), "of segment 99")


def test_host_makes_before_it_is_read() -> None:
    made = with_host()
    plan = rough_plan(made, STCP)
    a, host, b = plan.steps
    refused(replace(plan, steps=(a, b, host)), "which the host makes in step", made)
    refused(replace(plan, steps=(host, a, b)), "were made before", made)


def test_predictions() -> None:
    plan = valid()
    fine = Prediction(0, plan.segments[0].ops[0], 0, 5)
    check_plan(replace(plan, predictions=(fine,), cycles_predicted=5, lower_bound_cycles=3), graph(), STCP)
    refused(replace(plan, cycles_predicted=-1), "predicts -1 cycles")
    refused(replace(plan, lower_bound_cycles=-1), "at least -1")
    exact = replace(plan, cycles_predicted=5, lower_bound_cycles=5, lower_bound_reason="MME: work")
    check_plan(exact, graph(), STCP)
    refused(replace(exact, cycles_predicted=3), r"3 cycles, 2 fewer than its lower bound of 5 \(MME: work\)")
    check_plan(replace(exact, cycles_predicted=7, cycles_simulated=5), graph(), STCP)
    refused(replace(exact, cycles_simulated=4), r"4 cycles, 1 fewer than its lower bound of 5 \(MME: work\)")
    refused(replace(exact, lower_bound_cycles=0, cycles_simulated=-1), "took -1 cycles")
    refused(replace(plan, predictions=(replace(fine, step=99),)), "does not run it")
    refused(replace(plan, predictions=(replace(fine, op="fc"),)), "does not run it")
    refused(replace(plan, predictions=(replace(fine, stop=-1),)), "from 0 to -1")


def test_each_op_could_have_been_alone() -> None:
    """Segments of one and of many operators, with and without instances, in one graph."""
    for group in (1, 2, 5):
        for instances in (1, 2):
            segments = rough_segments(graph(), STCP, group=group, instances=instances)
            check_plan(rough_plan(graph(), STCP, segments), graph(), STCP)
