"""The families of hostile cases, by name."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.hostile import cli_options, girih_files, machine_files, onnx_files
from benchmarks.hostile.case import Family

FAMILIES: Mapping[str, Family] = {
    "cli": Family(cli_options.cases, cli_options.attempt),
    "girih": Family(girih_files.cases, girih_files.attempt),
    "machine": Family(machine_files.cases, machine_files.attempt),
    "onnx": Family(onnx_files.mutations, onnx_files.attempt),
}
