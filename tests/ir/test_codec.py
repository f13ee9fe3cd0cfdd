"""JSON of the nouns: what is written reads back equal, infinities too."""

from __future__ import annotations

import math

import pytest

from girih.ir.box import Affine
from girih.ir.codec import from_json, sha256, to_json
from girih.ir.errors import UsageError
from girih.ir.graph import Access, Axis, Stage


@pytest.mark.parametrize("fill", [None, 0.0, -math.inf, math.inf, 1.5])
def test_a_stage_reads_back_equal(fill: float | None) -> None:
    index = (Affine((1,), -1),)
    read = Access("x", index, fill)
    stage = Stage((Axis("i", 4),), Access("y", index), "max", (read, -math.inf), None)
    assert from_json(to_json(stage), Stage) == stage
    assert sha256(from_json(to_json(stage), Stage)) == sha256(stage)


def test_anything_else_is_refused_with_its_place() -> None:
    with pytest.raises(UsageError, match="axes"):
        from_json(b'{"axes": 3}', Stage)
