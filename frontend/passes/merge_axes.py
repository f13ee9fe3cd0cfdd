"""Axes of extent one go, and axes that always go together become one."""

from __future__ import annotations

from ..net.net import Net


def merge_axes(net: Net) -> None:
    """Write every loop with as few axes as possible.

    Before: layouts are final, so that what lies together in memory does so for good. After: no axis has extent one, and
    no two axes occur only as ``size·outer + inner``.

        [i:4 j:8 k:1] y[8·i + j, k] = exp x[8·i + j]        becomes      [j:32] y[j, 0] = exp x[j]
    """
    for step in (s for s in net.steps if not s.is_opaque):
        step.loops = [loop.without_unit_axes().merged() for loop in step.loops]
