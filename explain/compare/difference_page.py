"""A comparison as one small page of HTML, by the template ``templates/comparison.html.j2``."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from jinja2 import Environment, PackageLoader, StrictUndefined

from ..text import number
from .difference_text import figure_rows, signed
from .rows import Differences


def comparison_page(comparison: Differences) -> str:
    """The whole page, which refers to no other file."""
    return _render(comparison, whole=True)


def comparison_fragment(comparison: Differences) -> str:
    """The verdict and the causes, to be shown in a notebook."""
    return _render(comparison, whole=False)


def _render(comparison: Differences, *, whole: bool) -> str:
    environment = Environment(
        loader=PackageLoader("girih.explain", "templates"),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        autoescape=True,
    )
    cast("dict[str, Callable[..., str]]", environment.filters).update(number=number, signed=signed)
    ranked = sorted(comparison.operators, key=lambda row: -abs(row.change))
    return environment.get_template("comparison.html.j2").render(
        c=comparison,
        operators=ranked,
        decisions=[row for row in ranked if row.decisions],
        figures=figure_rows(comparison),
        whole=whole,
    )
