"""TVM's schedulable TIR, read into plain records: kernels of blocks of iterators and stores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir import TensorLoad

from ...ir.graph import FLOATS
from ..net.linear import NotAffine


def kind_of(node: Any) -> str:
    """The name of a node's class; unlike isinstance() it leaves the type checker out of TVM's partial types."""
    return type(node).__name__


def dtype_of(node: Any) -> str:
    """The numpy name of an expression's dtype."""
    return str(node.ty.dtype) if hasattr(node.ty, "dtype") else str(node.ty)


@dataclass(frozen=True)
class Iter:
    var: Any
    name: str
    extent: int
    reduce: bool


@dataclass(frozen=True)
class BufferStore:
    """``buffer[index...] = value``, or combined into it over the reduced iterators."""

    buffer: Any
    index: tuple[Any, ...]
    value: Any
    combine: str | None


@dataclass(frozen=True)
class TirBlock:
    name: str
    iters: tuple[Iter, ...]
    stores: tuple[BufferStore, ...]


@dataclass(frozen=True)
class Kernel:
    """``params`` are the inputs, then the outputs; ``temps`` the buffers in between."""

    func: Any
    params: tuple[Any, ...]
    temps: tuple[Any, ...]
    blocks: tuple[TirBlock, ...]

    @staticmethod
    def shape_dtype(buffer: Any) -> tuple[tuple[int, ...], str]:
        return tuple(int(n) for n in buffer.ty.shape), str(buffer.ty.dtype.dtype)


def read_kernel(func: Any) -> Kernel:
    """The blocks of a PrimFunc; raises :class:`NotAffine` if it is more than a sequence of plain loop nests."""
    root = func.body
    if not isinstance(root, s_tir.SBlockRealize):
        raise NotAffine("no loop nests")
    blocks: list[TirBlock] = []
    _collect(root.block.body, {}, blocks)
    return Kernel(func, tuple(func.params), tuple(root.block.alloc_buffers), tuple(blocks))


def _collect(stmt: Any, loops: dict[Any, int], out: list[TirBlock]) -> None:
    if isinstance(stmt, tirx.SeqStmt):
        for child in stmt.seq:
            _collect(child, loops, out)
    elif isinstance(stmt, tirx.For):
        if _constant(stmt.min) != 0:
            raise NotAffine("a loop does not start at 0")
        _collect(stmt.body, {**loops, stmt.loop_var: _constant(stmt.extent)}, out)
    elif isinstance(stmt, s_tir.SBlockRealize):
        out.append(_block(stmt, loops))
    else:
        raise NotAffine(f"control flow ({type(stmt).__name__})")


def _constant(expr: Any) -> int:
    if not isinstance(expr, tirx.IntImm):
        raise NotAffine("a loop's extent depends on data")
    return int(expr.value)


def _block(realize: Any, loops: dict[Any, int]) -> TirBlock:
    block = realize.block
    if not (isinstance(realize.predicate, tirx.IntImm) and realize.predicate.value):
        raise NotAffine("a predicated block")
    if block.alloc_buffers:
        raise NotAffine("nested blocks")
    iters: list[Iter] = []
    for iv, value in zip(block.iter_vars, realize.iter_values, strict=True):
        if iv.iter_type not in (0, 2) or _constant(iv.dom.min) != 0:
            raise NotAffine("an opaque iterator")
        bound = value in loops or isinstance(value, tirx.IntImm)
        if not bound:
            raise NotAffine("an iterator bound to an expression")
        name = iv.var.name.removeprefix("v_")
        iters.append(Iter(iv.var, name, _constant(iv.dom.extent), iv.iter_type == 2))
    # What has an initial value is a reduction, if only over no axes.
    stores = _stores(block.body, {}, block.init is not None)
    if any(i.reduce for i in iters) and block.init is None:
        raise NotAffine("a reduction without initial value")
    if block.init is not None:
        _require_identities(block.init, stores)
    return TirBlock(block.name_hint, tuple(iters), tuple(stores))


def _stores(stmt: Any, binds: dict[Any, Any], reduces: bool) -> list[BufferStore]:
    if isinstance(stmt, tirx.SeqStmt):
        stores: list[BufferStore] = []
        for child in stmt.seq:
            stores += _stores(child, binds, reduces)
        return stores
    if isinstance(stmt, tirx.Bind):
        binds[stmt.var] = _inline(stmt.value, binds)
        return []
    if isinstance(stmt, tirx.BufferStore):
        value = _inline(stmt.value, binds)
        index = tuple(stmt.indices)
        if not reduces:
            return [BufferStore(stmt.buffer, index, value, None)]
        return [_reduction(stmt.buffer, index, value)]
    raise NotAffine(f"control flow ({type(stmt).__name__})")


def _require_identities(init: Any, stores: list[BufferStore]) -> None:
    """Reductions begin with a number that changes nothing: their records have no room for another."""
    begins = {store.buffer: store.value for store in _stores(init, {}, False)}
    for store in stores:
        begin = begins.get(store.buffer)
        number = begin.value if isinstance(begin, (tirx.IntImm, tirx.FloatImm)) else None
        if number is None or not _is_identity(float(number), store.combine, dtype_of(begin)):
            raise NotAffine(f"a {store.combine} that begins with {begin}")


def _is_identity(number: float, combine: str | None, dtype: str) -> bool:
    if combine in ("sum", "prod"):
        return number == (combine == "prod")
    least, most = _range(dtype)
    return number <= least if combine == "max" else number >= most


def _range(dtype: str) -> tuple[float, float]:
    if dtype == "bool":
        return 0.0, 1.0
    info: Any = ml_dtypes.finfo(dtype) if dtype in FLOATS else np.iinfo(dtype)
    return float(info.min), float(info.max)


def _inline(expr: Any, binds: dict[Any, Any]) -> Any:
    if not binds:
        return expr
    return tvm_ffi.structural_map(expr, (tirx.Var, lambda v: binds.get(v, v)), order="post")


_COMBINERS = {"Add": "sum", "Mul": "prod", "Max": "max", "Min": "min"}


def _reduction(buffer: Any, index: tuple[Any, ...], value: Any) -> BufferStore:
    combine = _COMBINERS.get(type(value).__name__)
    if combine is None:
        raise NotAffine("an unknown combiner")
    for accumulator, update in ((value.a, value.b), (value.b, value.a)):
        if not isinstance(accumulator, TensorLoad) or accumulator.source != buffer:
            continue
        same = all(tvm_ffi.structural_equal(a, b) for a, b in zip(accumulator.indices, index, strict=True))
        if same and not _reads(update, buffer):
            return BufferStore(buffer, index, update, combine)
    raise NotAffine("an unknown combiner")


def _reads(expr: Any, buffer: Any) -> bool:
    matches: list[Any] = []
    tvm_ffi.structural_walk(expr, (TensorLoad, matches.append), order="pre")
    return any(load.source == buffer for load in matches)


def loads(expr: Any) -> list[Any]:
    """All loads in an expression."""
    matches: list[Any] = []
    tvm_ffi.structural_walk(expr, (TensorLoad, matches.append), order="pre")
    return matches


def variables(expr: Any) -> list[Any]:
    """All variables in an expression (buffers too), each once."""
    matches: list[Any] = []
    tvm_ffi.structural_walk(expr, (tirx.Var, matches.append), order="pre")
    return list(dict.fromkeys(matches))
