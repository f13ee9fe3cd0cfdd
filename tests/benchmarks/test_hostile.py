"""A small part of ``benchmarks/hostile``: damaged files are refused with a message, or their results are right."""

from __future__ import annotations

from itertools import islice

import pytest

from benchmarks.hostile.case import Case, Outcome, WrongResultError, judge
from benchmarks.hostile.families import FAMILIES, cases_of, counts
from girih.ir.errors import CheckError, InfeasibleError, UsageError

CASES = {"onnx": 36, "girih": 40, "cli": 36}
"""How many cases of each family are tried."""


@pytest.mark.parametrize(("family", "count"), CASES.items())
def test_there_is_no_defect(family: str, count: int) -> None:
    outcomes = [judge(case, FAMILIES[family].attempt) for case in islice(FAMILIES[family].cases(0), count)]
    assert [o for o in outcomes if o.is_defect] == []
    assert {o.verdict for o in outcomes} == {"refused", "right"}


@pytest.mark.parametrize("family", FAMILIES)
def test_cases_follow_from_the_seed(family: str) -> None:
    first, again, different = (list(islice(FAMILIES[family].cases(seed), 40)) for seed in (3, 3, 4))
    assert first == again
    assert first != different


def test_slow_families_have_fewer_cases_and_none_is_lost() -> None:
    shares = counts(20_000, list(FAMILIES))
    assert sum(shares.values()) == 20_000 and min(shares.values()) >= 1_500
    assert min(shares, key=lambda name: shares[name]) == "machine"
    assert counts(5, ["machine", "cli"]) == {"machine": 2, "cli": 3}


def test_cases_are_made_when_they_are_asked_for() -> None:
    made = list(islice(cases_of({"cli": 2, "machine": 10**9}, 3), 5))
    assert [case.family for case in made] == ["cli", "cli", "machine", "machine", "machine"]


def judged(error: Exception | None) -> Outcome:
    def attempt(case: Case) -> None:
        if error is not None:
            raise error

    return judge(Case("onnx", "kind", "change", b""), attempt)


def test_verdicts() -> None:
    assert judged(None).verdict == "right"
    assert judged(UsageError("no such file")).verdict == "refused"
    assert judged(InfeasibleError("too large")).verdict == "refused"
    assert judged(UsageError(" ")).verdict == "internal error"
    assert judged(KeyError("shape")).verdict == "internal error"
    assert judged(WrongResultError("by 1")).verdict == judged(CheckError("a race")).verdict == "wrong result"
    assert "test_hostile.py" in judged(ValueError()).where and "attempt" in judged(ValueError()).where
