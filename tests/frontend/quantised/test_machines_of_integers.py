"""Machines without an engine for floats compile networks of integers, and name what they cannot compute."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import girih
from girih.ir.errors import UnsupportedError
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from tests.support.quantised_models import KINDS, QDQ, Kind, expected, of_integers, quantised_inputs

OF_INTEGERS = [
    "conv padded",
    "conv depthwise",
    "conv grouped",
    "gemm",
    "matmul with bias",
    "movements",
    "residual network",
]
SIGNED = [kind for kind in KINDS if kind.activations == "int8"]


@pytest.fixture(scope="module")
def machine_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The default machine, whose engines compute with integers alone."""
    text = (Path(girih.__file__).parent / "ir/machines/stcp920.toml").read_text()
    for old, new in (("float16 = 1.0, ", ""), ("float16 = 64, float32 = 32, ", "")):
        assert text.count(old) == 1
        text = text.replace(old, new)
    path = tmp_path_factory.mktemp("machines") / "integers.toml"
    path.write_text(text)
    return path


def engines(machine: Machine) -> set[str]:
    return {dtype for engine in machine.engines for dtype in (*(engine.lanes or {}), *(engine.rate or {}))}


@pytest.mark.parametrize("kind", SIGNED, ids=str)
@pytest.mark.parametrize("name", OF_INTEGERS)
def test_networks_of_integers_need_no_floats(name: str, kind: Kind, machine_file: Path) -> None:
    assert engines(load_machine(machine_file)) == {"int8", "uint8", "int32", "bool"}
    model = of_integers(QDQ[name](kind, 1))
    inputs = quantised_inputs(model)
    compiled = girih.compile(
        model.SerializeToString(), target=machine_file, strategy="graphturbo", solver_timeout=0, cache=False
    )
    assert not any(op.host for op in compiled.graph.ops)
    result = compiled.run(inputs, check="exact")
    assert result.check is not None and result.check.passed and not result.violations
    (got,), want = result.outputs.values(), expected(model, inputs)
    assert got.dtype == want.dtype
    assert (np.abs(got.astype(np.int64) - want) <= 1).mean() >= 0.999


@pytest.mark.parametrize("strategy", ["solver", "graphturbo", "layerwise"])
def test_what_needs_floats_is_refused_by_name(strategy: str, machine_file: Path) -> None:
    model = of_integers(QDQ["elementwise"](SIGNED[0], 1))
    with pytest.raises(UnsupportedError, match=r"operator \w+: dequant gives float32, and VME .* int8, .* add float32"):
        girih.compile(
            model.SerializeToString(),
            target=machine_file,
            strategy=strategy,
            solver_timeout=0,
            cache=False,  # type: ignore[arg-type]
        )
