"""Each way to break the buffers in the memories of a cluster is caught, and named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from girih.ir.box import Span, volume
from girih.ir.checks.check_plan import check_plan
from girih.ir.checks.plan_facts import Facts, Geometry, Stream
from girih.ir.checks.plan_shared_memory import _Contents, check_shared  # pyright: ignore[reportPrivateUsage]
from girih.ir.errors import CheckError
from girih.ir.plan import Plan, SharedBuffer
from girih.ir.semantics.box_arrays import stack
from girih.ir.semantics.portions import portions
from girih.solver.cost.local_buffers import round_up
from tests.support.graphs import residual, with_host
from tests.support.plans.broken_plans import (
    STCP,
    geometry,
    graph,
    layerwise,
    refused,
    refused_by,
    ring,
    valid,
    with_shared,
    with_tile,
)
from tests.support.plans.rough_plans import rough_plan


def wrong_shared(plan: Plan, match: str) -> None:
    refused_by(check_shared, plan, match)


def kinds(plan: Plan) -> list[int]:
    """One shared buffer of each kind."""
    found: dict[tuple[object, ...], int] = {}
    for i, b in enumerate(plan.shared):
        found.setdefault((b.memory, b.fetch, b.store, b.tensor in graph().constant_names), i)
    return list(found.values())


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
            slot = slot_of[buffer.tensor]
            early = with_shared(plan, i, lambda b, slot=slot: replace(b, live=(slot, b.live[1]), address=1 << 22))
            wrong_shared(
                early, f"is fetched in slot {slot}, and core .* makes a part of {buffer.tensor} in slot {slot}"
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
    results = {op.output for op in graph().ops}
    here = STCP.levels.exchange.name
    return next(
        i
        for i, b in enumerate(plan.shared)
        if b.memory == here and b.tensor in results and not b.fetch and not b.store and b.box[1].size > 1
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
    network = residual(1, batch=2, size=64, channels=32)
    plan = rough_plan(network, STCP, group=1)
    facts = Facts(plan, STCP, Geometry(network))
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
    refused(stolen, "were written there before", network)
