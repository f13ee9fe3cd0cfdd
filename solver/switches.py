"""What can be switched off so that its worth can be measured: searches of the models, and refinements beyond them.

A plan stays valid without any of them, and mostly gets slower. ``make bench-models`` and ``make bench-ablation``
measure by how much.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias, get_args

from ..ir.errors import UsageError

Switch = Literal[
    "address-reflection",
    "aligned-splits",
    "banks-model",
    "concat-aliasing",
    "deep-scratch",
    "deep-weights",
    "early-weights",
    "engine-overlap",
    "excluded-segments",
    "extended-lifetimes",
    "fewer-cores",
    "fewer-instances",
    "folded-scales",
    "greedy-variants",
    "heads-in-rows",
    "joint-tiles",
    "late-normalisation",
    "learned-costs",
    "load-parts",
    "multi-buffering",
    "operator-order",
    "output-stores",
    "pipeline-model",
    "producer-stall",
    "queue-order",
    "residency-in-turn",
    "residency-model",
    "residency-windows",
    "result-parts",
    "segment-groups",
    "segmentation-model",
    "smaller-memories",
    "stalled-depths",
    "stationary-first",
    "step-groups",
    "step-orders",
    "swapped-operands",
    "thirds",
    "tiling-model",
    "vector-contractions",
    "weight-rings",
    "weight-separation",
    "weight-starvation",
]

Disabled: TypeAlias = frozenset[Switch]
"""What is switched off."""
ALL_ON: Disabled = frozenset()

SWITCHES: Mapping[Switch, str] = {
    # Before the models.
    "folded-scales": "Scales and shifts of channels before products are folded into weights and biases.",
    "late-normalisation": "Rows are normalised after the products that read them, as in a lazy softmax.",
    "swapped-operands": "Products that fill the array better so have activations in it, and weights as its rows.",
    # The models: without its search, the answer of each is its hint.
    "segmentation-model": "Segments are chosen by CP-SAT, not by shortest paths alone.",
    "tiling-model": "Tiles are chosen by CP-SAT, not one by one from a table.",
    "pipeline-model": "The order of queues is chosen by CP-SAT in windows, not by list schedules alone.",
    "residency-model": "What stays in shared memory is chosen by CP-SAT, not greedily.",
    "banks-model": "Addresses are chosen by CP-SAT where packing greedily fails or leaves conflicts of banks.",
    # The loop.
    "excluded-segments": "Where a gap and time are left, segmentation does without one segment of the best plan.",
    "learned-costs": "A segment that takes longer than estimated costs what it takes in the iterations that follow.",
    "aligned-splits": "A segment whose result is spilled is split as the segment that reads it.",
    "fewer-instances": "Segments of the best plan are split into fewer instances where that takes the cores less time.",
    "joint-tiles": "Tiles of the operators of a segment of the best plan are chosen for each other.",
    "address-reflection": "Local memory of some segments is reflected, so that the next segment can be loaded earlier.",
    "weight-separation": "Weights of operators that follow one another lie apart, so that they can be loaded earlier.",
    "deep-weights": "Weights have more versions where weight memory has room for them beside those of neighbours.",
    "early-weights": "Weights are loaded before inputs that their segment waits for, where that takes less time.",
    "queue-order": "Queues issue instructions of neighbouring tiles, operators and sub-batches in another order.",
    "smaller-memories": "The search runs again as if there were less of a memory: its plans are plans here too.",
    "segment-groups": "Segmentation also has groups of segments whose instances take turns.",
    "step-groups": "Of the best plan, segments around spilled results also take turns in groups.",
    # Segmentation.
    "engine-overlap": "Operators of one segment on different engines are priced as overlapping.",
    "thirds": "Few images, heads or rows may also be taken in three, six or twelve equal parts, one after the other.",
    "fewer-cores": "Small results may be shared by a half, a quarter … of the cores.",
    "weight-starvation": "A segment is priced with the wait of its first instance for weights without room.",
    "output-stores": "The last segment is priced with the stores of outputs after the instances that compute them.",
    # The subproblem.
    "step-orders": "Besides segment by segment, instances of all segments also run depth first.",
    "operator-order": "Products move behind vector operators, so that the matrix engine works meanwhile.",
    "concat-aliasing": "Operands of a concatenation are computed or loaded where the concatenation lies.",
    # Tiling.
    "producer-stall": "Tiles are also chosen by how long the matrix engine waits for the vector operator before it.",
    "heads-in-rows": "A tile may be all rows of one head where heads lie inside of rows.",
    "stationary-first": "Tile loops may run over what selects the stationary operand first.",
    "vector-contractions": "The vector engine runs contractions where it takes fewer cycles than the matrix engine.",
    # The pipeline.
    "multi-buffering": "Buffers of tiles have several versions.",
    "deep-scratch": "Private buffers may have more than three versions.",
    "stalled-depths": "Versions are chosen by how tiles wait for the vector operator before them.",
    # Residency.
    "weight-rings": "Weights that do not fit at once pass through a circular buffer.",
    "result-parts": "Parts of a result that crosses segments are kept or spilled one by one.",
    "load-parts": "Overlapping loads of an input are cut into parts that are fetched one by one.",
    "residency-in-turn": "Path and residency of a segmentation improve each other.",
    "residency-windows": "Decisions of residency are improved window by window (large-neighbourhood search).",
    "greedy-variants": "The search for residency begins with the best of several greedy answers.",
    # Banks.
    "extended-lifetimes": "Local buffers leave room for loads, tiles and stores that could overlap with neighbours.",
}
"""What each does."""


def checked(names: Iterable[str]) -> Disabled:
    """The names as switches; :class:`UsageError` for one that is none."""
    known = get_args(Switch)
    for name in sorted(names):
        if name not in known:
            raise UsageError(f"there is no refinement {name!r} to switch off; choose from {', '.join(known)}")
    return frozenset(switch for switch in SWITCHES if switch in names)
