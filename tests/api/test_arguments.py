"""Arguments of wrong types from Python: a sentence that says what to pass, never a TypeError."""

from __future__ import annotations

import pickle
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import girih
from girih import models
from girih.api import arguments
from girih.api.options import CompileOptions
from girih.ir.errors import UsageError
from girih.ir.files import as_path
from tests.support.compiled import compiled_residual

NETWORK = b"never read"

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"solver_timeout": "x"}, "solver_timeout is 'x', of type str; pass a number"),
    ({"solver_timeout": None}, "solver_timeout is None"),
    ({"solver_timeout": True}, "pass a number"),
    ({"solver_timeout": 10**400}, "solver timeout inf"),
    ({"batch": 2.5}, "batch is 2.5, of type float; pass a whole number"),
    ({"batch": "2"}, "batch is '2', of type str; pass a whole number"),
    ({"batch": True}, "batch is True"),
    ({"batch": np.array([1, 2])}, r"batch is array\(\[1, 2\]\), of type ndarray"),
    ({"seed": 1.0}, "seed is 1.0"),
    ({"dims": [("seq", 3)]}, r"dims is \[\('seq', 3\)\], of type list; pass a dictionary"),
    ({"dims": {1: 3}}, "dims is {1: 3}, of type dict; pass a dictionary whose keys are names"),
    ({"dims": {"seq": 2.5}}, r"dims\['seq'\] is 2.5, of type float"),
    ({"strategy": 3}, "strategy is 3, of type int; pass one of solver, graphturbo, .*, layerwise"),
    ({"precision": ["fp16"]}, "precision is .*, of type list; pass one of as-is, fp16, bf16"),
    ({"target": 5}, "target is 5, of type int; pass a path"),
    ({"target": b"tiny"}, "target is b'tiny'"),
    ({"cache": 5}, "cache is 5, of type int; pass a path"),
    ({"cache": ""}, "cache is ''"),
    ({"progress": 3}, "progress is 3, of type int; pass a function"),
]


