"""Is this a graph? Every rule of :mod:`..graph`, checked without the help of whoever built it.

Names are unique; operators are in topological order; every access is in bounds or has a fill; every tensor and
private buffer is written exactly once, element by element, before it is read; functions, arities and dtypes exist;
what is combined are values or, in sums, products, and never just a part of a tensor; a matrix product writes a private
buffer and reads no padding on its stationary side.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..box import Span
from ..errors import CheckError
from ..graph import DTYPES, Access, Graph, Op, Port, Stage, Tensor, contraction_axes
from ..isa.scalar_functions import COMBINE_IDENTITY, ELEMENTS


def check_graph(graph: Graph) -> None:
    """Raise :class:`CheckError` naming operator, stage and tensor if a rule is broken."""
    _unique("tensor", (t.name for t in graph.tensors))
    _unique("operator", (o.name for o in graph.ops))
    _unique("input port", (p.name for p in graph.inputs))
    _unique("output port", (p.name for p in graph.outputs))
    for tensor in graph.tensors:
        _tensor(tensor, "graph")
    _constants(graph)
    ready = {p.tensor for p in graph.inputs} | graph.constant_names
    missing = ready - set(graph.tensor)
    _require(not missing, f"ports or constants name no tensor: {', '.join(sorted(missing))}")
    ambiguous = graph.input_tensors & graph.constant_names
    _require(not ambiguous, f"tensors are both input and constant: {', '.join(sorted(ambiguous))}")
    for op in graph.ops:
        for name in op.inputs:
            _require(name in ready, f"operator {op.name} reads {name} before it is written")
        for name in op.outputs:
            _require(name in graph.tensor, f"operator {op.name} writes {name}, which is no tensor of the graph")
            _require(name not in ready, f"operator {op.name} writes {name}, which is already written")
        ready.update(op.outputs)
        check_op(op, graph.tensor)
    unwritten = set(graph.tensor) - ready
    _require(not unwritten, f"tensors that nothing writes: {', '.join(sorted(unwritten))}")
    for port in graph.inputs:
        _port(graph, port)
    for port in graph.outputs:
        _require(port.tensor in graph.producer, f"output {port.name}: no operator writes {port.tensor}")
        _port(graph, port)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise CheckError(message)


def _unique(kind: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        _require(name not in seen, f"two {kind}s are called {name!r}")
        seen.add(name)


def _tensor(tensor: Tensor, where: str) -> None:
    _require(tensor.dtype in DTYPES, f"{where}: tensor {tensor.name} has unknown dtype {tensor.dtype}")
    _require(all(n > 0 for n in tensor.shape), f"{where}: tensor {tensor.name} has shape {tensor.shape}")


def _constants(graph: Graph) -> None:
    _unique("constant", (c.tensor for c in graph.constants))
    for name, array in graph.data.items():
        _require(name in graph.constant_names, f"data for {name}, which is no constant")
        tensor = graph.tensor[name]
        same = array.shape == tensor.shape and array.dtype.name == tensor.dtype
        actual = f"{array.dtype.name}{array.shape}"
        _require(same, f"constant {name} is {tensor.dtype}{tensor.shape}, but its data is {actual}")


def _port(graph: Graph, port: Port) -> None:
    shape = graph.tensor[port.tensor].shape
    if port.batch_axis is None:
        _require(port.shape == shape, f"port {port.name} has shape {port.shape}, its tensor {shape}")
        return
    whole = list(shape)
    whole[port.batch_axis] = port.shape[port.batch_axis]
    room = shape[port.batch_axis] * graph.replicas
    fits = tuple(whole) == port.shape and port.shape[port.batch_axis] <= room
    _require(fits, f"port {port.name} of shape {port.shape} is not {graph.replicas} parts of {shape}")


def check_op(op: Op, tensors: Mapping[str, Tensor]) -> None:
    """Check one operator against the graph's tensors."""
    if op.host:
        _require(not op.stages and not op.buffers, f"host operator {op.name} has stages")
        _require(not op.template and not op.blocks, f"host operator {op.name} has a template")
        return
    _require(len(op.outputs) == 1, f"operator {op.name} has {len(op.outputs)} outputs")
    _require(bool(op.stages), f"operator {op.name} has no stages")
    named = len(op.blocks) == (len(op.stages) if op.template or op.blocks else 0)
    _require(named, f"operator {op.name} has {len(op.blocks)} names of blocks for {len(op.stages)} stages")
    _unique(f"block of {op.name}", op.blocks)
    _unique(f"input of {op.name} and another input", op.inputs)
    _unique(f"private buffer of {op.name}", (b.name for b in op.buffers))
    known = {name: tensors[name] for name in (*op.inputs, *op.outputs)}
    for buffer in op.buffers:
        _tensor(buffer, f"operator {op.name}")
        _require(buffer.name not in tensors, f"operator {op.name}: buffer {buffer.name} is also a graph tensor")
        known[buffer.name] = buffer
    written: set[str] = set(op.inputs)
    private = {b.name for b in op.buffers} | {op.output}
    read: set[str] = set()
    for number, stage in enumerate(op.stages):
        where = f"operator {op.name}, stage {number}"
        _stage(stage, where)
        for access in stage.reads:
            _require(access.tensor in written, f"{where}: reads {access.tensor} before it is written")
            _access(stage, access, known[access.tensor], where)
            read.add(access.tensor)
        target = stage.write.tensor
        _require(target in private, f"{where}: writes {target}, which is neither its output nor a buffer")
        _require(target not in read, f"{where}: writes {target} after it was read")
        _write(stage, known[target], where)
        written.add(target)
    unread = set(op.inputs) - read
    _require(not unread, f"operator {op.name} never reads its inputs {', '.join(sorted(unread))}")
    writers_of: dict[str, list[Stage]] = {name: [] for name in (*(b.name for b in op.buffers), op.output)}
    for stage in op.stages:
        writers_of[stage.write.tensor].append(stage)
    for name, writers in writers_of.items():
        _covered(writers, known[name], op.name)
        whole = len(writers) == 1 or all(s.combine is None for s in writers)
        _require(whole, f"operator {op.name} combines parts of {name}; each combination needs a buffer of its own")
    products = [n for n, s in enumerate(op.stages) if s.is_contraction and contraction_axes(s).n]
    _require(len(products) <= 1, f"operator {op.name} holds {len(products)} matrix products")
    for number in products:
        _product(op, number)


