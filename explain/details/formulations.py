"""What each constraint model decides, in a sentence, and what it minimises: the first lines of its formulation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Formulation:
    """``question``: what the model decides; ``objective``: what it minimises; ``relaxed``: what it leaves out.

    ``source`` is the file with sets, data, variables and numbered constraints. The question is the first line there.
    """

    question: str
    objective: str
    relaxed: str
    source: str


FORMULATIONS: dict[str, Formulation] = {
    "segmentation": Formulation(
        "which consecutive operators form a segment, and how each segment is split",
        "the later one of two clocks, of the cores and of main memory, plus a penalty for what does not overlap",
        "when exactly bytes are needed within a segment, halos of what is staged, tiles",
        "solver/segmentation/model.py",
    ),
    "residency": Formulation(
        "what lives in the shared memory when: what stays, what is retained, what passes through circular buffers",
        "16 times the end of the run plus the traffic of main memory, both in cycles",
        "slots do not overlap and take estimated times; one link for both directions",
        "solver/residency/model.py",
    ),
    "tiling": Formulation(
        "how one operator runs on one core, for its box of the output",
        "the cycles of the slowest of matrix engine, vector engine and weight loads over all tiles",
        "rates of shared links while others use them; overlap with the operators before and after",
        "solver/tiling/model.py",
    ),
    "pipeline": Formulation(
        "the cycles of an operator's tile walk with given multi-buffering degrees, tile by tile",
        "the end of the last tile; the best of all degrees that fit, by enumeration",
        "contention for links and banks",
        "solver/pipeline/model.py",
    ),
    "banks": Formulation(
        "an address for every buffer of one memory",
        "cycles that are lost where engines meet at a bank; without banks to choose, any addresses that fit",
        "only the heaviest pairs of buffers are modelled",
        "solver/banks/model.py",
    ),
    "order": Formulation(
        "the order in which every queue issues its instructions, across tiles, operators and sub-batches",
        "the end of all: list schedules first, then CP-SAT on windows of them with everything around fixed",
        "banks; a link serves transfers one after the other; addresses are given",
        "solver/order/model.py",
    ),
}
"""By the name of a model, without the memory that banks are of."""


def formulation(model: str) -> Formulation | None:
    """That of a model by its name in the log, such as ``banks:L1``; ``None`` if no formulation has the name."""
    return FORMULATIONS.get(model.partition(":")[0])
