"""The function of a custom operator is called, at its height, and what it returns becomes a Relax expression.

    graph     function(relax expressions, **attributes) -> relax expressions
    compute   function(te tensors, **attributes) -> te tensors                    becomes a call of their PrimFunc
    library   a PrimFunc, or function(LibraryInput, **attributes) -> PrimFunc     becomes a call of it

Several results are a tuple or list. An input that the node leaves out is ``None``, or not given if it is the last.
Each function is called twice: what it returns must be structurally the same, or compilations could not be repeated.
Every error is a :class:`~girih.ir.errors.UsageError` with the file and line of the user.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import tvm
import tvm_ffi
from tvm import relax, s_tir, te, tirx

from ...ir.custom_operators import CustomOperator, blaming
from ...ir.errors import UsageError
from ...ir.graph import DTYPES
from ..library.library_input import LibraryInput
from ..net.net import Info
from .compute_checks import compute_problem
from .kernel_bounds import index_problem
from .kernel_checks import kernel_problem


def emit_call(
    operator: CustomOperator,
    builder: relax.BlockBuilder,
    inputs: Sequence[Any],
    attributes: Mapping[str, object],
    node: str,
) -> list[Any]:
    """The results of the operator on Relax expressions (``None``: left out), as variables of ``builder``."""
    inputs = list(inputs)
    while inputs and inputs[-1] is None:
        inputs.pop()
    types = [None if i is None else info_of_type(i.ty) for i in inputs]
    with blaming(operator, f"the call for node {node!r}"):
        if operator.height == "graph":
            return _graph(operator, builder, inputs, attributes, node)
        known = [None if i is None else _value(i) for i in inputs]
        functions = [_prim_func(operator, types, known, attributes, node) for _ in range(2)]
        _require_same(operator, functions[0], functions[1], node)
    present_inputs = [i for i in inputs if i is not None]
    infos = [_buffer_info(operator, p, node) for p in functions[0].params]
    for position, (info, kernel_info) in enumerate(zip((t for t in types if t is not None), infos, strict=False)):
        if info != kernel_info:
            raise wrong(
                operator, node, f"its kernel takes {shown(kernel_info)} as input {position}, which is {shown(info)}"
            )
    results = infos[len(present_inputs) :]
    if not results:
        raise wrong(operator, node, "its kernel has no parameter for a result")
    for info in results:
        _require_elements(operator, info, node)
    problem = kernel_problem(functions[0], len(present_inputs))
    if problem is None and operator.height == "library":  # The importer checks the loops of the other.
        problem = index_problem(functions[0])
    if problem is not None:
        raise wrong(operator, node, problem)
    out = [relax.TensorType(cast("Any", i.shape), i.dtype) for i in results]
    with blaming(operator, f"the call for node {node!r}"):
        hint = "".join(c if c.isalnum() else "_" for c in operator.name)
        variable = builder.add_func(functions[0].without_attr("global_symbol"), hint)
        call = relax.call_tir(
            variable, relax.Tuple(present_inputs), out_ty=cast("Any", out if len(out) > 1 else out[0])
        )
        value = builder.emit(call)
    return [value] if len(out) == 1 else [builder.emit(relax.TupleGetItem(value, n)) for n in range(len(out))]


def shown(info: Info) -> str:
    """A shape and a dtype for messages."""
    return f"{info.dtype}{list(info.shape)}"


def wrong(operator: CustomOperator, node: str, what: str) -> UsageError:
    """The error for what a function returned."""
    return UsageError(f"{operator.place}: the operator {operator.key} for node {node!r}: {what}")


def info_of_type(kind: Any) -> Info | None:
    """Shape and dtype of a Relax type, if they are static and known."""
    shape, dtype = getattr(kind, "shape", None), getattr(kind, "dtype", None)
    if type(kind).__name__ != "TensorType" or shape is None or dtype is None:
        return None
    extents = list(getattr(shape, "values", []))
    if not all(isinstance(n, tirx.IntImm) for n in extents):
        return None
    return Info(tuple(int(n) for n in extents), str(dtype.dtype))


def _graph(
    operator: CustomOperator,
    builder: relax.BlockBuilder,
    inputs: Sequence[Any],
    attributes: Mapping[str, object],
    node: str,
) -> list[Any]:
    calls = [_as_list(operator.function(*inputs, **attributes)) for _ in range(2)]
    for result in calls[0]:
        if not isinstance(result, tvm.ir.Expr):
            raise wrong(operator, node, f"it returns {type(result).__name__}, not a Relax expression")
    _require_same(operator, relax.Tuple(calls[0]), relax.Tuple(calls[1]), node)
    values: list[Any] = [builder.emit(builder.normalize(result)) for result in calls[0]]
    if len(values) == 1 and type(values[0].ty).__name__ == "TupleType":
        values = [builder.emit(relax.TupleGetItem(values[0], n)) for n in range(len(values[0].ty.fields))]
    for value in values:
        info = info_of_type(value.ty)
        if info is None:
            raise wrong(operator, node, f"it returns {value.ty}; its results need static shapes")
        _require_dtype(operator, info, node)
        _require_elements(operator, info, node)
    return values


def _prim_func(
    operator: CustomOperator,
    types: Sequence[Info | None],
    known: Sequence[np.ndarray | None],
    attributes: Mapping[str, object],
    node: str,
) -> Any:
    if operator.height == "library":
        function = operator.function
        if not isinstance(function, tirx.PrimFunc):
            library_inputs = [t and LibraryInput(t.shape, t.dtype, v) for t, v in zip(types, known, strict=True)]
            function = function(*library_inputs, **attributes)
        if not isinstance(function, tirx.PrimFunc):
            raise wrong(operator, node, f"it returns {type(function).__name__}, not a PrimFunc")
        if not (function.attrs or {}).get("s_tir"):
            raise wrong(operator, node, "its kernel is of TVM's other dialect; write @T.prim_func(s_tir=True)")
        return _rooted(function)
    tensors = [t and te.placeholder(cast("Any", t.shape), t.dtype, f"in{n}") for n, t in enumerate(types)]
    results = _as_list(operator.function(*tensors, **attributes))
    placeholders = [t for t in tensors if t is not None]
    problem = compute_problem(placeholders, results)
    if problem is not None:
        raise wrong(operator, node, problem)
    # With indices of int64, as kernels of TVM have them: fusion compares the types of their buffers.
    return te.create_prim_func([*placeholders, *results], index_dtype_override="int64")


def _rooted(function: Any) -> Any:
    """With a root block, which TVM's passes over Relax expect: TVMScript makes none where there are no other blocks."""
    if isinstance(function.body, s_tir.SBlockRealize):
        return function
    root = s_tir.SBlockRealize([], True, s_tir.SBlock([], [], [], "root", function.body))
    return tirx.PrimFunc(function.params, root, attrs=function.attrs).with_attr("s_tir", True)


