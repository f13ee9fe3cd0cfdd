"""The first entries along one dimension in their order, as TVMScript: by sorting all of them, or by a heap of a few.

Equal entries come in the order of their positions, as in ONNX Runtime. Where NaNs come is undefined; each entry comes
once.
"""

# TVMScript is parsed, not run: its loops and buffers mean nothing to type checkers.
# pyright: basic, reportInvalidTypeForm=false, reportAttributeAccessIssue=false, reportCallIssue=false
# pyright: reportIndexIssue=false, reportOptionalSubscript=false, reportArgumentType=false, reportGeneralTypeIssues=false
# pyright: reportOperatorIssue=false, reportUndefinedVariable=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tvm.script import tirx as T  # pyright: ignore[reportMissingModuleSource]

Expr = Any

KEPT = 64
"""Kernels of each kind that are remembered: to parse one takes half a second, and a network is converted thrice."""


@dataclass(frozen=True)
class Rows:
    """Rows of an array: its entries along ``axis``, for each index in the other dimensions."""

    shape: tuple[int, ...]
    axis: int

    @property
    def entries(self) -> int:
        return self.shape[self.axis]

    @property
    def extents(self) -> tuple[int, ...]:
        """Of the loops over all rows; the two of extent 1 in front make a list of any number of loops."""
        return (1, 1, *self.shape[: self.axis], *self.shape[self.axis + 1 :])

    def with_entries(self, count: int) -> tuple[int, ...]:
        """The shape of an array with ``count`` entries in each row."""
        return (*self.shape[: self.axis], count, *self.shape[self.axis + 1 :])

    def entry(self, row: Sequence[Expr], number: Expr) -> tuple[Expr, ...]:
        """The index of an entry of a row, which is the loops over the rows."""
        outer = list(row)[2:]
        return (*outer[: self.axis], number, *outer[self.axis :])

    def private(self, *shape: int) -> tuple[int, ...]:
        """The shape of a buffer that holds ``shape`` for each row: no two rows share anything."""
        return (*self.extents, *shape)


def _own(row: Sequence[Expr], *index: Expr) -> tuple[Expr, ...]:
    """The index in a private buffer of a row."""
    return (*row, *index)


@lru_cache(KEPT)
def by_sorting(rows: Rows, dtype: str, k: int, largest: bool) -> Any:
    """The kernel (data, values, positions) that sorts each row, and returns its first ``k`` entries.

    A merge sort from runs of one entry on: the number of its operations is that of entries times its logarithm.
    """
    entries, levels = rows.entries, max(1, (rows.entries - 1).bit_length())
    data_shape, result = rows.shape, rows.with_entries(k)

    def precedes(a: Expr, b: Expr) -> Expr:
        return T.Cast("int64", a > b if largest else a < b)

    @T.prim_func(s_tir=True)
    def sort(data: T.Buffer(data_shape, dtype), values: T.Buffer(result, dtype), positions: T.Buffer(result, "int64")):
        T.func_attr({"tirx.noalias": True})
        order = T.alloc_buffer(rows.private(2, entries), "int64")
        begin = T.alloc_buffer(rows.private(2), "int64")
        end = T.alloc_buffer(rows.private(2), "int64")
        side = T.alloc_buffer(rows.private(1), "int64")
        for row in T.grid(*rows.extents):
            for i in range(T.int64(entries)):
                order[_own(row, 0, i)] = i
            for level, place in T.grid(T.int64(levels), T.int64(entries)):
                # Two runs of 2**level entries, side by side, become one.
                if place % T.shift_left(T.int64(2), level) == T.int64(0):
                    for s in range(T.int64(2)):
                        begin[_own(row, s)] = T.min(place + T.shift_left(s, level), T.int64(entries))
                        end[_own(row, s)] = T.min(place + T.shift_left(s + T.int64(1), level), T.int64(entries))
                side[_own(row, 0)] = T.if_then_else(
                    begin[_own(row, 0)] == end[_own(row, 0)],
                    T.int64(1),
                    T.if_then_else(
                        begin[_own(row, 1)] == end[_own(row, 1)],
                        T.int64(0),
                        precedes(
                            data[rows.entry(row, order[_own(row, level % T.int64(2), begin[_own(row, 1)])])],
                            data[rows.entry(row, order[_own(row, level % T.int64(2), begin[_own(row, 0)])])],
                        ),
                    ),
                )
                order[_own(row, T.int64(1) - level % T.int64(2), place)] = order[
                    _own(row, level % T.int64(2), begin[_own(row, side[_own(row, 0)])])
                ]
                begin[_own(row, side[_own(row, 0)])] = begin[_own(row, side[_own(row, 0)])] + T.int64(1)
            for i in range(T.int64(k)):
                positions[rows.entry(row, i)] = order[_own(row, levels % 2, i)]
                values[rows.entry(row, i)] = data[rows.entry(row, order[_own(row, levels % 2, i)])]

    return sort


