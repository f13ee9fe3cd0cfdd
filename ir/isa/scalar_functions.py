"""The scalar functions that a stage may compute: names, arities and documentation, no semantics.

The simulator, the lowering and the test reference each implement them on their own, so that they can prove one
another wrong.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Element:
    """One scalar function; ``special`` ones need the vector engine's slower function unit.

    ``some_forms``: which operands may be vectors (``v``) and which constants (``s``), if not any that the arity allows.
    """

    name: str
    arity: int
    sentence: str
    special: bool = False
    some_forms: tuple[str, ...] = ()

    @property
    def forms(self) -> tuple[str, ...]:
        """The combinations of vectors and constants that there are instructions for; one operand is a vector."""
        return self.some_forms or _FORMS[self.arity]


_FORMS = {1: ("v",), 2: ("vv", "vs", "sv"), 3: ("vvv", "vvs", "vsv", "vss")}


_ROWS = (
    Element("copy", 1, "x, converted to the destination's dtype"),
    Element("neg", 1, "-x"),
    Element("abs", 1, "|x|"),
    Element("floor", 1, "the largest integer <= x"),
    Element("ceil", 1, "the smallest integer >= x"),
    Element("round", 1, "the integer nearest to x, ties to even"),
    Element("sign", 1, "-1, 0 or 1, as x is negative, zero or positive"),
    Element("not", 1, "true where x is 0"),
    Element("exp", 1, "e**x", special=True),
    Element("log", 1, "the natural logarithm of x", special=True),
    Element("sqrt", 1, "the square root of x", special=True),
    Element("rsqrt", 1, "1/sqrt(x)", special=True),
    Element("recip", 1, "1/x", special=True),
    Element("erf", 1, "the error function of x", special=True),
    Element("tanh", 1, "the hyperbolic tangent of x", special=True),
    Element("sigmoid", 1, "1/(1+exp(-x))", special=True),
    Element("sin", 1, "the sine of x", special=True),
    Element("cos", 1, "the cosine of x", special=True),
    Element("add", 2, "a+b"),
    Element("sub", 2, "a-b"),
    Element("mul", 2, "a*b"),
    Element("div", 2, "a/b (integers: floor division)", special=True),
    Element("mod", 2, "a-b*floor(a/b)", special=True),
    Element("pow", 2, "a**b", special=True),
    Element("max", 2, "the larger of a and b"),
    Element("min", 2, "the smaller of a and b"),
    Element("eq", 2, "a==b"),
    Element("ne", 2, "a!=b"),
    Element("lt", 2, "a<b"),
    Element("le", 2, "a<=b"),
    Element("gt", 2, "a>b"),
    Element("ge", 2, "a>=b"),
    Element("and", 2, "true where a and b are not 0"),
    Element("or", 2, "true where a or b is not 0"),
    Element("select", 3, "b where a is true, else c"),
    # What several of the others can be fused into; the result is rounded once.
    Element("fma", 3, "a*b+c, rounded once"),
    Element("clip", 3, "min(max(a,b),c)", some_forms=("vss",)),
    Element("lrelu", 2, "a where a>=0, else a*b", some_forms=("vv", "vs")),
    Element("quant", 3, "a*b rounded to the nearest integer, plus c, saturated", some_forms=("vvs", "vss")),
    Element("dequant", 3, "(a-b)*c", some_forms=("vsv", "vss")),
    Element("gelu", 1, "x*(1+erf(x/sqrt(2)))/2", special=True),
    Element("silu", 1, "x/(1+exp(-x))", special=True),
    Element("softplus", 1, "log(1+exp(x))", special=True),
)


def is_int64(value: float) -> bool:
    """Whether a constant can be an operand of int64: it is whole, and 64 bits hold it. The mask -3.4e38 is not."""
    return float(value).is_integer() and -(2.0**63) <= value < 2.0**63


ELEMENTS: dict[str, Element] = {row.name: row for row in _ROWS}

COMBINE_IDENTITY: dict[str, float] = {
    "sum": 0.0,
    "prod": 1.0,
    "max": float("-inf"),
    "min": float("inf"),
}
"""The value that each combiner starts from."""
