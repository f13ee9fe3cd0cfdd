"""Products whose rows or columns leave so much of the array empty that it could pay to swap their operands.

    blocks of the array: ⌈M / R⌉ · ⌈N / C⌉ as it is, ⌈N / R⌉ · ⌈M / C⌉ with the operands swapped

A core has M of the rows of a product, which are divided over the cores evenly along one or two axes, as suits each form
best; each block takes a cycle for each point of the reduction. Of loads, nothing is known here but what all of them
take main memory; nor of room or tiles.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import combinations_with_replacement
from math import ceil, prod

from ...ir.graph import Graph, Op, contraction_axes
from ...ir.machine import Engine, Machine
from ..cost.operator import Rates

MARGIN = 0.95
"""The activations stay if that takes at most so much of the cycles of the other form. Chosen, not measured."""
LEAST_GAIN = 0.03
"""Of all products of a network, what has to be gained for some of them to be swapped. Chosen: with less, what is not
in this model counts for more (one to twenty products of three convolutional networks: 0.8 % more cycles)."""


def worth_judging(graph: Graph, names: Collection[str], machine: Machine) -> frozenset[str]:
    """Of the operators ``names``, which can be swapped, those that may gain by it; none if all gain too little.

    None either where sums do not stay in the array, for blocks then cost something else, or where engines have operands
    in staging memories: weights do not come to local memory tile by tile there.
    """
    if machine.shared_engine("matrix").dataflow != "output" or machine.staging_memories:
        return frozenset()
    chosen: set[str] = set()
    usual = least = 0.0
    for op in graph.ops:
        one, two = array_cycles(op, machine)
        better = op.name in names and two <= MARGIN * one
        chosen |= {op.name} if better else set()
        usual, least = usual + one, least + (two if better else one)
    return frozenset(chosen if gains_enough(graph, machine, usual, least) else ())


def gains_enough(graph: Graph, machine: Machine, usual: float, swapped: float) -> bool:
    """Whether these cycles of all products are worth swapping some of them.

    Nothing is gained where main memory takes longer than the array. (Without that, DLRM at batch 1024 took 2.2 % more
    cycles, and BERT at 8 x 384 0.6 % fewer.)
    """
    outside = {*graph.constant_names, *graph.input_tensors, *graph.output_tensors}
    main = sum(graph.tensor[name].bytes for name in outside) / Rates.from_machine(machine).slowest_home
    return max(swapped, main) <= (1 - LEAST_GAIN) * max(usual, main)


def array_cycles(op: Op, machine: Machine) -> tuple[float, float]:
    """Cycles of the array for a product on all cores, as it is and with its operands swapped; 0 without a product."""
    if op.contraction is None:
        return 0.0, 0.0
    stage, engine = op.stages[op.contraction], machine.shared_engine("matrix")
    roles = contraction_axes(stage)
    rows, columns, batch, points = (
        [stage.axes[a].extent for a in axes] for axes in (roles.m, roles.n, roles.batch, roles.k)
    )
    cells = set(_rows_of_a_core(rows, machine.cores))
    if batch or not cells:
        full = stage.points / (machine.cores * engine.rows * engine.columns * engine.depth)
        return full, full
    each = prod(points) / engine.depth
    one = min(_blocks(most, prod(columns), engine) for most in cells)
    two = min(_blocks(prod(columns), most, engine) for most in cells)
    return each * one, each * two


def even_parts(extents: list[int], cores: int) -> Iterator[list[int]]:
    """The largest part in each way to divide these extents over all cores, along one or two of them."""
    for one, two in combinations_with_replacement([d for d, extent in enumerate(extents) if extent > 1], 2):
        for parts in (n for n in range(1, cores + 1) if cores % n == 0):
            first, second = (parts, cores // parts) if one != two else (cores, 1)
            if first <= extents[one] and second <= extents[two]:
                sizes = list(extents)
                sizes[one] = ceil(sizes[one] / first)
                sizes[two] = ceil(sizes[two] / second)
                yield sizes


def _rows_of_a_core(extents: list[int], cores: int) -> Iterator[int]:
    return (prod(sizes) for sizes in even_parts(extents, cores))


def _blocks(rows: int, columns: int, engine: Engine) -> int:
    return ceil(rows / engine.rows) * ceil(columns / engine.columns)
