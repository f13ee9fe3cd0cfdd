"""Valid plans pass; each way to break one is caught, and named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from girih.ir.box import Span, volume
from girih.ir.checks.check_plan import check_plan
from girih.ir.checks.plan_facts import Facts, Geometry, Stream
from girih.ir.checks.plan_local_memory import check_local
from girih.ir.checks.plan_shared_memory import _Contents, check_shared  # pyright: ignore[reportPrivateUsage]
from girih.ir.errors import CheckError
from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.ir.plan import LocalBuffer, Plan, Prediction, Segment, SharedBuffer, Split, Step, Tile
from girih.ir.semantics.box_arrays import stack
from girih.ir.semantics.portions import portions
from girih.solver.cost.local_buffers import round_up
from tests.support.graphs import residual, with_host
from tests.support.machines import with_engines
from tests.support.plans.rough_plans import rough_plan, rough_segments, wide

STCP = load_machine("stcp920")
TINY = load_machine("tiny")


@cache
def graph() -> Graph:
    return residual(1, batch=2, size=8)


@cache
def valid() -> Plan:
    """Four segments, the first in two instances."""
    return rough_plan(graph(), STCP, group=2, instances=2)


@cache
def layerwise() -> Plan:
    return rough_plan(graph(), STCP, group=1, layerwise=True)


@cache
def ring() -> tuple[Graph, Plan]:
    made, segment = wide()
    return made, rough_plan(made, TINY, (segment,), (Step(0, 0),))


def refused(plan: Plan, match: str = "", graph_: Graph | None = None) -> None:
    with pytest.raises(CheckError, match=match):
        check_plan(plan, graph_ or graph(), TINY if plan.machine == "tiny" else STCP)


@cache
def geometry() -> Geometry:
    return Geometry(graph())


def refused_by(check: Callable[[Facts], None], plan: Plan, match: str) -> None:
    """One part of the checker alone, with the geometry of before: for the tests that break many buffers."""
    facts = Facts(plan, STCP, geometry())
    with pytest.raises(CheckError, match=match):
        check(facts)


def wrong_local(plan: Plan, match: str) -> None:
    refused_by(check_local, plan, match)


def wrong_shared(plan: Plan, match: str) -> None:
    refused_by(check_shared, plan, match)


def with_segment(plan: Plan, index: int, change: Callable[[Segment], Segment]) -> Plan:
    return replace(plan, segments=tuple(change(s) if i == index else s for i, s in enumerate(plan.segments)))


def with_tile(plan: Plan, op: str, change: Callable[[Tile], Tile]) -> Plan:
    return replace(
        plan,
        segments=tuple(replace(s, tiles=tuple(change(t) if t.op == op else t for t in s.tiles)) for s in plan.segments),
    )


def with_local(plan: Plan, number: int, change: Callable[[LocalBuffer], LocalBuffer]) -> Plan:
    return replace(plan, local=tuple(change(b) if i == number else b for i, b in enumerate(plan.local)))


def with_shared(plan: Plan, number: int, change: Callable[[SharedBuffer], SharedBuffer]) -> Plan:
    return replace(plan, shared=tuple(change(b) if i == number else b for i, b in enumerate(plan.shared)))


def kinds(plan: Plan) -> list[int]:
    """One shared buffer of each kind."""
    found: dict[tuple[object, ...], int] = {}
    for i, b in enumerate(plan.shared):
        found.setdefault((b.memory, b.fetch, b.store, b.tensor in graph().constant_names), i)
    return list(found.values())


def local_kinds(plan: Plan) -> list[int]:
    """One local buffer of each use in each segment."""
    found: dict[tuple[object, ...], int] = {}
    for i, b in enumerate(plan.local):
        found.setdefault((b.segment, b.use), i)
    return list(found.values())


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


def test_each_local_buffer_is_needed() -> None:
    for plan in (valid(), layerwise()):
        for i, buffer in enumerate(plan.local):
            refused_by(
                check_local, replace(plan, local=plan.local[:i] + plan.local[i + 1 :]), f"no {buffer.use} buffer of"
            )


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda b: replace(b, bytes=b.bytes - 64 * b.depth), "bytes"),
        (lambda b: replace(b, bytes=b.bytes - 1), "whole 64 bytes"),
        (lambda b: replace(b, address=b.address + 1), "aligned"),
        (lambda b: replace(b, address=-64), "aligned"),
        (lambda b: replace(b, address=1 << 30), "beyond"),
        (lambda b: replace(b, memory="LLB"), "does not hold"),
        (lambda b: replace(b, memory="nowhere"), "does not hold"),
        (lambda b: replace(b, use="spare"), "no known use"),
        (lambda b: replace(b, op="somebody"), "not in the segment"),
        (lambda b: replace(b, segment=77), "does not exist"),
        (lambda b: replace(b, live=(b.live[0], b.live[0])), "lives in"),
        (lambda b: replace(b, live=(0, 99)), "lives in"),
        (lambda b: replace(b, depth=b.depth + 1), "versions"),
    ],
)
def test_each_local_buffer_is_right(change: Callable[[LocalBuffer], LocalBuffer], match: str) -> None:
    for i in local_kinds(valid()):
        wrong_local(with_local(valid(), i, change), match)


def test_local_lives_cover_their_uses() -> None:
    caught = 0
    for i, buffer in enumerate(valid().local):
        if buffer.live[1] - buffer.live[0] > 1:
            refused_by(
                check_local,
                with_local(valid(), i, lambda b: replace(b, live=(b.live[0] + 1, b.live[1]))),
                "is needed in",
            )
            refused_by(
                check_local,
                with_local(valid(), i, lambda b: replace(b, live=(b.live[0], b.live[1] - 1))),
                "is needed in",
            )
            caught += 1
    assert caught


def test_local_buffers_that_live_together_are_apart() -> None:
    plan = valid()
    pairs = [
        (i, j)
        for i, a in enumerate(plan.local)
        for j, b in enumerate(plan.local)
        if i < j and (a.segment, a.memory) == (b.segment, b.memory) and a.live[0] < b.live[1] and b.live[0] < a.live[1]
    ]
    # A block's last result may take the place of the shortcut that it adds.
    pairs = [
        (i, j) for i, j in pairs if plan.local[j].name not in {op.output for op in graph().ops if op.name[0] == "c"}
    ]
    assert len(pairs) > 10
    for i, j in pairs[:: len(pairs) // 10]:
        refused_by(
            check_local, with_local(plan, j, lambda b, i=i: replace(b, address=plan.local[i].address)), "share|beyond"
        )


def test_a_result_may_take_the_place_of_the_input_that_it_adds() -> None:
    plan = valid()
    number = {(b.segment, b.name): i for i, b in enumerate(plan.local) if b.use == "data"}
    moved = 0
    for (segment, name), i in number.items():
        maker = graph().producer.get(name)
        if maker is None or not maker.name.startswith("c") or maker.name not in plan.segments[segment].ops:
            continue
        old = maker.inputs[-1]
        later = [o for o in plan.segments[segment].ops if old in graph().op[o].inputs][-1]
        change = with_local(plan, i, lambda b, at=plan.local[number[segment, old]].address: replace(b, address=at))
        shifted = with_local(change, i, lambda b: replace(b, address=b.address + STCP.levels.activations.alignment))
        refused_by(check_local, shifted, "share")
        if later != maker.name:
            refused_by(check_local, change, "share")
            continue
        try:
            check_local(Facts(change, STCP, Geometry(graph())))
        except CheckError as error:
            # Something else may be where the shortcut was; the shortcut itself is no obstacle.
            assert not (old in str(error) and name in str(error)), error
        moved += 1
    assert moved


def test_no_local_buffers_too_many() -> None:
    plan = valid()
    scratch = next(b for b in plan.local if b.use == "scratch")
    refused_by(
        check_local, replace(plan, local=(*plan.local, replace(scratch, address=scratch.address + 131072))), "has two"
    )
    data = next(b for b in plan.local if b.use == "data")
    refused_by(
        check_local, replace(plan, local=(*plan.local, replace(data, name="fc", address=900 * 1024))), "does not touch"
    )
    weights = next(b for b in plan.local if b.use == "weights")
    streamed = replace(weights, use="data", memory="L1", address=900 * 1024, depth=1, bytes=64)
    wrong_local(replace(plan, local=(*plan.local, streamed)), "goes straight to weight memory")


def test_each_shared_buffer_is_needed() -> None:
    for plan in (valid(), layerwise()):
        for i in range(len(plan.shared)):
            refused_by(
                check_shared,
                replace(plan, shared=plan.shared[:i] + plan.shared[i + 1 :]),
                "no buffer|no one buffer|no home",
            )


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda b: replace(b, address=b.address + 1), "aligned"),
        (lambda b: replace(b, address=-64), "aligned"),
        (lambda b: replace(b, address=1 << 40), "beyond"),
        (lambda b: replace(b, bytes=1), "needs"),
        (lambda b: replace(b, memory="L1"), "should be in"),
        (lambda b: replace(b, tensor="unheard"), "no tensor"),
        (lambda b: replace(b, box=b.box[1:]), "no part of shape"),
        (lambda b: replace(b, box=(Span(0, 999), *b.box[1:]), bytes=1 << 23), "no part of shape"),
        (lambda b: replace(b, box=(Span(0, 0), *b.box[1:])), "no part of shape"),
        (lambda b: replace(b, live=(b.live[0], 99)), "within the"),
        (lambda b: replace(b, live=(b.live[0], b.live[0])), "within the"),
        (lambda b: replace(b, fetch=not b.fetch), "fetched|written|is a home|nothing writes|not stored"),
        (lambda b: replace(b, store=not b.store), "stored"),
        (lambda b: replace(b, ring_position=1, live=(0, 2)), "ring position 1|share|cannot|is a home"),
    ],
)
def test_each_shared_buffer_is_right(change: Callable[[SharedBuffer], SharedBuffer], match: str) -> None:
    for plan in (valid(), layerwise()):
        for i in kinds(plan):
            wrong_shared(with_shared(plan, i, change), match)


def test_shared_boxes_and_lives_cover_their_uses() -> None:
    """Staged and kept activations, which are read where they end: the live span and box cannot be smaller."""
    for plan in (valid(), layerwise()):
        for i, buffer in enumerate(plan.shared):
            if buffer.memory != "LLB" or i % 3:
                continue
            late = replace(buffer, live=(buffer.live[0], buffer.live[1] - 1))
            if late.live[0] < late.live[1]:
                refused_by(
                    check_shared,
                    with_shared(plan, i, lambda _, late=late: late),
                    "no buffer|no one buffer|written there",
                )
            if not buffer.fetch and buffer.live[1] - buffer.live[0] > 1:
                refused_by(
                    check_shared,
                    with_shared(plan, i, lambda b: replace(b, live=(b.live[0] + 1, b.live[1]))),
                    "no buffer",
                )
            d = max(range(len(buffer.box)), key=lambda d: buffer.box[d].size)
            span = buffer.box[d]
            if span.size > 1:
                less = (*buffer.box[:d], Span(span.lo, span.hi - 1), *buffer.box[d + 1 :])
                refused_by(
                    check_shared,
                    with_shared(plan, i, lambda b, less=less: replace(b, box=less)),
                    "no buffer|no one buffer",
                )


def test_shared_buffers_that_live_together_are_apart() -> None:
    plan = valid()
    pairs = [
        (i, j)
        for i, a in enumerate(plan.shared)
        for j, b in enumerate(plan.shared)
        if i < j and a.memory == b.memory and a.live[0] < b.live[1] and b.live[0] < a.live[1]
    ]
    assert len(pairs) > 50
    for i, j in pairs[:: len(pairs) // 25]:
        refused_by(
            check_shared, with_shared(plan, j, lambda b, i=i: replace(b, address=plan.shared[i].address)), "share"
        )


def test_fetches_come_after_stores() -> None:
    plan, caught = layerwise(), 0
    for i, buffer in enumerate(plan.shared):
        if buffer.fetch and buffer.tensor not in graph().constant_names | graph().input_tensors:
            refused_by(
                check_shared,
                with_shared(plan, i, lambda b: replace(b, live=(0, b.live[1]), address=1 << 22)),
                "makes a part of",
            )
            caught += 1
    assert caught


def test_what_is_made_in_a_slot_is_not_fetched_in_it() -> None:
    """A store ends after the slot: main memory has the result from the next one on."""
    plan, caught = layerwise(), 0
    slot_of = {op.output: slot for slot, op in enumerate(graph().ops)}
    for i, buffer in enumerate(plan.shared):
        if buffer.fetch and buffer.tensor in slot_of:
            made = slot_of[buffer.tensor]
            early = with_shared(plan, i, lambda b, made=made: replace(b, live=(made, b.live[1]), address=1 << 22))
            wrong_shared(
                early, f"is fetched in slot {made}, and core .* makes a part of {buffer.tensor} in slot {made}"
            )
            caught += 1
    assert caught
    hosted = with_host()
    plan = rough_plan(hosted, STCP)
    number = next(i for i, b in enumerate(plan.shared) if b.tensor == "h" and b.fetch)
    check_plan(plan, hosted, STCP)
    early = with_shared(plan, number, lambda b: replace(b, live=(1, 3), address=1 << 22))
    refused(early, "is fetched in slot 1, and the host makes h in slot 1", hosted)


def test_rings() -> None:
    made, plan = ring()
    ring_positions = {b.ring_position for b in plan.shared}
    last = max(ring_positions)
    third = next(i for i, b in enumerate(plan.shared) if b.ring_position == 2)
    refused(with_shared(plan, third, lambda b: replace(b, ring_position=1)), "share", made)
    refused(with_shared(plan, third, lambda b: replace(b, ring_position=last + 2)), "ring position", made)
    # What is fetched on the way is fetched in the order of the list.
    reading = [i for i, b in enumerate(plan.shared) if b.tensor == "fc.w" and b.fetch]
    backwards = list(plan.shared)
    backwards[reading[-1]], backwards[reading[-3]] = backwards[reading[-3]], backwards[reading[-1]]
    refused(replace(plan, shared=tuple(backwards)), "comes in the list after one with", made)
    # Of two buffers with one position, each is judged by its own lead.
    twins = [i for i, b in enumerate(plan.shared) if b.ring_position == 2]
    assert len(twins) == 2
    for twin in twins:
        refused(with_shared(plan, twin, lambda b: replace(b, ring_lead=2)), "share|still needed|neither may", made)
    # Walking the columns inside of another loop would need each chunk again.
    tile = replace(plan.segments[0].tiles[0], sizes=(2, 16), order=(0, 1))
    inner = with_tile(plan, "fc", lambda _: tile)
    refused(inner, "is still needed at step", made)


def test_data_does_not_wait_for_tiles_of_weights() -> None:
    plan = valid()
    number = next(i for i, b in enumerate(plan.shared) if b.fetch and b.live[1] - b.live[0] == 1 and b.tensor == "x")
    refused(with_shared(plan, number, lambda b: replace(b, ring_position=1)), "waits for tiles of weights")


@pytest.mark.parametrize(
    ("streams", "match"),
    [
        # One core after the other position; then two at once; then one that goes back when its place is gone.
        (([0, 1, 2, 3],), ""),
        (([0, 1, 2], [0, 1, 2]), ""),
        (([0, 1, 2, 3], [1, 2, 3, 3]), "position 2 of w in slot 0 is fetched at step 0 .* needed at step 0"),
        (([0, 0, 0, 2], [0, 1, 2, 3]), "position 2 of w in slot 0 is fetched at step 1 .* needed at step 2"),
        (([0, 1, 0, 2],), "position 2 of w in slot 0 is fetched at step 1 .* needed at step 2"),
        (([0, 1, 1, 2, 3, 1],), "position 3 of w in slot 0 is fetched at step 3 .* needed at step 5"),
    ],
)
def test_positions_of_a_ring_are_left_before_they_are_taken(streams: tuple[list[int], ...], match: str) -> None:
    """Each core's walk as the position that it needs at each step."""
    count = 1 + max(map(max, streams))
    buffers = [
        SharedBuffer("w", (Span(8 * p, 8 * p + 8),), "LLB", 64 * (p % 2), 16, (0, 1), True, False, p, min(1, p))
        for p in range(count)
    ]
    contents = _Contents(Facts(valid(), STCP, geometry()), [], buffers)
    walks = [
        Stream(0, 0, 0, core, stack([(Span(8 * p, 8 * p + 8),) for p in positions], 1), np.arange(len(positions)))
        for core, positions in enumerate(streams)
    ]
    if not match:
        contents._check_rings("w", walks)
        return
    with pytest.raises(CheckError, match=match):
        contents._check_rings("w", walks)


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


