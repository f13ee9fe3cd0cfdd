"""Chains of scalar functions that one function computes are written as that one.

    b = max(a, 0); y = min(b, 6)              becomes  y = clip(a, 0, 6)
    b = sigmoid(a); y = a * b                          y = silu(a)
    b = erf(a / √2); c = b + 1; d = a * c; y = d / 2   y = gelu(a)
    b = exp(a); c = b + 1; y = log(c)                  y = softplus(a)
    b = a < 0; c = a * s; y = b ? c : a                y = lrelu(a, s)
    a != a ? a : 0 < a ? 1 : a < 0 ? -1 : 0            y = sign(a)
    b = a * s; y = b + t                               y = fma(a, s, t)

This saves passes of the vector engine and private buffers, and what was in these is rounded no longer. Only values go
that nothing else reads, that are written and read at the same points, and that are floats (or truths): whole numbers
may wrap in between. Longer patterns come first, and sums of products last, because they are parts of others.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from heapq import heappop, heappush

import numpy as np

from ...ir.graph import FLOATS
from ..net.linear import NotAffine, Retry
from ..net.net import Loop, Net, NetStep, Operand, Ref
from .fold_movement import invert

ABSORBED = FLOATS | {"bool"}
"""The dtypes of values that can go."""

Term = tuple[str, tuple[Operand, ...]]
"""A function and its operands, which are read at points of the loop in question."""


def fuse_functions(net: Net) -> None:
    """Replace chains of scalar functions by one function, until nothing matches.

    Before: operators are fused, so that chains are within one step, and precisions are final. After: no pattern of the
    list above is left, and every private tensor of a changed step is read.

        b = max(a, 0); y = min(b, 6)            becomes      y = clip(a, 0, 6)
    """
    for step in (s for s in net.steps if not s.is_opaque):
        body = _Body(step)
        for match in (_gelu, _silu, _softplus, _sign, _leaky, _clip, _fma):
            _rewrite_all(body, match)
        step.loops = list(body.loops.values())


MAX_DEPTH = 16
"""How many functions behind one another are looked through; the longest pattern has five."""


class _Body:
    """The loops of a step by position, with who writes and reads each tensor, kept up to date."""

    def __init__(self, step: NetStep) -> None:
        self.temps = step.temps
        self.loops = dict(enumerate(step.loops))
        self.writers: dict[str, list[int]] = {}
        self.readers: dict[str, Counter[int]] = {}
        """By tensor: for each loop, how many of its operands read it."""
        for position, loop in self.loops.items():
            self.writers.setdefault(loop.write.tensor, []).append(position)
            for ref in loop.reads:
                self.readers.setdefault(ref.tensor, Counter())[position] += 1

    def read_count(self, tensor: str) -> int:
        return sum(self.readers.get(tensor, {}).values())

    def replace(self, position: int, func: str, operands: tuple[Operand, ...]) -> list[int]:
        """Change what a loop computes and drop what is no longer read; returns the loops that it may concern."""
        old = self.loops[position]
        self.loops[position] = replace(old, func=func, operands=operands)
        for ref in self.loops[position].reads:
            self.readers.setdefault(ref.tensor, Counter())[position] += 1
        changed = self._unread(position, old.reads)
        return [p for tensor in (old.write.tensor, *changed) for p in self._downstream(tensor)] + [position]

    def _unread(self, position: int, refs: tuple[Ref, ...]) -> list[str]:
        """Forget reads of a loop, and loops whose results nobody reads any more; returns the tensors of these reads."""
        pending = [(position, ref.tensor) for ref in refs]
        tensors: list[str] = []
        while pending:
            position, tensor = pending.pop()
            readers = self.readers[tensor]
            readers[position] -= 1
            if not readers[position]:
                del readers[position]
            tensors.append(tensor)
            if tensor in self.temps and not readers:
                del self.temps[tensor]
                for writer in self.writers.pop(tensor, []):
                    pending += [(writer, ref.tensor) for ref in self.loops.pop(writer).reads]
        return tensors

    def _downstream(self, tensor: str) -> list[int]:
        """The loops that look through a tensor: its readers, and those that read it by way of private values."""
        positions: list[int] = []
        for position in self.readers.get(tensor, ()):
            for _ in range(MAX_DEPTH):
                positions.append(position)
                readers = self.readers.get(self.loops[position].write.tensor, Counter[int]())
                if len(readers) != 1:
                    break
                (position,) = readers
        return positions


def _rewrite_all(body: _Body, match: Callable[[_Chain, Term], Term | None]) -> None:
    """Replace the first loop that matches, for as long as there is one."""
    pending = list(body.loops)
    queued = set(pending)
    while pending:
        position = heappop(pending)
        queued.discard(position)
        loop = body.loops.get(position)
        if loop is None or loop.combine is not None:
            continue
        term = match(_Chain(body, loop), (loop.func, loop.operands))
        if term is None:
            continue
        for affected in body.replace(position, *term):
            if affected not in queued:
                queued.add(affected)
                heappush(pending, affected)


@dataclass(frozen=True)
class _Chain:
    """What a loop computes, seen through the private values that only it reads."""

    body: _Body
    loop: Loop

    def term(self, operand: Operand) -> Term | None:
        """The function that computes an operand, if its loop can go."""
        body = self.body
        if not isinstance(operand, Ref) or operand.fill is not None or operand.tensor not in body.temps:
            return None
        writers = [body.loops[position] for position in body.writers[operand.tensor]]
        if len(writers) != 1 or body.read_count(operand.tensor) != 1:
            return None
        writer = writers[0]
        if writer.combine is not None or writer.points != self.loop.points:
            return None
        if body.temps[operand.tensor].dtype not in ABSORBED:
            return None
        try:
            values = invert(writer.write, writer.extents, operand.index, self.loop.extents)
        except (NotAffine, Retry):
            return None
        return writer.func, tuple(o.substitute(values) if isinstance(o, Ref) else o for o in writer.operands)

    def call(self, operand: Operand, func: str) -> tuple[Operand, ...]:
        """The operands of ``func``, if that is how ``operand`` is made; else none."""
        term = self.term(operand)
        return term[1] if term is not None and term[0] == func else ()

    def scaled(self, operand: Operand, depth: int = MAX_DEPTH) -> tuple[float, float, Operand]:
        """``operand`` as a*x+b: (a, b, x)."""
        term = self.term(operand) if depth else None
        if term is not None and len(term[1]) == 2:
            func, (left, right) = term
            if isinstance(left, float) and func in ("add", "mul"):
                left, right = right, left
            if isinstance(right, float):
                a, b, x = self.scaled(left, depth - 1)
                if func in ("add", "sub"):
                    return a, b + (right if func == "add" else -right), x
                if func in ("mul", "div") and _is_product(term):
                    factor = right if func == "mul" else 1 / right
                    return a * factor, b * factor, x
        return 1.0, 0.0, operand

    def factors(self, term: Term, depth: int = MAX_DEPTH) -> tuple[float, list[Operand]]:
        """A term as a number times operands that are no products."""
        func, operands = term
        left, right = operands
        if func == "div":
            assert isinstance(right, float)
            number, factors = self._factors(left, depth)
            return number / right, factors
        (a, some), (b, more) = self._factors(left, depth), self._factors(right, depth)
        return a * b, some + more

    def _factors(self, operand: Operand, depth: int) -> tuple[float, list[Operand]]:
        if isinstance(operand, float):
            return operand, []
        term = self.term(operand) if depth else None
        return self.factors(term, depth - 1) if term is not None and _is_product(term) else (1.0, [operand])


def _is_product(term: Term) -> bool:
    func, operands = term
    return func == "mul" or (func == "div" and isinstance(operands[1], float) and bool(operands[1]))


def _is(value: float, constant: float) -> bool:
    """Whether a number of a network means ``constant``, in single or in half precision."""
    return math.isclose(value, constant, rel_tol=1e-6) or value == float(np.float16(constant))


def _two_factors(chain: _Chain, term: Term) -> list[tuple[float, Operand, Operand]]:
    """A product of a number and two operands, these in both orders."""
    if not _is_product(term):
        return []
    number, factors = chain.factors(term)
    if len(factors) != 2:
        return []
    left, right = factors
    return [(number, left, right), (number, right, left)]


def _gelu(chain: _Chain, term: Term) -> Term | None:
    for number, x, gate in _two_factors(chain, term):
        a, b, inner = chain.scaled(gate)
        for argument in chain.call(inner, "erf"):
            c, d, same = chain.scaled(argument)
            half = _is(number * a, 0.5) and _is(number * b, 0.5)
            if half and same == x and d == 0 and _is(c, math.sqrt(0.5)):
                return "gelu", (x,)
    return None


def _silu(chain: _Chain, term: Term) -> Term | None:
    for number, x, gate in _two_factors(chain, term):
        if number == 1 and chain.call(gate, "sigmoid") == (x,):
            return "silu", (x,)
    return None


def _softplus(chain: _Chain, term: Term) -> Term | None:
    """Written down as it is, or as max(x, 0) + softplus(-|x|), which never overflows."""
    func, operands = term
    if func == "log":
        a, b, inner = chain.scaled(operands[0])
        x = chain.call(inner, "exp")
        return ("softplus", x) if x and (a, b) == (1, 1) else None
    if func == "add":
        for positive, rest in (operands, operands[::-1]):
            for small in chain.call(rest, "softplus"):
                a, b, size = chain.scaled(small)
                x = chain.call(size, "abs")
                if x and (a, b) == (-1, 0) and chain.call(positive, "max") in ((*x, 0.0), (0.0, *x)):
                    return "softplus", x
    return None


_POSITIVE = {"gt": True, "ge": True, "lt": False, "le": False}
"""Whether a comparison with zero is true for large numbers."""
_MIRRORED = {"gt": "lt", "ge": "le", "lt": "gt", "le": "ge"}


def _leaky(chain: _Chain, term: Term) -> Term | None:
    func, operands = term
    test = chain.term(operands[0]) if func == "select" else None
    if test is None or test[0] not in _POSITIVE:
        return None
    comparison, (x, zero) = test
    if x == 0:
        comparison, x, zero = _MIRRORED[comparison], zero, x
    kept, scaled = operands[1:] if _POSITIVE[comparison] else (operands[2], operands[1])
    slope = _slope(chain, scaled, x)
    return ("lrelu", (x, slope)) if zero == 0 and kept == x and slope is not None else None


def _sign(chain: _Chain, term: Term) -> Term | None:
    """What is not a number stays so."""
    func, operands = term
    test = chain.term(operands[0]) if func == "select" else None
    if test is None or test[0] != "ne" or test[1] != (operands[1], operands[1]):
        return None
    x = operands[1]
    above = chain.call(operands[2], "select")
    below = chain.call(above[2], "select") if above and above[1] == 1 else ()
    if not below or below[1:] != (-1, 0):
        return None
    are_signs = chain.term(above[0]) in (("lt", (0, x)), ("gt", (x, 0))) and chain.term(below[0]) == ("lt", (x, 0))
    return ("sign", (x,)) if are_signs else None


def _slope(chain: _Chain, operand: Operand, x: Operand) -> Operand | None:
    """s, if the operand is made as x*s."""
    pair = chain.call(operand, "mul")
    if not isinstance(x, Ref) or x not in pair:
        return None
    return pair[1] if pair[0] == x else pair[0]


def _clip(chain: _Chain, term: Term) -> Term | None:
    """A bound of bounds; max(min(x, high), low) is the same where low <= high."""
    outer = term[0]
    if outer not in ("max", "min"):
        return None
    for inner, bound in (term[1], term[1][::-1]):
        pair = chain.call(inner, "min" if outer == "max" else "max")
        for x, inner_bound in (pair, pair[::-1]) if pair else ():
            if isinstance(bound, float) and isinstance(inner_bound, float) and isinstance(x, Ref):
                low, high = (bound, inner_bound) if outer == "max" else (inner_bound, bound)
                return ("clip", (x, low, high)) if low <= high else None
    return None


def _fma(chain: _Chain, term: Term) -> Term | None:
    func, operands = term
    if func == "add":
        for product, c in (operands, operands[::-1]):
            pair = _product(chain, product)
            if pair is not None:
                return "fma", (*pair, c)
    if func == "sub":
        left, right = operands
        pair = _product(chain, left)
        if pair is not None and isinstance(right, float):
            return "fma", (*pair, -right)
        pair = _product(chain, right)
        if pair is not None and isinstance(pair[1], float):
            return "fma", (pair[0], -pair[1], left)
    return None


def _product(chain: _Chain, operand: Operand) -> tuple[Operand, Operand] | None:
    """The factors of an operand that is made as a product, a tensor first."""
    pair = chain.call(operand, "mul")
    if not pair:
        return None
    a, b = pair
    return (a, b) if isinstance(a, Ref) else (b, a)
