"""Every change of a model; some kinds of case are named after them."""

from __future__ import annotations

from benchmarks.hostile.changes.attributes import (
    add_attribute,
    change_attribute,
    drop_attribute,
    refer_attribute,
    retype_attribute,
)
from benchmarks.hostile.changes.declarations import change_graph_input, change_graph_output, change_ports, declare_value
from benchmarks.hostile.changes.draw import Change
from benchmarks.hostile.changes.models import add_function, change_versions
from benchmarks.hostile.changes.nodes import (
    add_input,
    change_domain,
    change_input,
    change_operator,
    change_output,
    change_output_count,
    drop_input,
    drop_node,
    rename_node,
    reorder_nodes,
    repeat_node,
    swap_inputs,
)
from benchmarks.hostile.changes.tensors import change_weight, drop_weight, rename_weight, repeat_weight

CHANGES: tuple[Change, ...] = (
    drop_node, repeat_node, reorder_nodes, change_operator, change_domain, rename_node,
    drop_input, add_input, change_input, swap_inputs, change_output, change_output_count,
    drop_attribute, change_attribute, retype_attribute, add_attribute, refer_attribute,
    change_weight, drop_weight, repeat_weight, rename_weight,
    change_graph_input, change_graph_output, declare_value, change_ports,
    change_versions, add_function,
)  # fmt: skip
