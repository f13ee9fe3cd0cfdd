"""Which cores fetch weight tiles together, and which apart."""

from __future__ import annotations

from girih.solver.cost.transfers import fetches, simultaneous_fetches


def test_a_tile_that_a_version_still_holds_is_not_fetched_again() -> None:
    assert fetches([[0], [0], [1], [0], [2], [0]], (0, 1)) == [(0, 0, 0, 0), (2, 0, 1, 1), (4, 0, 2, 0), (5, 0, 0, 1)]
    assert fetches([[0, 1], [0, 1]], (0,)) == [(0, 0, 0, 0), (0, 1, 1, 0), (1, 0, 0, 0), (1, 1, 1, 0)]


def test_cores_that_come_to_weights_at_another_tile_fetch_them_apart() -> None:
    slow, fast = fetches([[0], [0], [1], [1], [2], [2]], (0, 1)), fetches([[0], [1], [2]], (0, 1))
    assert simultaneous_fetches(slow, [((1,), fast), ((2,), slow)]) == [((1, 2), []), ((2,), [(1,)]), ((2,), [(1,)])]
    # Those that are as fast as one another share theirs, and who has fewer to fetch fetches no more.
    assert simultaneous_fetches(slow, [((1,), fast[:2]), ((3,), fast)]) == [((1, 3), []), ((), [(1, 3)]), ((), [(3,)])]
