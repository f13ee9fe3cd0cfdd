"""Changes of inputs, outputs and what is declared of values in between."""

from __future__ import annotations

from random import Random

import onnx
from onnx import helper

from benchmarks.hostile.changes.draw import (
    NAMES,
    SIZES,
    names_of,
    pick,
)


def change_value(value: onnx.ValueInfoProto, rng: Random) -> str:
    """Another dtype, shape or kind of type, or nothing at all."""
    tensor = value.type.tensor_type
    dims = tensor.shape.dim
    how = rng.randrange(9)
    if how == 0:
        tensor.elem_type = rng.choice((0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 14, 16, 17, 99))
        return f"dtype {tensor.elem_type}"
    if how == 1:
        value.type.Clear()
        return "no type"
    if how == 2:
        tensor.ClearField("shape")
        return "no shape"
    if how == 3:
        dims.add().dim_value = rng.choice(SIZES)
        return f"one more dimension, of {dims[-1].dim_value}"
    if how == 4 and dims:
        del dims[rng.randrange(len(dims))]
        return "one dimension less"
    if how == 5 and dims:
        position = rng.randrange(len(dims))
        dims[position].Clear()
        if rng.random() < 0.7:
            dims[position].dim_param = rng.choice(("N", "M", "N + 1", ""))
        return f"dimension {position} is symbolic"
    if how == 6:
        inner = onnx.TypeProto()
        inner.CopyFrom(value.type)
        kind = rng.choice(("sequence_type", "optional_type"))
        value.type.Clear()
        getattr(value.type, kind).elem_type.CopyFrom(inner)
        return kind
    if not dims:
        return "nothing"
    position = rng.randrange(len(dims))
    dims[position].dim_value = rng.choice(SIZES)
    return f"dimension {position} is {dims[position].dim_value}"


def change_graph_input(model: onnx.ModelProto, rng: Random) -> str | None:
    value = pick(rng, model.graph.input)
    return None if value is None else f"input {value.name!r}: {change_value(value, rng)}"


def change_graph_output(model: onnx.ModelProto, rng: Random) -> str | None:
    value = pick(rng, model.graph.output)
    return None if value is None else f"output {value.name!r}: {change_value(value, rng)}"


def declare_value(model: onnx.ModelProto, rng: Random) -> str | None:
    """A claim about a value that nothing needs, and that may be wrong."""
    name = pick(rng, names_of(model))
    if name is None:
        return None
    shape = [rng.choice((1, 2, 3, 5, 0, 1 << 40)) for _ in range(rng.randrange(4))]
    model.graph.value_info.append(helper.make_tensor_value_info(name, rng.choice((1, 7, 10)), shape))
    return f"{name!r} is declared to have shape {shape}"


def change_ports(model: onnx.ModelProto, rng: Random) -> str | None:
    """An input or output that is dropped, there twice or called otherwise."""
    side = rng.choice(("input", "output"))
    ports = getattr(model.graph, side)
    if not ports:
        return None
    position, how = rng.randrange(len(ports)), rng.randrange(3)
    name = ports[position].name
    if how == 0:
        del ports[position]
        return f"drop {side} {name!r}"
    if how == 1:
        ports.add().CopyFrom(ports[position])
        return f"{side} {name!r} twice"
    ports[position].name = rng.choice([*names_of(model), *NAMES])
    return f"{side} {name!r} is called {ports[position].name[:40]!r}"
