"""Networks on which TVM's fusion, layout and precision passes do something else than ours: decision 0014.

Each test pins what TVM 0.27 does. If a newer TVM fails one, the decision may have lost a reason.
"""

from __future__ import annotations

import onnx
import pytest
import tvm
from tvm import relax, topi
from tvm.relax.frontend.onnx import from_onnx

from girih.frontend import import_onnx
from tests.support.onnx_models import Model

transform = relax.transform
convert_layout = transform.ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"], "relax.nn.conv1d": ["NWC", "OWI"]})


def bindings(module: tvm.IRModule) -> list[relax.VarBinding]:
    """What ``main`` computes, in order."""
    return [b for block in module["main"].body.blocks for b in block.bindings if isinstance(b.value, tvm.ir.Call)]


def fused(model: onnx.ModelProto) -> int:
    """How many kernels TVM's fusion leaves."""
    module = from_onnx(model)
    for step in (transform.LegalizeOps(), transform.AnnotateTIROpPattern(), transform.FuseOps()):
        module = step(module)
    return len(bindings(module))


def moves(module: tvm.IRModule) -> int:
    """How many activations are transposed."""
    return sum(
        getattr(b.value.op, "name", "") == "relax.permute_dims" and not isinstance(b.value.args[0], tvm.ir.GenericConst)
        for b in bindings(module)
    )


def copies(model: onnx.ModelProto) -> int:
    """How many of our operators only move data."""
    graph = import_onnx(model, precision="fp16")
    return sum(all(s.func == "copy" and s.combine is None for s in op.stages) for op in graph.ops)


def mixed(model: onnx.ModelProto) -> list[tuple[str, str]]:
    """Operator and dtype of each result under TVM's mixed precision, without conversions."""
    module = transform.ToMixedPrecision("float32")(from_onnx(model))
    results = [(b.value.op.name.removeprefix("relax."), str(b.var.ty.dtype)) for b in bindings(module)]
    return [(op, dtype) for op, dtype in results if op != "astype"]


def narrow(model: onnx.ModelProto) -> set[str]:
    """The dtypes of what our operators write."""
    graph = import_onnx(model, precision="fp16")
    return {graph.tensor[name].dtype for op in graph.ops for name in op.outputs}


def test_fusion_joins_a_product_with_a_broadcast_of_it() -> None:
    """A pattern is an operator's, not an access's: each row of the sum would compute the product again."""
    m = Model()
    product = m.node("MatMul", m.input("x", 1, 8), m.weight("w", 8, 8), name="product")
    model = m.build(m.node("Add", product, m.input("y", 16, 8), name="sum"))
    assert fused(model) == 1
    assert [op.name for op in import_onnx(model).ops] == ["product", "sum"]


def test_fusion_joins_a_concatenation_with_what_follows() -> None:
    m = Model()
    joined = m.node("Concat", m.input("x", 4, 8), m.input("y", 4, 8), axis=1, name="joined")
    model = m.build(m.node("Relu", joined, name="relu"))
    assert fused(model) == 1
    assert [op.name for op in import_onnx(model).ops] == ["joined", "relu"]


def test_fusion_leaves_statistics_apart() -> None:
    """A normalisation that is written out by hand reads its rows from memory three times."""
    m = Model()
    x = m.input("x", 8, 16)
    centred = m.node("Sub", x, m.node("ReduceMean", x, axes=[1]))
    variance = m.node("ReduceMean", m.node("Mul", centred, centred), axes=[1])
    deviation = m.node("Sqrt", m.node("Add", variance, m.constant("epsilon", 1e-5, "f4")))
    model = m.build(m.node("Div", centred, deviation))
    assert fused(model) == 3
    assert len(import_onnx(model).ops) == 1


def test_fusion_cuts_long_chains() -> None:
    """At 256 operators, unless its configuration says otherwise."""
    m = Model()
    value = m.input("x", 8)
    for number in range(300):
        value = m.node("Sigmoid" if number % 2 else "Tanh", value)
    model = m.build(value)
    assert fused(model) == 2
    assert len(import_onnx(model).ops) == 1


