"""Details as text and as JSON: readable in few columns, harmless whatever names say, and with stable keys."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import lru_cache

import pytest

from girih.explain.compilation import Compilation
from girih.explain.details.details import Details, Subjects, build_details
from girih.explain.details.text.memory_text import profile_text
from girih.explain.details.text.tables import pairs, shortened, table
from tests.support.compilations import random_compilation
from tests.support.graphs import residual, with_host

HOSTILE = "\x1b[31m</script><img src=x onerror=alert(1)>\nrow"


@lru_cache
def example() -> Compilation:
    return random_compilation(residual(), 3)


@lru_cache
def everything() -> Details:
    compilation = example()
    subjects = Subjects(
        operators=tuple(op.name for op in compilation.graph.ops),
        tensors=tuple(tensor.name for tensor in compilation.graph.tensors),
        segments=tuple(str(i) for i in range(len(compilation.plan.segments))),
        memories=tuple(memory.name for memory in compilation.machine.memories),
        models=("tiling", "banks"),
    )
    return build_details(compilation, subjects)


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_no_line_is_longer_than_the_terminal(width: int) -> None:
    assert max(map(len, everything().text(width).splitlines())) <= width


@pytest.mark.parametrize("width", [40, 80])
def test_every_part_begins_at_the_margin_and_says_what_it_is(width: int) -> None:
    text = everything().text(width)
    for subject in ("Operator", "Tensor", "Segment", "Memory", "Model"):
        assert f"\n{subject} " in f"\n{text}"
    assert "\n\n\n" not in text
    assert not any(line != line.rstrip() for line in text.splitlines())


def test_a_segment_of_the_host_has_neither_cores_nor_transfers() -> None:
    compilation = random_compilation(with_host(), 3)
    op = next(op.name for op in compilation.graph.ops if op.host)
    segment = next(i for i, s in enumerate(compilation.plan.segments) if op in s.ops)
    text = str(build_details(compilation, Subjects(segments=(str(segment),))))
    assert "cores       none: the host or" in text and "Transfers" not in text


def test_the_text_is_the_same_each_time() -> None:
    again = build_details(example(), Subjects(operators=(example().graph.ops[0].name,)))
    assert str(again) in str(everything())


def test_hostile_names_move_no_cursor() -> None:
    details = everything()
    op = replace(details.operators[0], name=HOSTILE, origin=(HOSTILE,), losses=HOSTILE)
    tensor = replace(details.tensors[0], name=HOSTILE, reason=HOSTILE, read_by=(HOSTILE,))
    text = replace(details, operators=(op,), tensors=(tensor,)).text()
    assert text.replace("\n", "").isprintable()
    assert "\nrow" not in text


def test_keys_of_the_json_are_stable() -> None:
    data = json.loads(everything().to_json())
    assert list(data) == ["operators", "tensors", "segments", "memories", "models", "format"]
    keys = {
        "operators": "name origin host kernel_engine segment position steps macs elements shape instances cores cell_cores cell tile "
        "weight_stream operands loops alternatives resource predicted cycles work losses waits binds loads rooms advice "
        "instructions begin end",
        "tensors": "name kind shape dtype bytes made_by read_by segments reason again circular stays moves",
        "segments": "row instances splits cell_cores aliased steps resource cycles work losses loads operators transfers "
        "rooms",
        "memories": "name role scope capacity banks interleave bytes_per_cycle peak extent activations constants at step cycle buffers filling "
        "period profile conflicts",
        "models": "name formulation row runs convergence cuts meaning",
    }
    for part, expected in keys.items():
        assert list(data[part][0]) == expected.split(), part


def test_a_table_that_is_too_wide_shortens_names_and_then_becomes_a_list() -> None:
    rows = [("layer4.0.downsample.0.weight", 1234567), ("fc", 1)]
    assert table("name|bytes", rows, 80)[1] == "  layer4.0.downsample.0.weight  1234567"
    assert all(len(line) <= 30 for line in table("name|bytes", rows, 30))
    narrow = table("name|bytes|share|reason", [("a" * 30, 123456789, "100%", "b" * 30)], 40)
    assert narrow[0].startswith("  name aaa")
    assert all(len(line) <= 40 for line in narrow)


def test_bars_are_left_out_and_the_last_text_is_broken_where_there_is_no_room() -> None:
    rows = [("a", "█" * 20, "one two three four five six")]
    assert table("name||why", rows, 80, bars=1, wrapped=True)[1] == f"  a     {'█' * 20}  one two three four five six"
    assert table("name||why", rows, 30, bars=1, wrapped=True) == [
        "  name  why", "  a     one two three four", "        five six",
    ]  # fmt: skip


def test_shortened_keeps_both_ends() -> None:
    assert shortened("layer4.0.conv2.weight", 12) == "layer4…eight"
    assert shortened("short", 12) == "short"


def test_pairs_are_aligned_where_there_is_room() -> None:
    assert pairs([("a", "x"), ("long", "y")], 40) == ["  a     x", "  long  y"]


def test_a_profile_shows_the_fill_from_nothing_to_the_capacity() -> None:
    upper, lower, axis = profile_text((0, 50, 100, 1), 100, 10.0, 80)
    assert upper.split("|")[1] == "  █ "
    assert lower.split("|")[1] == " ██▁"
    assert "40 cycles" in axis
