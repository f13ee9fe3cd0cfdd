"""Whatever a machine file says: it is refused with its line, or what is compiled for it is right in every element."""

from __future__ import annotations

import re
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import girih
from benchmarks.hostile.machine_files import machine_file, plausible_machine_file
from girih.ir.checks.check_machine import problems
from girih.ir.checks.machine_effects import without_effect
from girih.ir.errors import InfeasibleError, UnsupportedError, UsageError
from girih.ir.load_machine import parse_machine
from girih.models import build

RANDOMS = st.randoms(use_true_random=False)
NETWORK = build("tiny-cnn", size=8, width=4).SerializeToString()
UNHURRIED = settings(deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))


@settings(UNHURRIED, max_examples=250)
@given(RANDOMS)
def test_a_file_is_refused_with_its_line_or_makes_sense(random: Random) -> None:
    text = machine_file(random)
    try:
        machine = parse_machine(text, "machine.toml")
    except UsageError as error:
        line = re.match(r"machine\.toml:(\d+): .{10}", str(error), re.DOTALL)
        assert line is not None, error
        assert 1 <= int(line[1]) <= text.count("\n") + 1, error
    else:
        assert not list(problems(machine))
        assert all(re.search(r"\(in \w+\[\d\]", warning) for warning in without_effect(machine))


@settings(UNHURRIED, max_examples=8)
@given(RANDOMS, st.sampled_from(["layerwise", "graphturbo", "solver"]), st.sampled_from(["as-is", "fp16"]))
def test_what_is_compiled_is_right(random: Random, strategy: str, precision: str) -> None:
    machine = parse_machine(plausible_machine_file(random), "machine.toml")
    options = {"strategy": strategy, "precision": precision, "batch": 2, "solver_timeout": 0, "cache": False}
    try:
        compiled = girih.compile(NETWORK, target=machine, **options)  # type: ignore[arg-type]
    except (InfeasibleError, UnsupportedError) as error:
        assert any(
            memory.name in str(error) or machine.use_of(memory.name) in str(error) for memory in machine.memories
        ), error
    else:
        assert compiled.run(check="exact").cycles >= compiled.plan.lower_bound_cycles
