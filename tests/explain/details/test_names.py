"""Names as people type them: what is meant, what is near, and what to do about it."""

from __future__ import annotations

import pytest

from girih.explain.details.details import Subjects, resolved
from girih.explain.details.names import find_name, find_operators, find_segment, find_tensor
from girih.ir.errors import UsageError
from tests.support.compiled import LOG, compiled_residual

GRAPH, PLAN, MACHINE = compiled_residual().graph, compiled_residual().plan, compiled_residual().machine
OP = GRAPH.ops[1]


def test_an_operator_is_found_by_its_name_and_by_its_onnx_node() -> None:
    assert find_operators(GRAPH, OP.name) == (OP.name,)
    for node in OP.origin:
        assert OP.name in find_operators(GRAPH, node)


def test_a_near_miss_is_suggested() -> None:
    with pytest.raises(UsageError, match=f"there is no operator '{OP.name}x'; did you mean '{OP.name}'"):
        find_operators(GRAPH, f"{OP.name}x")


def test_nothing_near_says_where_all_names_are() -> None:
    with pytest.raises(UsageError, match=r"there is no tensor '@'.*--json"):
        find_tensor(GRAPH, "@")


def test_a_constant_is_no_operator_and_a_segment_has_a_number() -> None:
    constant = GRAPH.constants[0].tensor
    with pytest.raises(UsageError, match=f"--tensor {constant}"):
        find_operators(GRAPH, constant)
    number = next(i for i, segment in enumerate(PLAN.segments) if OP.name in segment.ops)
    with pytest.raises(UsageError, match=f"--segment {number}"):
        find_segment(PLAN, OP.name)


@pytest.mark.parametrize("text", ["-1", "99", "x", "", "1.0", "²"])
def test_a_segment_that_is_not_there(text: str) -> None:
    with pytest.raises(UsageError, match=f"there is no segment '{text}'; they are 0 to {len(PLAN.segments) - 1}"):
        find_segment(PLAN, text)


def test_memories_and_models_are_found_whatever_their_case() -> None:
    known = [memory.name for memory in MACHINE.memories]
    assert find_name("memory", "llb", known) == "LLB"
    with pytest.raises(UsageError, match=f"there is no memory 'cache'; there are {', '.join(known)}"):
        find_name("memory", "cache", known)
    with pytest.raises(UsageError, match="there is no model 'tilling'; did you mean 'tiling'"):
        resolved(Subjects(models=("tilling",)), GRAPH, PLAN, MACHINE, LOG)


def test_what_is_asked_for_twice_is_told_once() -> None:
    subjects = resolved(Subjects(operators=(OP.name, *OP.origin, OP.name)), GRAPH, PLAN, MACHINE, LOG)
    assert subjects.operators.count(OP.name) == 1
    assert resolved(Subjects(segments=("0", "00")), GRAPH, PLAN, MACHINE, LOG).segments == ("0",)


def test_nothing_is_asked_for() -> None:
    assert not Subjects()
    assert Subjects(models=("tiling",))
