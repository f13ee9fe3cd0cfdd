"""Depthwise convolutions and pools drawn at random: what they compute, and what they are predicted to take."""

from __future__ import annotations

from collections import Counter
from math import inf, prod
from random import Random

import numpy as np
import onnx
import pytest

from girih.frontend import import_onnx
from girih.ir.box import Affine, Box, Span, full, is_empty, shape_of
from girih.ir.graph import DTYPES, Access, Axis, Graph, Op, Port, Stage, Tensor
from girih.ir.isa.table import DTYPE_NAMES, ROWS, Instruction, make
from girih.ir.isa.timing import instruction_cost
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.ir.semantics.region import op_boxes
from girih.lowering import lower
from girih.lowering.emission.kernel import compile_kernel
from girih.lowering.emission.vector import Emitted
from girih.lowering.schedule.cell_spec import byte_strides
from girih.solver.cost.instructions import vector_run
from tests.support.numpy_check import check, error, inputs_of, run
from tests.support.onnx_models import Model, onnxruntime_outputs
from tests.support.plans.random_plans import random_plan
from tests.support.random_graphs import random_graph
from tests.support.sampled import sampled
from tests.support.whole_operator import one_tile

TARGETS = {"tiny": ("as-is", 2e-5), "stcp920": ("fp16", 4e-3)}


def windowed(seed: int) -> onnx.ModelProto:
    """A depthwise convolution or a pool of one or two dimensions: any stride, dilation and padding."""
    rng = Random(f"window {seed}")
    kind = rng.choice(["Conv", "Conv", "MaxPool", "AveragePool"])
    rank = rng.choice([1, 2, 2, 2])
    kernel = [rng.randint(1, 4) for _ in range(rank)]
    dilations = [1 if kind == "AveragePool" else rng.choice([1, 1, 2, 3]) for _ in kernel]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    sizes = [r + rng.randint(0, 9) for r in reach]
    # Pools may not pad by a whole kernel.
    pads = [rng.randint(0, k - 1 if kind != "Conv" else r) for k, r in zip(kernel * 2, reach * 2, strict=True)]
    attributes: dict[str, object] = {"strides": [rng.choice([1, 1, 2, 3]) for _ in kernel], "pads": pads}
    if kind != "AveragePool":
        attributes["dilations"] = dilations
    channels = rng.choice([1, 3, 8, 17, 64, 70])
    m = Model(17, seed)
    x = m.input("x", rng.randint(1, 3), channels, *sizes)
    if kind == "Conv":
        filters = channels * rng.choice([1, 1, 1, 2])
        y = m.node("Conv", x, m.weight("w", filters, 1, *kernel), m.weight("b", filters), group=channels, **attributes)
    else:
        y = m.node(kind, x, kernel_shape=kernel, **attributes)
    return m.build(m.node("Relu", y) if rng.random() < 0.5 else y)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("seed", sampled(range(60)))
def test_cut_anyhow_they_compute_what_onnx_runtime_does(seed: int, target: str) -> None:
    precision, tolerance = TARGETS[target]
    model, machine = windowed(seed), load_machine(target)
    graph = import_onnx(model, precision=precision)  # type: ignore[arg-type]
    inputs = inputs_of(graph, seed)
    plan = random_plan(graph, machine, seed, longest=2)
    trace = run(graph, machine, lower(graph, plan, machine), inputs)
    assert trace.violations == ()
    for name, expected in onnxruntime_outputs(model, inputs).items():
        assert error(np.asarray(trace.outputs[name]), expected) <= tolerance
    check(graph, machine, plan, inputs, tolerance / 4)


def emitted(graph: Graph, machine: Machine, op: Op, target: Box) -> tuple[int, int, Counter[str]]:
    """Cycles that the vector engine is predicted to take and takes for a part of an operator; and its instructions."""
    engine = machine.engine_for("vector")
    boxes = op_boxes(op, graph.tensor, target)
    dtypes = {n: t.dtype for n, t in graph.tensor.items()} | {b.name: b.dtype for b in op.buffers}
    layout = {name: (box, dtypes[name], machine.levels.activations.memory) for name, box in boxes.tensors.items()}
    there = [(s, p) for s, p in zip(op.stages, boxes.points, strict=True) if not is_empty(p)]
    predicted = sum(vector_run(engine, stage, points, layout).busy for stage, points in there)
    dense = {n: byte_strides(shape_of(box), DTYPES[dtypes[n]]) for n, box in boxes.tensors.items()}
    bound, nests = one_tile(op, graph, boxes, {n: s for n, s in dense.items() if n in graph.tensor}, None)
    made: list[Instruction] = []
    for step in compile_kernel(nests, machine).steps:
        assert isinstance(step, Emitted)
        fields: dict[str, int | float] = dict(step.fields)
        for ref in step.refs:
            fields[f"{ref.operand}.dtype"] = DTYPE_NAMES.index(bound.spec.views[int(ref.buffer[1:])].dtype)
            fields[f"{ref.operand}.base"] = ref.offset
            fields |= {f"{ref.operand}.s{i}": s for i, s in enumerate(ref.strides)}
        made.append(make(step.mnemonic, 0, fields))
    taken = sum(instruction_cost(machine, engine, i).busy for i in made)
    return predicted, taken, Counter(i.mnemonic for i in made)


def parts(rng: Random, shape: tuple[int, ...]) -> list[Box]:
    ends = [[sorted((rng.randrange(n), rng.randrange(n))) for n in shape] for _ in range(3)]
    return [full(shape), *(tuple(Span(a, b + 1) for a, b in box) for box in ends)]


