"""A section of the page, as data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class View:
    """A section: ``static/views/{name}.js`` draws it from ``data``.

    ``caption`` says in one or two sentences how to read the picture, with units and legend. ``data`` is made of JSON's
    values and numpy arrays, which arrive in the browser as typed arrays (see :mod:`.payload`).
    """

    name: str
    title: str
    caption: str
    data: object
