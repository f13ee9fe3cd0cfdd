"""Which ONNX operators can be compiled, and how each is supported."""

from __future__ import annotations

from dataclasses import dataclass

import onnx.defs

from ...frontend.onnx.prepare import HANDLED, RANDOM
from ...frontend.relax.convert import importable


@dataclass(frozen=True)
class Operator:
    """An operator of ONNX's default domain, in its newest version ``since``. ``how`` is empty if it is unsupported.

    imported: becomes loop nests, or a kernel for the host or a scalar engine where they are beyond the others. folded:
    rewritten or computed while importing. decomposed: replaced by the operators that ONNX defines it with. Operators
    that give a result its shape need constants there, as shapes are static. ``reason`` says why one is unsupported,
    where that is not for want of an importer.
    """

    name: str
    since: int
    how: str
    reason: str = ""

    def __str__(self) -> str:
        return self.how or f"not supported: {self.reason}".removesuffix(": ")


REFUSED: dict[str, str] = {
    **dict.fromkeys(("Compress", "NonZero", "Unique"), "the shape of its result depends on data"),
    "NonMaxSuppression": "the shape of its result depends on data; girih.NonMaxSuppression has one of fixed size",
    **dict.fromkeys(RANDOM, "its result is random"),
    **dict.fromkeys(("BlackmanWindow", "HammingWindow", "HannWindow", "LinearAttention"),
                    "ONNX cannot expand its definition"),
    "SequenceMap": "it works on sequences",
}  # fmt: skip
"""Operators that are refused whatever their attributes, although an importer or a definition is there for some."""


def operators() -> tuple[Operator, ...]:
    """All of them, by name."""
    newest: dict[str, onnx.defs.OpSchema] = {}
    for schema in onnx.defs.get_all_schemas():
        if schema.domain == "" and not schema.deprecated:
            newest[schema.name] = schema
    return tuple(
        Operator(name, newest[name].since_version, _how(newest[name]), REFUSED.get(name, "")) for name in sorted(newest)
    )


def _how(schema: onnx.defs.OpSchema) -> str:
    if schema.name in REFUSED:
        return ""
    if schema.name in HANDLED:
        return "folded"
    if importable(schema.name):
        return "imported"
    # Two flags that the type stubs of onnx lack.
    defined = getattr(schema, "has_function") or getattr(schema, "has_context_dependent_function")  # noqa: B009
    return "decomposed" if defined else ""
