"""Is this a net? Its rules, checked without the help of the passes or of the views that they use.

Every tensor that is read is an input, a constant, or written by one step before it is read along every path; there are
no cycles. The loops of a step write its output and its private tensors, each element once and before it is read.
Accesses have one index a dimension, over axes of their loop, in bounds or with a fill; every axis of more than one
element is used. Functions, arities and dtypes exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import networkx as nx

from ...ir.errors import CheckError
from ...ir.graph import DTYPES
from ...ir.isa.scalar_functions import COMBINE_IDENTITY, ELEMENTS
from .net import Info, Loop, Net, NetStep, Ref


def check_net(net: Net) -> None:
    """Raise :class:`CheckError` naming step, loop and tensor if a rule is broken."""
    for name, info in net.tensors.items():
        _info(name, info)
    for name, array in net.constants.items():
        _require(name in net.tensors, f"constant {name} is no tensor of the net")
        info = net.tensors[name]
        same = array.shape == info.shape and array.dtype.name == info.dtype
        _require(same, f"constant {name} is {info.dtype}{info.shape}, but its data is {array.dtype.name}{array.shape}")
    sources = {*net.inputs, *net.constants}
    _require(sources <= set(net.tensors), f"inputs are no tensors of the net: {_names(sources - set(net.tensors))}")
    ambiguous = set(net.inputs) & set(net.constants)
    _require(not ambiguous, f"tensors are both input and constant: {_names(ambiguous)}")
    written: set[str] = set()
    for step in net.steps:
        for name in step.outputs:
            _require(name in net.tensors, f"step {step.name} writes {name}, which is no tensor of the net")
            _require(name not in sources, f"step {step.name} writes {name}, which is an input or a constant")
            _require(name not in written, f"step {step.name} writes {name}, which another step writes")
            written.add(name)
    for step in net.steps:
        missing = set(step.inputs) - written - sources
        _require(not missing, f"step {step.name} reads {_names(missing)}, which nothing writes")
        check_step(step, net)
    missing = set(net.outputs) - written
    _require(not missing, f"no step writes the outputs {_names(missing)}")
    _acyclic(net)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise CheckError(message)


def _names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _info(name: str, info: Info) -> None:
    _require(info.dtype in DTYPES, f"tensor {name} has unknown dtype {info.dtype}")
    _require(all(size > 0 for size in info.shape), f"tensor {name} has shape {info.shape}")


def _acyclic(net: Net) -> None:
    writer = {name: position for position, step in enumerate(net.steps) for name in step.outputs}
    flow: nx.DiGraph[int] = nx.DiGraph()
    flow.add_nodes_from(range(len(net.steps)))
    for position, step in enumerate(net.steps):
        flow.add_edges_from((writer[name], position) for name in step.inputs if name in writer)
    for cycle in nx.strongly_connected_components(flow):
        waiting = [net.steps[position].name for position in cycle]
        is_cycle = len(waiting) > 1 or any(flow.has_edge(position, position) for position in cycle)
        _require(not is_cycle, f"steps wait for one another in a cycle: {_names(waiting)}")


def check_step(step: NetStep, net: Net) -> None:
    """Check one step against the tensors of the net."""
    if step.host:
        _require(not step.loops and not step.temps, f"step {step.name} is a host kernel and has loops")
        return
    _require(len(step.outputs) == 1, f"step {step.name} has {len(step.outputs)} outputs")
    for name, info in step.temps.items():
        _require(name not in net.tensors, f"step {step.name}: the private tensor {name} is also a tensor of the net")
        _info(name, info)
    private = {step.output: net.tensors[step.output], **step.temps}
    infos = {name: net.tensors[name] for name in step.inputs} | private
    elements = dict.fromkeys(private, 0)
    read: set[str] = set()
    for number, loop in enumerate(step.loops):
        where = f"step {step.name}, loop {number}"
        _loop(loop, where)
        target = loop.write.tensor
        _require(target in private, f"{where}: writes {target}, which is neither its output nor private")
        _require(target not in read, f"{where}: writes {target} after it was read")
        _require(loop.write.fill is None, f"{where}: a write has a fill")
        _access(loop, loop.write, private[target], where)
        for ref in loop.reads:
            _require(elements.get(ref.tensor) != 0, f"{where}: reads {ref.tensor} before it is written")
            _access(loop, ref, infos[ref.tensor], where)
            read.add(ref.tensor)
        elements[target] += _written(loop, where)
    for name, count in elements.items():
        _require(
            count == private[name].elements, f"step {step.name} writes {count} of {private[name].elements} of {name}"
        )


def _loop(loop: Loop, where: str) -> None:
    _require(all(e.size > 0 for e in loop.axes.values()), f"{where}: an axis is empty")
    _require(loop.func in ELEMENTS, f"{where}: unknown function {loop.func!r}")
    arity = ELEMENTS[loop.func].arity
    _require(len(loop.operands) == arity, f"{where}: {loop.func} takes {arity} operands, not {len(loop.operands)}")
    _require(loop.combine is None or loop.combine in COMBINE_IDENTITY, f"{where}: unknown combiner {loop.combine}")
    _require(not loop.reduced or loop.combine is not None, f"{where}: reduced axes need a combiner")
    _require(loop.start is None or loop.is_contraction, f"{where}: only sums of products start from a tensor")
    used = {axis for ref in (loop.write, *loop.reads) for axis in ref.axes}
    _require(used <= set(loop.axes), f"{where}: indices of unknown axes {_names(used - set(loop.axes))}")
    unused = {axis for axis, extent in loop.axes.items() if extent.size > 1} - used
    _require(not unused, f"{where}: axes that no access uses: {_names(unused)}")


def _access(loop: Loop, ref: Ref, info: Info, where: str) -> None:
    rank = len(info.shape)
    _require(len(ref.index) == rank, f"{where}: {ref.tensor} has rank {rank}, not {len(ref.index)}")
    for dim, (index, size) in enumerate(zip(ref.index, info.shape, strict=True)):
        low, high = _bounds(index.terms, index.const, loop.extents)
        inside = ref.fill is not None or (low >= 0 and high < size)
        _require(inside, f"{where}: dimension {dim} of {ref.tensor} is accessed in [{low}, {high}], it has {size}")


def _bounds(terms: Iterable[tuple[str, int]], const: int, extents: Mapping[str, int]) -> tuple[int, int]:
    reaches = [coefficient * (extents[axis] - 1) for axis, coefficient in terms]
    return const + sum(min(0, r) for r in reaches), const + sum(max(0, r) for r in reaches)


def _written(loop: Loop, where: str) -> int:
    """The elements that a loop writes; none of them twice."""
    count = 1
    for axis, extent in loop.axes.items():
        uses = sum(axis in index.axes for index in loop.write.index)
        _require(uses <= 1, f"{where}: axis {axis} writes {uses} dimensions")
        _require(not (uses and extent.reduce), f"{where}: the reduced axis {axis} is in the write")
        _require(bool(uses) or extent.reduce or extent.size == 1, f"{where}: axis {axis} writes one element repeatedly")
        count *= 1 if extent.reduce else extent.size
    for index in loop.write.index:
        reach = 0
        for coefficient, size in sorted((abs(c), loop.extents[a]) for a, c in index.terms):
            _require(coefficient > reach or size == 1, f"{where}: two points write the same element")
            reach += coefficient * (size - 1)
    return count
