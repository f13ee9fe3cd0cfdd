"""Symbolic dimensions: which there are, and what they are bound to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import onnx

from ...ir.errors import UnsupportedError, UsageError

LARGEST = 2**31 - 1
"""The largest size that can be bound. Products of sizes are numbers of 64 bits, in ONNX as in TVM."""
Symbol = str
"""The name of a symbolic dimension; one without a name is called ``input:axis``."""


@dataclass(frozen=True)
class Binding:
    """Sizes of all symbols. ``leading`` symbols were bound by the batch; ``batch`` is the one that may be divided."""

    sizes: Mapping[Symbol, int]
    batch: Symbol | None
    leading: tuple[Symbol, ...] = ()


def network_inputs(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """The inputs that a user gives (old files list their weights as inputs too)."""
    weights = {w.name for w in model.graph.initializer}
    return [v for v in model.graph.input if v.name not in weights]


def symbols(value: onnx.ValueInfoProto) -> Iterator[tuple[int, Symbol]]:
    """Axis and symbol of each symbolic dimension of an input."""
    for axis, dim in enumerate(value.type.tensor_type.shape.dim):
        if not dim.HasField("dim_value") or dim.dim_value < 0:
            yield axis, dim.dim_param or f"{value.name}:{axis}"


def bind(model: onnx.ModelProto, batch: int | None, dims: Mapping[str, int]) -> Binding:
    """Give every symbolic dimension of the inputs a size, or say how the user can."""
    if batch is not None and not 1 <= batch <= LARGEST:
        raise UsageError(f"the batch is {batch}; give a whole number from 1 to {LARGEST:,}")
    inputs = network_inputs(model)
    uses: dict[Symbol, list[tuple[str, int]]] = {}
    for value in inputs:
        if not value.type.HasField("tensor_type"):
            raise UsageError(f"input {value.name!r} is not a tensor")
        if not value.type.tensor_type.HasField("shape"):
            raise UsageError(f"input {value.name!r} has no shape; export the model with one")
        if any(dim.HasField("dim_value") and not dim.dim_value for dim in value.type.tensor_type.shape.dim):
            raise UnsupportedError(
                f"input {value.name!r} has a dimension of 0, and tensors without elements are not supported; if 0 "
                "stands for a size that is open, export the model with a symbolic dimension"
            )
        for axis, symbol in symbols(value):
            uses.setdefault(symbol, []).append((value.name, axis))
    for name, size in dims.items():
        if name not in uses:
            known = ", ".join(sorted(uses)) or "none"
            raise UsageError(f"the model has no symbolic dimension {name!r}; it has: {known}")
        if not 1 <= size <= LARGEST:
            raise UsageError(f"dimension {name!r} is bound to {size}; give a whole number from 1 to {LARGEST:,}")
    leading = [s for s, places in uses.items() if s not in dims and any(axis == 0 for _, axis in places)]
    sizes = dict(dims)
    symbol: Symbol | None = None
    if batch is not None and leading:
        if len(leading) > 1 and not all(":" in s for s in leading):
            names = ", ".join(leading)
            raise UsageError(f"inputs begin with different dimensions ({names}); bind all but one with --dim NAME=N")
        sizes |= dict.fromkeys(leading, batch)
        symbol = leading[0] if len(leading) == 1 else None
        if any(axis != 0 for s in leading for _, axis in uses[s]):
            symbol = None
    elif batch is not None:
        _same_static_batch(inputs, batch, dims)
    missing = {name: places for name, places in uses.items() if name not in sizes}
    if missing:
        raise UsageError("; ".join(_without_size(name, places) for name, places in missing.items()))
    return Binding(sizes, symbol, tuple(leading) if batch is not None else ())


def _without_size(symbol: Symbol, places: list[tuple[str, int]]) -> str:
    """That a symbol has no size, and the option that gives it one."""
    where = ", ".join(f"{value!r} (axis {axis})" for value, axis in places)
    how = "--batch N" if any(axis == 0 for _, axis in places) else f"--dim {symbol}=N"
    return f"dimension {symbol!r} of input {where} has no size; bind it with {how}"


def _same_static_batch(
    inputs: list[onnx.ValueInfoProto],
    batch: int,
    dims: Mapping[str, int],
) -> None:
    for value in inputs:
        shape = value.type.tensor_type.shape.dim
        if not shape:
            continue
        bound = dict(symbols(value))
        size = dims[bound[0]] if 0 in bound else shape[0].dim_value
        if size != batch and 0 in bound:
            raise UsageError(
                f"dimension {bound[0]!r} of input {value.name!r} is {size} by --dim {bound[0]}={size}, and the batch "
                f"by --batch {batch}; leave out one of the two"
            )
        if size != batch:
            raise UsageError(
                f"input {value.name!r} has a fixed batch of {size}, not {batch};"
                " leave out --batch, or export the model with a symbolic batch"
            )


def apply(model: onnx.ModelProto, sizes: Mapping[Symbol, int]) -> None:
    """Write the sizes into the inputs; everything that followed from the symbols is dropped, to be inferred anew."""
    for value in network_inputs(model):
        dims = value.type.tensor_type.shape.dim
        for axis, symbol in list(symbols(value)):
            dims[axis].dim_value = sizes[symbol]
    del model.graph.value_info[:]
    for value in model.graph.output:
        if value.type.HasField("tensor_type"):
            value.ClearField("type")
