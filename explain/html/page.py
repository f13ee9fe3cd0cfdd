"""The page: all sections with their data, styles and scripts in one text, which makes no request.

Sections are listed in :data:`VIEWS`, in the order in which they are read. The scripts run in the order of their names'
list: the library for plots, what all sections share, the sections, and last ``start.js``, which unpacks the data and
draws the sections one after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ..compilation import Compilation
from ..report import Report
from .payload import packed
from .subjects import memories, operators, segments, tensors
from .view import View
from .views.convergence_view import convergence_view
from .views.engines_view import engines_view
from .views.hosts_view import hosts_view
from .views.memory_view import memory_view
from .views.network_view import network_view
from .views.operators_view import operators_view
from .views.repeat_view import repeat_view
from .views.roofline_view import roofline_view
from .views.timeline_view import timeline_view
from .views.traffic_view import traffic_view
from .views.verdict_view import verdict_view
from .views.waterfall_view import waterfall_view

_HERE = Path(__file__).parent
_SHARED = ("girih", "format", "payload", "selection", "theme", "plot", "table", "search", "details")

VIEWS: tuple[Callable[[Report, Compilation], View], ...] = (
    verdict_view,
    waterfall_view,
    engines_view,
    roofline_view,
    network_view,
    timeline_view,
    memory_view,
    traffic_view,
    operators_view,
    convergence_view,
    hosts_view,
    repeat_view,
)
"""The sections, in the order in which they are read."""


def page(report: Report) -> str:
    """The report as an HTML document; equal reports give equal bytes."""
    compilation = report.compilation
    views = [view(report, compilation) for view in VIEWS]
    data = {
        "operators": operators(report, compilation),
        "tensors": tensors(report, compilation),
        "segments": segments(report),
        "memories": memories(report),
        "views": {view.name: view.data for view in views},
    }
    scripts = (*_SHARED, *(f"views/{view.name}" for view in views), "start")
    environment = Environment(
        loader=PackageLoader("girih.explain.html", "templates"),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        autoescape=True,
    )
    return environment.get_template("page.html.j2").render(
        summary=report.summary,
        views=views,
        style=_inline("page.css"),
        scripts=[*_bokeh(), *(_inline(f"{name}.js") for name in scripts)],
        data=packed(data),
    )


def _inline(name: str) -> Markup:
    return _harmless((_HERE / "static" / name).read_text(encoding="utf-8"))


def _bokeh() -> list[Markup]:
    """BokehJS and its functions for plots, from the Python package that carries them."""
    spec = find_spec("bokeh")
    assert spec is not None and spec.origin is not None, "bokeh is a dependency"
    folder = Path(spec.origin).parent / "server" / "static" / "js"
    return [_harmless((folder / name).read_text(encoding="utf-8")) for name in ("bokeh.min.js", "bokeh-api.min.js")]


def _harmless(source: str) -> Markup:
    """Our own or the library's source, of which nothing ends the element that it is in."""
    return Markup(source.replace("</script", "<\\/script").replace("<!--", "<\\!--"))
