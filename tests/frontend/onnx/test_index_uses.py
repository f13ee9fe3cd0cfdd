"""Inputs that index tables, by the nodes that read them."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, parser

from girih.frontend.onnx.index_uses import IndexUse, index_uses


def test_a_table_that_an_input_indexes() -> None:
    table = numpy_helper.from_array(np.zeros((2, 5), np.float32), "table")
    nodes = [
        helper.make_node("Cast", ["types"], ["wide"], to=TensorProto.INT64),
        helper.make_node("Gather", ["table", "wide"], ["y"], axis=0),
    ]
    graph = helper.make_graph(
        nodes,
        "embedding",
        [helper.make_tensor_value_info("types", TensorProto.INT32, [3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 5])],
        [table],
    )
    model: onnx.ModelProto = helper.make_model(graph)
    assert index_uses(model.SerializeToString()) == [IndexUse("types", "Gather", "table", (2,))]


def test_weights_that_an_old_file_lists_as_inputs_are_no_inputs() -> None:
    """Files of IR version 3 list every weight in graph.input."""
    model: onnx.ModelProto = parser.parse_model("""<ir_version: 3, opset_import: ["": 8]>
        g (int64[3] ids, float[5, 4] table, int64[2] rows) => (float[3, 4] y, float[2, 4] z)
        {
            y = Gather <axis = 0> (table, ids)
            z = Gather <axis = 0> (table, rows)
        }""")
    weights = {"table": np.zeros((5, 4), np.float32), "rows": np.array([0, 4])}
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    uses = index_uses(model.SerializeToString())
    assert [(use.input, use.entries) for use in uses] == [("ids", (5,))]
