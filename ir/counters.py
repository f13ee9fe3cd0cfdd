"""Counters of a run, by the names that the profilers of such machines use, and what each of them means."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from .errors import UsageError

UNITS = {
    "matrix": "mme", "vector": "vme", "copy": "mte", "broadcast": "mte", "dma": "sysdma", "host": "host",
    "scalar": "scalar",
}  # fmt: skip
"""The unit of an engine, by the first class of instructions that it runs."""

_MEANINGS: tuple[tuple[str, str, str], ...] = (
    ("mcu_total_cycle", "cycles", "from the beginning of the run until its last result is visible"),
    ("syn_total_cycle", "cycles", "in which at least one queue waited for another one"),
    ("pal_total_cycle", "cycles", "in which at least two of vme, mme and mte ran"),
    ("pal_(.+)_(.+)_cycle", "cycles", "in which both {0} and {1} ran"),
    ("(.+)_total_cycle", "cycles", "in which an engine of {0} ran an instruction"),
    ("syn_inst", "instructions", "waits and other synchronisation that queues came past"),
    ("(.+)_inst", "instructions", "that engines of {0} ran"),
    ("syn_wait", "cycles", "that queues waited for others, all queues added up"),
    ("(.+)_slot_wait", "cycles", "that queues of {0} waited for others, added up"),
    ("mte_pld_cycle", "cycles", "that broadcasts to several cores took, added up"),
    ("mte_pld_byte", "bytes", "that broadcasts read, once for all the cores that they go to"),
    ("sysdma_c0_cycle", "cycles", "that transfers from main memory took, added up"),
    ("sysdma_c0_byte", "bytes", "moved from main memory"),
    ("sysdma_c1_cycle", "cycles", "that transfers to main memory took, added up"),
    ("sysdma_c1_byte", "bytes", "moved to main memory"),
    ("(.+)_(.*)2(.+)_cycle", "cycles", "that transfers of {0} from {1} to {2} took, added up"),
    ("(.+)_(.*)2(.+)_byte", "bytes", "that {0} moved from {1} to {2}"),
    ("(.+)_conflict", "cycles", "that engines lost because they met at a bank of {0}"),
    ("host_byte", "bytes", "that kernels of the host read and wrote"),
    ("scalar_byte", "bytes", "that kernels of the scalar engine read and wrote"),
    ("(.+)_link_byte", "bytes", "that crossed the link {0}, in whole bursts"),
    ("macs", "multiply-accumulates", "that matrix instructions made, zeros of the padding included"),
    ("vector_elements", "elements", "that vector instructions went over"),
)
"""Pattern of a name, unit and meaning; the first one that matches holds."""


@dataclass(frozen=True)
class Meaning:
    """``text`` completes the sentence "it counts ..."."""

    unit: str
    text: str


def meaning(name: str) -> Meaning:
    """What a counter counts; raises :class:`UsageError` for a name that no counter has."""
    for pattern, unit, text in _MEANINGS:
        if match := re.fullmatch(pattern, name):
            return Meaning(unit, text.format(*(group or "no memory" for group in match.groups())))
    raise UsageError(f"there is no counter {name!r}")


@dataclass(frozen=True)
class Counters:
    """``cores[c]``: what core c of one cluster counted; ``cluster``: what belongs to none of its cores."""

    cores: tuple[dict[str, int], ...]
    cluster: dict[str, int]

    @cached_property
    def total(self) -> dict[str, int]:
        """Sums over the cores and the cluster, in the order of the cores' names, then the cluster's."""
        sums: Counter[str] = Counter()
        for row in (*self.cores, self.cluster):
            for name, value in row.items():
                sums[name] += value
        return dict(sums)

    def to_json(self) -> str:
        """An object: ``meanings`` (unit and text by name), ``total``, ``cluster`` and ``cores``."""
        meanings = {name: {"unit": m.unit, "text": m.text} for name in self.total for m in (meaning(name),)}
        rows = {"meanings": meanings, "total": self.total, "cluster": self.cluster, "cores": list(self.cores)}
        return json.dumps(rows, indent=1) + "\n"

    def to_csv(self) -> str:
        """A row for each counter: name, unit, total, cluster, each core, meaning; empty where it is not counted."""
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        cores = [f"core{core}" for core in range(len(self.cores))]
        writer.writerow(["counter", "unit", "total", "cluster", *cores, "meaning"])
        for name, total in self.total.items():
            described = meaning(name)
            parts = [row.get(name, "") for row in (self.cluster, *self.cores)]
            writer.writerow([name, described.unit, total, *parts, described.text])
        return file.getvalue()
