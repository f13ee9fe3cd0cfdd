"""Measure the HTML report: seconds to write it and to open it, its size, and frames a second while it is panned.

    python -m benchmarks.page_speed resnet50.girih

Needs Chromium and Playwright. Pictures are dragged with the mouse for --seconds each; frames are counted by
requestAnimationFrame, of which a browser draws at most 60 a second. The slowest frame tells of hitches.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import girih
from tests.support.browser import opened

_COUNT = """() => {
  const count = (window.frames_ = { frames: 0, slowest: 0, since: performance.now(), on: true });
  let last = count.since;
  const frame = (now) => {
    count.slowest = Math.max(count.slowest, now - last);
    last = now;
    count.frames += 1;
    if (count.on) requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
}"""
_COUNTED = """() => {
  const count = window.frames_;
  count.on = false;
  return [(1000 * count.frames) / (performance.now() - count.since), count.slowest];
}"""
_ZOOM = """([view, factor]) => {
  const { plot } = girih.page[view];
  plot.frame.scrollIntoView({ block: 'center', behavior: 'instant' });
  plot.reset();
  plot.zoom(factor);
  const { left, top, width } = plot.frame.getBoundingClientRect();
  return [left, Math.max(80, top) + 60, width];
}"""


def frames(tab: Any, view: str, factor: float, seconds: float) -> tuple[float, float]:
    """(frames a second, milliseconds of the slowest frame) while a picture that is zoomed by a factor is dragged."""
    left, top, width = tab.evaluate(_ZOOM, [view, factor])
    tab.wait_for_timeout(300)
    tab.evaluate(_COUNT)
    tab.mouse.move(left + 0.8 * width, top)
    tab.mouse.down()
    end, turn = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        turn += 1
        tab.mouse.move(left + width * (0.8 - 0.5 * abs((turn * 3 % 400) / 200 - 1)), top)
    rate, slowest = tab.evaluate(_COUNTED)
    tab.mouse.up()
    return rate, slowest


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("compiled", type=Path)
    parser.add_argument("--seconds", type=float, default=2.0)
    arguments = parser.parse_args()
    console = Console()
    compiled = girih.load(arguments.compiled)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        began = time.monotonic()
        compiled.explain().save(path)
        console.print(f"{compiled.program.instructions:,} instructions, {len(compiled.graph.ops):,} operators")
        console.print(f"written in {time.monotonic() - began:.1f} s, {path.stat().st_size / 1e6:.2f} MB")
        with opened(path) as tab:
            console.print(f"drawn after {tab.evaluate('() => Math.round(girih.page.drawn ?? performance.now())')} ms")
            table = Table("picture", "zoom", "frames a second", "slowest frame, ms")
            for view, shown in (("timeline", ""), ("timeline", ", all cores"), ("memory", "")):
                if shown and tab.query_selector("#timeline >> text=Show all"):
                    tab.click("#timeline >> text=Show all")
                for factor in (1.5, 20.0, 1000.0):
                    rate, slowest = frames(tab, view, factor, arguments.seconds)
                    table.add_row(f"{view}{shown}", f"{factor:g} x", f"{rate:.0f}", f"{slowest:.0f}")
            console.print(table)


if __name__ == "__main__":
    main()