def _as_list(result: Any) -> list[Any]:
    return [*result] if isinstance(result, (tuple, list)) else [result]


def _value(expr: Any) -> np.ndarray | None:
    return expr.value.numpy() if type(expr).__name__ == "GenericConst" else None


def _require_same(operator: CustomOperator, first: Any, second: Any, node: str) -> None:
    # The names of blocks, by which templates find them, are no structure.
    if not tvm_ffi.structural_equal(first, second) or str(first) != str(second):
        raise wrong(
            operator, node, "it is not deterministic: called twice with the same arguments, it returns two things"
        )


def _require_dtype(operator: CustomOperator, info: Info, node: str) -> None:
    if info.dtype not in DTYPES:
        raise wrong(operator, node, f"dtype {info.dtype} is not supported; there are {', '.join(DTYPES)}")


def _require_elements(operator: CustomOperator, info: Info, node: str) -> None:
    if 0 in info.shape:
        raise wrong(operator, node, f"it returns {shown(info)}, which has no elements; no machine takes such a tensor")


def _buffer_info(operator: CustomOperator, parameter: Any, node: str) -> Info:
    """Of a parameter of a PrimFunc."""
    if not tirx.is_buffer_var(parameter):
        raise wrong(operator, node, f"the parameter {parameter.name} of its kernel is no buffer")
    shape = list(parameter.ty.shape)
    if not all(isinstance(n, tirx.IntImm) for n in shape):
        raise wrong(operator, node, f"the shape of {parameter.name} is not static: {shape}")
    info = Info(tuple(int(n) for n in shape), str(parameter.ty.dtype.dtype))
    _require_dtype(operator, info, node)
    return info
