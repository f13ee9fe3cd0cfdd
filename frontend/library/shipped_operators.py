"""The operators of the domain ``girih``, which every network may use; they are no plugin's, and always there."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.custom_operators import ship_operator
from .library_input import LibraryInput

DOMAIN = "girih"


@ship_operator(DOMAIN, "TopK")
def top_k(data: LibraryInput, *, k: int, axis: int = -1, largest: int = 1) -> Any:
    """The ``k`` largest (or smallest) entries along ``axis``, in order, and their positions (int64).

    As ONNX's TopK with a constant ``k``. It is selected by a heap or by sorting, by what takes fewer operations.
    """
    # With TVM, which the import of this module need not wait for.
    from .ordering import by_heap, by_sorting
    from .scalar_operations import scalar_operations

    rows = _rows(data, axis)
    if not 1 <= k <= rows.entries:
        raise ValueError(f"k is {k}, and there are {rows.entries} entries along axis {axis}")
    kernels = [algorithm(rows, data.dtype, k, bool(largest)) for algorithm in (by_heap, by_sorting)]
    return min(kernels, key=lambda kernel: scalar_operations(kernel).total)


@ship_operator(DOMAIN, "Sort")
def sort(data: LibraryInput, *, axis: int = -1, descending: int = 0) -> Any:
    """All entries along ``axis`` in order, and their positions (int64); equal ones in the order of positions."""
    from .ordering import by_sorting

    rows = _rows(data, axis)
    return by_sorting(rows, data.dtype, rows.entries, bool(descending))


@ship_operator(DOMAIN, "NonMaxSuppression")
def non_max_suppression(
    boxes: LibraryInput,
    scores: LibraryInput,
    *,
    max_output_boxes_per_class: int,
    iou_threshold: float = 0.0,
    score_threshold: float | None = None,
    center_point_box: int = 0,
) -> Any:
    """ONNX's NonMaxSuppression with results of fixed size: the selections, rows of -1 behind them, and their number.

    What ONNX takes as constant inputs are attributes here.
    """
    from .suppression import suppression

    if (boxes.dtype, scores.dtype) != ("float32", "float32"):
        raise ValueError(f"boxes are of {boxes.dtype} and scores of {scores.dtype}; both must be float32")
    b, s = boxes.shape, scores.shape
    if len(b) != 3 or len(s) != 3 or b[2] != 4 or (b[0], b[1]) != (s[0], s[2]):
        raise ValueError(f"boxes {list(b)} and scores {list(s)} are not [B, N, 4] and [B, C, N]")
    if max_output_boxes_per_class < 1:
        raise ValueError(f"max_output_boxes_per_class is {max_output_boxes_per_class}, and nothing would be selected")
    limit = float(np.float32(iou_threshold))
    return suppression(b, s, max_output_boxes_per_class, limit, score_threshold, bool(center_point_box))


def _rows(data: LibraryInput, axis: int) -> Any:
    from .ordering import Rows

    if not -len(data.shape) <= axis < len(data.shape):
        raise ValueError(f"axis {axis} is none of the {len(data.shape)} dimensions")
    return Rows(data.shape, axis % len(data.shape))
