"""Machines for arithmetic by hand."""

from __future__ import annotations

from dataclasses import replace

from girih.ir.machine import Machine


def without_fill(machine: Machine) -> Machine:
    """Blocks of results follow one another at once in the array."""
    return replace(machine, engines=tuple(replace(e, fill=0) for e in machine.engines))
