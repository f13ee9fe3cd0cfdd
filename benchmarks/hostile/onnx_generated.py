"""Networks of operators drawn at random, with odd shapes and attributes: what is accepted must be right.

Each is compared twice: element by element with its graph, which judges solver, lowering and simulator, and with ONNX
Runtime, which judges the importer.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from random import Random

import girih
from benchmarks.hostile.case import Case
from benchmarks.hostile.drawn.draft import SIZES, Draft
from benchmarks.hostile.drawn.operators import DRAWS
from benchmarks.hostile.onnx_judge import TOLERANCE, has_batch, judge_network
from girih.api.check import TOLERANCE_CEILING
from girih.api.run import allowed_errors, make_inputs

OPSETS = (13, 16, 17, 17, 18, 20)
BATCH = 2


def cases(seed: int) -> Iterator[Case]:
    """Networks without end; the kind of a case is the operator that it ends with."""
    for number in count():
        rng = Random(f"{seed} {number}")
        options = {
            "strategy": rng.choice(("solver", "layerwise", *("graphturbo",) * 6)),
            "precision": rng.choice(("fp16", "as-is", "as-is")),
            "target": rng.choice(("tiny", "tiny", "tiny", "stcp920")),
        }
        draft = drawn(rng, half=options["precision"] == "fp16")
        if not draft.nodes:
            continue
        batch = "N" if rng.random() < 0.4 else None
        operators = " ".join(node.op_type for node in draft.nodes)
        data = draft.model(batch).SerializeToString(deterministic=True)
        change = f"network {number} of seed {seed}: {operators}, {', '.join(options.values())}, batch {batch}"
        yield Case("generated", draft.nodes[-1].op_type, change, data, options)


def drawn(rng: Random, *, half: bool) -> Draft:
    """One to ten draws on one or two inputs, whose first dimension is the batch."""
    draft = Draft(rng, rng.choice(OPSETS), half)
    for _ in range(rng.choice((1, 1, 1, 2))):
        dtype = rng.choice(("float32",) * 6 + ("int64", "int32"))
        draft.input(dtype, [BATCH, *(rng.choice(SIZES) for _ in range(rng.choice((0, 1, 1, 2, 3, 3, 3, 4))))])
    for _ in range(rng.randrange(1, 11)):
        rng.choice(DRAWS)(draft)
    return draft


def attempt(case: Case) -> None:
    """Compile the network, run it and compare with its graph and with ONNX Runtime."""
    batch = BATCH if has_batch(case.data) else None
    compiled = girih.compile(case.data, solver_timeout=0.5, batch=batch, cache=False, **case.options)
    inputs = make_inputs(compiled, 0)
    compiled.run(inputs, check="exact")
    least = TOLERANCE[compiled.options.precision]
    errors = allowed_errors(compiled, inputs)
    # Nothing can be said of an output that is all rounding.
    judged = {name: max(least, error) for name, error in errors.items() if error < TOLERANCE_CEILING}
    judge_network(compiled, case.data, judged)
