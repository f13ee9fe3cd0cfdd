"""Loops of the nodes of quantised networks (:mod:`..quantised.integer_nodes`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import floor, log2

import numpy as np
import onnx

from ..net.linear import Linear
from ..net.net import Extent, Info, Loop, NetStep, Operand, Ref
from ..onnx.inline import Node
from ..quantised.integer_nodes import DOMAIN
from .template import Template, TemplateCall

Convert = Callable[[Node, Sequence[Info | None]], Template]
"""What an ONNX node of variables becomes."""


def quantised_node(
    node: Node, infos: Sequence[Info | None], values: Sequence[np.ndarray | None], convert: Convert
) -> Template | None:
    """What a node of a quantised network becomes; ``None`` for any other node."""
    if node.domain != DOMAIN:
        return None
    if node.op_type == "Product":
        return _product(node, infos, convert)
    if node.op_type == "Total":
        return _total(node, infos)
    if node.op_type == "Addition":
        return _addition(node, infos)
    return _scaled(node, infos, values)


def _product(node: Node, infos: Sequence[Info | None], convert: Convert) -> Template:
    """The loops of the product of real numbers, with other dtypes: data only move before they are multiplied."""
    op_type, real = node.attribute("of"), [Info(i.shape, "float32") for i in infos if i is not None]
    assert isinstance(op_type, bytes)
    attributes = tuple(a for a in node.attributes if a.name != "of")
    template = convert(replace(node, op_type=op_type.decode(), domain="", attributes=attributes), real)
    dtypes = {f"in{n}": info.dtype for n, info in enumerate(infos) if info is not None}
    for call in template.calls:
        for step in call.steps:
            for loop in step.loops:
                moved = loop.is_movement and isinstance(loop.operands[0], Ref)
                dtypes[loop.write.tensor] = dtypes[loop.reads[0].tensor] if moved else "int32"
            step.temps = {n: Info(i.shape, dtypes[n]) for n, i in step.temps.items()}
    template.tensors = {n: Info(i.shape, dtypes.get(n, i.dtype)) for n, i in template.tensors.items()}
    return template


def _total(node: Node, infos: Sequence[Info | None]) -> Template:
    """One loop that sums integers of eight bits in 32."""
    info, reduced = infos[0], node.attribute("axes")
    assert info is not None and isinstance(reduced, list)
    axes = {f"i{d}": Extent(n, d in reduced) for d, n in enumerate(info.shape) if n > 1}
    index = tuple(Linear.axis(f"i{d}") if n > 1 else Linear() for d, n in enumerate(info.shape))
    write = tuple(Linear() if d in reduced else i for d, i in enumerate(index))
    combine = "sum" if any(e.reduce for e in axes.values()) else None
    result = Info(tuple(1 if d in reduced else n for d, n in enumerate(info.shape)), "int32")
    step = NetStep("total", (), ("", 0), ("t0",), [Loop(axes, Ref("t0", write), "copy", (Ref("in0", index),), combine)])
    template = Template({"in0": info, "t0": result}, outputs=["t0"])
    template.calls.append(TemplateCall(None, None, step.name, ["in0"], ["t0"], [step]))
    return template


def _scaled(node: Node, infos: Sequence[Info | None], values: Sequence[np.ndarray | None]) -> Template:
    """One loop of the function quant or dequant."""
    info, zero, axis = infos[0], node.attribute("zero"), node.attribute("axis")
    assert info is not None and isinstance(zero, int) and isinstance(axis, int)
    axes = {f"i{d}": Extent(n) for d, n in enumerate(info.shape) if n > 1}
    index = tuple(Linear.axis(f"i{d}") if n > 1 else Linear() for d, n in enumerate(info.shape))
    value, scale = Ref("in0", index), infos[1]
    assert scale is not None
    factor: Operand = Ref("in1", (index[axis],)) if scale.shape else Ref("in1", ())
    if values[1] is not None and values[1].size == 1:
        factor = float(values[1].reshape(()))
    if node.op_type == "Quantise":
        dtype_attribute = node.attribute("dtype")
        dtype = dtype_attribute.decode() if isinstance(dtype_attribute, bytes) else ""
        func, operands = "quant", (value, factor, float(zero))
    else:
        dtype, func, operands = "float32", "dequant", (value, float(zero), factor)
    template = Template({"in0": info}, outputs=["t0"])
    template.tensors["t0"] = Info(info.shape, dtype)
    inputs = ["in0"]
    if values[1] is None:
        template.tensors["in1"] = scale
        inputs.append("in1")
    elif isinstance(factor, Ref):
        template.tensors["c0"], template.constants["c0"] = scale, values[1]
        operands = tuple(replace(o, tensor="c0") if isinstance(o, Ref) and o.tensor == "in1" else o for o in operands)
        inputs.append("c0")
    loops, source_zero = [Loop(axes, Ref("t0", index), func, operands)], 0
    if node.op_type == "Quantise":
        source_zero = node.attribute("source_zero")
        assert isinstance(source_zero, int)
    if source_zero:
        template.tensors["t1"] = Info(info.shape, "int32")
        loops.insert(0, Loop(axes, Ref("t1", index), "sub", (value, float(source_zero))))
        loops[1] = replace(loops[1], operands=(Ref("t1", index), *operands[1:]))
    template.calls.append(TemplateCall(None, None, node.op_type.lower(), inputs, ["t0"], _steps(node, loops)))
    return template


def _addition(node: Node, infos: Sequence[Info | None]) -> Template:
    """Two loops, where cutting off rounds: of what is not negative, after a half is added. Else three, of integers.

    What is half way between two integers rounds up then, and to the even one of them elsewhere. Factors of integers
    are in units of 2**-places, of which the sums have as many as 31 bits leave.
    """
    info, attributes = infos[0], {a.name: onnx.helper.get_attribute_value(a) for a in node.attributes}
    assert info is not None and infos[1] is not None
    axes = {f"i{d}": Extent(n) for d, n in enumerate(info.shape) if n > 1}
    index = tuple(Linear.axis(f"i{d}") if n > 1 else Linear() for d, n in enumerate(info.shape))
    dtype, zero = attributes["dtype"].decode(), attributes["zero"]
    first, second = attributes["first"], attributes["second"]
    cut = dtype.startswith("u")
    real = Info(info.shape, "float32")
    scaled = Loop(axes, Ref("t1", index), "dequant", (Ref("in1", index), zero - 0.5 / second if cut else zero, second))
    sums = (Ref("in0", index), first, Ref("t1", index))
    if cut:
        loops, between = [scaled, Loop(axes, Ref("t0", index), "fma", sums)], [real]
    else:
        places = floor(log2((2.0**31 - 1024) / (255 * (first + second) + abs(zero * second))))
        unit = 2.0**places
        a, b, c = round(first * unit), round(second * unit), float(np.float32(round(-zero * second * unit)))
        terms = (Ref("in1", index), float(b), c), (Ref("in0", index), float(a), Ref("t1", index))
        loops = [Loop(axes, Ref(t, index), "fma", o) for t, o in zip(("t1", "t2"), terms, strict=True)]
        loops.append(Loop(axes, Ref("t0", index), "quant", (Ref("t2", index), 1 / unit, 0.0)))
        between = [Info(info.shape, "int32")] * 2
    template = Template({"in0": info, "in1": infos[1], "t0": Info(info.shape, dtype)}, outputs=["t0"])
    template.tensors |= {f"t{number}": temporary for number, temporary in enumerate(between, 1)}
    template.calls.append(TemplateCall(None, None, "add", ["in0", "in1"], ["t0"], _steps(node, loops)))
    return template


def _steps(node: Node, loops: Sequence[Loop]) -> list[NetStep]:
    """A step for each loop, whose results are tensors of the net: these take part in the choice of a layout."""
    return [NetStep(node.op_type.lower(), (), ("", 0), (loop.write.tensor,), [loop]) for loop in loops]
