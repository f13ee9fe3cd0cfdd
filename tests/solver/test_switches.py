"""Each refinement can be switched off, and a valid plan comes out all the same."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from typing import Any, get_args

import pytest

from girih import models
from girih.api.cache import Cache
from girih.api.store import Store
from girih.frontend import import_onnx
from girih.ir.checks.check_plan import check_plan
from girih.ir.errors import UsageError
from girih.ir.graph import Graph
from girih.ir.load_machine import load_machine
from girih.ir.plan import Plan
from girih.solver import plan
from girih.solver.options import Options
from girih.solver.switches import SWITCHES, Switch, checked

MACHINE = load_machine("tiny")
NETWORKS = ("tiny-cnn", "tiny-transformer")
WITH_ATTENTION: frozenset[Switch] = frozenset((
    "aligned-splits", "concat-aliasing", "deep-weights", "engine-overlap", "extended-lifetimes", "greedy-variants",
    "heads-in-rows", "load-parts", "operator-order", "pipeline-model", "residency-model", "result-parts",
    "smaller-memories", "stationary-first", "thirds", "vector-contractions", "weight-separation",
))  # fmt: skip
"""Switches that are tried with the second network, the others with the first one."""


@cache
def graph(network: str) -> Graph:
    params = {"layers": 1} if network == "tiny-transformer" else {}
    return import_onnx(models.build(network, **params), batch=1)


@cache
def planned(network: str, disabled: frozenset[Switch]) -> Plan:
    # Long enough for everything that follows the rounds.
    return plan(graph(network), MACHINE, Options(timeout=5.0, disabled=disabled)).plan


def test_every_switch_has_a_sentence() -> None:
    assert set(SWITCHES) == set(get_args(Switch))
    assert all(sentence.endswith(".") for sentence in SWITCHES.values())


def grouped() -> list[Any]:
    """Three switches at a time, and in thorough runs each alone."""
    cases: list[Any] = []
    for network in NETWORKS:
        names = [switch for switch in SWITCHES if (switch in WITH_ATTENTION) == (network == NETWORKS[1])]
        cases += [
            pytest.param(network, names[i : i + 3], id="-".join(names[i : i + 3])) for i in range(0, len(names), 3)
        ]
        cases += [pytest.param(network, [name], id=name, marks=pytest.mark.thorough) for name in names]
    return cases


@pytest.mark.parametrize(("network", "switches"), grouped())
def test_a_plan_without_them_is_valid(network: str, switches: list[Switch]) -> None:
    # Plans for less memory would take most of the time, and hide what is off.
    without = planned(network, frozenset({*switches, "smaller-memories"}))
    check_plan(without, graph(network), MACHINE)
    assert without.cycles_predicted <= 1.5 * planned(network, frozenset({"smaller-memories"})).cycles_predicted


@pytest.mark.parametrize("network", NETWORKS)
def test_a_plan_without_any_is_valid(network: str) -> None:
    check_plan(planned(network, frozenset(SWITCHES)), graph(network), MACHINE)


def test_what_is_no_switch_is_refused() -> None:
    assert checked(["weight-rings"]) == {"weight-rings"}
    with pytest.raises(
        UsageError, match="there is no refinement 'speed' to switch off; choose from address-reflection"
    ):
        Options(disabled=checked(["speed"]))
    with pytest.raises(UsageError, match="no refinement 'speed'"):
        Options(disabled=frozenset({"speed"}))  # type: ignore[arg-type]


def test_a_kept_plan_is_one_for_the_same_switches(tmp_path: Path) -> None:
    cache = Cache(Store(tmp_path))
    kept: list[bool] = []
    for disabled in ((), (), ("weight-rings",), ("weight-rings", "deep-scratch"), ("deep-scratch", "weight-rings")):
        options = Options(timeout=0.5, disabled=checked(disabled))
        solve = partial(plan, graph("tiny-cnn"), MACHINE, options)
        kept.append(cache.planned(graph("tiny-cnn"), MACHINE, options, solve)[1])
    assert kept == [False, True, False, False, True]
