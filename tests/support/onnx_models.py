"""ONNX graphs of a few nodes, and their comparison with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from girih.api.exact.evaluate_graph import evaluate_graph
from girih.frontend import import_onnx, reference_outputs
from girih.ir.checks.check_graph import check_graph
from girih.ir.graph import Graph, Op

KINDS = {
    "f": onnx.TensorProto.FLOAT,
    "i": onnx.TensorProto.INT64,
    "b": onnx.TensorProto.BOOL,
    "int8": onnx.TensorProto.INT8,
    "uint8": onnx.TensorProto.UINT8,
}
Shape = Sequence[int | str]


class Model:
    """An ONNX graph under construction: each node has one output, named like the node."""

    def __init__(self, opset: int = 17, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.opset = opset
        self.inputs: list[onnx.ValueInfoProto] = []
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, np.ndarray] = {}

    def input(self, name: str, *shape: int | str, kind: str = "f") -> str:
        self.inputs.append(helper.make_tensor_value_info(name, KINDS[kind], shape))
        return name

    def weight(self, name: str, *shape: int, positive: bool = False) -> str:
        values = self.rng.standard_normal(shape).astype(np.float32)
        return self.constant(name, np.abs(values) + np.float32(0.5) if positive else values)

    def constant(self, name: str, value: object, dtype: str | None = None) -> str:
        array = np.asarray(value, dtype)
        self.weights[name] = array.astype(np.float32) if array.dtype == np.float64 else array
        return name

    def node(self, op: str, *inputs: str, name: str = "", outputs: Sequence[str] = (), **attributes: object) -> str:
        name = name or f"{op.lower()}{len(self.nodes)}"
        results = list(outputs) or [name]
        self.nodes.append(helper.make_node(op, list(inputs), results, name=name, **attributes))
        return results[0]

    def build(self, *outputs: str) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "small",
            self.inputs,
            [helper.make_empty_tensor_value_info(o) for o in outputs],
            initializer=[numpy_helper.from_array(a, n) for n, a in self.weights.items()],
        )
        opsets = [helper.make_opsetid("", self.opset)]
        return onnx.shape_inference.infer_shapes(
            helper.make_model(graph, opset_imports=opsets, ir_version=8), data_prop=True
        )


def random_inputs(model: onnx.ModelProto, batch: int = 1, seed: int = 0) -> dict[str, np.ndarray]:
    """Normal floats, small whole numbers; symbolic dimensions get ``batch``."""
    rng = np.random.default_rng(seed)
    weights = {w.name for w in model.graph.initializer}
    arrays: dict[str, np.ndarray] = {}
    for value in model.graph.input:
        if value.name in weights:
            continue
        shape = [d.dim_value or batch for d in value.type.tensor_type.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        if dtype.kind == "f":
            arrays[value.name] = rng.standard_normal(shape).astype(dtype)
        else:
            arrays[value.name] = rng.integers(0, 2, shape).astype(dtype)
    return arrays


def onnxruntime_outputs(model: onnx.ModelProto, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(inputs)), strict=True))


def run_on_host(op: Op, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """A host operator, through TVM's LLVM build."""
    import tvm

    assert op.host is not None
    module = tvm.ir.load_json(op.host.tir)
    function = module["main"]
    results = [
        tvm.runtime.tensor(np.zeros([int(n) for n in p.ty.shape], str(p.ty.dtype.dtype)))
        for p in list(function.params)[len(arrays) :]
    ]
    tvm.compile(module, "llvm")["main"](*(tvm.runtime.tensor(np.ascontiguousarray(a)) for a in arrays), *results)
    return [r.numpy() for r in results]


def error(got: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference, relative to the largest expected value."""
    assert got.shape == expected.shape and got.dtype == expected.dtype
    if not got.size:
        return 0.0
    got, expected = got.astype(np.float64), expected.astype(np.float64)
    return float(np.abs(got - expected).max() / max(1e-30, np.abs(expected).max()))


def distance(got: np.ndarray, expected: np.ndarray) -> float:
    """The norm of the difference, relative to the norm of what is expected."""
    got, expected = got.astype(np.float64), expected.astype(np.float64)
    return float(np.linalg.norm(got - expected) / max(1e-30, float(np.linalg.norm(expected))))


TOLERANCE = {"as-is": 1e-5, "fp16": 2e-2, "bf16": 5e-2}


def compare(
    model: onnx.ModelProto,
    *,
    precision: str = "as-is",
    batch: int | None = None,
    clusters: int = 1,
    tolerance: float | None = None,
    host: bool = False,
) -> Graph:
    """Import, check the graph's rules, and compare what it computes with ONNX Runtime."""
    graph = import_onnx(model, batch=batch, precision=precision, clusters=clusters)  # type: ignore[arg-type]
    check_graph(graph)
    if not host:
        assert [o.name for o in graph.ops if o.host] == []
    for op in graph.ops:
        dtypes = {t.name: t.dtype for t in (*op.buffers, graph.tensor[op.output])}
        for stage in op.stages:
            assert dtypes[stage.write.tensor] not in ("int64", "float64"), f"{op.name}: no engine has such lanes"
    inputs = random_inputs(model, batch or 1)
    got = evaluate_graph(graph, inputs, run_on_host)
    for name, expected in onnxruntime_outputs(model, inputs).items():
        limit = TOLERANCE[precision] if tolerance is None else tolerance
        found = max(error(got[name], expected), distance(got[name], expected))
        assert found <= limit, f"{name}: {found:.2e}\n{graph}"
    return graph


def check_both(model: onnx.ModelProto, tolerance: float = 0.0) -> None:
    """The graph, and the reference that a run is compared with, make of random inputs what ONNX Runtime does.

    They go through the same importer, so that one of them cannot prove the other wrong.
    """
    inputs = random_inputs(model)
    expected = onnxruntime_outputs(model, inputs)
    graph = import_onnx(model)
    check_graph(graph)
    for outputs in (evaluate_graph(graph, inputs, run_on_host), reference_outputs(model, inputs).outputs):
        for name, values in expected.items():
            assert error(outputs[name], values) <= tolerance, f"{name}: {outputs[name]} instead of {values}"


def small_cnn() -> onnx.ModelProto:
    m = Model()
    x = m.node("Relu", m.node("Conv", m.input("x", "N", 3, 6, 6), m.weight("w", 4, 3, 3, 3)))
    x = m.node("Flatten", m.node("GlobalAveragePool", x))
    return m.build(m.node("Gemm", x, m.weight("v", 4, 5), m.weight("b", 5)))


def tokens() -> onnx.ModelProto:
    """Batch and sequence are symbolic, and are folded into one dimension on the way."""
    m = Model()
    x = m.input("x", "batch", "seq", 8)
    y = m.node("Reshape", x, m.constant("flat", [-1, 8]))
    y = m.node("Relu", m.node("MatMul", y, m.weight("w", 8, 6)))
    shape = m.node("Slice", m.node("Shape", x), m.constant("a", [0]), m.constant("b", [2]))
    return m.build(m.node("Reshape", y, m.node("Concat", shape, m.constant("six", [6]), axis=0)))
