"""An operator with two inputs and a result, each on the core, in shared or in main memory: all 27 forms.

Movement follows from the plan: what is local is never copied, what is shared is copied between shared and local memory
alone, and what is in main memory comes and goes through the shared one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any, get_args

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tvm import te

import girih
from girih.api.exact.evaluate_graph import evaluate_graph
from girih.frontend import import_onnx
from girih.ir.checks.check_graph import check_graph
from girih.ir.custom_operators import register_operator, registered_for_now
from girih.ir.graph import Access, Graph, Op, Tensor
from girih.ir.load_machine import load_machine
from girih.ir.plan import Plan
from girih.ir.program import Program
from girih.lowering import lower
from girih.simulator import simulate
from tests.support.graphs import Net
from tests.support.plans.scoped_plans import Scope, scoped_plan

TINY = load_machine("tiny")
SHAPE = (12, 12)
SCOPES: tuple[Scope, ...] = get_args(Scope)


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    with registered_for_now():
        register_operator("my.ops", "Distances")(distances)
        register_operator("my.ops", "Scaled", template=by_tiles)(scaled)
        yield


def distances(x: Any, y: Any) -> Any:
    k = te.reduce_axis((0, x.shape[1]), "k")
    difference = te.compute((x.shape[0], y.shape[0], x.shape[1]), lambda i, j, d: x[i, d] - y[j, d], name="difference")
    square = te.compute(difference.shape, lambda i, j, d: difference[i, j, d] * difference[i, j, d], name="square")
    return te.compute((x.shape[0], y.shape[0]), lambda i, j: te.sum(square[i, j, k], axis=k), name="distances")


def scaled(x: Any, y: Any) -> Any:
    twice = te.compute(x.shape, lambda i, j: x[i, j] * 2.0, name="twice")
    return te.compute(x.shape, lambda i, j: twice[i, j] - y[i, j], name="scaled")


def by_tiles(schedule: Any, tile: girih.TilePlan) -> None:
    girih.compute_at_tile(schedule, "twice", girih.tile_loops(schedule, "scaled", tile))


@cache
def custom_op(name: str) -> tuple[Op, Graph]:
    """The one operator that a custom node becomes."""
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, SHAPE) for n in ("a", "b")]
    outputs = [helper.make_tensor_value_info("c", TensorProto.FLOAT, SHAPE)]
    node = helper.make_node(name, ["a", "b"], ["c"], name="op", domain="my.ops")
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my.ops", 1)]
    model = helper.make_model(helper.make_graph([node], "net", inputs, outputs), opset_imports=opsets, ir_version=8)
    assert isinstance(model, onnx.ModelProto)
    graph = import_onnx(model)
    (op,) = graph.ops
    return op, graph


def add_op(net: Net, name: str, a: str, b: str) -> str:
    """The operator in question, built in or a user's, called ``op``."""
    if name == "Add":
        return net.elementwise("op", "add", a, b)
    if name == "MatMul":
        return net.product("op", a, b)
    op, _ = custom_op(name)
    out = net.elementwise("op", "add", a, b)
    own = {buffer.name: f"op{buffer.name.removeprefix(op.name)}" for buffer in op.buffers}
    names = {"a": a, "b": b, "c": out, **own}
    net.ops[-1] = replace(
        op,
        name="op",
        origin=("op",),
        inputs=tuple(names[n] for n in op.inputs),
        outputs=(out,),
        buffers=tuple(Tensor(own[b.name], b.shape, b.dtype) for b in op.buffers),
        stages=tuple(stage.renamed(names) for stage in op.stages),
    )
    return out


@dataclass(frozen=True)
class Form:
    """Where the left and the right input of the operator are, and its result."""

    left: Scope
    right: Scope
    result: Scope

    def __str__(self) -> str:
        return f"{self.left}, {self.right} -> {self.result}"


FORMS = [Form(*scopes) for scopes in product(SCOPES, repeat=3)]


def arisen(name: str, form: Form) -> tuple[Graph, Plan, dict[str, Scope]]:
    """A graph in which the form arises, a plan with it, and where its three tensors are."""
    net = Net(dtype="float32")
    operands: dict[str, str] = {}
    inside: list[str] = []
    groups: list[tuple[str, ...]] = []
    scopes: dict[str, Scope] = {}
    for side, scope in sorted((("left", form.left), ("right", form.right)), key=lambda s: s[1] == "local"):
        source = net.input(f"{side}.x", *SHAPE)
        scopes[source] = "main"
        if scope == "main":
            operands[side] = source
            continue
        operands[side] = net.elementwise(side, "add", source, 1.0)
        scopes[operands[side]] = scope
        if scope == "local":
            inside.append(side)
        else:
            groups.append((side,))
    result = add_op(net, name, operands["left"], operands["right"])
    scopes[result] = form.result
    last = result
    behind: list[tuple[str, ...]] = []
    inside.append("op")
    if form.result != "main":
        last = net.elementwise("after", "add", result, 1.0)
        scopes[last] = "main"
        if form.result == "local":
            inside.append("after")
        else:
            behind.append(("after",))
    graph = net.graph(last)
    check_graph(graph)
    given = {n: s for n, s in scopes.items() if s != "local"}
    plan = scoped_plan(graph, TINY, [*groups, tuple(inside), *behind], given)
    return graph, plan, {n: scopes[n] for n in (operands["left"], operands["right"], result)}


