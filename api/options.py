"""The options of a compilation, and the one place that checks their values."""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass, field
from typing import Literal

from ..ir.errors import UsageError
from ..solver.options import STRATEGIES, Options, Strategy
from .arguments import named, number, text, whole

Precision = Literal["as-is", "fp16", "bf16"]
PRECISIONS: tuple[Precision, ...] = ("as-is", "fp16", "bf16")
DEFAULT_TARGET = "stcp920"
DEFAULT_POINTS = 8
"""Of a curve of cycles against bytes, at most."""


@dataclass(frozen=True)
class CompileOptions:
    """``solver_timeout`` in seconds for all models together; ``batch`` and ``dims`` bind what the network leaves open.

    strategy: "solver" decides everything by constraint models. To compare with: "layerwise" runs one layer after the
    other through main memory; "graphturbo" follows the heuristics of a published compiler (OSDI 2023), as a whole or
    up to one of its levels: ":llb", ":l1", ":order". precision: "as-is" keeps the dtypes of the network, "fp16"
    computes in half precision (float16), "bf16" in bfloat16. minimise: "cycles", or "peak:MEMORY" with the name of a
    memory: the plan takes as few bytes of it as one was found with, and the fewest cycles with so few. The
    same options and seed give the same plan and program to the byte.
    """

    target: str = DEFAULT_TARGET
    solver_timeout: float = 60.0
    strategy: Strategy = "solver"
    precision: Precision = "as-is"
    batch: int | None = None
    dims: dict[str, int] = field(default_factory=dict[str, int])
    seed: int = 0
    minimise: str = "cycles"

    def __post_init__(self) -> None:
        # Whoever calls from Python may pass anything. What is of NumPy becomes plain: JSON knows nothing else.
        put = object.__setattr__
        put(self, "target", text("target", self.target))
        put(self, "strategy", text("strategy", self.strategy, STRATEGIES))
        put(self, "precision", text("precision", self.precision, PRECISIONS))
        put(self, "minimise", text("minimise", self.minimise))
        put(self, "solver_timeout", number("solver_timeout", self.solver_timeout))
        put(self, "seed", whole("seed", self.seed))
        if self.batch is not None:
            put(self, "batch", whole("batch", self.batch))
        dims = named("dims", self.dims).items()
        put(self, "dims", {name: whole(f"dims[{name!r}]", extent) for name, extent in dims})
        if not (math.isfinite(self.solver_timeout) and self.solver_timeout >= 0):
            raise UsageError(f"solver timeout {self.solver_timeout:g} makes no sense; give seconds, 0 or more")
        if self.strategy not in STRATEGIES:
            raise UsageError(f"there is no strategy {self.strategy!r}; choose one of {', '.join(STRATEGIES)}")
        if self.precision not in PRECISIONS:
            raise UsageError(f"there is no precision {self.precision!r}; choose one of {', '.join(PRECISIONS)}")
        if self.batch is not None and self.batch < 1:
            raise UsageError(f"batch {self.batch} makes no sense; give 1 or more")
        for name, extent in self.dims.items():
            if extent < 1:
                raise UsageError(f"dimension {name!r} cannot be {extent}; give 1 or more")
        if self.minimise != "cycles" and not re.fullmatch("peak:.+", str(self.minimise)):
            raise UsageError(f"minimise {self.minimise!r} is no goal; give cycles, or peak:MEMORY such as peak:LLB")
        if not 0 <= self.seed < 2**31:
            raise UsageError(f"seed {self.seed} is outside of 0 to {2**31 - 1}")

    @property
    def for_solver(self) -> Options:
        """The options of the solver among them."""
        return Options(self.solver_timeout, self.strategy, self.seed, minimise=self.minimise)


def number_of_jobs(jobs: int | None) -> int:
    """The processes that may work at one time, at most one for each core; :class:`UsageError` for fewer than one.

    By default as many as the environment variable ``GIRIH_JOBS`` says, or else one for each core.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if jobs is None and (text := os.environ.get("GIRIH_JOBS")):
        if not re.fullmatch("0*[1-9][0-9]{0,17}", text):
            raise UsageError(f"GIRIH_JOBS is {text!r}, which makes no sense; give 1 or more")
        return min(cores, int(text))
    if jobs is None:
        return cores
    number = whole("jobs", jobs)
    if number < 1:
        raise UsageError(f"jobs {jobs} makes no sense; give 1 or more")
    return min(cores, number)
