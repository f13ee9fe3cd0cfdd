"""A network is refused as infeasible only if one element of one operator is too much for a memory.

Networks and memories are drawn at random, so small that many are refused. What is refused is judged by brute force:
every element of every result by itself, on one core, in the smallest tile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from random import Random

import pytest

from girih.ir.box import Box, Span, volume
from girih.ir.checks.check_plan import check_plan
from girih.ir.errors import InfeasibleError
from girih.ir.graph import DTYPES, Graph, Op
from girih.ir.load_machine import load_machine
from girih.ir.machine import Machine
from girih.ir.semantics.region import op_boxes
from girih.solver import plan
from girih.solver.options import Options, Strategy
from tests.support.random_graphs import random_graph
from tests.support.sampled import sampled

TINY = load_machine("tiny")
SIZES = {"main": (1 << 14, 1 << 20), "shared": (64, 1 << 16), "local": (32, 1 << 13), "accumulator": (32, 1 << 12)}
"""Bytes of the memories, at least and at most."""


def random_machine(rng: Random) -> Machine:
    """One or two memories have few bytes."""
    small = set(rng.sample(sorted(SIZES), rng.choice([1, 1, 2])))

    def capacity(role: str, bytes_there: int) -> int:
        if role not in small:
            return bytes_there
        low, high = SIZES[role]
        return 32 * int(low / 32 * (high / low) ** rng.random())

    memories = tuple(replace(m, banks=1, capacity=capacity(TINY.use_of(m.name), m.capacity)) for m in TINY.memories)
    return replace(TINY, memories=memories)


def elements(graph: Graph, op: Op) -> Iterator[Box]:
    for point in product(*(range(extent) for extent in graph.tensor[op.output].shape)):
        yield tuple(Span(i, i + 1) for i in point)


def aligned(machine: Machine, role: str, size: int) -> int:
    (alignment,) = {m.alignment for m in machine.memories if machine.use_of(m.name) == role}
    return -(-size // alignment) * alignment


def least(graph: Graph, machine: Machine, op: Op, element: Box) -> dict[str, int]:
    """By role, bytes that one element of an operator takes: no less than what :mod:`girih.solver.loop.precheck` says,
    which must do without what a plan could avoid."""
    parts = op_boxes(op, graph.tensor, element).tensors

    def size(role: str, name: str, dtype: str) -> int:
        return aligned(machine, role, volume(parts[name]) * DTYPES[dtype])

    data = {n: graph.tensor[n].dtype for n in dict.fromkeys((*op.inputs, op.output)) if n in parts}
    live = [0] * len(op.stages)
    for buffer in op.buffers:
        touched = [i for i, s in enumerate(op.stages) if buffer.name in {s.write.tensor, *(r.tensor for r in s.reads)}]
        if buffer.name in parts and touched:
            for stage in range(touched[0], touched[-1] + 1):
                live[stage] += size("accumulator", buffer.name, buffer.dtype)
    if op.contraction is not None:
        # Buffers that the matrix engine touches are live throughout.
        live = [sum(size("accumulator", b.name, b.dtype) for b in op.buffers if b.name in parts)]
    return {
        "accumulator": max(live, default=0),
        "local": sum(size("local", n, dtype) for n, dtype in data.items()),
        "shared": sum(size("shared", n, dtype) for n, dtype in data.items()),
    }


def refused_rightly(graph: Graph, machine: Machine, message: str) -> bool:
    """Whether an element of the operator in the message takes more than a memory has."""
    capacity = {machine.use_of(m.name): m.capacity for m in machine.memories}
    if message.startswith("constants, inputs and outputs"):
        names = graph.constant_names | graph.input_tensors | graph.output_tensors
        return sum(graph.tensor[n].bytes for n in names) > capacity["main"]
    named = re.match(r"operator (\S+):", message)
    assert named is not None, message
    op = graph.op[named[1]]
    (role,) = {machine.use_of(m.name) for m in machine.memories if f"bytes of {m.name}," in message}
    return any(least(graph, machine, op, e)[role] > capacity[role] for e in elements(graph, op))


@pytest.mark.parametrize("seed", sampled(range(40)))
def test_a_refusal_is_a_proof_or_says_that_it_is_none(seed: int) -> None:
    rng = Random(f"refusals {seed}")
    strategies: tuple[Strategy, ...] = ("layerwise", "graphturbo", "solver")
    strategy = rng.choice(strategies)
    graph, machine = random_graph(seed, "float32", rng.randint(1, 3)), random_machine(rng)
    try:
        check_plan(plan(graph, machine, Options(1.0, strategy)).plan, graph, machine)
    except InfeasibleError as error:
        message = str(error)
        if not message.startswith(f"no plan of {graph.name} "):
            assert refused_rightly(graph, machine, message), message


@pytest.mark.parametrize("seed", [0, 2, 3, 5, 8, 9, 17, 19, 22, 25, 27, 31, 32, 33])
def test_memories_that_hold_one_element_are_enough(seed: int) -> None:
    """One operator on a machine with just that much local and accumulator memory, and twice as much shared."""
    graph = random_graph(seed, "float32", 1)
    (op,) = graph.ops
    needs = [least(graph, TINY, op, element) for element in elements(graph, op)]
    local = max(need["local"] for need in needs)
    accumulator = max(32, *(need["accumulator"] for need in needs))
    capacity = {"local": local, "accumulator": accumulator, "shared": max(512, 2 * local)}
    memories = tuple(replace(m, banks=1, capacity=capacity.get(TINY.use_of(m.name), m.capacity)) for m in TINY.memories)
    machine = replace(TINY, memories=memories)
    check_plan(plan(graph, machine, Options(5.0, "layerwise")).plan, graph, machine)