@pytest.mark.parametrize(("options", "message"), WRONG)
def test_options_of_wrong_types(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        girih.compile(NETWORK, **options)


@pytest.mark.parametrize("model", [5, None, ["a.onnx"], 2.5, bytearray(b"x"), "a\0b"])
def test_models_of_wrong_types(model: Any) -> None:
    with pytest.raises(UsageError, match=r"pass|cannot read"):
        girih.compile(model, target="tiny")


CALLS: dict[str, tuple[Callable[[Any], object], str]] = {
    "load": (girih.load, "the file is 5, of type int; pass a path"),
    "save": (lambda wrong: compiled_residual().save(wrong), "the file is 5, of type int; pass a path"),
    "inputs": (
        lambda wrong: compiled_residual().run(wrong),
        "inputs are of type int; pass a dictionary of arrays by name",
    ),
    "seed": (lambda wrong: compiled_residual().run(seed=wrong - 6), "seed -1 is negative"),
    "text as seed": (lambda wrong: compiled_residual().run(seed=str(wrong)), "seed is '5'"),  # pyright: ignore
    "trace": (lambda wrong: compiled_residual().run(trace=wrong), "trace is 5, of type int; pass a path"),
    "check": (lambda wrong: compiled_residual().run(check=np.ones(wrong)), "check is array"),  # pyright: ignore
    "outputs": (lambda wrong: compiled_residual().run().save_outputs(wrong), "the file is 5, of type int; pass a path"),
    "report": (lambda wrong: compiled_residual().explain().save(wrong), "the file is 5, of type int; pass a path"),
    "format": (lambda wrong: compiled_residual().explain().save("x", wrong), "there is no format '5'"),
    "machine": (girih.load_machine, "the machine is 5, of type int; pass a path"),
    "sides": (lambda wrong: girih.compare(compiled_residual(), wrong), "b is 5, of type int; pass what girih"),
    "other": (lambda wrong: compiled_residual().diff(wrong), "other is 5, of type int; pass what girih.compile"),
    "name": (
        lambda wrong: compiled_residual().diff(compiled_residual(), names=("x",) * (wrong - 4)),  # pyright: ignore
        r"names is \('x',\), of type tuple; pass two names",
    ),
    "names": (
        lambda wrong: compiled_residual().diff(compiled_residual(), names=wrong),
        "names is 5, of type int; pass a list of names",
    ),
    "curve": (
        lambda wrong: girih.pareto(NETWORK, progress=wrong),
        "progress is 5, of type int; pass a function of one argument",
    ),
    "masked": (
        lambda wrong: compiled_residual().run({"x": np.ma.masked_equal([[wrong, 1]], 1)}),
        "a masked array, whose mask would be lost",
    ),
    "input": (lambda wrong: compiled_residual().run({"x": [[wrong], [1, 2]]}), "input 'x' is no array"),  # pyright: ignore
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_with_wrong_types(name: str) -> None:
    call, message = CALLS[name]
    with pytest.raises(UsageError, match=message):
        call(5)


def test_numbers_of_numpy_are_welcome() -> None:
    options = CompileOptions(
        solver_timeout=np.float32(2),  # pyright: ignore
        batch=np.int64(3),  # pyright: ignore
        dims={"seq": np.int8(5)},  # pyright: ignore
        seed=np.uint8(7),  # pyright: ignore
    )
    assert options == CompileOptions(solver_timeout=2.0, batch=3, dims={"seq": 5}, seed=7)
    found = (options.solver_timeout, options.batch, options.dims["seq"], options.seed)
    assert [type(x) for x in found] == [float, int, int, int]
    # The caller's own dictionary may change later.
    mine = {"seq": 5}
    options = CompileOptions(dims=mine)
    mine["seq"] = 6
    assert options.dims == {"seq": 5}


def test_paths() -> None:
    assert as_path("place", "a/b") == as_path("place", Path("a/b")) == Path("a/b")


def test_long_values_are_shortened() -> None:
    with pytest.raises(UsageError) as caught:
        arguments.whole("batch", "x" * 1000)
    assert len(str(caught.value)) < 150


class Text(str):
    """As many libraries have them."""


@pytest.mark.parametrize("kind", [np.str_, Text])
def test_texts_of_other_classes_are_texts(kind: type[str]) -> None:
    names = {"target": "tiny", "strategy": "solver", "precision": "fp16", "minimise": "cycles"}
    options = CompileOptions(**{name: kind(value) for name, value in names.items()})  # type: ignore[arg-type]
    assert {type(getattr(options, name)) for name in names} == {str}
    assert [type(name) for name in arguments.names("operators", [kind("conv1")])] == [str]


def test_an_unknown_operator_has_no_alternatives() -> None:
    with pytest.raises(KeyError, match="nope"):
        compiled_residual().alternatives("nope")


def test_a_report_can_leave_its_process() -> None:
    report = compiled_residual().explain()
    assert pickle.loads(pickle.dumps(report)) == report


def test_threads_that_explain_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """The models that a compiled network is explained by keep what they compute."""
    compiled, inside, most = replace(compiled_residual()), list[int](), list[int]()

    class Models:
        def for_operator(self, operator: str) -> list[Any]:
            inside.append(1)
            most.append(len(inside))
            time.sleep(0.01)
            inside.pop()
            return []

    monkeypatch.setattr(type(compiled), "_models", Models())
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(compiled.alternatives, [compiled.graph.ops[0].name] * 4))
    assert most == [1] * 4


def test_threads_take_turns() -> None:
    networks = [models.build("tiny-cnn").SerializeToString(), models.build("tiny-transformer").SerializeToString()]

    def digest(network: bytes) -> str:
        compiled = girih.compile(network, target="tiny", batch=1, strategy="layerwise", cache=False, jobs=1)
        assert compiled.run(check=True).check is not None
        return compiled.program_sha256

    alone = [digest(network) for network in networks]
    output = sys.stdout
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(digest, networks * 3)) == alone * 3
    assert sys.stdout is output