def _product(op: Op, number: int) -> None:
    """A matrix engine writes a memory of its own, and takes its stationary operand as it lies in memory."""
    where = f"operator {op.name}, stage {number}"
    stage = op.stages[number]
    target = stage.write.tensor
    _require(target != op.output, f"{where}: a matrix product writes {target}, which is no private buffer")
    private = [read.tensor for read in stage.reads if read.tensor not in op.inputs]
    _require(not private, f"{where}: a matrix product reads {private}, which the operator computes itself")
    right = stage.reads[1]
    _require(right.fill is None, f"{where}: the second operand of a matrix product, {right.tensor}, has a fill")


def _stage(stage: Stage, where: str) -> None:
    _unique(f"axis of {where}", (a.name for a in stage.axes))
    _require(all(a.extent > 0 for a in stage.axes), f"{where}: an axis is empty")
    _require(stage.func in ELEMENTS, f"{where}: unknown function {stage.func!r}")
    element = ELEMENTS[stage.func]
    arity = element.arity
    _require(len(stage.operands) == arity, f"{where}: {stage.func} takes {arity} operands, not {len(stage.operands)}")
    form = "".join("v" if isinstance(o, Access) else "s" for o in stage.operands)
    wanted = ", ".join(element.some_forms)
    limited = bool(element.some_forms) and form not in element.some_forms
    _require(not limited, f"{where}: operands of {stage.func} are {form} (v a tensor, s a number), not one of {wanted}")
    reduces = any(a.reduce for a in stage.axes)
    _require(reduces == (stage.combine is not None), f"{where}: reduced axes and a combiner go together")
    _require(stage.combine is None or stage.combine in COMBINE_IDENTITY, f"{where}: unknown combiner {stage.combine}")
    simple = stage.combine is None or stage.func == "copy" or (stage.func, stage.combine) == ("mul", "sum")
    _require(simple, f"{where}: {stage.func} is combined by {stage.combine}; only copies are, and sums of products")
    if stage.start is not None:
        _require(stage.is_contraction, f"{where}: only sums of products start from a tensor, not {stage.func}")
        _require(stage.start.fill is None, f"{where}: the start, {stage.start.tensor}, has a fill")
        used = any(c and a.reduce for i in stage.start.index for c, a in zip(i.coeffs, stage.axes, strict=False))
        _require(not used, f"{where}: a reduced axis is in the start, {stage.start.tensor}")
    numbers = [o for o in stage.operands if not isinstance(o, Access)]
    numbers += [a.fill for a in stage.reads if a.fill is not None]
    _require(not any(math.isnan(n) for n in numbers), f"{where}: a constant that is not a number")


