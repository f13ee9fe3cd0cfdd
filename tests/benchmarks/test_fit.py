"""The fit of the machine file's guesses: the published figures, and that parameters which made figures are found again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pytest

from benchmarks.calibration.fit import PARAMETERS, RUNS, Figure, Runs, errors, figures, fit, rms, with_main_memory
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine

MACHINE = load_machine("stcp920")


def test_about_half_of_the_figures_are_held_out() -> None:
    told = figures()
    assert len({figure.key for figure in told}) == len(told) == 27
    assert {figure.run for figure in told} == {run.key for run in RUNS}
    assert 12 <= sum(figure.held_out for figure in told) <= 15


@pytest.mark.parametrize("parameter", PARAMETERS, ids=lambda parameter: parameter.name)
def test_a_parameter_is_read_and_set_in_the_machine(parameter: object) -> None:
    chosen = next(p for p in PARAMETERS if p is parameter)
    changed = chosen.set(MACHINE, 99)
    assert chosen.value_in(changed) == 99
    assert chosen.set(changed, chosen.value_in(MACHINE)) == MACHINE


def test_main_memory_has_the_rate_in_its_banks_and_in_its_links() -> None:
    machine = with_main_memory(MACHINE, 34)
    assert machine.levels.home.memory.bytes_per_cycle == 34
    assert [link.bytes_per_cycle for link in machine.links if link.memory == "DDR"] == [34.0]


class Formula:
    """In place of simulations: figures that are formulas of the parameters."""

    def values(self, machine: Machine, keys: Sequence[str]) -> dict[str, dict[str, float]]:
        fill, issue = (PARAMETERS[i].value_in(machine) for i in (0, 1))
        return {key: {"matrix": (100 + fill) / 300, "milliseconds": 1 + (200 + fill + 7 * issue) / 500} for key in keys}


def test_parameters_that_made_the_figures_are_found_again() -> None:
    chosen = PARAMETERS[:2]
    runs = cast("Runs", Formula())
    truth = chosen[1].set(chosen[0].set(MACHINE, 60), 40)
    made = runs.values(truth, ["run"])["run"]
    told = [Figure("run", what, published, False) for what, published in made.items()]
    found = fit(MACHINE, chosen, runs, told, 12)
    assert [p.value_in(found) for p in chosen] == [pytest.approx(60, abs=2), pytest.approx(40, abs=2)]
    assert rms(errors(told, runs.values(found, ["run"]))) < 0.01
