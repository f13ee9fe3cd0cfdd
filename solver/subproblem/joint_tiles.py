"""Segments with tiles of their operators chosen for each other (:mod:`.tile_descent`), remembered."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from ...ir.plan import Segment
from ..cost.equivalence import structural_class
from ..tiling.solve import Caps, Choice, Tiler
from .tile_descent import Descent, Descents, of_operator


@dataclass(frozen=True)
class Refined:
    """A segment with its tiles, and the choice of each operator."""

    segment: Segment
    choices: tuple[Choice, ...]


KnownJointTiles: TypeAlias = "dict[tuple[Hashable, ...], tuple[Choice, ...]]"
"""The choices for a segment, by all that its operators, splits and caps are by name."""


class JointTiles:
    """Segments of one graph with their tiles chosen for each other; equal segments share the answer.

    ``shared``: what searches for the same graph and cores have found, which this one knows and adds to.
    """

    def __init__(self, descents: Descents, shared: KnownJointTiles | None = None) -> None:
        self.predicted = 0
        """How many operators were predicted, each in each instance and each time."""
        self._descents = descents
        self._shared: KnownJointTiles = {} if shared is None else shared
        self._known: dict[tuple[Hashable, ...], Refined] = {}

    def known(self, segment: Segment, caps: Mapping[str, Caps]) -> Refined | None:
        """What was found for a segment with the same operators, splits and engines, whatever its tiles."""
        answer = self._known.get(self.key(segment, caps))
        return None if answer is None else _renamed(answer, segment)

    def is_known(self, segment: Segment, caps: Mapping[str, Caps]) -> bool:
        """Whether there is nothing to find out: :meth:`refined` answers at once."""
        key = self.key(segment, caps)
        return key in self._known or self._named(segment, key) in self._shared

    def refined(
        self, tiler: Tiler, segment: Segment, caps: Mapping[str, Caps], is_over: Callable[[], bool],
        by_worker: Callable[[], Descent | None] = lambda: None,
    ) -> Refined:  # fmt: skip
        """The segment with tiles that are predicted to take no longer than those with which it was asked for first.

        If it ``is_over`` before they are found, with those so far, which are not remembered. ``by_worker``: what
        a worker has found for this very segment, if one was asked.
        """
        key = self.key(segment, caps)
        if key not in self._known:
            named = self._named(segment, key)
            choices = self._shared.get(named)
            if choices is None:
                descent = by_worker() or self._descents.descend(tiler, segment, caps, is_over)
                choices = descent.choices
                self.predicted += descent.predicted
            answer = Refined(replace(segment, tiles=tuple(c.tile for c in choices)), choices)
            if is_over():
                return answer
            self._shared[named], self._known[key] = choices, answer
        return _renamed(self._known[key], segment)

    def kept(self, tiler: Tiler, segment: Segment, caps: Mapping[str, Caps]) -> Refined:
        """The segment with the tiles that it has."""
        return Refined(segment, tuple(choice for choice, _ in self._descents.candidates(tiler, segment, caps)))

    def key(self, segment: Segment, caps: Mapping[str, Caps]) -> tuple[Hashable, ...]:
        """Equal for segments that share an answer."""
        engines = tuple(tile.engine for tile in segment.tiles)
        bare = structural_class(self._descents.cells, replace(segment, tiles=()))
        return bare, engines, tuple(caps.get(name) for name in segment.ops)

    @staticmethod
    def _named(segment: Segment, key: tuple[Hashable, ...]) -> tuple[Hashable, ...]:
        return segment.bare, segment.aliased, key[1:]


def _renamed(refined: Refined, segment: Segment) -> Refined:
    """The answer for an equal segment, for this one."""
    choices = tuple(of_operator(choice, name) for choice, name in zip(refined.choices, segment.ops, strict=True))
    return Refined(replace(segment, tiles=tuple(c.tile for c in choices)), choices)
