"""The network as a graph of operators, in layers."""

from __future__ import annotations

import numpy as np

from ...compilation import Compilation
from ...report import Report
from ..layered_layout import layered_layout
from ..view import View


def network_view(report: Report, compilation: Compilation) -> View:
    """Operators by their index in the report, each with its layer and its place in the layer; and the edges."""
    graph = compilation.graph
    index = {row.name: i for i, row in enumerate(report.operators)}
    edges = sorted(
        (index[graph.producer[name].name], index[op.name])
        for op in graph.ops
        for name in dict.fromkeys(op.inputs)
        if name in graph.producer
    )
    layer, place = layered_layout(len(index), edges)
    data = {"layer": layer, "place": place, "edges": np.array(edges, np.int64).reshape(-1, 2)}
    caption = (
        "Each box is an operator, in the order of the data: from left to right and then line by line, as text"
        " is read. Lines lead from an operator to those that read its result. A click selects an operator "
        "everywhere on the page, as the table of operators does."
    )
    return View("network", "The network", caption, data)
