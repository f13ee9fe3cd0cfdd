"""A compilation says what of the machine stays unused, and what to change."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import girih
from girih.ir.checks.machine_effects import without_effect
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from tests.support.machines import with_count
from tests.support.onnx_models import Model

STCP = load_machine("stcp920")


def network() -> bytes:
    model = Model()
    x = model.input("x", 1, 8, 10, 10)
    hidden = model.node("Relu", model.node("Conv", x, model.weight("w", 16, 8, 3, 3), name="conv"))
    return model.build(model.node("Softmax", hidden, name="out")).SerializeToString()


def compiled(target: Machine, precision: str) -> girih.Compiled:
    return girih.compile(
        network(), target=target, precision=precision, strategy="graphturbo", solver_timeout=0, cache=False
    )  # type: ignore[arg-type]


def with_rate(machine: Machine, **rate: float) -> Machine:
    engines = tuple(replace(e, rate=rate) if e.rate else e for e in machine.engines)
    return replace(machine, name="mine", engines=engines)


def test_a_matrix_engine_without_the_dtype() -> None:
    slow = compiled(STCP, "as-is")
    assert slow.warnings == (
        "MME is idle: 1 of 1 matrix products and convolutions, 100% of the MACs, are in float32 and run on VME, "
        "because MME multiplies only float16 and int8; compile with --precision fp16, or give MME a rate for float32 "
        "in the machine file",
    )
    report = slow.explain()
    assert report.warnings == slow.warnings
    assert "Warnings: what of the machine stays unused" in str(report)
    # What it advises helps, either way.
    half = compiled(STCP, "fp16")
    wide = compiled(with_rate(STCP, float32=1.0), "as-is")
    assert not half.warnings and "Warnings" not in str(half.explain())
    assert not any("MME" in warning for warning in wide.warnings)
    for faster in half, wide:
        assert faster.plan.cycles_predicted < slow.plan.cycles_predicted


def test_half_precision_is_not_advised_where_it_does_not_help() -> None:
    (warning,) = (w for w in compiled(with_rate(STCP, int8=2.0), "as-is").warnings if "MME" in w)
    assert "--precision" not in warning and "give MME a rate for float32" in warning


@pytest.mark.parametrize(
    ("kind", "rate", "multiplied"), [("uint8", {"uint8": 1.0}, "nothing"), ("int8", {"float16": 1.0}, "only float16")]
)
def test_a_rate_of_int8_is_asked_for(kind: str, rate: dict[str, float], multiplied: str) -> None:
    """It is that of uint8, too, whose own has no effect: what is advised helps."""
    model = Model()
    weight = model.constant("w", [[3, 1], [4, 1]], kind)
    network = model.build(model.node("MatMulInteger", model.input("x", 2, 2, kind="uint8"), weight)).SerializeToString()

    def warnings(machine: Machine) -> list[str]:
        compiled = girih.compile(network, target=machine, strategy="graphturbo", solver_timeout=0, cache=False)
        return [warning for warning in compiled.warnings if "MME is idle" in warning]

    (warning,) = warnings(with_rate(STCP, **rate))
    assert f"because MME multiplies {multiplied}; give MME a rate for int8 in the machine file" in warning
    assert not warnings(with_rate(STCP, **rate, int8=1.0))


def test_keys_of_a_machine_file_without_effect() -> None:
    engines = tuple(replace(e, queue_depth=8) if e.name == "VME" else e for e in STCP.engines)
    warnings = compiled(replace(STCP, engines=engines), "fp16").warnings
    assert "queue_depth of VME has no effect: a queue takes all that comes (in engines[1].queue_depth)" in warnings
    # Who compiles for a built-in machine cannot change its file.
    assert not compiled(STCP, "fp16").warnings


def test_places_and_names_are_those_of_the_file_where_an_entry_counts_engines(tmp_path: Path) -> None:
    machine = with_count(replace(STCP, name="mine"), {"matrix": 2, "vector": 3, "broadcast": 2})
    engines = tuple(replace(e, queue_depth=8) if "dma" in e.classes else e for e in machine.engines)
    machine = replace(machine, engines=engines)
    result = compiled(machine, "as-is")
    idle, *rest = result.warnings
    assert idle.startswith("MME is idle") and "run on VME, because MME multiplies" in idle and "give MME a rate" in idle
    assert tuple(rest) == without_effect(machine) and any(w.startswith("count of ") for w in rest)
    result.save(tmp_path / "mine.girih")
    again = girih.load(tmp_path / "mine.girih")
    assert again.warnings == result.warnings == again.explain().warnings


def test_lanes_that_are_missing_are_named() -> None:
    engines = tuple(replace(e, lanes={"float16": 64}) if e.lanes else e for e in STCP.engines)
    with pytest.raises(
        girih.UnsupportedError,
        match="max gives float32, and VME of mine has lanes for float16 alone; add float32 to the lanes of VME in the mach",
    ):
        compiled(replace(STCP, name="mine", engines=engines), "as-is")


def test_an_engine_that_is_never_used_is_named_where_it_has_the_types() -> None:
    other = replace(STCP.engine["MME"], name="WIDE", rate={"float32": 1.0})
    machine = replace(STCP, name="mine", engines=(*STCP.engines, other))
    idle, *_, unused = compiled(machine, "as-is").warnings
    assert (
        "because MME multiplies only float16 and int8 (WIDE would compute in float32, but only the first matrix engine "
        "of a core that fits is used); compile with --precision fp16, or give MME a rate for float32" in idle
    )
    assert unused.startswith("WIDE is never used: matrix instructions run on MME")
    assert "which does not compute in float32; give MME the rate of WIDE for float32" in unused
    few = replace(STCP.engine["VME"], name="FEW", lanes={"float16": 64})
    with pytest.raises(
        girih.UnsupportedError, match=r"has lanes for float16 alone \(VME would compute in float32, but"
    ):
        compiled(replace(STCP, name="mine", engines=(few, *STCP.engines)), "as-is")
