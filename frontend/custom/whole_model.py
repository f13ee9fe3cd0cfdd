"""TVM's importer of ONNX, for models with nodes of custom operators: their functions make the Relax expressions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import onnx
from tvm import relax
from tvm.relax.frontend.onnx.onnx_frontend import ONNXGraphImporter

from ...ir.custom_operators import operator_by_key
from ..onnx.inline import CUSTOM_DOMAIN, Node
from .call import emit_call
from .module import keywords


def import_model(model: onnx.ModelProto, custom: Mapping[str, Node]) -> Any:
    """As ``from_onnx``, for a cleaned model; ``custom`` are nodes of custom operators by the name of their node."""
    graph = _Importer(custom)
    (opset,) = (o.version for o in model.opset_import if o.domain == "")
    return graph.from_onnx(cast("Any", model.graph), opset)


class _Importer(ONNXGraphImporter):
    def __init__(self, custom: Mapping[str, Node]) -> None:
        super().__init__({}, "float32", sanitize=True)
        self.custom = custom

    def _check_for_unsupported_ops(self, graph: Any) -> None:
        known = onnx.GraphProto()
        known.node.extend(node for node in graph.node if node.domain != CUSTOM_DOMAIN)
        super()._check_for_unsupported_ops(cast("Any", known))

    def _convert_operator(self, op_name: str, inputs: Any, attrs: dict[str, Any], opset: int) -> Any:
        node = self.custom.get(attrs["tvm_custom"]["name"])
        if node is None:
            return super()._convert_operator(op_name, inputs, attrs, opset)
        attributes = keywords(node.name, node.attributes)
        results = emit_call(operator_by_key(node.op_type), self.bb, list(inputs), attributes, node.name)
        return results[0] if len(results) == 1 else relax.Tuple(results)
