"""Operators drawn at random as ``te.compute``, under plans drawn at random: what TVM's own build computes, exactly.

``make bench-computes`` does the same thousands of times.
"""

from __future__ import annotations

import pytest

from tests.support.compute_judge import judge
from tests.support.sampled import sampled

ONCE_WRONG = {
    6: "a concatenation was fused as a private buffer that two stages write, which TVM does not compute at a tile",
    9: "a maximum read padding that is no least number",
    38: "a diagonal of a reduction",
    41: "a unit dimension was dropped although there is padding around it",
    74: "a part that is all padding needs none of the weights",
    264: "a reversed reduction",
    279: "a strided reduction",
    521: "a part that is all padding needs no number that has no axes",
    579: "tiles of a product that overlap fetched more weights than the plan has room for",
    680: "a product read padding without a sum around it",
    1546: "digits of a reduction",
    2384: "a diagonal of merged dimensions of a reduction",
    4905: "padding that is read backwards",
}


@pytest.mark.parametrize("seed", [*sampled([seed for seed in range(40) if seed not in ONCE_WRONG]), *ONCE_WRONG])
def test_an_operator_computes_what_tvm_computes(seed: int) -> None:
    verdict, what = judge(seed)
    assert verdict == "right", what
