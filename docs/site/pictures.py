"""Pictures of a compiled network, drawn from the nouns: one SVG for light pages and one for dark ones."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import partial
from pathlib import Path

import matplotlib as mpl

import girih

mpl.use("svg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLOURS = ("#4477AA", "#EE6677", "#228833", "#CCBB44", "#66CCEE", "#AA3377", "#BBBBBB")
"""Paul Tol's bright scheme, which the colour-blind can tell apart."""
SCHEMES = {"light": "#37474F", "dark": "#CFD8DC"}
"""The colour of text and axes on a light page and on a dark one."""

WIDTH = 5.8
"""Of a picture in inches: its letters are those of the page on a wide screen, and can be read on a narrow one."""

Painter = tuple[Callable[[Axes], None], float]
"""What draws a picture, and its height in inches."""


def timeline(path: Path) -> Painter:
    """The engines of the first core and of the cluster over a run, coloured by segment."""
    compiled = girih.load(path)
    report = compiled.explain()
    program, trace = compiled.program, report.compilation.trace
    segment_of = {op: index for index, segment in enumerate(compiled.plan.segments) for op in segment.ops}
    queues = [n for n, queue in enumerate(program.queues) if queue.core in (None, 0) and len(program.streams[n])]

    def draw(axes: Axes) -> None:
        for row, number in enumerate(queues):
            times = zip(program.streams[number], trace.start[number].tolist(), trace.end[number].tolist(), strict=True)
            for instruction, start, end in times:
                if instruction.row.kind != "sync" and end > start:
                    colour = COLOURS[segment_of[program.ops[instruction.op].name] % len(COLOURS)]
                    axes.broken_barh([(start, end - start)], (row - 0.4, 0.8), facecolors=colour, linewidth=0)
        axes.set_yticks(range(len(queues)), [str(program.queues[n]) for n in queues])
        axes.invert_yaxis()
        axes.set_xlabel("cycles")

    return draw, 0.26 * len(queues) + 0.7


def memory(path: Path) -> Painter:
    """Addresses of the shared memory over the slots of the plan: activations and constants apart."""
    compiled = girih.load(path)
    plan, constants = compiled.plan, compiled.graph.constant_names
    shared = compiled.machine.levels.exchange.memory

    def draw(axes: Axes) -> None:
        for buffer in plan.shared:
            if buffer.memory == shared.name:
                colour = COLOURS[3] if buffer.tensor in constants else COLOURS[0]
                begin, end = buffer.live
                axes.add_patch(
                    plt.Rectangle(
                        (begin, buffer.address / 1024), end - begin, buffer.bytes / 1024,
                        facecolor=colour, edgecolor="none",
                    )
                )  # fmt: skip
        axes.set_xlim(0, len(plan.slots))
        axes.set_ylim(0, 1.05 * max(b.address + b.bytes for b in plan.shared if b.memory == shared.name) / 1024)
        axes.set_xlabel("slot (step of the plan, operator)")
        axes.set_ylabel(f"{shared.name}, KiB")

    return draw, 2.5


def waterfall(path: Path) -> Painter:
    """From the lower bound to the cycles of a run, cause by cause."""
    report = girih.load(path).explain()

    def draw(axes: Axes) -> None:
        reached = 0
        for row, step in enumerate(report.waterfall):
            axes.barh(row, step.cycles, left=reached, color=COLOURS[0] if step.cause == "bound" else COLOURS[1])
            reached += step.cycles
            axes.text(reached, row, f" {step.cycles:+,}" if row else f" {step.cycles:,}", va="center", fontsize=8)
        axes.barh(len(report.waterfall), reached, color=COLOURS[6])
        axes.text(reached, len(report.waterfall), f" {reached:,}", va="center", fontsize=8)
        axes.set_yticks(range(len(report.waterfall) + 1), [*(step.title for step in report.waterfall), "simulated"])
        axes.set_xlim(0, 1.15 * reached)
        axes.invert_yaxis()
        axes.set_xlabel("cycles")

    return draw, 0.24 * len(report.waterfall) + 0.9


def _svg(painter: Callable[[Path], Painter], path: Path, scheme: str) -> str:
    draw, height = painter(path)
    ink = SCHEMES[scheme]
    style = {
        "svg.hashsalt": "girih", "svg.fonttype": "path", "font.size": 8.5, "axes.spines.top": False,
        "axes.spines.right": False, "text.color": ink, "axes.labelcolor": ink, "axes.edgecolor": ink,
        "xtick.color": ink, "ytick.color": ink, "axes.facecolor": "none", "savefig.facecolor": "none",
    }  # fmt: skip
    with mpl.rc_context(style):
        figure: Figure
        figure, axes = plt.subplots(figsize=(WIDTH, height), layout="constrained")
        draw(axes)
        axes.xaxis.set_major_formatter("{x:,.0f}")
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
        plt.close(figure)
    return file.getvalue()


PICTURES: dict[str, Callable[[Path, str], str]] = {
    painter.__name__: partial(_svg, painter) for painter in (timeline, memory, waterfall)
}
"""By its name, what draws a picture of a ``.girih`` file in a scheme."""
