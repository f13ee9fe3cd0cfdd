"""What the function of a library operator knows of an input."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class LibraryInput:
    """What the function of a library operator knows of an input; ``value`` if it is a small constant."""

    shape: tuple[int, ...]
    dtype: str
    value: np.ndarray | None
