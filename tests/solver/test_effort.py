"""What searches took: sums, and incumbents and bounds against work."""

from __future__ import annotations

from girih.solver.effort import NO_EFFORT, Effort, PartialAnswer, SearchPoint, thinned, total_effort


def searched(work: float, *points: tuple[float, float, float], size: tuple[int, int] = (5, 9)) -> Effort:
    return Effort(1.0, work, False, False, tuple(SearchPoint(*p) for p in points), 1, *size)


def test_one_search_after_the_other() -> None:
    both = searched(0.5, (0.0, 9, 1), (0.5, 8, 2)) + searched(0.25, (0.25, 7, 7), size=(3, 90))
    assert both == Effort(
        2.0, 0.75, False, False, (SearchPoint(0.0, 9, 1), SearchPoint(0.5, 8, 2), SearchPoint(0.75, 7, 7)), 2, 5, 9
    )
    assert sum((Effort(1.0, 2.0), NO_EFFORT, Effort(0.5, 0.25, True)), NO_EFFORT) == Effort(1.5, 2.25, True)


def test_few_points_are_kept() -> None:
    points = tuple(SearchPoint(float(i), -float(i), None) for i in range(1000))
    kept = thinned(points, 5)
    assert [point.work for point in kept] == [0, 249, 499, 749, 999]
    assert thinned(points[:5], 5) == points[:5]


def test_points_of_a_sum() -> None:
    """Two equal parts that are searched, one that is known, and one that is searched last."""
    parts = [
        PartialAnswer(2, 8, 8, searched(0.5, (0.0, 10, 4), (0.5, 8, 8))),
        PartialAnswer(1, 3, 3, NO_EFFORT),
        PartialAnswer(1, 6, 5, searched(1.0, (0.0, 7, 5), (0.5, 6, 5))),
    ]
    total = total_effort(parts)
    assert (total.searches, total.deterministic_seconds) == (2, 1.5)
    assert [(p.work, p.incumbent, p.bound) for p in total.points] == [(0.0, 30, 16), (0.5, 26, 24), (1.0, 25, 24)]
    assert total_effort(parts[1:2]) == NO_EFFORT


def test_a_sum_with_an_unknown_part_is_unknown() -> None:
    part = PartialAnswer(1, 8, None, Effort(points=(SearchPoint(0.0, 8, None),), searches=1))
    assert total_effort([part]).points == (SearchPoint(0.0, 8, None),)
