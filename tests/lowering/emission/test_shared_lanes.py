"""Windows whose positions share the lanes with few channels, bit for bit against loops of numpy."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from random import Random

import numpy as np
import onnx
import pytest

from girih.frontend import import_onnx
from girih.ir.graph import Graph
from girih.ir.isa.table import Instruction, field
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.ir.machines.as_planned import as_planned
from girih.ir.plan import Plan
from girih.ir.program import Program
from girih.lowering import lower
from girih.solver import plan
from girih.solver.options import Options
from tests.support.numpy_check import run
from tests.support.onnx_models import Model
from tests.support.plans.random_plans import random_plan

TARGETS = {"tiny": "as-is", "stcp920": "fp16", "stcp920-2": "fp16", "ascend310": "fp16", "gaudi": "fp16"}
"""With 8, 64 and 128 lanes; of the last two, one stages operands, and one has several engines that share instructions,
whose positions share no lanes."""


@dataclass(frozen=True)
class Windows:
    """Windows of an image; ``pads`` as ONNX has them: above, left, below, right."""

    shape: tuple[int, int, int, int]
    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    pads: tuple[int, int, int, int]


def drawn(rng: Random) -> Windows:
    kernel, dilations = (rng.randint(1, 4), rng.randint(1, 4)), (rng.choice([1, 1, 2]), rng.choice([1, 1, 3]))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    shape = (
        rng.randint(1, 3), rng.choice([1, 2, 3, 5, 12, 24, 32, 48, 70, 96]), reach[0] + rng.randint(0, 6),
        reach[1] + rng.randint(0, 20),
    )  # fmt: skip
    above, left, below, right = (rng.choice([0, k // 2, rng.randint(0, k - 1)]) for k in kernel * 2)
    return Windows(
        shape, kernel, (rng.choice([1, 1, 2]), rng.choice([1, 1, 2, 3])), dilations, (above, left, below, right)
    )


def attributes(w: Windows) -> dict[str, tuple[int, ...]]:
    return {"kernel_shape": w.kernel, "strides": w.strides, "dilations": w.dilations, "pads": w.pads}


def convolution(w: Windows, weights: np.ndarray) -> onnx.ModelProto:
    m = Model(17)
    x, factors = m.input("x", *w.shape), m.constant("w", weights)
    return m.build(m.node("Conv", x, factors, group=w.shape[1], **attributes(w)))


def maximum(w: Windows) -> onnx.ModelProto:
    m = Model(17)
    return m.build(m.node("MaxPool", m.input("x", *w.shape), **attributes(w)))


def expected(w: Windows, x: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Sums of products with weights (channels, 1, rows, columns), or maxima without."""
    above, left, below, right = w.pads
    outside = 0.0 if weights is not None else -np.inf
    image = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (above, below), (left, right)), constant_values=outside)
    reach = [(k - 1) * d for k, d in zip(w.kernel, w.dilations, strict=True)]
    rows, columns = ((image.shape[2 + a] - reach[a] - 1) // w.strides[a] + 1 for a in (0, 1))
    result = np.full((*x.shape[:2], rows, columns), outside)
    for i, j in product(*map(range, w.kernel)):
        top, first = i * w.dilations[0], j * w.dilations[1]
        seen = image[:, :, top : top + (rows - 1) * w.strides[0] + 1 : w.strides[0]]
        seen = seen[..., first : first + (columns - 1) * w.strides[1] + 1 : w.strides[1]]
        result = np.maximum(result, seen) if weights is None else result + seen * weights[:, :, i, j, None]
    return result


def sharing(program: Program) -> list[Instruction]:
    """The instructions in which several positions of several channels lie along the lanes."""
    every = (i for stream in program.streams for i in stream if i.row.latency == "window")
    return [i for i in every if int(field(i, "p")) > 1 and int(field(i, "n")) > 1]


def some_plan(graph: Graph, machine: Machine, seed: int) -> Plan:
    """A random one, or that of a strategy for a machine whose cores meet in main memory."""
    if machine.levels.has_exchange:
        return random_plan(graph, machine, seed, tiles=2)
    return plan(graph, machine, Options(strategy="layerwise", timeout=5.0)).plan


@pytest.mark.parametrize("target", TARGETS)
def test_they_compute_what_numpy_does(target: str) -> None:
    machine, shared = as_planned(load_machine(target)), 0
    for seed in range(24):
        rng, random = Random(f"lanes {seed}"), np.random.default_rng(seed)
        w = drawn(rng)
        # Whole numbers, of which sums are exact in half precision.
        x = random.integers(-8, 9, w.shape).astype(np.float32)
        weights = random.integers(-4, 5, (w.shape[1], 1, *w.kernel)).astype(np.float32) if seed % 3 else None
        model = maximum(w) if weights is None else convolution(w, weights)
        graph = import_onnx(model, precision=TARGETS[target])  # type: ignore[arg-type]
        program = lower(graph, some_plan(graph, machine, seed), machine)
        (port,) = graph.inputs
        trace = run(graph, machine, program, {port.name: x.astype(port.dtype)})
        assert trace.violations == ()
        (output,) = trace.outputs.values()
        np.testing.assert_array_equal(np.asarray(output).astype(np.float64), expected(w, x, weights), str((seed, w)))
        shared += len(sharing(program))
    alone = machine.shared_engine("vector").count == 1
    assert shared > 24 if alone else not shared
