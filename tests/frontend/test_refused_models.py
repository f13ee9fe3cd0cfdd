"""What cannot be read or compiled is refused with a message that names it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import external_data_helper, helper

from girih.frontend import import_onnx
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
