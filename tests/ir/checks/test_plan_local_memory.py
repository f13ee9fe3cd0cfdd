"""Each way to break the buffers in the memories of a core is caught, and named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from girih.ir.checks.plan_facts import Facts, Geometry
from girih.ir.checks.plan_local_memory import check_local
from girih.ir.errors import CheckError
from girih.ir.plan import LocalBuffer, Plan
from tests.support.plans.broken_plans import STCP, graph, layerwise, refused_by, valid, with_local


def wrong_local(plan: Plan, match: str) -> None:
    refused_by(check_local, plan, match)


def local_kinds(plan: Plan) -> list[int]:
    """One local buffer of each use in each segment."""
    found: dict[tuple[object, ...], int] = {}
    for i, b in enumerate(plan.local):
        found.setdefault((b.segment, b.use), i)
    return list(found.values())


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