@lru_cache(KEPT)
def by_heap(rows: Rows, dtype: str, k: int, largest: bool) -> Any:
    """The kernel (data, values, positions) that keeps the first ``k`` entries of a row in a heap.

    Its root is the last one of them. The number of operations is that of entries times the logarithm of ``k``.
    """
    entries, depth = rows.entries, k.bit_length() - 1
    data_shape, result = rows.shape, rows.with_entries(k)

    @T.prim_func(s_tir=True)
    def select(
        data: T.Buffer(data_shape, dtype), values: T.Buffer(result, dtype), positions: T.Buffer(result, "int64")
    ):
        T.func_attr({"tirx.noalias": True})
        heap = T.alloc_buffer(rows.private(k), "int64")
        node = T.alloc_buffer(rows.private(1), "int64")
        child = T.alloc_buffer(rows.private(1), "int64")
        swap = T.alloc_buffer(rows.private(1), "int64")
        order = T.alloc_buffer(rows.private(1), "bool")

        @T.inline
        def compare(row, first, second):
            """Whether ``first`` comes before ``second``."""
            order[_own(row, 0)] = T.if_then_else(
                data[rows.entry(row, first)] == data[rows.entry(row, second)],
                first < second,
                data[rows.entry(row, first)] > data[rows.entry(row, second)]
                if largest
                else data[rows.entry(row, first)] < data[rows.entry(row, second)],
            )

        @T.inline
        def sink(row, start, size):
            """Bring the last one of the nodes below ``start`` up to it, in a heap of ``size`` nodes."""
            node[_own(row, 0)] = start
            with T.attr({"npu.at_most": depth + 1}):
                while node[_own(row, 0)] < size:
                    child[_own(row, 0)] = T.int64(2) * node[_own(row, 0)] + T.int64(1)
                    if child[_own(row, 0)] + T.int64(1) < size:
                        compare(
                            row, heap[_own(row, child[_own(row, 0)])], heap[_own(row, child[_own(row, 0)] + T.int64(1))]
                        )
                        if order[_own(row, 0)]:
                            child[_own(row, 0)] = child[_own(row, 0)] + T.int64(1)
                    order[_own(row, 0)] = T.bool(False)
                    if child[_own(row, 0)] < size:
                        compare(row, heap[_own(row, node[_own(row, 0)])], heap[_own(row, child[_own(row, 0)])])
                    if order[_own(row, 0)]:
                        swap[_own(row, 0)] = heap[_own(row, node[_own(row, 0)])]
                        heap[_own(row, node[_own(row, 0)])] = heap[_own(row, child[_own(row, 0)])]
                        heap[_own(row, child[_own(row, 0)])] = swap[_own(row, 0)]
                        node[_own(row, 0)] = child[_own(row, 0)]
                    else:
                        node[_own(row, 0)] = size

        for row in T.grid(*rows.extents):
            for i in range(T.int64(k)):
                heap[_own(row, i)] = i
            for i in range(T.int64(k // 2)):
                sink(row, T.int64(k // 2 - 1) - i, T.int64(k))
            for i in range(T.int64(entries - k)):
                compare(row, i + T.int64(k), heap[_own(row, 0)])
                if order[_own(row, 0)]:
                    heap[_own(row, 0)] = i + T.int64(k)
                    sink(row, T.int64(0), T.int64(k))
            for i in range(T.int64(k)):
                positions[rows.entry(row, T.int64(k - 1) - i)] = heap[_own(row, 0)]
                values[rows.entry(row, T.int64(k - 1) - i)] = data[rows.entry(row, heap[_own(row, 0)])]
                heap[_own(row, 0)] = heap[_own(row, T.int64(k - 1) - i)]
                sink(row, T.int64(0), T.int64(k - 1) - i)

    return select
