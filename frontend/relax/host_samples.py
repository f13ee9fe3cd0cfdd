"""Does a host kernel compute each sample of a batch on its own? What its TIR says, not what its shapes look like.

A loop nest is divisible if one loop runs through the whole batch, its variable is the index of every buffer that holds
the batch (along the dimension that does), and nothing else depends on that variable: then one iteration touches
one sample, and is the same for all of them.

    for n, k:  y[n, k] = x[n, index[n, k]]        proven: n
    for n, k:  y[n, k] = x[index[n, k], k]        not proven: which sample is read depends on data
    for n, k:  y[n, k] = x[n, k] + n              not proven: the samples differ
"""

# TVM's classes get their fields from C++, which type checkers cannot see.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir import TensorLoad

from ...ir.graph import Host
from ..library.scalar_operations import AT_MOST
from .tir_records import dtype_of, kind_of, variables


class _Unproven(Exception):
    """The kernel has something of which nothing is known."""


def batch_dims(host: Host, inputs: Mapping[int, int]) -> dict[int, int] | None:
    """The parameters that hold the batch, with the dimension along which they do; ``None`` if samples may meet.

    ``inputs`` says this of the parameters that the kernel reads. A result that is not in the answer depends on no
    sample.
    """
    module: Any = tvm.ir.load_json(host.tir)
    function = module["main"]
    parameters = list(function.params)
    dims = {parameters[position]: dim for position, dim in inputs.items()}
    try:
        nests = _nests(function.body)
        while any(_spread(nest, dims) for nest in nests):
            pass
        for nest in nests:
            _check(nest, dims)
    except _Unproven:
        return None
    return {position: dims[p] for position, p in enumerate(parameters) if p in dims}


@dataclass
class _Nest:
    """Loops and what is in them; ``loop_of`` leads from the iterator of a block to the loop that it is bound to."""

    extents: dict[Any, int] = field(default_factory=dict[Any, int])
    loop_of: dict[Any, Any] = field(default_factory=dict[Any, Any])
    stores: list[Any] = field(default_factory=list[Any])
    values: list[Any] = field(default_factory=list[Any])

    def batch_loop(self, buffer: Any, indices: Any, dim: int) -> Any:
        """The loop that runs through dimension ``dim`` of a buffer; raises :class:`_Unproven` if none does."""
        loop = self.loop_of.get(indices[dim], indices[dim])
        if self.extents.get(loop) != int(buffer.ty.shape[dim]):
            raise _Unproven
        return loop


def _nests(body: Any) -> list[_Nest]:
    """The statements below the root block, each of which runs when the one before it has ended."""
    while isinstance(body, s_tir.SBlockRealize) and not list(body.block.iter_vars):
        body = body.block.body
    nests: list[_Nest] = []
    statements = list(body.seq) if isinstance(body, tirx.SeqStmt) else [body]
    for statement in (s for s in statements if not isinstance(s, tirx.AllocBuffer)):
        nests.append(_Nest())
        _collect(statement, nests[-1])
    return nests


def _collect(statement: Any, nest: _Nest) -> None:
    if isinstance(statement, tirx.SeqStmt):
        for child in statement.seq:
            _collect(child, nest)
    elif isinstance(statement, tirx.For) and _is_number(statement.min, 0) and kind_of(statement.extent) == "IntImm":
        nest.extents[statement.loop_var] = int(statement.extent.value)
        _collect(statement.body, nest)
    elif isinstance(statement, s_tir.SBlockRealize):
        block = statement.block
        for iterator, value in zip(block.iter_vars, statement.iter_values, strict=True):
            if value in nest.extents:
                nest.loop_of[iterator.var] = value
            elif variables(value):
                raise _Unproven
        nest.values.append(statement.predicate)
        for part in (block.init, block.body):
            if part is not None:
                _collect(part, nest)
    elif isinstance(statement, tirx.Bind):
        nest.values.append(statement.value)
    elif isinstance(statement, tirx.BufferStore):
        nest.stores.append(statement)
    elif isinstance(statement, tirx.IfThenElse):
        nest.values.append(statement.condition)
        for part in (statement.then_case, statement.else_case):
            if part is not None:
                _collect(part, nest)
    elif isinstance(statement, tirx.While):
        nest.values.append(statement.condition)
        _collect(statement.body, nest)
    elif isinstance(statement, tirx.AttrStmt) and statement.attr_key == AT_MOST:
        _collect(statement.body, nest)
    else:
        raise _Unproven


def _is_number(expr: Any, value: int) -> bool:
    return kind_of(expr) == "IntImm" and int(expr.value) == value


def _loads(nest: _Nest) -> list[Any]:
    loads: list[Any] = []
    for expr in (*nest.values, *(e for s in nest.stores for e in (s.value, *s.indices))):
        tvm_ffi.structural_walk(expr, (TensorLoad, loads.append), order="pre")
    return loads


def _spread(nest: _Nest, dims: dict[Any, int]) -> bool:
    """Add to ``dims`` what is written with a sample of what is read; whether there was anything new."""
    loads = [load for load in _loads(nest) if load.source in dims]
    new = [store for store in nest.stores if store.buffer not in dims]
    if not loads or not new:
        return False
    batch = nest.batch_loop(loads[0].source, loads[0].indices, dims[loads[0].source])
    for store in new:
        places = [d for d, index in enumerate(store.indices) if nest.loop_of.get(index, index).same_as(batch)]
        if len(places) != 1:
            raise _Unproven
        dims[store.buffer] = places[0]
    return True


def _check(nest: _Nest, dims: Mapping[Any, int]) -> None:
    """Raise :class:`_Unproven` unless an iteration of one loop touches one sample, and is the same for all."""
    batches: set[Any] = set()
    used: set[Any] = set()

    def without_samples(load: Any) -> Any:
        if load.source not in dims:
            return load
        dim = dims[load.source]
        batches.add(nest.batch_loop(load.source, load.indices, dim))
        for index in (*load.indices[:dim], *load.indices[dim + 1 :]):
            used.update(variables(index))
        return tirx.const(0, dtype_of(load))

    expressions = list(nest.values)
    for store in nest.stores:
        indices = list(store.indices)
        if store.buffer in dims:
            dim = dims[store.buffer]
            batches.add(nest.batch_loop(store.buffer, indices, dim))
            del indices[dim]
        expressions += [store.value, *indices]
    for expr in expressions:
        used.update(variables(tvm_ffi.structural_map(expr, (TensorLoad, without_samples), order="post")))
    if not batches:
        return
    # A buffer that is used by name, as in a call of a library, is one of the variables.
    if len(batches) > 1 or any(store.buffer not in dims for store in nest.stores) or used & dims.keys():
        raise _Unproven
    if batches & {nest.loop_of.get(variable, variable) for variable in used}:
        raise _Unproven
