"""Details as a noun: asked for by public names, read back, saved, and shown in notebooks; and what is wrong input."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import girih
from girih.api.run import run
from girih.ir.errors import UsageError
from girih.ir.trace import Trace
from tests.support.compiled import compiled_residual

OP = compiled_residual().graph.ops[1].name


@lru_cache(maxsize=1)
def trace() -> Trace:
    return run(compiled_residual(), None, check=False, seed=0, data=False).trace


@lru_cache(maxsize=1)
def details() -> girih.Details:
    return compiled_residual().details(
        operators=[OP], tensors=[OP], segments=[np.int64(0), "1"], memories=["LLB"], models=["tiling"], trace=trace()
    )


def test_details_are_asked_for_by_name() -> None:
    assert [row.name for row in details().operators] == [OP]
    assert len(details().segments) == 2
    assert compiled_residual().details(memories=("llb",), trace=trace()).memories == details().memories


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"operators": OP}, rf"operators is '{OP}', of type str; pass a list of names, such as \['{OP}'\]"),
        ({"segments": 0}, r"segments is 0, of type int; pass a list of numbers, such as \[0\]"),
        ({"segments": [0.5]}, r"segments is \[0.5\], of type list; pass a list of numbers"),
        ({"segments": [-1]}, "there is no segment '-1'"),
        ({"memories": [1]}, "pass a list of names"),
    ],
)
def test_wrong_names_say_what_to_pass(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        compiled_residual().details(**asked)


def test_details_read_back_equal_and_know_their_version() -> None:
    again = girih.Details.from_json(details().to_json())
    assert again == details() and str(again) == str(details())
    newer = {**json.loads(details().to_json()), "format": 99}
    with pytest.raises(UsageError, match="details of format 99; this version reads format 1: explain again"):
        girih.Details.from_json(json.dumps(newer))


def test_details_are_saved_by_suffix(tmp_path: Path) -> None:
    for name in ("a.txt", "a.md", "a"):
        details().save(tmp_path / name)
        assert (tmp_path / name).read_text() == f"{details()}\n"
    details().save(tmp_path / "a.json")
    assert girih.Details.from_json((tmp_path / "a.json").read_bytes()) == details()
    with pytest.raises(UsageError, match=r"end the name in \.txt, \.md or \.json"):
        details().save(tmp_path / "a.html")


def test_a_notebook_shows_escaped_text() -> None:
    html = details()._repr_html_()
    assert html.startswith("<pre>") and f"Operator {OP}" in html and html.count("<") == 2


def test_a_trace_of_another_run_is_refused() -> None:
    package = compiled_residual()
    summary, start, end = trace().summary, trace().start, trace().end
    other = Trace(summary, start[1:], end[1:])
    asked: Any = "trace.json"
    for call in (package.explain, lambda trace: package.details(trace=trace)):
        with pytest.raises(
            UsageError, match=r"trace is 'trace\.json', of type str; pass Result.trace of a run of this"
        ):
            call(asked)
        with pytest.raises(UsageError, match=r"the trace is of another program: it has [0-9,]+ instructions in "):
            call(other)
