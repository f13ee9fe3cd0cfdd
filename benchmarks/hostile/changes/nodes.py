"""Changes of nodes: dropped, repeated or of another operator, with other inputs and outputs."""

from __future__ import annotations

from random import Random

import onnx
from onnx import helper

from benchmarks.hostile.changes.draw import (
    NAMES,
    OPERATORS,
    names_of,
    node_of,
    pick,
    said,
)


def drop_node(model: onnx.ModelProto, rng: Random) -> str | None:
    nodes = model.graph.node
    if not nodes:
        return None
    position = rng.randrange(len(nodes))
    text = said(nodes[position])
    del nodes[position]
    return f"drop {text}"


def repeat_node(model: onnx.ModelProto, rng: Random) -> str | None:
    node = node_of(model, rng)
    if node is None:
        return None
    model.graph.node.append(node)
    return f"append {said(node)} once more"


def reorder_nodes(model: onnx.ModelProto, rng: Random) -> str | None:
    nodes = list(model.graph.node)
    if len(nodes) < 2:
        return None
    rng.shuffle(nodes)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return "shuffle the nodes"


def change_operator(model: onnx.ModelProto, rng: Random) -> str | None:
    node, op = node_of(model, rng), rng.choice(OPERATORS)
    if node is None:
        return None
    text = f"{said(node)} becomes {op!r}"
    node.op_type = op
    return text


def change_domain(model: onnx.ModelProto, rng: Random) -> str | None:
    node, domain = node_of(model, rng), rng.choice(("ai.onnx", "ai.onnx.ml", "com.microsoft", "my.company", "é"))
    if node is None:
        return None
    node.domain = domain
    if rng.random() < 0.5:
        model.opset_import.append(helper.make_opsetid(domain, rng.choice((0, 1, 3, 17))))
    return f"{said(node)} is of domain {domain!r}"


def rename_node(model: onnx.ModelProto, rng: Random) -> str | None:
    node, name = node_of(model, rng), rng.choice(NAMES)
    if node is None:
        return None
    text = f"{said(node)} is called {name!r}"
    for each in model.graph.node if rng.random() < 0.3 else [node]:
        each.name = name
    return text


def drop_input(model: onnx.ModelProto, rng: Random) -> str | None:
    node = node_of(model, rng)
    if node is None or not node.input:
        return None
    position = rng.randrange(len(node.input))
    del node.input[position]
    return f"drop input {position} of {said(node)}"


def add_input(model: onnx.ModelProto, rng: Random) -> str | None:
    node, name = node_of(model, rng), pick(rng, [*names_of(model), ""])
    if node is None or name is None:
        return None
    node.input.insert(rng.randrange(len(node.input) + 1), name)
    return f"{said(node)} reads {name!r} as well"


def change_input(model: onnx.ModelProto, rng: Random) -> str | None:
    node, name = node_of(model, rng), pick(rng, [*names_of(model), *NAMES])
    if node is None or name is None or not node.input:
        return None
    position = rng.randrange(len(node.input))
    node.input[position] = name
    return f"input {position} of {said(node)} becomes {name[:40]!r}"


def swap_inputs(model: onnx.ModelProto, rng: Random) -> str | None:
    node = node_of(model, rng)
    if node is None or len(node.input) < 2:
        return None
    inputs = list(node.input)
    rng.shuffle(inputs)
    node.input[:] = inputs
    return f"inputs of {said(node)} become {inputs}"


def change_output(model: onnx.ModelProto, rng: Random) -> str | None:
    node, name = node_of(model, rng), pick(rng, [*names_of(model), *NAMES])
    if node is None or name is None or not node.output:
        return None
    position = rng.randrange(len(node.output))
    node.output[position] = name
    return f"output {position} of {said(node)} becomes {name[:40]!r}"


def change_output_count(model: onnx.ModelProto, rng: Random) -> str | None:
    node = node_of(model, rng)
    if node is None:
        return None
    if node.output and rng.random() < 0.5:
        del node.output[-1]
        return f"drop the last output of {said(node)}"
    node.output.append(rng.choice(("more", "", "y")))
    return f"{said(node)} writes {node.output[-1]!r} as well"
