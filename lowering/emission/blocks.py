"""Parts of an instruction: the same operation on some of its points."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ...ir.isa.row import Row
from .vector import Emitted

Places = Mapping[str, tuple[int, int]]
"""Memory and dtype of each buffer, by their codes."""


@dataclass(frozen=True)
class EngineStep:
    """An instruction, on the queue of ``engine``."""

    emitted: Emitted
    engine: str


def placed_fields(step: Emitted, places: Places) -> dict[str, int | float]:
    """All fields of an instruction but the addresses of its operands."""
    fields: dict[str, int | float] = dict(step.fields)
    for ref in step.refs:
        fields[f"{ref.operand}.mem"], fields[f"{ref.operand}.dtype"] = places[ref.buffer]
        fields |= {f"{ref.operand}.s{i}": s for i, s in enumerate(ref.strides)}
    return fields


def cuttable(step: Emitted, row: Row) -> tuple[str, ...]:
    """The extents in which an instruction can be cut: of its result, and of products that it can add to."""
    result = row.operands[0].dims
    names = [f.name for f in row.scalars if any(f.name in o.dims for o in row.operands if not o.picked)]
    if row.func == "scatter":
        return ()
    if row.mnemonic.startswith("vscan"):
        return tuple(names[:-1])
    # Sums of the vector engine may be of a narrow type, and rounded once.
    adds = row.kind == "matrix" and not dict(step.fields).get("relu")
    return tuple(n for n in names if n not in ("H", "W") and (n in result or adds))


def part_of(step: Emitted, row: Row, bounds: Mapping[str, tuple[int, int]], *, first: bool) -> Emitted:
    """The points of an instruction from the first of each bound on; all but the ``first`` of a sum add to it."""
    fields = dict(step.fields)
    for name, (_, size) in bounds.items():
        fields[name] = size
    for place, outer, inner, step_name, dilation in (("h0", "oh", "kh", "sh", "dh"), ("w0", "ow", "kw", "sw", "dw")):
        if place in fields:
            begin = bounds.get(outer, (0, 0))[0] * fields[step_name] + bounds.get(inner, (0, 0))[0] * fields[dilation]
            fields[place] += begin
    operands = {o.name: o for o in row.operands}
    mnemonic, refs = step.mnemonic, step.refs
    if not first:
        fields["acc"] = 1
        if mnemonic.endswith(".bias"):
            mnemonic = mnemonic.removesuffix(".bias")
            refs = tuple(r for r in refs if r.operand != "c")
            fields.pop("relu", None)
    return Emitted(
        mnemonic,
        tuple(fields.items()),
        tuple(
            replace(
                r,
                offset=r.offset
                + sum(
                    bounds[dim][0] * stride
                    for dim, stride in zip(operands[r.operand].dims, r.strides, strict=True)
                    if dim in bounds
                ),
            )
            for r in refs
        ),
    )
