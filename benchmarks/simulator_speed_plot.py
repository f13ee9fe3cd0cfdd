"""Draw how the simulator's time grows with the number of instructions.

pip install 'girih[plots]'
python -m benchmarks.simulator_speed --only growth --json speed.json
python -m benchmarks.simulator_speed_plot speed.json docs/simulator_speed.svg
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib
from matplotlib import pyplot


def draw(rows: list[dict[str, object]], path: Path) -> None:
    """Measured seconds over instructions, and the line that the largest program's rate makes."""
    matplotlib.rcParams |= {"svg.hashsalt": "girih", "svg.fonttype": "none", "font.size": 9}
    count = [row["instructions"] for row in rows]
    seconds = [row["time"]["processor"] for row in rows]
    figure, axes = pyplot.subplots(figsize=(5.2, 3.4), layout="constrained")
    rate = count[-1] / seconds[-1]
    axes.loglog(count, [n / rate for n in count], "--", color="0.6", label=f"{rate:,.0f} instructions a second")
    axes.loglog(count, seconds, "o-", label="measured")
    axes.set(xlabel="instructions", ylabel="seconds of processor time", title="Simulation, timing alone")
    axes.grid(which="major", color="0.9")
    axes.legend()
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    draw(json.loads(Path(sys.argv[1]).read_text())["growth"], Path(sys.argv[2]))
