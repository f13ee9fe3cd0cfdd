"""How TVM's TIR spells the scalar functions: names alone, so that nothing here needs TVM.

The import reads these spellings and writes them into host kernels; the lowering writes them into the functions that it
schedules, and reads them back from the lowered loops.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TirOperator:
    """A scalar function as TIR has it.

    ``builder`` is the name of the function or class in ``tvm.tirx`` that makes the expression, and ``spellings`` are
    the node classes or intrinsics that mean it when TIR is read, its own first.
    """

    function: str
    builder: str
    spellings: tuple[str, ...]


_NODES = (
    TirOperator("add", "Add", ("Add",)),
    TirOperator("sub", "Sub", ("Sub",)),
    TirOperator("mul", "Mul", ("Mul",)),
    TirOperator("div", "Div", ("Div", "FloorDiv")),
    TirOperator("mod", "FloorMod", ("FloorMod",)),
    TirOperator("max", "Max", ("Max",)),
    TirOperator("min", "Min", ("Min",)),
    TirOperator("eq", "EQ", ("EQ",)),
    TirOperator("ne", "NE", ("NE",)),
    TirOperator("lt", "LT", ("LT",)),
    TirOperator("le", "LE", ("LE",)),
    TirOperator("gt", "GT", ("GT",)),
    TirOperator("ge", "GE", ("GE",)),
    TirOperator("and", "And", ("And",)),
    TirOperator("or", "Or", ("Or",)),
)
"""Binary nodes of the expression tree."""

_INTRINSICS = (
    TirOperator("abs", "abs", ("fabs",)),
    TirOperator("pow", "power", ("pow",)),
    TirOperator("round", "nearbyint", ("nearbyint", "round")),
    *(
        TirOperator(name, name, (name,))
        for name in ("exp", "log", "sqrt", "rsqrt", "erf", "tanh", "sigmoid", "sin", "cos", "floor", "ceil")
    ),
)
"""Calls of intrinsics."""

BUILDERS: dict[str, str] = {row.function: row.builder for row in (*_NODES, *_INTRINSICS)}
"""What in ``tvm.tirx`` makes each scalar function that TIR has."""

FUNCTION_OF_NODE: dict[str, str] = {spelling: row.function for row in _NODES for spelling in row.spellings}
"""The scalar function that each class of binary nodes is."""

FUNCTION_OF_INTRINSIC: dict[str, str] = {spelling: row.function for row in _INTRINSICS for spelling in row.spellings}
"""The scalar function that each intrinsic is."""

COMBINER_NODES: dict[str, str] = {"sum": "Add", "prod": "Mul", "max": "Max", "min": "Min"}
"""The node class that each combiner of a reduction is."""

COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
"""Functions whose nodes are booleans in TIR, whatever they compare."""
