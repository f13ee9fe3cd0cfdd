"""Hostile ONNX files: small networks with a few changes each. What is accepted is compared with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from random import Random

import numpy as np
import onnx
from onnx import numpy_helper

import girih
from benchmarks.hostile.case import Case
from benchmarks.hostile.changes.every import CHANGES
from benchmarks.hostile.changes.models import damaged
from benchmarks.hostile.onnx_judge import FLOAT16_MAX, has_batch, judge_network
from benchmarks.hostile.onnx_networks import NETWORKS, build


@cache
def network(name: str) -> bytes:
    return build(name).SerializeToString(deterministic=True)


def mutations(seed: int) -> Iterator[Case]:
    """Each network as it is, and then without end with one to three changes or with damaged bytes.

    One case in eight goes through the whole solver, one in four is in half precision.
    """
    for name in NETWORKS:
        yield Case("onnx", "right", name, network(name), {"strategy": "graphturbo", "precision": "as-is"})
    number = 0
    while True:
        for position, name in enumerate(NETWORKS):
            rng = Random(f"{seed} {number} {name}")
            kind = (number * len(NETWORKS) + position) % (len(CHANGES) + 1)
            case = _mutation(name, kind, rng)
            if case is not None:
                yield case
        number += 1


def _mutation(name: str, kind: int, rng: Random) -> Case | None:
    """The network after the change of this kind and perhaps one or two others."""
    options = {
        "strategy": "solver" if rng.random() < 1 / 8 else "graphturbo",
        "precision": "fp16" if rng.random() < 1 / 4 else "as-is",
    }
    if kind == len(CHANGES):
        text, data = damaged(network(name), rng)
        return Case("onnx", "damaged", f"{name}: {text}", data, options)
    model = onnx.ModelProto.FromString(network(name))
    changes = [CHANGES[kind], *rng.sample(CHANGES, rng.choice((0, 0, 0, 1, 2)))]
    texts = [change(model, rng) for change in changes]
    if texts[0] is None:
        return None
    text = "; ".join(t for t in texts if t is not None)
    return Case("onnx", CHANGES[kind].__name__, f"{name}: {text}", model.SerializeToString(deterministic=True), options)


def attempt(case: Case) -> None:
    """Compile the file, run it on random inputs and compare with ONNX Runtime, or TVM where that refuses the file."""
    batch = 2 if has_batch(case.data) else None
    compiled = girih.compile(case.data, target="tiny", solver_timeout=0.5, batch=batch, cache=False, **case.options)
    if case.options["precision"] == "fp16" and _exceeds_float16(case.data):
        compiled.run(check="exact")  # It may overflow where the network in float32 does not.
    else:
        judge_network(compiled, case.data)


def _exceeds_float16(data: bytes) -> bool:
    """Whether a weight is finite, but too large for half precision."""
    arrays = (numpy_helper.to_array(weight) for weight in onnx.ModelProto.FromString(data).graph.initializer)
    sizes = (np.abs(array[np.isfinite(array)]) for array in arrays if array.dtype.kind == "f")
    return any(size.max(initial=0) > FLOAT16_MAX for size in sizes)
