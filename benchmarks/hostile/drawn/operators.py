"""Operators with attributes at random; each draw appends a node or two to a draft, or nothing."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.hostile.drawn.draft import Draft
from benchmarks.hostile.drawn.functions import (
    binary,
    cast,
    clip,
    comparison,
    integers,
    jump,
    smooth,
    variadic,
    where,
    with_pole,
)
from benchmarks.hostile.drawn.movement import (
    concat,
    depth_and_space,
    gather,
    one_hot,
    pad,
    quantised,
    rank_change,
    repetition,
    reshape,
    resize,
    scatter,
    slice_,
    split,
    transpose,
    triangle,
)
from benchmarks.hostile.drawn.products import conv, conv_transpose, einsum, gemm, matmul, pool
from benchmarks.hostile.drawn.reductions import arg, cumulative, norm, reduction, softmax, top

Draw = Callable[[Draft], object]

DRAWS: tuple[Draw, ...] = (
    smooth, smooth, smooth, with_pole, jump, binary, binary, binary, variadic, integers, comparison, where, cast, clip,
    matmul, matmul, matmul, gemm, einsum, conv, conv, conv, conv_transpose, pool, pool,
    norm, norm, softmax, reduction, reduction, arg, top, cumulative,
    transpose, transpose, reshape, reshape, rank_change, repetition, slice_, slice_, gather, gather, scatter,
    concat, concat, split, pad, resize, depth_and_space, triangle, one_hot, quantised,
)  # fmt: skip
