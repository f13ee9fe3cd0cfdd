"""Is a machine refused with a reason, or are programs for it right to the bit?"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Literal

import girih
from girih.ir.checks.check_machine import check_machine
from girih.ir.errors import InfeasibleError, UnsupportedError, UsageError
from girih.models import build
from tests.support.onnx_models import Model
from tests.support.random_machines import random_machine

Verdict = Literal["right", "no such machine", "no room", "no type", "wrong"]
NETWORKS = ("two products", "tiny-cnn", "tiny-transformer")
STRATEGIES = ("layerwise", "graphturbo", "solver")


@cache
def network(name: str) -> bytes:
    if name != "two products":
        return build(name).SerializeToString(deterministic=True)
    model, random = Model(), Random(0)
    x = model.input("x", "N", 24)
    for layer, (rows, columns) in enumerate(((24, 17), (17, 8))):
        weights = [[random.uniform(-1, 1) for _ in range(columns)] for _ in range(rows)]
        x = model.node("Relu", model.node("MatMul", x, model.constant(f"w{layer}", weights)), name=f"layer{layer}")
    return model.build(x).SerializeToString(deterministic=True)


@dataclass(frozen=True)
class Judgement:
    """``text``: what was said. ``predicted``: over the simulated cycles, of a program that is right."""

    verdict: Verdict
    text: str
    predicted: float | None = None


def judge(seed: int) -> Judgement:
    """The judgement of the machine of a seed, with a network, a strategy and a precision that are drawn as well."""
    machine = random_machine(seed)
    try:
        check_machine(machine)
    except UsageError as error:
        # The place in the file, and why.
        text = str(error)
        return Judgement("no such machine" if re.search(r": .+ \(in [a-z]+", text) else "wrong", text)
    random = Random(f"network {seed}")
    name, strategy = random.choice(NETWORKS), random.choice(STRATEGIES)
    precision = random.choice(("fp16", "bf16", "as-is"))
    try:
        compiled = girih.compile(
            network(name), target=machine, batch=machine.clusters, precision=precision, strategy=strategy,
            solver_timeout=0, cache=False, jobs=1,
        )  # fmt: skip
    except InfeasibleError as error:
        text = str(error)
        return Judgement("no room" if re.search(r"\d bytes.*(use|split) ", text) else "wrong", text)
    except (UnsupportedError, UsageError) as error:
        text = str(error)
        named = re.search(r"operator \S+: .*(float|int|bool).* machine file", text)
        return Judgement("no type" if named else "wrong", text)
    result = compiled.run(check="exact")
    if result.cycles < compiled.plan.lower_bound_cycles:
        bound = compiled.plan.lower_bound_cycles
        return Judgement("wrong", f"{result.cycles:,} cycles are below the bound of {bound:,}")
    ratio = compiled.plan.cycles_predicted / result.cycles
    return Judgement("right", f"{name}, {strategy}: {result.cycles:,} cycles", ratio)