def test_patterns_end_where_they_were_written_to() -> None:
    """A chain of any length is no pattern: what is longer than the longest pattern is left behind."""
    m = Model()
    value = m.node("MatMul", m.input("x", 8, 8), m.weight("w", 8, 8))
    for op in ("Relu", "Sigmoid", "Tanh"):
        value = m.node(op, value)
    model = m.build(value)
    matmul = relax.dpl.is_op("relax.matmul")(relax.dpl.wildcard(), relax.dpl.wildcard())
    pattern = relax.dpl.is_op("relax.nn.relu")(matmul)
    module = transform.FuseOpsByPattern([("product", pattern)], bind_constants=False)(from_onnx(model))
    assert len(bindings(module)) == 3
    assert len(import_onnx(model).ops) == 1


def test_dominators_cannot_be_asked_for() -> None:
    """Fusion has the analysis, Python has not."""
    assert not [n for module in (relax.analysis, transform, tvm.ir) for n in dir(module) if "domin" in n.lower()]


def convolution(m: Model, x: str, name: str) -> str:
    return m.node("Conv", x, m.weight(f"{name}.w", 8, 8, 3, 3), name=name, pads=[1, 1, 1, 1])


def test_layouts_fail_on_five_dimensions() -> None:
    """The importer stacks what is summed."""
    m = Model()
    first = convolution(m, m.input("x", 1, 8, 8, 8), "first")
    model = m.build(m.node("Sum", first, convolution(m, first, "second")))
    with pytest.raises(Exception, match="Invalid SLayout"):
        convert_layout(from_onnx(model))
    import_onnx(model)


def test_layouts_fail_on_dropout() -> None:
    m = Model()
    model = m.build(m.node("Dropout", convolution(m, m.input("x", 1, 8, 8, 8), "conv")))
    with pytest.raises(Exception, match="Expected nested to match tuple"):
        convert_layout(from_onnx(model))
    import_onnx(model)


def test_layouts_stop_at_kernels() -> None:
    """As custom operators are, which are functions of TE or TIR: two more moves around each."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, 8, 8, 8), "float32"))
    weight = relax.Var("w", relax.TensorType((8, 8, 3, 3), "float32"))
    with builder.function("main", [x, weight]):
        with builder.dataflow():
            first = builder.emit(relax.op.nn.conv2d(x, weight, padding=1))
            bounded = builder.emit_te(lambda t: topi.clip(t, 0.0, 6.0), first)
            result = builder.emit_output(builder.emit(relax.op.nn.conv2d(bounded, weight, padding=1)))
        builder.emit_func_output(result)
    activations = 2 + 2  # At the ports, and around the kernel.
    assert moves(convert_layout(builder.get())) == activations + 2  # And each use of the weights.


def test_layouts_leave_transpositions_that_cancel() -> None:
    """A convolution over time in a network whose channels are innermost already, as in a conformer."""
    m = Model()
    inner = m.node("Transpose", m.input("x", 1, 32, 8), perm=[0, 2, 1])
    conv = m.node("Conv", inner, m.weight("w", 8, 8, 3), pads=[1, 1])
    model = m.build(m.node("Transpose", conv, perm=[0, 2, 1]))
    assert moves(convert_layout(from_onnx(model))) == 3  # Two that cancel, and an identity.
    assert copies(model) == 0


def test_mixed_precision_leaves_what_is_no_product_float32() -> None:
    m = Model()
    model = m.build(m.node("Exp", m.node("Add", m.input("x", 4, 8), m.weight("b", 8))))
    assert mixed(model) == [("add", "float32"), ("exp", "float32")]
    assert narrow(model) == {"float16"}


def test_mixed_precision_leaves_what_follows_statistics_float32() -> None:
    """A mean is never narrow, and so neither is what is computed of it, however large: the scaled rows."""
    m = Model()
    product = m.node("MatMul", m.input("x", 4, 8), m.weight("w", 8, 8))
    scaled = m.node("Div", product, m.node("ReduceMean", product, axes=[1]))
    model = m.build(m.node("Softmax", scaled, axis=-1))
    assert mixed(model)[1:] == [("mean", "float32"), ("divide", "float32"), ("nn.softmax", "float32")]
    assert narrow(model) == {"float16"}
