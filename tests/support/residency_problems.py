"""Small problems of residency drawn at random, all of their decisions, and what these hold, by definition."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product

import numpy as np

from girih.ir.box import Span
from girih.solver.residency.decisions import Decisions, NoFetch, Source
from girih.solver.residency.partition.weight_chunks import ChunkFetch, CircularBuffer
from girih.solver.residency.problem import FetchItem, Intermediate, ResidencyProblem, TensorBlock, Use


def block(name: str, size: int, cycles: int) -> TensorBlock:
    return TensorBlock(name, (Span(0, size),), size, cycles)


def some(rng: random.Random) -> tuple[ResidencyProblem, np.ndarray]:
    """A problem with an intermediate, a streamed operand with a circular buffer, and two other items, over five slots."""
    slots = 5
    cycles = tuple(rng.randint(2, 20) for _ in range(slots))

    def uses(count: int, first: int = 0) -> tuple[Use, ...]:
        chosen = sorted(rng.sample(range(first, slots), count))
        return tuple(Use(s, rng.randint(1, cycles[s])) for s in chosen)

    write = rng.randrange(2)
    last = rng.randint(write + 1, slots - 1)
    intermediate = Intermediate(
        block("p", 4, rng.randint(3, 12)),
        (write, last + 1),
        ((write, block("p", 4, rng.randint(3, 12))),),
        rng.random() < 0.3,
        rng.random() < 0.8,
    )
    streamed = uses(2)
    items = (
        FetchItem((block("a", rng.randint(1, 4), rng.randint(3, 15)),), uses(rng.randint(1, 2))),
        FetchItem((block("w", 3, rng.randint(3, 12)),), streamed, streamed="w"),
        FetchItem((block("w", 3, rng.randint(3, 12)),), streamed, streamed="w"),
        FetchItem((block("p", 4, rng.randint(3, 12)),), (Use(last, cycles[last]),), write + 1, intermediate=0),
    )
    chunks = tuple(ChunkFetch(p, 0, (Span(0, 2),), 2) for p in range(3))
    circular = {("w", use.slot): (CircularBuffer(chunks, 4),) for use in streamed if rng.random() < 0.7}
    problem = ResidencyProblem(cycles, 9, items, (intermediate,), circular, rng.choice([0.5, 1.0]), ())
    return problem, np.full(slots, rng.randint(7, 12), dtype=np.int64)


def every_decision(d: ResidencyProblem) -> Iterator[Decisions]:
    """All decisions, whether they fit or not."""
    operands = list(d.circular)
    for resident in product(*([False, True] if p.may_be_resident else [False] for p in d.intermediates)):
        for chosen in product([None, 0], repeat=len(operands)):
            circular = {key: o for key, o in zip(operands, chosen, strict=True) if o is not None}
            rows: list[list[tuple[Source, ...]]] = []
            for item in d.items:
                options: list[list[Source]] = []
                for k, use in enumerate(item.uses):
                    if item.intermediate is not None and resident[item.intermediate]:
                        options.append([NoFetch.RESIDENT])
                    elif (item.streamed, use.slot) in circular:
                        options.append([NoFetch.CIRCULAR])
                    else:
                        before = item.uses[k - 1].slot if k else -1
                        there = k > 0 and (item.streamed, before) not in circular
                        first = max(item.ready, before + 1)
                        options.append([*range(first, use.slot + 1), *([NoFetch.RETAINED] if there else [])])
                rows.append(list(product(*options)))
            for source in product(*rows):
                yield Decisions(tuple(resident), tuple(source), circular)


def usage(d: ResidencyProblem, decided: Decisions) -> np.ndarray:
    """Bytes held in each slot, by definition."""
    held = np.zeros(len(d.cycles), dtype=np.int64)
    for tensor, resident in zip(d.intermediates, decided.resident, strict=True):
        if resident:
            held[tensor.live[0] : tensor.live[1]] += tensor.block.bytes
        else:
            for slot, p in tensor.writes:
                held[slot] += p.bytes
    for item, row in zip(d.items, decided.source, strict=True):
        for k, (use, at) in enumerate(zip(item.uses, row, strict=True)):
            if at is NoFetch.RETAINED:
                held[item.uses[k - 1].slot + 1 : use.slot + 1] += item.bytes
            elif not isinstance(at, NoFetch):
                held[at : use.slot + 1] += item.bytes
    for key, option in decided.circular.items():
        held[key[1]] += d.circular[key][option].bytes
    return held
