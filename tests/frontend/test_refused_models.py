"""What cannot be read or compiled is refused with a message that names it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import external_data_helper, helper, parser

from girih.frontend import import_onnx
from girih.frontend.onnx import prepare
from girih.frontend.onnx.dims import bind
from girih.ir.errors import UnsupportedError, UsageError
from tests.support.onnx_models import Model


def simple() -> onnx.ModelProto:
    m = Model()
    return m.build(m.node("MatMul", m.input("x", 4, 64), m.weight("w", 64, 8), name="product"))


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read .*absent\.onnx: No such file"):
        import_onnx(tmp_path / "absent.onnx")
    with pytest.raises(UsageError, match="Is a directory"):
        import_onnx(tmp_path)


@pytest.mark.parametrize("content", [b"", b"not a model\n", b"\x00" * 100, bytes(range(256)), b"PK\x03\x04zip", b"{}"])
def test_not_onnx(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "odd.onnx"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"odd\.onnx"):
        import_onnx(path)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.99])
def test_truncated(tmp_path: Path, share: float) -> None:
    path = tmp_path / "cut.onnx"
    data = simple().SerializeToString()
    path.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(UsageError, match=r"cut\.onnx"):
        import_onnx(path)


def external(tmp_path: Path) -> Path:
    model = simple()
    external_data_helper.convert_model_to_external_data(model, location="weights.bin", size_threshold=0)
    onnx.save_model(model, tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def test_external_data(tmp_path: Path) -> None:
    assert len(import_onnx(external(tmp_path)).constants) == 1


def test_missing_external_data(tmp_path: Path) -> None:
    path = external(tmp_path)
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(UsageError, match=r"model\.onnx: its external data cannot be read.*weights\.bin"):
        import_onnx(path)


def test_short_external_data(tmp_path: Path) -> None:
    path = external(tmp_path)
    (tmp_path / "weights.bin").write_bytes(b"short")
    with pytest.raises(UsageError, match=r"model\.onnx.*"):
        import_onnx(path)


def test_unknown_operator() -> None:
    m = Model()
    m.nodes.append(helper.make_node("Frobnicate", [m.input("x", 3)], ["y"], name="odd"))
    graph = helper.make_graph(m.nodes, "g", m.inputs, [helper.make_empty_tensor_value_info("y")])
    with pytest.raises(UnsupportedError, match="node 'odd': operator Frobnicate is not supported"):
        import_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))


def test_unknown_domain() -> None:
    m = Model()
    m.nodes.append(helper.make_node("Relu", [m.input("x", 3)], ["y"], name="odd", domain="my.company"))
    graph = helper.make_graph(m.nodes, "g", m.inputs, [helper.make_empty_tensor_value_info("y")])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my.company", 1)]
    with pytest.raises(UnsupportedError, match=r"node 'odd': operator my\.company\.Relu is of an unknown domain"):
        import_onnx(helper.make_model(graph, opset_imports=opsets, ir_version=8))


def test_nodes_without_names_are_named_by_their_result() -> None:
    m = Model()
    m.nodes.append(helper.make_node("Frobnicate", [m.input("x", 3)], ["result"]))
    graph = helper.make_graph(m.nodes, "g", m.inputs, [helper.make_empty_tensor_value_info("result")])
    with pytest.raises(UnsupportedError, match="'result'"):
        import_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))


def test_shape_that_depends_on_data() -> None:
    m = Model()
    with pytest.raises(UnsupportedError, match=r"node 'where': .*NonZero"):
        import_onnx(m.build(m.node("NonZero", m.input("x", 3, 5), name="where")))


def test_shapes_that_do_not_fit() -> None:
    m = Model()
    m.nodes.append(helper.make_node("MatMul", [m.input("x", 4, 7), m.weight("w", 8, 5)], ["y"], name="product"))
    graph = helper.make_graph(
        m.nodes,
        "g",
        m.inputs,
        [helper.make_empty_tensor_value_info("y")],
        [onnx.numpy_helper.from_array(a, n) for n, a in m.weights.items()],
    )
    with pytest.raises(UsageError, match=r"inconsistent.*product"):
        import_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))


def test_input_of_an_odd_type() -> None:
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.STRING, [2])],
        [helper.make_empty_tensor_value_info("y")],
    )
    with pytest.raises(UnsupportedError, match="input 'x'"):
        import_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))


def test_training_mode() -> None:
    m = Model()
    parameters = [m.weight(n, 4, positive=True) for n in "abcd"]
    m.node(
        "BatchNormalization", m.input("x", 2, 4, 3), *parameters, training_mode=1, name="bn", outputs=["y", "m", "v"]
    )
    with pytest.raises(UnsupportedError, match="node 'bn': BatchNormalization in training mode"):
        import_onnx(m.build("y"))


REFUSED = {
    "antialias": ("Resize", {"mode": "linear", "antialias": 1}),
    "keep_aspect_ratio": ("Resize", {"mode": "linear", "keep_aspect_ratio_policy": "not_larger"}),
    "exclude_outside": ("Resize", {"mode": "cubic", "exclude_outside": 1}),
    "no whole sizes": ("Resize", {"mode": "nearest"}),
}


@pytest.mark.parametrize("message", REFUSED)
def test_forms_that_tvm_would_get_wrong(message: str) -> None:
    op, attributes = REFUSED[message]
    m = Model(opset=18)
    scales = m.constant("scales", np.array([1, 1, 0.7, 0.7], np.float32))
    with pytest.raises(UnsupportedError, match=f"node 'odd': {op}: .*{message}"):
        import_onnx(m.build(m.node(op, m.input("x", 1, 1, 4, 4), "", scales, name="odd", **attributes)))


def test_dropout_that_drops() -> None:
    m = Model()
    x = m.node("Dropout", m.input("x", 3), m.constant("ratio", 0.5), m.constant("training", True), name="drop")
    with pytest.raises(UnsupportedError, match="node 'drop': Dropout in training mode"):
        import_onnx(m.build(m.node("Relu", x)))


def test_tensors_without_elements() -> None:
    m = Model()
    x = m.node(
        "Slice", m.input("x", 3, 5), m.constant("a", [4]), m.constant("b", [4]), m.constant("c", [1]), name="none"
    )
    with pytest.raises(UnsupportedError, match="node 'none': Slice of tensors without elements"):
        import_onnx(m.build(m.node("Relu", x)))


@pytest.mark.parametrize(
    ("op", "attributes", "shape"),
    [
        ("ConvTranspose", {"pads": [2, 0, 1, 2]}, [1, 2, -1, 5]),
        ("ConvTranspose", {"pads": [2, 0, 0, 2]}, [1, 2, 0, 5]),
        ("ConvTranspose", {"pads": [2, 0, 1, 2], "strides": [1, 2]}, [1, 2, -1, 9]),
        ("Conv", {"dilations": [2, 1]}, [1, 2, 0, 3]),
        ("MaxPool", {"kernel_shape": [4, 3]}, [1, 2, -1, 3]),
        ("AveragePool", {"kernel_shape": [4, 3]}, [1, 2, -1, 3]),
    ],
)
def test_results_of_negative_size(op: str, attributes: dict[str, object], shape: list[int]) -> None:
    m = Model()
    height = {"Conv": 2, "ConvTranspose": 1}.get(op)
    filters = [] if height is None else [m.weight("w", 2, 2, height, 3)]
    model = m.build(m.node(op, m.input("x", 1, 2, 2, 5), *filters, name="up", **attributes))
    with pytest.raises(UsageError, match=f"node 'up': {op}: its result has shape {re.escape(str(shape))}; give it"):
        import_onnx(model)


def test_a_function_among_nodes_of_a_domain_that_is_not_imported() -> None:
    model = three_nodes()
    model.graph.node[0].domain = "com.microsoft"
    model.graph.node[2].op_type = "Celu"
    with pytest.raises((UsageError, UnsupportedError), match=r"com\.microsoft"):
        import_onnx(model)


def test_values_that_are_too_large_for_inference(monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: object, **__: object) -> onnx.ModelProto:
        raise MemoryError

    model = simple()
    monkeypatch.setattr(prepare.shape_inference, "infer_shapes", exhausted)
    with pytest.raises(UsageError, match="a value that is too large for its shapes to be inferred"):
        import_onnx(model)


def test_a_bias_that_does_not_fit_its_filters() -> None:
    m = Model()
    x = m.node("Conv", m.input("x", 1, 3, 6, 6), m.weight("w", 8, 3, 3, 3), m.weight("bias", 5), name="conv")
    model = m.build(m.node("Mul", x, m.weight("scale", 8, 1, 1)))
    with pytest.raises(
        UsageError, match=r"node 'conv' \(Conv\): the bias 'bias' has shape \[5\], but the filters give \[8\]"
    ):
        import_onnx(model)


def test_names_that_clash_are_kept_apart() -> None:
    m = Model()
    x = m.node("Relu", m.input("x", 3), name="a/b")
    x = m.node("MatMul", x, m.weight("w", 3, 4), name="c")
    x = m.node("MatMul", x, m.weight("v", 4, 4), name="d")
    for node in m.nodes[1:]:
        node.name = "same"
    graph = import_onnx(m.build(x))
    assert [o.name for o in graph.ops] == ["a.b", "same", "same.2"]
    assert np.isfinite(graph.data["w"]).all()


def test_cycle_names_the_node_and_its_input() -> None:
    nodes = [
        helper.make_node("Add", ["x", "b"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"], name="second"),
    ]
    ports = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [2, 3]) for n in ("x", "b")]
    graph = helper.make_graph(nodes, "cycle", ports[:1], ports[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(UsageError, match=r"node 'first' \(Add\) reads 'b'.*cycle"):
        import_onnx(model)


def test_no_outputs() -> None:
    model = simple()
    del model.graph.output[:]
    with pytest.raises(UsageError, match="no outputs"):
        import_onnx(model)


def test_sparse_weights_are_named_as_such() -> None:
    model = three_nodes()
    values = helper.make_tensor("w", onnx.TensorProto.FLOAT, [1], [1.0])
    places = helper.make_tensor("", onnx.TensorProto.INT64, [1], [2])
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [3]))
    del model.graph.initializer[:]
    with pytest.raises(UnsupportedError, match="sparse weights are not supported: 'w'; export them as dense"):
        import_onnx(model)


def three_nodes() -> onnx.ModelProto:
    """x → first → a → second → b → last → y"""
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="first"),
        helper.make_node("Add", ["a", "w"], ["b"], name="second"),
        helper.make_node("Relu", ["b"], ["y"], name="last"),
    ]
    port = helper.make_tensor_value_info
    weight = onnx.numpy_helper.from_array(np.ones(3, np.float32), "w")
    graph = helper.make_graph(
        nodes, "g", [port("x", onnx.TensorProto.FLOAT, [2, 3])], [port("y", onnx.TensorProto.FLOAT, [2, 3])], [weight]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def two_writers(model: onnx.ModelProto) -> None:
    model.graph.node[1].output[0] = "a"


def writes_an_input(model: onnx.ModelProto) -> None:
    model.graph.node[1].output[0] = "x"


def two_weights(model: onnx.ModelProto) -> None:
    model.graph.initializer.append(model.graph.initializer[0])


def short_weight(model: onnx.ModelProto) -> None:
    model.graph.initializer[0].dims[0] = 4


def short_typed_weight(model: onnx.ModelProto) -> None:
    model.graph.initializer[0].CopyFrom(helper.make_tensor("w", onnx.TensorProto.FLOAT, [3], [1.0, 1.0, 1.0]))
    model.graph.initializer[0].float_data.pop()


def weight_without_data(model: onnx.ModelProto) -> None:
    model.graph.initializer[0].ClearField("raw_data")


def weight_of_no_type(model: onnx.ModelProto) -> None:
    model.graph.initializer[0].data_type = 99


def wrong_shape(model: onnx.ModelProto) -> None:
    model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 4


def wrong_rank(model: onnx.ModelProto) -> None:
    del model.graph.output[0].type.tensor_type.shape.dim[0]


def wrong_dtype(model: onnx.ModelProto) -> None:
    model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.INT64


def future(model: onnx.ModelProto) -> None:
    model.opset_import[0].version = 999


def two_opsets(model: onnx.ModelProto) -> None:
    model.opset_import.append(helper.make_opsetid("ai.onnx", 13))


def made_by_nobody(model: onnx.ModelProto) -> None:
    model.graph.output[0].name = "z"


def two_outputs(model: onnx.ModelProto) -> None:
    model.graph.output.append(model.graph.output[0])


def unknown_attribute(model: onnx.ModelProto) -> None:
    model.graph.node[0].attribute.append(helper.make_attribute("alpha", 0.5))


def too_few_inputs(model: onnx.ModelProto) -> None:
    del model.graph.node[1].input[1]


def left_out_input(model: onnx.ModelProto) -> None:
    model.graph.node[1].input[0] = ""


def left_out_among_many(model: onnx.ModelProto) -> None:
    model.graph.node[1].CopyFrom(helper.make_node("Concat", ["a", "", "a"], ["b"], name="second", axis=0))


def recursion(model: onnx.ModelProto) -> None:
    body = helper.make_node("Own", ["p"], ["q"], domain="local")
    model.functions.append(helper.make_function("local", "Own", ["p"], ["q"], [body], [helper.make_opsetid("", 17)]))
    model.opset_import.append(helper.make_opsetid("local", 1))


def crowded_call(model: onnx.ModelProto) -> None:
    body = helper.make_node("Relu", ["p"], ["q"])
    model.functions.append(helper.make_function("local", "Own", ["p"], ["q"], [body], [helper.make_opsetid("", 17)]))
    model.opset_import.append(helper.make_opsetid("local", 1))
    model.graph.node[1].CopyFrom(helper.make_node("Own", ["a", "w"], ["b"], name="second", domain="local"))


BROKEN_RULES = {
    crowded_call: "node 'second' has 2 inputs, but the function local.Own that it calls has 1",
    two_writers: r"node 'second' \(Add\) writes 'a', but what node 'first' \(Relu\) writes is called so too",
    writes_an_input: r"node 'second' \(Add\) writes 'x', but an input is called so too",
    two_weights: "two weights are called 'w'",
    short_weight: r"the weight 'w' holds 12 bytes, but FLOAT of shape \[4\] needs 16",
    short_typed_weight: r"the weight 'w' holds 2 numbers in float_data, but FLOAT of shape \[3\] needs 3",
    weight_without_data: r"the weight 'w' holds 0 numbers in float_data, but FLOAT of shape \[3\] needs 3",
    weight_of_no_type: "the weight 'w' is of data type 99, which ONNX does not know",
    wrong_shape: r"output 'y' is declared as float32\[2, 4\], but .* float32\[2, 3\]; correct the declaration",
    wrong_rank: r"output 'y' is declared as float32\[3\], but .* float32\[2, 3\]",
    wrong_dtype: r"output 'y' is declared as int64\[2, 3\], but .* float32\[2, 3\]",
    future: "operator set 999; known are 1 to",
    two_opsets: "operator set 'ai.onnx' in versions 17 and 13",
    made_by_nobody: "output 'z' is made by no node; the network makes 'a', 'b', 'y'",
    two_outputs: "two outputs of the network are called 'y'",
    unknown_attribute: r"node 'first' \(Relu\) is not valid: .*alpha",
    too_few_inputs: r"node 'second' \(Add\) is not valid: .*input size 1",
    left_out_input: r"node 'second' \(Add\) leaves out input 0, which is not optional",
    left_out_among_many: r"node 'second' \(Concat\) leaves out input 1, which is not optional",
    recursion: r"functions call themselves.*local\.Own",
}


@pytest.mark.parametrize("name", [b"Relu", b"first", b"second", b"x"])
def test_names_that_are_not_texts(name: bytes) -> None:
    data = three_nodes().SerializeToString()
    damaged = data.replace(name, bytes([name[0] | 0x80]) + name[1:])
    with pytest.raises(UsageError, match="is not UTF-8 in the model"):
        import_onnx(damaged)


@pytest.mark.parametrize("change", BROKEN_RULES)
def test_broken_rules_of_onnx(change: Callable[[onnx.ModelProto], None]) -> None:
    model = three_nodes()
    assert len(import_onnx(model).ops) > 0
    change(model)
    with pytest.raises((UsageError, UnsupportedError), match=BROKEN_RULES[change]):
        import_onnx(model)


def test_the_batch_of_a_declared_output_is_left_open_where_that_of_an_input_is() -> None:
    model = three_nodes()
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    model.graph.output[0].type.tensor_type.shape.dim[0].dim_value = 1
    assert import_onnx(model, batch=4).outputs[0].shape == (4, 3)
    model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 5
    with pytest.raises(UsageError, match=r"declared as float32\[\?, 5\]"):
        import_onnx(model, batch=4)


def test_all_open_dimensions_are_asked_for_at_once() -> None:
    shape = ["batch", "height", "width"]
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "open", [x], [y])
    with pytest.raises(UsageError) as error:
        bind(onnx.helper.make_model(graph), None, {})
    assert [words.split("bind it with ")[1] for words in str(error.value).split("; dimension")] == [
        "--batch N", "--dim height=N", "--dim width=N",
    ]  # fmt: skip


def test_large_weights_that_are_converted_are_no_such_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "FOLD_BYTES", 1000)
    m = Model()
    weight = m.node("Transpose", m.weight("w", 64, 32))
    assert import_onnx(m.build(m.node("MatMul", m.input("x", 4, 32), weight))).outputs


@pytest.mark.parametrize(
    "nodes",
    [
        "c = ConstantOfShape (twice)",
        "c = Expand (one, twice)",
        "c = Range (zero, far, one)",
        # A shape that is itself computed on the way.
        "shape = Mul (half, half) c = ConstantOfShape (shape)",
    ],
)
def test_constants_that_are_too_large_are_not_computed(nodes: str) -> None:
    model = parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17]>
        g (float[1] x) => (float y) <int64[2] twice = {{1048576, 1048576}}, int64[2] half = {{1024, 1048576}},
            float zero = {{0.0}}, float one = {{1.0}}, float far = {{1e12}}> {{
        {nodes}
        r = ReduceSum <keepdims = 0> (c)
        y = Add (x, r)
    }}""")
    with pytest.raises(
        UnsupportedError, match=r"'c': \w+ makes a constant of [0-9,]{13,} bytes; at most 1,073,741,824"
    ):
        import_onnx(model)
