"""What other tools are given: it is valid, adds up, and says of each node which operator contains it."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pyarrow.parquet as parquet
import pytest

import girih
from girih.api.compile import Compiled
from girih.explain.export.annotated_onnx import folded_into
from girih.explain.export.formats import EXPORT_FORMATS, companion
from girih.explain.file_formats import FORMATS, SUFFIXES, file_format, unknown_format
from girih.explain.report import Report
from girih.ir.errors import UsageError
from girih.ir.graph import node_name
from tests.support.compiled import compiled_residual

HOSTILE = "=</script><img src=x onerror=alert(1)>"


def network() -> onnx.ModelProto:
    """A product whose weights are folded, with a name that is none of ours, and a result that is only reshaped."""
    nodes = [
        onnx.helper.make_node("Add", ["w", "w"], ["doubled"], "folded"),
        onnx.helper.make_node("MatMul", ["x", "doubled"], ["product"], HOSTILE),
        onnx.helper.make_node("Relu", ["product"], ["positive"]),
        onnx.helper.make_node("Reshape", ["positive", "shape"], ["y"], "reshape"),
    ]
    graph = onnx.helper.make_graph(
        nodes,
        "net",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [4, 16])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [32])],
        [
            onnx.numpy_helper.from_array(np.arange(128, dtype=np.float32).reshape(16, 8) / 64, "w"),
            onnx.numpy_helper.from_array(np.array([32], np.int64), "shape"),
        ],
    )
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


@lru_cache(maxsize=1)
def compiled() -> tuple[Compiled, Report]:
    package = girih.compile(network(), target="tiny", strategy="layerwise", cache=False)
    return package, package.explain()


def written(name: str) -> dict[str, bytes]:
    package, report = compiled()
    return dict(EXPORT_FORMATS[name].write(report, package.model))


def test_every_node_of_the_annotated_network_says_what_became_of_it() -> None:
    annotated = onnx.load_model_from_string(written("onnx")[""])
    onnx.checker.check_model(annotated, full_check=True)
    assert annotated.ir_version == 10
    _, report = compiled()
    operators = {row.name: row for row in report.operators}
    in_operators: list[str] = []
    for index, node in enumerate(annotated.graph.node):
        values = {entry.key: entry.value for entry in node.metadata_props}
        assert values, node.name
        if "girih.operator" in values:
            in_operators.append(node.op_type)
            names = values["girih.operator"].split("; ")
            assert all(node_name(node, index) in operators[name].origin for name in names)
            assert values["girih.segment"] == "; ".join(str(operators[name].segment) for name in names)
            assert values["girih.cycles_predicted"] == "; ".join(str(operators[name].cycles) for name in names)
        else:
            assert set(values["girih.folded_into"].split("; ")) <= operators.keys()
    # The second has no name, and is called by its result.
    assert in_operators == ["MatMul", "Relu", "Reshape"]
    whole = {entry.key: entry.value for entry in annotated.metadata_props}
    assert whole["girih.cycles_simulated"] == str(report.summary.cycles)


def test_the_annotated_network_computes_the_same() -> None:
    x = np.random.default_rng(0).standard_normal((4, 16)).astype(np.float32)
    given, annotated = (
        ort.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
        for data in (network().SerializeToString(), written("onnx")[""])
    )
    np.testing.assert_array_equal(given, annotated)


def test_a_node_is_called_by_its_name_its_result_or_its_place() -> None:
    make = onnx.helper.make_node
    assert node_name(make("Add", ["x", "x"], ["y"], "named"), 7) == "named"
    assert node_name(make("Split", ["x"], ["", "y"]), 7) == "y"
    assert node_name(make("Add", ["x", "x"], [""]), 7) == "Add_7"


def test_nodes_without_operators_lead_forward_or_else_back() -> None:
    nodes = [
        onnx.helper.make_node("A", ["x"], ["a"]),
        onnx.helper.make_node("B", ["a"], ["b"]),
        onnx.helper.make_node("C", ["b"], ["c"]),
        onnx.helper.make_node("D", ["lonely"], ["d"]),
    ]
    assert folded_into(nodes, [(), ("op",), (), ()]) == [("op",), (), ("op",), ()]


def test_without_the_network_there_is_nothing_to_annotate() -> None:
    with pytest.raises(UsageError, match="with its data"):
        EXPORT_FORMATS["onnx"].write(compiled()[1], b"")


def test_the_graph_of_model_explorer_is_whole() -> None:
    files = {key: json.loads(data) for key, data in written("model-explorer").items()}
    (graph,) = files[""]["graphs"]
    nodes = {node["id"]: node for node in graph["nodes"]}
    assert len(nodes) == len(graph["nodes"])
    for node in nodes.values():
        for edge in node["incomingEdges"]:
            outputs = {output["id"] for output in nodes[edge["sourceNodeId"]]["outputsMetadata"]}
            assert edge["sourceNodeOutputId"] in outputs
        assert all(isinstance(item["value"], str) for item in node["attrs"])
    _, report = compiled()
    operators = {f"operator:{row.name}": row for row in report.operators}
    assert {name for name in nodes if name.startswith("operator:")} == operators.keys()
    for name, row in operators.items():
        assert nodes[name]["namespace"] == f"segment {row.segment}"
    for what in ("cycles", "lost", "segment"):
        assert files[what][graph["id"]]["results"].keys() == operators.keys()


MODEL_EXPLORER: dict[str, tuple[set[str], set[str]]] = {
    "collection": ({"label", "graphs"}, {"graphSorting"}),
    "graph": (
        {"id", "nodes"},
        {"groupNodeAttributes", "groupNodeConfigs", "nodeLabelsToHide", "tasksData", "layoutConfigs"},
    ),
    "node": (
        {"id", "label"},
        {
            "namespace", "subgraphIds", "attrs", "incomingEdges", "outputsMetadata", "inputsMetadata", "style", "config",
        },
    ),
    "edge": ({"sourceNodeId"}, {"sourceNodeOutputId", "targetNodeInputId"}),
    "attribute": ({"key", "value"}, set()),
    "metadata": ({"id"}, {"attrs"}),
    "overlay": ({"results"}, {"name", "thresholds", "gradient"}),
    "result": ({"value"}, {"bgColor", "textColor"}),
    "stop": ({"stop"}, {"bgColor", "textColor"}),
}  # fmt: skip
"""Keys that objects of Model Explorer must and may have, by ``graph_builder`` and ``node_data_builder`` of the package
ai-edge-model-explorer 0.1.34, which is too large to be installed for this."""


def test_model_explorer_knows_every_key() -> None:
    def check(kind: str, values: list[dict[str, Any]]) -> None:
        needed, allowed = MODEL_EXPLORER[kind]
        assert values
        for value in values:
            assert needed <= value.keys() <= needed | allowed, kind

    files = {key: json.loads(text) for key, text in written("model-explorer").items()}
    check("collection", [files[""]])
    check("graph", files[""]["graphs"])
    nodes = [node for graph in files[""]["graphs"] for node in graph["nodes"]]
    check("node", nodes)
    for kind, key in (("edge", "incomingEdges"), ("attribute", "attrs"), ("metadata", "outputsMetadata")):
        check(kind, [item for node in nodes for item in node[key]])
    for what in ("cycles", "lost", "segment"):
        check("overlay", [*files[what].values()])
        for overlay in files[what].values():
            check("result", [*overlay["results"].values()])
            check("stop", overlay["gradient"])


def test_the_table_adds_up() -> None:
    _, report = compiled()
    rows = list(csv.DictReader(io.StringIO(written("csv")[""].decode())))
    assert [row["operator"].lstrip("'") for row in rows] == [row.name for row in report.operators]
    assert sum(float(row["cycles_simulated"]) for row in rows) == pytest.approx(report.summary.cycles)
    for row in rows:
        parts = sum(float(value) for key, value in row.items() if key.startswith("lost_"))
        assert parts == pytest.approx(float(row["cycles_lost"]))


def test_no_cell_is_a_formula() -> None:
    for row in csv.reader(io.StringIO(written("csv")[""].decode())):
        assert not any(cell.startswith(("=", "@")) for cell in row)


def test_parquet_has_the_same_columns() -> None:
    table = parquet.read_table(io.BytesIO(written("parquet")[""]))
    head = next(csv.reader(io.StringIO(written("csv")[""].decode())))
    assert table.column_names == head and table.num_rows == len(compiled()[1].operators)


def test_parquet_without_pyarrow_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match=r"girih\[tables\]"):
        written("parquet")


@pytest.mark.parametrize("name", EXPORT_FORMATS)
def test_the_same_report_gives_the_same_bytes(name: str) -> None:
    assert written(name) == written(name)


def test_names_tell_formats() -> None:
    assert file_format(None) == file_format("a.txt") == file_format("a.md") == file_format("a") == "text"
    assert [file_format(Path(f"a.{s}")) for s in ("json", "html", "onnx", "csv", "parquet")] == [
        "json", "html", "onnx", "csv", "parquet",
    ]  # fmt: skip
    assert {*FORMATS} == {"text", "json", "html", *EXPORT_FORMATS}
    for name in FORMATS:
        assert {file_format(f"a{suffix}", name) for suffix in ("", *SUFFIXES[name])} == {name}
    assert companion(Path("d/graph.json"), "cycles") == Path("d/graph.cycles.json")
    assert "did you mean perfetto?" in unknown_format("perfeto")
    assert all(name in unknown_format("xyzzy") for name in FORMATS)


def test_a_report_is_saved_in_every_format(tmp_path: Path) -> None:
    _, report = compiled()
    for name in EXPORT_FORMATS:
        place = tmp_path / f"{name}{SUFFIXES[name][0]}"
        report.save(place, name)
        for what, data in written(name).items():
            assert companion(place, what).read_bytes() == data
    report.save(tmp_path / "told.csv")
    assert (tmp_path / "told.csv").read_bytes() == written("csv")[""]
    report.save(tmp_path / "report.json")
    assert Report.from_json((tmp_path / "report.json").read_bytes()) == report
    with pytest.raises(UsageError, match=r"cannot tell the format of .*x\.weird: end the name in"):
        report.save(tmp_path / "x.weird")
    with pytest.raises(UsageError, match=r"x\.html is no name for json"):
        report.save(tmp_path / "x.html", "json")
    with pytest.raises(UsageError, match="there is no format 'jsn'; did you mean json"):
        report.save(tmp_path / "x.json", "jsn")
    with pytest.raises(UsageError, match="read from JSON"):
        Report.from_json(report.to_json()).save(tmp_path / "x.csv")


def test_notebooks_show_escaped_html() -> None:
    package, report = compiled()
    hostile = dataclasses.replace(report, verdict=(HOSTILE, HOSTILE))
    plan = package.plan
    segments = (dataclasses.replace(plan.segments[0], ops=(HOSTILE,)), *plan.segments[1:])
    shown: list[Any] = [package, hostile, dataclasses.replace(plan, segments=segments), package.run()]
    for noun in shown:
        html = noun._repr_html_()
        assert "<table>" in html and "<img" not in html and "http" not in html
    assert f"{report.summary.cycles:,}" in report._repr_html_()
    assert "9,000" in compiled_residual()._repr_html_()