def _spans(stage: Stage, access: Access) -> tuple[Span, ...]:
    box = tuple(Span(0, a.extent) for a in stage.axes)
    return tuple(index.over(box) for index in access.index)


def _access(stage: Stage, access: Access, tensor: Tensor, where: str) -> None:
    rank = len(tensor.shape)
    _require(len(access.index) == rank, f"{where}: {access.tensor} has rank {rank}, not {len(access.index)}")
    for index in access.index:
        same = len(index.coeffs) == len(stage.axes)
        _require(same, f"{where}: an index of {access.tensor} has {len(index.coeffs)} coefficients")
    if access.fill is not None:
        return
    for dim, (span, size) in enumerate(zip(_spans(stage, access), tensor.shape, strict=True)):
        inside = span.lo >= 0 and span.hi <= size
        bounds = f"[{span.lo}, {span.hi})"
        _require(inside, f"{where}: dimension {dim} of {access.tensor} is accessed in {bounds}, it has {size}")


def _write(stage: Stage, tensor: Tensor, where: str) -> None:
    _require(stage.write.fill is None, f"{where}: a write has a fill")
    _access(stage, stage.write, tensor, where)
    for index in stage.write.index:
        _require(min(index.coeffs, default=0) >= 0, f"{where}: a write runs backwards")
        reduced = any(c and a.reduce for c, a in zip(index.coeffs, stage.axes, strict=True))
        _require(not reduced, f"{where}: a reduced axis is in the write")
    for position, axis in enumerate(stage.axes):
        uses = sum(index.coeffs[position] != 0 for index in stage.write.index)
        _require(uses == 1 or axis.reduce or axis.extent == 1, f"{where}: axis {axis.name} writes {uses} dimensions")
    for index in stage.write.index:
        reach = 0
        for c, extent in sorted((c, a.extent) for c, a in zip(index.coeffs, stage.axes, strict=True) if c):
            _require(c > reach or extent == 1, f"{where}: two points write the same element")
            reach += c * (extent - 1)


def _covered(stages: list[Stage], tensor: Tensor, name: str) -> None:
    """Together, the stages write each element once."""
    total = sum(math.prod(a.extent for a in s.axes if not a.reduce) for s in stages)
    wanted = tensor.elements
    _require(total == wanted, f"operator {name} writes {total} of {wanted} elements of {tensor.name}")
    if len(stages) == 1:
        return  # As many distinct elements as there are, in bounds: all of them.
    seen = np.zeros(tensor.shape, bool)
    for stage in stages:
        spatial = [p for p, a in enumerate(stage.axes) if not a.reduce]
        strides = [sum(i.coeffs[p] * s for i, s in zip(stage.write.index, seen.strides, strict=True)) for p in spatial]
        offset = sum(i.const * s for i, s in zip(stage.write.index, seen.strides, strict=True))
        part = as_strided(np.ndarray((), bool, seen, offset), [stage.axes[p].extent for p in spatial], strides)
        _require(not part.any(), f"operator {name} writes parts of {tensor.name} twice")
        part[...] = True
