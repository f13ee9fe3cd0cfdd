"""Hostile ONNX files: small networks with a few changes each. What is accepted is compared with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from random import Random

import numpy as np
import onnx
import onnxruntime

import girih
from benchmarks.hostile.case import Case, WrongResultError
from benchmarks.hostile.onnx_changes import CHANGES, damaged
from benchmarks.hostile.onnx_networks import NETWORKS, build
from girih.api.check import check
from girih.api.compile import Compiled
from girih.api.run import make_inputs
from girih.ir.errors import UsageError

TOLERANCE = {"as-is": 1e-4, "fp16": 2e-2}
"""The largest relative error of an output, by precision: of mistakes, hardly one stays below."""


@cache
def network(name: str) -> bytes:
    return build(name).SerializeToString(deterministic=True)


def mutations(seed: int) -> Iterator[Case]:
    """Each network as it is, and then without end with one to three changes or with damaged bytes.

    One case in eight goes through the whole solver, one in four is in half precision.
    """
    for name in NETWORKS:
        yield Case("onnx", "right", name, network(name), {"strategy": "graphturbo", "precision": "as-is"})
    number = 0
    while True:
        for position, name in enumerate(NETWORKS):
            rng = Random(f"{seed} {number} {name}")
            kind = (number * len(NETWORKS) + position) % (len(CHANGES) + 1)
            case = _mutation(name, kind, rng)
            if case is not None:
                yield case
        number += 1


def _mutation(name: str, kind: int, rng: Random) -> Case | None:
    """The network after the change of this kind and perhaps one or two others."""
    options = {
        "strategy": "solver" if rng.random() < 1 / 8 else "graphturbo",
        "precision": "fp16" if rng.random() < 1 / 4 else "as-is",
    }
    if kind == len(CHANGES):
        text, data = damaged(network(name), rng)
        return Case("onnx", "damaged", f"{name}: {text}", data, options)
    model = onnx.ModelProto.FromString(network(name))
    changes = [CHANGES[kind], *rng.sample(CHANGES, rng.choice((0, 0, 0, 1, 2)))]
    texts = [change(model, rng) for change in changes]
    if texts[0] is None:
        return None
    text = "; ".join(t for t in texts if t is not None)
    return Case("onnx", CHANGES[kind].__name__, f"{name}: {text}", model.SerializeToString(deterministic=True), options)


def attempt(case: Case) -> None:
    """Compile the file, run it on random inputs and compare with ONNX Runtime, or TVM where that refuses the file."""
    model = case.data
    dynamic = _has_batch(model)
    compiled = girih.compile(
        model, target="tiny", solver_timeout=0.5, batch=2 if dynamic else None, cache=False, **case.options
    )
    inputs = make_inputs(compiled, 0)
    expected = _expected(model, inputs)
    if expected is None:
        violations = compiled.run(inputs).violations
        if violations and all(v.kind == "bounds" and v.mnemonic == "hcall" for v in violations):
            raise UsageError(f"refused when it runs: {violations[0]}")  # An index that the file computes wrong.
        compiled.run(inputs, check=True)
        return
    result = compiled.run(inputs)
    result.verify()
    compare(compiled, result.outputs, expected)


def compare(compiled: Compiled, outputs: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> None:
    """Raise :class:`WrongResultError` where outputs are not what they should be."""
    for port in compiled.graph.outputs:
        if expected[port.name].shape != port.shape or expected[port.name].dtype != port.dtype:
            wanted = expected[port.name]
            raise WrongResultError(
                f"output {port.name!r} is {port.dtype}{list(port.shape)}, for ONNX Runtime "
                f"{wanted.dtype}{list(wanted.shape)}"
            )
    tolerance = TOLERANCE[compiled.options.precision]
    verdict = check(compiled.graph, outputs, expected, None, dict.fromkeys(expected, tolerance))
    if not verdict.passed:
        errors = ", ".join(f"{o.name!r} by {o.rel_err:.3g}" for o in verdict.outputs)
        raise WrongResultError(f"outputs differ from those of ONNX Runtime: {errors}")


def _has_batch(data: bytes) -> bool:
    """Whether an input begins with a symbolic dimension; not of a file that cannot be read."""
    try:
        graph = onnx.ModelProto.FromString(data).graph
    except Exception:
        return False
    shapes = [value.type.tensor_type.shape.dim for value in graph.input]
    return any(shape and not shape[0].HasField("dim_value") for shape in shapes)


def _expected(model: bytes, inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray] | None:
    """The outputs by ONNX Runtime; ``None`` if it does not take the file, or lacks an operator."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(model, options)
        names = [o.name for o in session.get_outputs()]
        return dict(zip(names, session.run(names, dict(inputs)), strict=True))
    except Exception:
        return None
