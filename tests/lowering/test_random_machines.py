"""Random machines: refused with a reason, or programs for them are right to the bit."""

from __future__ import annotations

import pytest

from tests.support.machine_judge import judge
from tests.support.sampled import sampled


# The last ones have constants that DMA fetches, or links of several memories.
@pytest.mark.parametrize("seed", [*sampled(range(24)), 26, 56, 74, 89, 160])
def test_a_drawn_machine_is_refused_with_a_reason_or_computes_what_it_should(seed: int) -> None:
    judgement = judge(seed)
    assert judgement.verdict != "wrong", judgement.text


def test_the_machines_are_of_all_kinds() -> None:
    verdicts = {judge(seed).verdict for seed in (0, 1, 2, 3, 7, 8)}
    assert verdicts == {"no such machine", "no type", "right", "no room"}
