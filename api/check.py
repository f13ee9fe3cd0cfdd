"""Compares outputs with the network in float32, or with its graph evaluated in numpy.

The network in float32 is computed without our code; what rounding may change (:mod:`.tolerance.rounding`) is allowed,
and can hide small mistakes. The graph (:mod:`.exact`) is rounded where graph and plan round, and compared to the last
bit: that finds mistakes of solver, lowering and simulator, but not of the importer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from ..ir.graph import FLOATS, Graph

TOLERANCE_CEILING = 0.5
"""Relative tolerances from here on say nothing: such an output cannot be judged, and fails unless equal."""


@dataclass(frozen=True)
class OutputCheck:
    """One output ``y`` against its reference ``r``, over the samples that were compared.

    rel_err: ``|y - r| / |r|`` with Euclidean norms, which decides: it may be ``tolerance`` at most, and where
    that is :data:`TOLERANCE_CEILING` or more, only 0 passes. max_abs_err: the
    largest ``|y[i] - r[i]|``. max_rel_err: the largest ``|y[i] - r[i]| / max(|r[i]|, root mean square of r)``. Of
    ``elements``, ``different`` are not equal to the reference (zeros are, and so are NaN), the first in row-major order
    at index ``first``.
    """

    name: str
    rel_err: float
    max_abs_err: float
    max_rel_err: float
    elements: int = 0
    different: int = 0
    first: tuple[int, ...] = ()
    tolerance: float = 0.0

    @property
    def judgeable(self) -> bool:
        """Whether the tolerance tells right outputs from wrong ones: an output of zeros has a relative error of 1."""
        return self.tolerance < TOLERANCE_CEILING

    @property
    def passed(self) -> bool:
        # Written so that NaN fails.
        return self.rel_err == 0 or (self.judgeable and self.rel_err <= self.tolerance)


@dataclass(frozen=True)
class Check:
    """All outputs of one run; ``samples`` of the batch were compared (``None``: everything).

    ``exact``: with the graph, not with the network; to the last bit but for what ``in_parts``, operators whose sums the
    program rounds more often than the reference, can change.
    """

    outputs: tuple[OutputCheck, ...]
    samples: int | None = None
    exact: bool = False
    in_parts: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return all(o.passed for o in self.outputs)

    @property
    def worst(self) -> OutputCheck | None:
        """The output that is farthest from its reference, as a multiple of its tolerance; ``None`` without outputs."""
        return max(self.outputs, key=_excess, default=None)

    @property
    def rel_err(self) -> float:
        """Of the worst output."""
        return self.worst.rel_err if self.worst else 0.0

    @property
    def tolerance(self) -> float:
        """Of the worst output."""
        return self.worst.tolerance if self.worst else 0.0

    @property
    def max_abs_err(self) -> float:
        return _largest(o.max_abs_err for o in self.outputs)

    @property
    def max_rel_err(self) -> float:
        return _largest(o.max_rel_err for o in self.outputs)


def nan_counts(arrays: Mapping[str, np.ndarray]) -> dict[str, int]:
    """How many elements are NaN, for each array that has any."""
    counts = {name: int(np.isnan(a).sum()) for name, a in arrays.items() if a.dtype.name in FLOATS}
    return {name: count for name, count in counts.items() if count}


def _excess(output: OutputCheck) -> tuple[float, float]:
    """What outputs are sorted by: the error in tolerances, then the error; NaN is the worst."""
    error = output.rel_err if output.rel_err == output.rel_err else math.inf
    if error == 0:
        return 0.0, 0.0
    return error / output.tolerance if output.tolerance else math.inf, error


def _largest(values: Iterable[float]) -> float:
    """The largest, or NaN if there is one."""
    return float(np.max(np.fromiter(values, np.float64), initial=0.0))


def compare(name: str, output: np.ndarray, reference: np.ndarray, tolerance: float = 0.0) -> OutputCheck:
    """Compare one output; a NaN or infinity that the reference does not have gives an error of NaN or infinity."""
    if output.shape != reference.shape:
        raise ValueError(f"output {name!r} has shape {output.shape}, its reference {reference.shape}")
    y, r = output.astype(np.float64).ravel(), reference.astype(np.float64).ravel()
    if not y.size:
        return OutputCheck(name, 0.0, 0.0, 0.0, tolerance=tolerance)
    # Before anything is rounded to binary64.
    same = (output == reference).ravel() | (np.isnan(y) & np.isnan(r))
    first = () if same.all() else tuple(int(i) for i in np.unravel_index(int(same.argmin()), output.shape))
    with np.errstate(all="ignore"):
        distance = np.where(same, 0.0, np.abs(y - r))
        finite = np.where(np.isfinite(r), r, 0.0)
        norm = np.linalg.norm(finite)
        scale = np.maximum(np.abs(finite), norm / np.sqrt(r.size))
        relative = np.where(distance == 0, 0.0, distance / scale)
        apart = np.linalg.norm(distance)
        error = np.divide(apart, norm) if apart != 0 else 0.0
        largest = float(distance.max()), float(relative.max())
    return OutputCheck(name, float(error), *largest, y.size, int((~same).sum()), first, tolerance)


def check(
    graph: Graph, outputs: Mapping[str, np.ndarray], reference: Mapping[str, np.ndarray], samples: int | None,
    tolerances: Mapping[str, float] | None = None,
) -> Check:  # fmt: skip
    """Compare each output of the graph with the reference, within its tolerance (``None``: none is allowed)."""
    exact = tolerances is None
    compared = tuple(
        compare(p.name, outputs[p.name], reference[p.name], 0.0 if tolerances is None else tolerances[p.name])
        for p in graph.outputs
    )
    return Check(compared, samples, exact)
