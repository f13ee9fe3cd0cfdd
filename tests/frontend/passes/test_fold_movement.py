"""Where an access touches what another one does."""

from __future__ import annotations

from itertools import product

import pytest

from girih.frontend.net.linear import Linear, NotAffine
from girih.frontend.net.net import Ref
from girih.frontend.passes.fold_movement import invert


def linear(const: int = 0, **terms: int) -> Linear:
    return Linear.from_terms(terms, const)


@pytest.mark.parametrize("at", [0, 3])
@pytest.mark.parametrize("spread", [False, True])
def test_the_access_at_the_inverse_is_the_index(at: int, spread: bool) -> None:
    """A dimension of two digits and one of another axis, both from ``at`` on."""
    sizes = {"a": 3, "b": 4, "c": 5}
    access = Ref("t", (linear(at, a=4, b=1), linear(at, c=1)))
    if spread:
        extents = {"i": 3, "j": 4, "k": 5}
        index = (linear(at, i=4, j=1), linear(at, k=1))
    else:
        # The first eight places of the one, and of the other the last three.
        extents = {"i": 2, "j": 4, "k": 3}
        index = (linear(at, i=4, j=1), linear(at + 2, k=1))
    values = invert(access, sizes, index, extents)
    assert access.substitute(values).index == index
    for point in product(*map(range, extents.values())):
        where = dict(zip(extents, point, strict=True))
        for axis, value in values.items():
            assert 0 <= value.const + sum(c * where[a] for a, c in value.terms) < sizes[axis]


@pytest.mark.parametrize(
    ("access", "index"),
    [
        ((linear(1),), (linear(2),)),
        ((linear(a=2),), (linear(i=1),)),
        ((linear(a=1), linear(a=1)), (linear(i=1), linear(i=1))),
        ((linear(0),), (linear(0),)),
    ],
    ids=["elsewhere", "with gaps", "a diagonal", "an axis that is nowhere"],
)
def test_what_has_no_inverse_is_refused(access: tuple[Linear, ...], index: tuple[Linear, ...]) -> None:
    with pytest.raises(NotAffine):
        invert(Ref("t", access), {"a": 4}, index, {"i": 4})
