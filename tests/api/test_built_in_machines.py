"""Networks of ``models`` on every machine that ships, small: right to the bit, on the engines that have the type."""

from __future__ import annotations

from pathlib import Path

import pytest

import girih
from girih import models
from girih.ir.graph import NARROWED
from girih.ir.load_machine import load_machine, machine_names
from girih.ir.machines.as_planned import as_planned
from tests.support.quantised_networks import Kind, quantised
from tests.support.sampled import sampled_pairs
from tests.support.small_models import SMALL

QUICK = ("bert-base", "conformer", "dlrm", "tiny-cnn", "tiny-transformer", "vit-b16")
"""The others were tried as well: they take half a minute each on machines of many cores."""


@pytest.mark.parametrize(("machine", "name"), sampled_pairs(machine_names(), QUICK, 6))
def test_networks_are_right_on_every_machine(machine: str, name: str, tmp_path: Path) -> None:
    target = as_planned(load_machine(machine))
    rate = target.engine_for("matrix").rate or {}
    model = models.build(name, **SMALL[name])
    if set(rate) == {"int8"}:
        model = quantised(model, Kind(), tmp_path)
    compiled = girih.compile(
        model.SerializeToString(deterministic=True), target=target, batch=2, strategy="graphturbo", solver_timeout=0,
        precision=next((name for name, dtype in NARROWED.items() if dtype in rate), "as-is"), cache=False,
    )  # fmt: skip
    result = compiled.run(check="exact")
    assert result.cycles >= compiled.plan.lower_bound_cycles
    assert result.npu_fraction.macs >= 0.99