def uses_windows(mnemonics: Counter[str]) -> bool:
    return any(ROWS[m].latency == "window" for m in mnemonics)


def wide(seed: int) -> onnx.ModelProto:
    """A depthwise convolution or a pool of few channels over a wide image."""
    rng = Random(f"wide {seed}")
    m = Model(17, seed)
    width, stride, channels = rng.randint(60, 90), rng.choice([1, 1, 2]), rng.choice([8, 12, 24])
    x = m.input("x", 1, channels, rng.randint(20, 30), width)
    padding = {"strides": [stride, stride], "pads": [1, rng.randint(0, 2), 1, rng.randint(1, 2)]}
    if seed % 2:
        y = m.node("Conv", x, m.weight("w", channels, 1, 3, 3), m.weight("b", channels), group=channels, **padding)
    else:
        y = m.node("MaxPool", x, kernel_shape=[3, 3], **padding)
    return m.build(m.node("Relu", y))


def test_positions_along_the_lanes() -> None:
    """The middle of the rows goes along the lanes, what sees padding does not; to the cycle as predicted."""
    machine, several = load_machine("stcp920"), 0
    for seed in range(8):
        graph = import_onnx(wide(seed), precision="fp16")
        op = next(op for op in graph.ops if any(s.combine for s in op.stages))
        predicted, taken, mnemonics = emitted(graph, machine, op, full(graph.tensor[op.output].shape))
        assert taken == predicted if uses_windows(mnemonics) else taken <= predicted
        several += sum(n for name, n in mnemonics.items() if ROWS[name].latency == "window") > 2
        check(graph, machine, random_plan(graph, machine, seed, longest=2, tiles=2), inputs_of(graph, seed), 1e-3)
    assert several >= 4


def test_prediction_and_emission_agree() -> None:
    """To the cycle where windows are used; elsewhere nothing takes longer than predicted."""
    found = 0
    for seed in range(40):
        rng = Random(f"agree {seed}")
        target = rng.choice(list(TARGETS))
        machine = load_machine(target)
        graph = import_onnx(windowed(seed), precision=TARGETS[target][0])  # type: ignore[arg-type]
        for op in graph.ops:
            for box in parts(rng, graph.tensor[op.output].shape):
                predicted, taken, mnemonics = emitted(graph, machine, op, box)
                assert taken == predicted if uses_windows(mnemonics) else taken <= predicted, (
                    seed,
                    op.name,
                    box,
                    predicted,
                    taken,
                    mnemonics,
                )
                found += uses_windows(mnemonics)
    assert found > 40


def test_predictions_of_odd_graphs_are_not_short() -> None:
    for seed in range(60):
        rng = Random(f"odd {seed}")
        target, dtype = rng.choice([("tiny", "float32"), ("stcp920", "float16")])
        machine, graph = load_machine(target), random_graph(seed, dtype, 3)
        for op in graph.ops:
            for box in parts(rng, graph.tensor[op.output].shape):
                predicted, taken, mnemonics = emitted(graph, machine, op, box)
                assert taken <= predicted, (seed, op.name, box, mnemonics)


def test_a_depthwise_convolution_is_one_instruction() -> None:
    m = Model()
    x = m.input("x", 2, 64, 12, 10)
    y = m.node("Conv", x, m.weight("w", 64, 1, 3, 3), m.weight("b", 64), group=64, pads=[1, 1, 1, 1], strides=[2, 2])
    y = m.node("MatMul", m.node("Transpose", y, perm=[0, 2, 3, 1]), m.weight("v", 64, 7))
    graph, machine = import_onnx(m.build(y), precision="fp16"), load_machine("stcp920")
    op = next(op for op in graph.ops if any(s.is_contraction for s in op.stages) and op.contraction is None)
    predicted, taken, mnemonics = emitted(graph, machine, op, full(graph.tensor[op.output].shape))
    assert mnemonics == {"vdwconv.vv": 1, "vadd.vv": 1}
    # 2 images of 6 x 5 outputs, 9 positions each, 64 channels on 64 lanes; then a bias, 2 x 30 times.
    assert predicted == taken == 16 + 2 * 6 * 5 * 9 + 16 + prod((2, 6, 5))


def test_a_maximum_of_nothing_is_not_zero() -> None:
    """Where a window may see nothing, what lies outside is written first; where not, no instruction is wasted."""
    for pads, expected in (([1, 1], {"vpool.max": 1}), ([2, 2], {"vfill.s": 1, "vpool.max": 1})):
        taps = Access("x", (Affine((1, 0, 1), -pads[0]), Affine((0, 1, 0))), -inf)
        axes = (Axis("i", 8 + sum(pads) - 1), Axis("c", 64), Axis("k", 2, True))
        write = Access("y", (Affine((1, 0, 0)), Affine((0, 1, 0))))
        x, y = Tensor("x", (8, 64), "float16"), Tensor("y", (axes[0].extent, 64), "float16")
        op = Op("pool", (), ("x",), ("y",), (), (Stage(axes, write, "copy", (taps,), "max"),))
        graph = Graph(
            "pool", (x, y), (op,), (Port("x", "x", x.shape, "float16"),), (Port("y", "y", y.shape, "float16"),), ()
        )
        predicted, taken, mnemonics = emitted(graph, load_machine("stcp920"), op, full(y.shape))
        assert (predicted, mnemonics) == (taken, expected)
