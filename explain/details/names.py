"""Names as people type them: which operator, tensor, segment, memory or model is meant, and what is near."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from shlex import quote

from ...ir.errors import UsageError
from ...ir.graph import Graph
from ...ir.plan import Plan

_SUGGESTED = 3
"""Names that are suggested at most."""
_LISTED = 12
"""Names that are all listed at most, where none is near."""


def find_operators(graph: Graph, name: str) -> tuple[str, ...]:
    """The operator of this name, or those that an ONNX node of this name became; :class:`UsageError` if none."""
    if name in graph.op:
        return (name,)
    if from_node := tuple(op.name for op in graph.ops if name in op.origin):
        return from_node
    if name in graph.tensor:
        raise UsageError(f"there is no operator {name!r}, but a tensor: --tensor {quote(name)}")
    known = [*graph.op, *(node for op in graph.ops for node in op.origin)]
    raise UsageError(_unknown("operator", name, known))


def find_tensor(graph: Graph, name: str) -> str:
    """The tensor of this name; a port of the network is the tensor behind it. :class:`UsageError` if there is none."""
    if name in graph.tensor:
        return name
    for port in (*graph.inputs, *graph.outputs):
        if port.name == name:
            return port.tensor
    if name in graph.op or any(name in op.origin for op in graph.ops):
        results = [t for op in find_operators(graph, name) for t in graph.op[op].outputs]
        raise UsageError(
            f"there is no tensor {name!r}, but an operator: --operator {quote(name)}, or its result: "
            f"--tensor {quote(results[-1])}"
        )
    raise UsageError(_unknown("tensor", name, list(graph.tensor)))


def find_segment(plan: Plan, text: str) -> int:
    """The segment of this number; :class:`UsageError` if there is none."""
    if text.isdecimal() and int(text) < len(plan.segments):
        return int(text)
    within = [i for i, segment in enumerate(plan.segments) if text in segment.ops]
    if within:
        raise UsageError(f"{text!r} is an operator, which is in segment {within[0]}: --segment {within[0]}")
    last = len(plan.segments) - 1
    numbers = "the only one is 0" if last == 0 else f"they are 0 to {last}"
    raise UsageError(f"there is no segment {text!r}; {numbers}")


def find_name(kind: str, name: str, known: Sequence[str]) -> str:
    """One of ``known``, whatever its case; :class:`UsageError` if it is none of them."""
    for candidate in known:
        if candidate.lower() == name.lower():
            return candidate
    raise UsageError(_unknown(kind, name, known))


def _unknown(kind: str, name: str, known: Sequence[str]) -> str:
    names = list(dict.fromkeys(known))
    near = get_close_matches(name, names, _SUGGESTED)
    near = near or [known_name for known_name in names if name and name.lower() in known_name.lower()][:_SUGGESTED]
    unknown = f"there is no {kind} {name!r}"
    if near:
        *others, last = [repr(n) for n in near]
        return f"{unknown}; did you mean {', '.join(others)}{' or ' if others else ''}{last}?"
    if len(names) <= _LISTED:
        return f"{unknown}; there are {', '.join(names)}"
    return f"{unknown}, nor one with a similar name; `girih explain FILE.girih --json` has all names"
