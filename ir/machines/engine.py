"""Engines: what each runs, how fast, and for each operand the memories that it takes it from and leaves it in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from msgspec import Meta

from .memories import Scope

Dataflow = Literal["output", "weight", "input"]
Side = Literal["reads", "weights", "writes"]
"""Which of the lists of an engine says where it takes an operand from, or leaves it."""
SIDES: tuple[Side, ...] = ("reads", "weights", "writes")

_CLASS = Meta(extra_json_schema={"enum": ["matrix", "vector", "copy", "broadcast", "dma", "host", "scalar"]})
"""For editors alone: what else a file says is told with the place and the known ones, by the checks of a machine."""


@dataclass(frozen=True)
class Engine:
    """One kind of engine, with an in-order queue for each instance (one a core, or one a cluster)."""

    name: Annotated[str, Meta(description="How reports and queues call it; a core's number follows.")]
    scope: Annotated[Scope, Meta(description="What has it: each cluster, or each core.")]
    classes: Annotated[
        tuple[Annotated[str, _CLASS], ...],
        Meta(description="The instruction classes that it runs: matrix, vector, copy, broadcast, dma, host, scalar."),
    ]
    reads: Annotated[
        tuple[str, ...],
        Meta(
            description="Names of the memories that it reads; of a matrix engine: that it takes the moving operand "
            "(activations) from."
        ),
    ]
    writes: Annotated[tuple[str, ...], Meta(description="Names of the memories that it writes.")]
    issue: Annotated[int, Meta(description="Cycles that issuing an instruction takes.")]
    latency: Annotated[int, Meta(description="Cycles from the end of an instruction to when its result is visible.")]
    weights: Annotated[
        tuple[str, ...],
        Meta(
            description="Of a matrix engine: names of the memories that it takes the stationary operand (weights) from."
        ),
    ] = ()
    rows: Annotated[int, Meta(description="Rows of the array of a matrix engine.")] = 0
    columns: Annotated[int, Meta(description="Columns of the array of a matrix engine.")] = 0
    depth: Annotated[
        int, Meta(description="Products that each cell of the array of a matrix engine adds up at once: a dot product.")
    ] = 1
    dataflow: Annotated[
        Dataflow,
        Meta(
            description="What stays in the cells of the array of a matrix engine while the rest streams through "
            "(Samajdar et al., ISPASS 2020): sums (output: rows x columns of the result), weights, or the moving "
            "operand (input), of which rows are the reduction and columns those of the result or its rows."
        ),
    ] = "output"
    fill: Annotated[
        int,
        Meta(
            description="Cycles in which the array of a matrix engine is filled and drained for each block of what "
            "stays in it, on top of its products; an output-stationary array that finishes a block before the next "
            "begins has rows + columns - 2 (Samajdar et al., ISPASS 2020), one that overlaps them has 0."
        ),
    ] = 0
    rate: Annotated[
        dict[str, float] | None,
        Meta(
            description="Of a matrix engine, by dtype of its operands: the factor by which it multiplies faster than "
            "rows x columns x depth multiply-accumulates a cycle. A dtype that is absent is not multiplied."
        ),
    ] = None
    lanes: Annotated[
        dict[str, int] | None,
        Meta(description="Of a vector engine, by dtype of the result: elements a cycle."),
    ] = None
    special: Annotated[
        int,
        Meta(
            description="Of a vector or scalar engine: the factor by which special functions (such as exp) are slower."
        ),
    ] = 1
    operations_per_cycle: Annotated[
        float | None,
        Meta(
            description="Of a scalar engine: operations a cycle (loads, stores, arithmetic, comparisons, and two for "
            "each iteration of a loop)."
        ),
    ] = None
    bytes_per_cycle: Annotated[int, Meta(description="Of an engine that moves data: bytes a cycle, at most.")] = 0
    queue_depth: Annotated[int, Meta(description="Without effect: queues have as much room as they need.")] = 0
    count: Annotated[
        int,
        Meta(
            description="Of a matrix or vector engine: how many there are of it, named NAME.a, NAME.b and so on. "
            "Instructions are divided among them."
        ),
    ] = 1

    @property
    def sources(self) -> tuple[str, ...]:
        """All memories that it takes operands from."""
        return (*self.reads, *self.weights)

    def rate_of(self, dtype: str) -> float | None:
        """The ``rate`` at which operands of ``dtype`` are multiplied, uint8 at that of int8; ``None``: not at all."""
        return (self.rate or {}).get("int8" if dtype == "uint8" else dtype)

    @property
    def pace(self) -> Engine:
        """What it has in common with an engine that differs only in its name and its memories."""
        return replace(self, name="", reads=(), weights=(), writes=())


def side_of(*, stationary: bool) -> Side:
    """The list that says where an engine takes an operand from that stays in its array, or streams through it."""
    return "weights" if stationary else "reads"
