"""Non-maximum suppression, as TVMScript: the best boxes of each class that overlap no better one by too much."""

# TVMScript is parsed, not run: its loops and buffers mean nothing to type checkers.
# pyright: basic, reportInvalidTypeForm=false, reportAttributeAccessIssue=false, reportCallIssue=false
# pyright: reportIndexIssue=false, reportOptionalSubscript=false, reportArgumentType=false, reportGeneralTypeIssues=false
# pyright: reportOperatorIssue=false, reportUndefinedVariable=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm.script import tirx as T  # pyright: ignore[reportMissingModuleSource]

Expr = Any


def suppression(
    boxes: Sequence[int], scores: Sequence[int], most: int, overlap: float, least: float | None, centred: bool
) -> Any:
    """The kernel (boxes, scores, selected, count) for float32 ``boxes`` [B, N, 4] and ``scores`` [B, C, N].

    ``selected`` [B * C * min(most, N), 3] holds the batch, the class and the box of each selection, in the order of
    ONNX's NonMaxSuppression, and then rows of -1; ``count`` [1] is the number of selections. A box is selected if its
    score is above ``least`` (``None``: any) and its intersection over union with no selected one of its class is above
    ``overlap``; at most ``most`` are of one class. Boxes are two opposite corners, or ``centred``: centre, width and
    height. The number of operations is that of selections times boxes.
    """
    batches, classes, entries = scores
    turns = min(most, entries)
    of_boxes, of_scores, rows = tuple(boxes), tuple(scores), batches * classes * turns

    def lower(a: Expr, b: Expr) -> Expr:
        return a - b * T.float32(0.5) if centred else T.min(a, b)

    def upper(a: Expr, b: Expr) -> Expr:
        return a + b * T.float32(0.5) if centred else T.max(a, b)

    def is_candidate(score: Expr) -> Expr:
        return T.bool(True) if least is None else score > T.float32(least)

    @T.prim_func(s_tir=True)
    def suppress(
        box: T.Buffer(of_boxes, "float32"),
        score: T.Buffer(of_scores, "float32"),
        selected: T.Buffer((rows, 3), "int64"),
        count: T.Buffer((1,), "int64"),
    ):
        T.func_attr({"tirx.noalias": True})
        low = T.alloc_buffer((entries, 2), "float32")
        high = T.alloc_buffer((entries, 2), "float32")
        open_ = T.alloc_buffer((entries,), "bool")
        best = T.alloc_buffer((1,), "int64")
        side = T.alloc_buffer((2,), "float32")
        area = T.alloc_buffer((3,), "float32")
        count[0] = T.int64(0)
        for row, column in T.grid(T.int64(rows), T.int64(3)):
            selected[row, column] = T.int64(-1)
        for b in range(T.int64(batches)):
            for i, d in T.grid(T.int64(entries), T.int64(2)):
                low[i, d] = lower(box[b, i, d], box[b, i, d + T.int64(2)])
                high[i, d] = upper(box[b, i, d], box[b, i, d + T.int64(2)])
            for c in range(T.int64(classes)):
                for i in range(T.int64(entries)):
                    open_[i] = is_candidate(score[b, c, i])
                for _ in range(T.int64(turns)):
                    best[0] = T.int64(-1)
                    for i in range(T.int64(entries)):
                        if open_[i]:
                            if best[0] < T.int64(0):
                                best[0] = i
                            else:
                                if score[b, c, i] > score[b, c, best[0]]:
                                    best[0] = i
                    if best[0] >= T.int64(0):
                        selected[count[0], 0] = b
                        selected[count[0], 1] = c
                        selected[count[0], 2] = best[0]
                        count[0] = count[0] + T.int64(1)
                        for i in range(T.int64(entries)):
                            if open_[i]:
                                for d in range(T.int64(2)):
                                    side[d] = T.max(
                                        T.min(high[i, d], high[best[0], d]) - T.max(low[i, d], low[best[0], d]),
                                        T.float32(0),
                                    )
                                area[0] = side[0] * side[1]
                                area[1] = (high[i, 0] - low[i, 0]) * (high[i, 1] - low[i, 1])
                                area[2] = (high[best[0], 0] - low[best[0], 0]) * (high[best[0], 1] - low[best[0], 1])
                                if (
                                    area[1] > T.float32(0)
                                    and area[2] > T.float32(0)
                                    and area[0] / (area[1] + area[2] - area[0]) > T.float32(overlap)
                                ):
                                    open_[i] = T.bool(False)
                        open_[best[0]] = T.bool(False)

    return suppress
