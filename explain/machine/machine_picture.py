"""A machine as a picture in SVG, by the template ``templates/machine.svg.j2``.

Memories are columns, from the main memory to those of a core; engines and links are rows. A row joins the memories that
an engine reads to those that it writes, so that no line crosses another however many there are.
"""

from __future__ import annotations

from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined

from ...ir.machine import Engine, Link, Machine, Memory
from ..units import plural

LEFT, COLUMN, ROW, HEAD = 260, 150, 46, 128
"""In pixels: the names of the rows, the width of a column, the height of a row, the heads of the columns."""
FOOT = 44
"""In pixels: the legend below."""


@dataclass(frozen=True)
class Column:
    """A memory: its middle ``x`` and the lines below its name."""

    memory: Memory
    x: float
    lines: tuple[str, ...]
    unused: bool


@dataclass(frozen=True)
class Row:
    """An engine or a link: what stands beside it, and the columns (their ``x``) that it touches."""

    name: str
    lines: tuple[str, ...]
    y: float
    reads: tuple[float, ...]
    weights: tuple[float, ...]
    writes: tuple[float, ...]
    kind: str

    @property
    def ends(self) -> tuple[float, float]:
        """The ``x`` of the first and of the last column that it touches."""
        places = (*self.reads, *self.weights, *self.writes)
        return min(places), max(places)


def machine_picture(machine: Machine) -> str:
    """The whole SVG, which refers to no other file; light or dark as its reader's system."""
    ordered = sorted(machine.memories, key=lambda m: (m.scope == "core", -m.capacity))
    used = machine.uses
    columns = {m.name: _column(used[m.name], m, LEFT + COLUMN * (i + 0.5)) for i, m in enumerate(ordered)}
    rows = [_engine(e, columns, HEAD + ROW * i) for i, e in enumerate(machine.engines)]
    rows += [_link(link, columns, HEAD + ROW * (len(rows) + i)) for i, link in enumerate(machine.links)]
    near = [c.x for c in columns.values() if c.memory.scope == "core"]
    environment = Environment(
        loader=PackageLoader("girih.explain", "templates"),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        autoescape=True,
    )
    return environment.get_template("machine.svg.j2").render(
        title=f"{machine.name}: {plural(machine.clusters, 'cluster')} of {plural(machine.cores, 'core')} "
        f"at {machine.frequency / 1e9:g} GHz",
        description=machine.description,
        core=f"each of {plural(machine.cores, 'core')}" if machine.cores > 1 else "the core",
        core_left=min(near, default=LEFT) - COLUMN / 2 + 4,
        core_width=COLUMN * len(near) - 8,
        columns=list(columns.values()),
        rows=rows,
        bottom=HEAD + ROW * len(rows),
        width=LEFT + COLUMN * len(columns) + 8,
        height=HEAD + ROW * len(rows) + FOOT,
        row=ROW,
        head=HEAD,
    )


def _column(use: str, memory: Memory, x: float) -> Column:
    banks = f"{plural(memory.banks, 'bank')}, {memory.bytes_per_cycle} B/cycle"
    capacity = f"{memory.capacity / 1024:,.{1 if memory.capacity % 1024 else 0}f} KiB"
    return Column(memory, x, (capacity, banks, use), use == "unused")


def _engine(engine: Engine, columns: dict[str, Column], y: float) -> Row:
    facts = [
        f"{engine.rows} x {engine.columns}" + (f" x {engine.depth}" if engine.depth > 1 else "") if engine.rows else "",
        ", ".join(f"{dtype} x {factor:g}" for dtype, factor in (engine.rate or {}).items()),
        ", ".join(f"{dtype} {count}" for dtype, count in (engine.lanes or {}).items()),
        f"{engine.operations_per_cycle:g} per cycle" if engine.operations_per_cycle else "",
        f"{engine.bytes_per_cycle} B/cycle" if engine.bytes_per_cycle else "",
    ]
    scope = f"{', '.join(engine.classes)}, {'one' if engine.count == 1 else engine.count} a {engine.scope}"
    return Row(
        engine.name, (scope, _short("; ".join(f for f in facts if f))), y, _places(engine.reads, columns),
        _places(engine.weights, columns), _places(engine.writes, columns), "engine",
    )  # fmt: skip


def _link(link: Link, columns: dict[str, Column], y: float) -> Row:
    place = _places(link.memories, columns)
    facts = f"{link.bytes_per_cycle:g} B/cycle, latency {link.latency}, burst {link.burst} B"
    reads = place if link.direction in ("read", "both") else ()
    writes = place if link.direction in ("write", "both") else ()
    return Row(link.name, (f"link, {link.direction}", facts), y, reads, (), writes, "link")


def _places(memories: tuple[str, ...], columns: dict[str, Column]) -> tuple[float, ...]:
    return tuple(columns[name].x for name in memories)


def _short(text: str, most: int = 44) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