def in_two(plan: Plan, number: int, dim: int, at: int) -> Plan:
    """The shared buffer ``number`` as two: what is before ``at`` in a dimension, and the rest, high up in memory."""
    buffer = plan.shared[number]
    span = buffer.box[dim]
    parts: list[SharedBuffer] = []
    for place, half in enumerate((Span(span.lo, at), Span(at, span.hi))):
        box = (*buffer.box[:dim], half, *buffer.box[dim + 1 :])
        size = buffer.bytes * half.size // span.size
        parts.append(replace(buffer, box=box, bytes=size, address=(1 << 22) + place * (1 << 20)))
    return replace(plan, shared=(*plan.shared[:number], *parts, *plan.shared[number + 1 :]))


def kept_result(plan: Plan) -> int:
    """A buffer of a result that stays in shared memory, of several rows."""
    made = {op.output for op in graph().ops}
    here = STCP.levels.exchange.name
    return next(
        i
        for i, b in enumerate(plan.shared)
        if b.memory == here and b.tensor in made and not b.fetch and not b.store and b.box[1].size > 1
    )


def test_a_result_may_lie_in_two_buffers() -> None:
    plan = valid()
    number = kept_result(plan)
    box = plan.shared[number].box
    for dim in (d for d, span in enumerate(box) if span.size > 1):
        for at in range(box[dim].lo + 1, box[dim].hi):
            divided = in_two(plan, number, dim, at)
            check_plan(divided, graph(), STCP)
            for place in (number, number + 1):
                halves = divided.shared
                without = replace(divided, shared=halves[:place] + halves[place + 1 :])
                wrong_shared(without, "no buffers of the shared memory hold it")
                wrong_shared(with_shared(divided, place, lambda b: replace(b, fetch=True)), "fetched|home")
                early = with_shared(divided, place, lambda b: replace(b, live=(b.live[0], b.live[1] - 1)))
                wrong_shared(early, "no buffers of the shared memory hold it")


def test_a_store_goes_where_the_read_looks() -> None:
    """A buffer that lives for the store alone takes a chunk of a share, which the reader would miss."""
    made = residual(1, batch=2, size=64, channels=32)
    plan = rough_plan(made, STCP, group=1)
    facts = Facts(plan, STCP, Geometry(made))
    here = STCP.levels.exchange.name
    number, whole, chunk = next(
        (i, b, parts[0])
        for i, b in enumerate(plan.shared)
        for m in facts.shares.get(b.tensor, ())
        if b.memory == here
        and not b.fetch
        and not b.store
        and len(parts := portions(m.box, plan.transfer[plan.steps[m.step].segment, b.tensor].portion)) > 1
    )
    thief = replace(whole, box=chunk, bytes=2 * volume(chunk), live=(whole.live[0], whole.live[0] + 1))
    thief = replace(thief, address=STCP.levels.exchange.capacity - round_up(thief.bytes, 64))
    stolen = replace(plan, shared=(*plan.shared[:number], thief, *plan.shared[number:]))
    refused(stolen, "were written there before", made)