def moved_bytes(program: Program, plan: Plan) -> Counter[tuple[str, str]]:
    """By tensor and kind (load, store, fetch, spill), the bytes that copies and DMA move of it."""
    names = [m.name for m in TINY.memories]
    moved: Counter[tuple[str, str]] = Counter()
    for stream in program.streams:
        for instruction in stream:
            row = instruction.row
            if row.kind not in ("copy", "broadcast", "dma"):
                continue
            places = [names[int(instruction.values[row.position[f"{o.name}.mem"]])] for o in row.operands]
            bases = [int(instruction.values[row.position[f"{o.name}.base"]]) for o in row.operands]
            size = int(np.prod([instruction.values[row.position[d]] for d in row.operands[0].dims])) * 4
            kind = {("L1", "LLB"): "load", ("L1W", "LLB"): "load", ("LLB", "L1"): "store", ("LLB", "DDR"): "fetch",
                    ("DDR", "LLB"): "spill"}.get((places[0], places[1]))  # fmt: skip
            if kind is None:
                continue
            at = bases[places.index("LLB")]
            (buffer,) = (b for b in plan.shared if b.memory == "LLB" and b.address <= at < b.address + b.bytes)
            moved[buffer.tensor, kind] += size
    return moved


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("name", ["Add", "MatMul", "Distances", "Scaled"])
def test_movement_follows_from_the_plan(name: str, form: Form) -> None:
    graph, plan, scopes = arisen(name, form)
    program = lower(graph, plan, TINY)
    random = np.random.default_rng(0)
    inputs = {port.name: random.integers(-2, 3, port.shape).astype(np.float32) for port in graph.inputs}
    trace = simulate(program, TINY, graph.data, inputs)
    assert trace.violations == ()
    for output, expected in evaluate_graph(graph, inputs).items():
        np.testing.assert_array_equal(trace.outputs[output], expected)
    moved = moved_bytes(program, plan)
    size = 4 * SHAPE[0] * SHAPE[1]
    result = graph.op["op"].output
    for tensor, scope in scopes.items():
        kinds = {kind: moved[tensor, kind] for kind in ("load", "store", "fetch", "spill") if moved[tensor, kind]}
        if scope == "local":
            assert not kinds, (tensor, kinds)
        elif scope == "shared":
            assert kinds.keys() == {"load", "store"} and min(kinds.values()) >= size, (tensor, kinds)
        elif tensor == result:
            assert kinds == {"store": size, "spill": size}, (tensor, kinds)
        else:
            assert kinds.keys() == {"fetch", "load"} and kinds["fetch"] == size, (tensor, kinds)


def test_the_judge_of_movement_sees_what_is_spilled() -> None:
    """The same network with the result shared, and spilled."""
    graph, plan, _ = arisen("Add", Form("main", "main", "shared"))
    segments = [segment.ops for segment in plan.segments]
    scopes: dict[str, Scope] = {t.name: "main" for t in graph.tensors}
    spilled = scoped_plan(graph, TINY, segments, scopes)
    result = graph.op["op"].output
    kinds = [moved_bytes(lower(graph, p, TINY), p)[result, "spill"] for p in (plan, spilled)]
    assert kinds == [0, 4 * SHAPE[0] * SHAPE[1]]


def test_an_access_keeps_its_tensor() -> None:
    """What is taken over from the user's operator reads what the form says."""
    graph, _, scopes = arisen("Distances", FORMS[0])
    op = graph.op["op"]
    read = {a.tensor for stage in op.stages for a in stage.reads if isinstance(a, Access)}
    assert {n for n in scopes if n != op.output} <= read


@pytest.mark.parametrize("name", ["Distances", "Scaled"])
def test_the_solver_keeps_the_neighbours_of_a_custom_operator_on_the_core(name: str) -> None:
    """Producers, a user's operator and a consumer become one segment: nothing between them leaves the core."""
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["": 17, "my.ops": 1]>
        net (float[12, 12] x, float[12, 12] w) => (float[12, 12] y)
        {{ a = MatMul (x, w)  b = Exp (a)  c = my.ops.{name} (b, x)  s = Softmax (c)  y = Neg (s) }}"""
    )
    compiled = girih.compile(model, target="tiny", solver_timeout=2, cache=False)
    random = np.random.default_rng(0)
    inputs = {n: (random.random((12, 12)) / 4).astype(np.float32) for n in ("x", "w")}
    assert compiled.run(inputs, check=True).npu_fraction.elements == 1.0
    between = {op.output for op in compiled.graph.ops} - compiled.graph.output_tensors
    assert between and not between & {b.tensor for b in compiled.plan.shared}
