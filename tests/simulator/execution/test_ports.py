"""From the user's arrays to each replica's tensors and back, and host kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from girih.ir.codec import sha256
from girih.ir.errors import UsageError
from girih.ir.isa.table import make
from girih.ir.program import HostKernel, Placed, Program, ProgramPort, Queue
from girih.simulator import simulate
from girih.simulator.execution.numbers import converted
from tests.support.simulator.programs import TINY, array, program, wait

BATCH = 3


def through(tensor_dtype: str = "float16", axis: int | None = 0, out: str = "float32") -> Program:
    """Copies its input to its output within the main memory of two replicas; both are (BATCH, 4)."""
    shape = (2, 4) if axis == 0 else (BATCH, 4)
    size = int(np.prod(shape))
    step = np.dtype(tensor_dtype).itemsize
    ends = array("src", "DDR", 0, tensor_dtype, 0, 0, 0, step) | array("dst", "LLB", 0, tensor_dtype, 0, 0, 0, step)
    back = array("src", "LLB", 0, tensor_dtype, 0, 0, 0, step) | array("dst", "DDR", 512, tensor_dtype, 0, 0, 0, step)
    box = {"n0": 1, "n1": 1, "n2": 1, "n3": size}
    streams = {
        "DMR": [make("dcopy", 0, box | ends)],
        "DMW": [make("wait", 0, {"queue": 0, "count": 1}), make("dcopy", 0, box | back)],
    }
    ports = (
        ProgramPort("x", (BATCH, 4), "float32", axis, 0, tensor_dtype, shape),
        ProgramPort("y", (BATCH, 4), out, axis, 512, tensor_dtype, shape),
    )
    return program(streams, inputs=ports[:1], outputs=ports[1:], replicas=2)


def sample() -> np.ndarray:
    return np.linspace(-3, 3, BATCH * 4, dtype=np.float32).reshape(BATCH, 4)


@pytest.mark.parametrize("axis", [0, None])
def test_the_batch_is_divided_padded_and_joined(axis: int | None) -> None:
    trace = simulate(through(axis=axis), TINY, {}, {"x": sample()})
    assert trace.violations == ()
    assert trace.outputs["y"].dtype == np.float32
    assert np.array_equal(trace.outputs["y"], sample().astype(np.float16).astype(np.float32))


def test_ports_convert() -> None:
    trace = simulate(through("int8", out="int64"), TINY, {}, {"x": sample() * 100})
    assert trace.outputs["y"].dtype == np.int64
    assert np.array_equal(trace.outputs["y"], np.clip(np.trunc(sample() * 100), -128, 127))


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "input x is missing"),
        ({"x": np.zeros((BATCH, 4), np.float32), "z": np.zeros(1)}, "there is no input z"),
        ({"x": np.zeros((BATCH, 5), np.float32)}, "must be float32 \\[3, 4\\], not float32 \\[3, 5\\]"),
        ({"x": np.zeros((BATCH, 4), np.float64)}, "not float64"),
    ],
)
def test_inputs_that_do_not_fit(inputs: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        simulate(through(), TINY, {}, inputs)


def test_another_machine() -> None:
    with pytest.raises(UsageError, match="another machine"):
        simulate(replace(through(), machine_sha256="0" * 64), TINY, {}, {"x": sample()})
    simulate(replace(through(), machine_sha256=sha256(TINY)), TINY, {}, {"x": sample()})
    with pytest.raises(UsageError, match="3 clusters"):
        simulate(replace(through(), replicas=3), TINY, {}, {"x": sample()})
    with pytest.raises(UsageError, match="a queue for VME7"):
        simulate(replace(through(), queues=(Queue("VME", 7), Queue("DMW"))), TINY, {}, {"x": sample()})


def test_an_output_that_nothing_wrote_is_a_violation() -> None:
    missing = through()
    missing = replace(missing, streams=((), ()))
    trace = simulate(missing, TINY, {}, {"x": sample()})
    assert [v.kind for v in trace.violations] == ["uninitialised"]
    assert "the output y" in trace.violations[0].message


def test_constants() -> None:
    weights = np.arange(8, dtype=np.float16)
    constant = Placed("w", 0, "float16", (8,), "")
    port = ProgramPort("y", (8,), "float32", None, 512, "float16", (8,))
    source = replace(through(), inputs=(), constants=(constant,), outputs=(port,))
    trace = simulate(source, TINY, {"w": weights}, {})
    assert trace.violations == ()
    assert np.array_equal(trace.outputs["y"], weights)
    for data, message in (({}, "is missing"), ({"w": weights[:4]}, "must be float16")):
        with pytest.raises(UsageError, match=message):
            simulate(source, TINY, data, {})


def test_what_overlaps_a_constant_sees_and_changes_it() -> None:
    constant = Placed("w", 0, "float16", (4,), "")
    neighbour = ProgramPort("x", (4,), "float16", None, 8, "float16", (4,))
    port = ProgramPort("y", (8,), "float16", None, 512, "float16", (8,))
    source = replace(through(), inputs=(neighbour,), constants=(constant,), outputs=(port,))
    trace = simulate(source, TINY, {"w": np.arange(4, dtype=np.float16)}, {"x": np.arange(4, 8, dtype=np.float16)})
    assert trace.violations == ()
    assert np.array_equal(trace.outputs["y"], np.arange(8))


def test_a_broadcast_reaches_the_cores_of_its_mask() -> None:
    box = {"n0": 1, "n1": 1, "n2": 1, "n3": 8}

    def ends(source: str, start: int, target: str, to: int) -> dict[str, int]:
        return array("src", source, start, "float16", 0, 0, 0, 2) | array("dst", target, to, "float16", 0, 0, 0, 2)

    streams = {
        "DMR": [make("dcopy", 0, box | ends("DDR", 0, "LLB", 0))],
        "MTI0": [wait(0, 1), make("mbcast", 0, box | ends("LLB", 0, "L1", 64) | {"cores": 0b10})],
        "MTO1": [wait(1, 2), make("mcopy", 0, box | ends("L1", 64, "LLB", 128))],
        "DMW": [wait(2, 2), make("dcopy", 0, box | ends("LLB", 128, "DDR", 512))],
        "MTO0": [wait(1, 2), make("mcopy", 0, box | ends("L1", 64, "LLB", 256))],
    }
    ports = through(axis=0)
    trace = simulate(
        program(streams, inputs=ports.inputs, outputs=ports.outputs, replicas=2), TINY, {}, {"x": sample()}
    )
    assert np.array_equal(trace.outputs["y"], sample().astype(np.float16))
    assert [(v.kind, v.queue) for v in trace.violations] == [("uninitialised", 4)]


def hosted() -> Program:
    kernel = HostKernel(
        "sort", "", "data-dependent", (Placed("a", 0, "float16", (2, 4)),), (Placed("b", 512, "float16", (2, 4)),)
    )
    return replace(through(), queues=(Queue("HOST"),), streams=((make("hcall", 0, {"kernel": 0}),),), kernels=(kernel,))


def test_a_host_kernel_runs_once_for_each_replica() -> None:
    calls: list[tuple[int, ...]] = []

    def sort(kernel: HostKernel, arrays: Sequence[np.ndarray], report: Callable[[str], None]) -> list[np.ndarray]:
        assert kernel.name == "sort"
        calls.append(arrays[0].shape)
        return [-np.sort(-arrays[0], axis=1)]

    trace = simulate(hosted(), TINY, {}, {"x": sample()}, host=sort)
    assert calls == [(2, 4), (2, 4)]
    assert trace.violations == ()
    assert np.array_equal(trace.outputs["y"], converted(sample()[:, ::-1], "float16"))


def test_a_host_kernel_needs_a_host() -> None:
    with pytest.raises(UsageError, match="the kernel sort"):
        simulate(hosted(), TINY, {}, {"x": sample()})
    assert simulate(hosted(), TINY, {}, {}, data=False).cycles == 1000 + 8
