"""Ask SCALE-Sim how long each layer takes on an array like ours, and keep its figures.

    pip install 'girih[calibration]'
    python -m benchmarks.calibration.scalesim                      # hours; goes on where it stopped
    python -m benchmarks.calibration.scalesim --only bert-base --json figures.json
    python -m benchmarks.calibration.scalesim --compare figures.json   # which of the kept figures differ from these

SCALE-Sim (Samajdar et al., ISPASS 2020; version 3: Raj et al., ISPASS 2025) is a systolic-array simulator that walks
through every cycle. It is configured from the machine stcp920: the array of the MME, L1, L1W and IM as its buffers for
inputs, weights and results, and the two ports of the MTE as its bandwidth. It counts words, which are binary16 here.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import json
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.calibration.layers import LAYERS, Layer
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine

FIGURES = Path(__file__).with_name("scalesim.json")
"""The figures that are kept; :mod:`benchmarks.calibration.report` reads them."""

DATAFLOWS = ("os", "ws")
"""Output stationary and weight stationary."""

WORD = 2
"""Bytes of a binary16 number."""


def configuration(machine: Machine) -> dict[str, int]:
    """What of ``machine`` SCALE-Sim is told; capacities in words of 1 KiB, bandwidths in words a cycle."""
    matrix, port = machine.engine_for("matrix"), machine.engine_for("copy")
    levels = machine.levels
    local, weights, results = levels.activations, levels.weights, levels.sums
    words = port.bytes_per_cycle // WORD
    return {
        "ArrayHeight": matrix.rows,
        "ArrayWidth": matrix.columns,
        "IfmapSramSzkB": local.capacity // WORD // 1024,
        "FilterSramSzkB": weights.capacity // WORD // 1024,
        "OfmapSramSzkB": results.capacity // WORD // 1024,
        # One inbound port brings both operands.
        "IfmapSRAMBankBandwidth": words // 2,
        "FilterSRAMBankBandwidth": words // 2,
        "Bandwidth": words,
    }


def _file(figures: dict[str, int], dataflow: str) -> str:
    """SCALE-Sim's configuration file; it wants every key that it knows."""
    presets = {k: v for k, v in figures.items() if "Bank" not in k}
    layout = {k: v for k, v in figures.items() if "Bank" in k}
    presets |= {"IfmapOffset": 0, "FilterOffset": 10_000_000, "OfmapOffset": 20_000_000}
    sections: dict[str, dict[str, Any]] = {
        "general": {"run_name": "run"},
        "architecture_presets": presets | {"Dataflow": dataflow, "ReadRequestBuffer": 32, "WriteRequestBuffer": 32},
        "layout": layout
        | {f"{side}CustomLayout": False for side in ("Ifmap", "Filter")}
        | {f"{side}SRAMBank{setting}": n for side in ("Ifmap", "Filter") for setting, n in (("Num", 1), ("Port", 2))},
        "sparsity": {"SparsitySupport": False},
        "run_presets": {"InterfaceBandwidth": "USER", "UseRamulatorTrace": False},
    }
    lines = [line for name, keys in sections.items() for line in (f"[{name}]", *(f"{k}: {v}" for k, v in keys.items()))]
    return "\n".join(lines) + "\n"


def run(layer: Layer, dataflow: str, figures: dict[str, int]) -> dict[str, int]:
    """SCALE-Sim's own report on one layer, in cycles and words.

    ``total`` includes loading the first operands and storing the last results; ``compute`` is without waiting for
    memory, ``stall`` is that waiting. ``ifmap_words``, ``filter_words``, ``ofmap_words`` cross its memory ports.
    """
    from scalesim.scale_sim import scalesim

    shape = (layer.height, layer.width, layer.kernel, layer.kernel, layer.channels, layer.filters, layer.stride)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "config.cfg").write_text(_file(figures, dataflow))
        (place / "layers.csv").write_text("header\n" + ", ".join(("layer", *map(str, shape))) + ",\n")
        (place / "layout.csv").write_text("header\n")
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            simulator = scalesim(
                save_disk_space=True, verbose=False, config=str(place / "config.cfg"),
                topology=str(place / "layers.csv"), layout=str(place / "layout.csv"),
            )  # fmt: skip
            simulator.run_scale(top_path=folder)
        compute = _report(place, "COMPUTE_REPORT.csv")
        access = _report(place, "DETAILED_ACCESS_REPORT.csv")
    cycles, stall = int(float(compute["Total Cycles"])), int(float(compute["Stall Cycles"]))
    return {
        "total": int(float(compute["Total Cycles (incl. prefetch)"])),
        "compute": cycles - stall,
        "stall": stall,
        "ifmap_words": int(float(access["DRAM IFMAP Reads"])),
        "filter_words": int(float(access["DRAM Filter Reads"])),
        "ofmap_words": int(float(access["DRAM OFMAP Writes"])),
    }


def _report(folder: Path, name: str) -> dict[str, str]:
    """The only row of one of SCALE-Sim's reports."""
    (path,) = folder.rglob(name)
    head, row = csv.reader(path.read_text().splitlines(), skipinitialspace=True)
    return dict(zip(head, row, strict=True))


def compare(kept: dict[str, Any], computed: dict[str, Any]) -> int:
    """Print each layer of ``found`` that differs from what is kept; 1 if there is one."""
    if {**kept, "layers": {}} != {**computed, "layers": {}}:
        print("another version, machine or configuration")
        return 1
    wrong = [key for key, row in computed["layers"].items() if row != kept["layers"].get(key)]
    for key in wrong:
        print(f"{key}: kept {kept['layers'].get(key)}, found {computed['layers'][key]}")
    print(f"{len(computed['layers']) - len(wrong)} of {len(computed['layers'])} layers are as they are kept")
    return 1 if wrong else 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these networks alone")
    parser.add_argument("--json", type=Path, default=FIGURES, metavar="FILE", help="keep the figures here")
    parser.add_argument("--compare", type=Path, metavar="FILE", help="ask nothing: compare the kept figures with FILE")
    parser.add_argument("--again", action="store_true", help="ask again for what is in the file")
    arguments = parser.parse_args()
    if arguments.compare:
        return compare(json.loads(arguments.json.read_text()), json.loads(arguments.compare.read_text()))
    try:
        version = metadata.version("scalesim")
    except metadata.PackageNotFoundError:
        parser.error("SCALE-Sim is not installed; pip install 'girih[calibration]'")
    machine = load_machine("stcp920")
    source = {"source": "https://pypi.org/project/scalesim/", "version": version, "machine": machine.name}
    kept: dict[str, Any] = source | {"configuration": configuration(machine), "layers": {}}
    if arguments.json.exists() and not arguments.again:
        before = json.loads(arguments.json.read_text())
        if {**before, "layers": {}} != kept:
            parser.error(f"{arguments.json} is of another version or machine; give --again")
        kept = before
    for layer in LAYERS:
        if arguments.only and layer.network not in arguments.only:
            continue
        row = kept["layers"].setdefault(layer.key, {})
        for dataflow in DATAFLOWS:
            if dataflow not in row:
                row[dataflow] = run(layer, dataflow, kept["configuration"])
                part = arguments.json.with_suffix(".part")
                part.write_text(json.dumps(kept, indent=1) + "\n")
                part.replace(arguments.json)
        print(f"{layer.key}: " + ", ".join(f"{d} {row[d]['compute']:,} cycles" for d in DATAFLOWS), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
