"""Whether a compiled network computes what its ONNX file says: what ONNX Runtime computes, or TVM where that cannot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime

from benchmarks.hostile.case import WrongResultError
from girih.api.check import compare as compare_output
from girih.api.compile import Compiled
from girih.api.run import make_inputs, run
from girih.ir.errors import UsageError

FLOAT16_MAX = float(np.finfo(np.float16).max)

TOLERANCE = {"as-is": 1e-4, "fp16": 2e-2}
"""The largest relative error of an output, by precision: of mistakes, hardly one stays below."""


def judge_network(compiled: Compiled, model: bytes, tolerances: Mapping[str, float] | None = None) -> None:
    """Run on random inputs and compare; ``tolerances`` by output (``None``: :data:`TOLERANCE`); an output
    without one is not compared.

    Raises :class:`WrongResultError` or :class:`CheckError` for a wrong result, :class:`UsageError` if the network
    indexes what is not there.
    """
    inputs = make_inputs(compiled, 0)
    expected = expected_outputs(model, inputs)
    if expected is None:
        violations = compiled.run(inputs).violations
        if violations and all(v.kind == "bounds" and v.mnemonic == "hcall" for v in violations):
            raise UsageError(f"refused when it runs: {violations[0]}")  # An index that the file computes wrong.
        _compare_with_tvm(compiled, inputs)
        return
    result = compiled.run(inputs)
    result.verify()
    compare(compiled, result.outputs, expected, tolerances)


def compare(
    compiled: Compiled,
    outputs: Mapping[str, np.ndarray],
    expected: Mapping[str, np.ndarray],
    tolerances: Mapping[str, float] | None = None,
) -> None:
    """Raise :class:`WrongResultError` where outputs are not what they should be.

    Where half precision was asked for, what float16 cannot hold is its largest number or infinite.
    """
    for port in compiled.graph.outputs:
        if expected[port.name].shape != port.shape or expected[port.name].dtype != port.dtype:
            wanted = expected[port.name]
            raise WrongResultError(
                f"output {port.name!r} is {port.dtype}{list(port.shape)}, for ONNX Runtime "
                f"{wanted.dtype}{list(wanted.shape)}"
            )
    precision = compiled.options.precision
    if precision == "fp16":
        outputs, expected = _within_float16(outputs), _within_float16(expected)
    allowed = dict.fromkeys(expected, TOLERANCE[precision]) if tolerances is None else tolerances
    checks = [compare_output(name, outputs[name], expected[name], allowed[name]) for name in outputs if name in allowed]
    if not all(verdict.passed for verdict in checks):
        errors = ", ".join(f"{o.name!r} by {o.rel_err:.3g} of {o.tolerance:.3g}" for o in checks)
        raise WrongResultError(f"outputs differ from those of ONNX Runtime: {errors}")


def _compare_with_tvm(compiled: Compiled, inputs: Mapping[str, np.ndarray]) -> None:
    """As ``girih run --check``, but for outputs that are all rounding, of which nothing can be said."""
    result = run(compiled, inputs, check=True, seed=0)
    if result.check is not None:
        judged = tuple(output for output in result.check.outputs if output.judgeable)
        result = replace(result, check=replace(result.check, outputs=judged))
    result.verify()


def _within_float16(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {n: np.clip(a, -FLOAT16_MAX, FLOAT16_MAX) if a.dtype.kind == "f" else a for n, a in arrays.items()}


def has_batch(data: bytes) -> bool:
    """Whether an input begins with a symbolic dimension; not of a file that cannot be read."""
    try:
        graph = onnx.ModelProto.FromString(data).graph
    except Exception:
        return False
    shapes = [value.type.tensor_type.shape.dim for value in graph.input]
    return any(shape and not shape[0].HasField("dim_value") for shape in shapes)


def expected_outputs(model: bytes, inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray] | None:
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
