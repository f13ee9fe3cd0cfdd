"""One thread for NumPy's matrix products.

The products of one instruction are small. OpenBLAS would split each over all processors, and where another process
holds one of them, its threads spin for it: 70 times slower, measured. One thread also fixes the order of summation,
so that results do not depend on the number of processors.
"""

from __future__ import annotations

import ctypes
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np

_PREFIX = "scipy_openblas"


@cache
def _library() -> ctypes.CDLL | None:
    """The OpenBLAS that NumPy's wheels bring along; ``None`` for a NumPy built with something else."""
    package = Path(np.__file__).parent
    for folder in (package.parent / "numpy.libs", package / ".dylibs"):
        for path in sorted(folder.glob("*openblas64*")):
            try:
                library = ctypes.CDLL(str(path))
                getattr(library, f"{_PREFIX}_set_num_threads64_")
            except (OSError, AttributeError):
                continue
            return library
    return None


@contextmanager
def single_threaded() -> Generator[None]:
    """Within, matrix products run on one thread (where NumPy's OpenBLAS is found; else nothing changes)."""
    library = _library()
    if library is None:
        yield
        return
    before = int(getattr(library, f"{_PREFIX}_get_num_threads64_")())
    choose = getattr(library, f"{_PREFIX}_set_num_threads64_")
    choose(1)
    try:
        yield
    finally:
        choose(before)
