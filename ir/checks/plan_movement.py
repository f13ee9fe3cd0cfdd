"""Where cells run and how operands move: every core, transfer and weight stream is there, and makes sense."""

from __future__ import annotations

from typing import NoReturn

from ..errors import CheckError
from ..plan import Segment, Transfer, WeightStream
from ..semantics.cell import count, leaving
from .plan_facts import Facts


def _fail(message: str) -> NoReturn:
    raise CheckError(f"invalid plan: {message}")


def check_cores(facts: Facts) -> None:
    """Each cell of a segment has a core of its own."""
    plan, cores = facts.plan, facts.machine.cores
    if len(plan.cell_cores) != len(plan.segments):
        _fail(f"it has cores for the cells of {len(plan.cell_cores)} segments, and {len(plan.segments)} segments")
    for index, (segment, placed) in enumerate(zip(plan.segments, plan.cell_cores, strict=True)):
        cells = 0 if facts.is_host(segment) else count(segment.cores)
        if len(placed) != cells:
            _fail(f"segment {index} has cores for {len(placed)} cells, and {cells} cells")
        if any(not 0 <= core < cores for core in placed) or len(set(placed)) < len(placed):
            _fail(f"the cells of segment {index} run on cores {placed}, which are not {cells} of the {cores} there are")


def check_movement(facts: Facts) -> None:
    """All transfers and weight streams of all segments; after the local buffers, which decide what is loaded."""
    plan = facts.plan
    transfers: dict[int, dict[str, Transfer]] = {}
    for transfer in plan.transfers:
        if transfers.setdefault(transfer.segment, {}).setdefault(transfer.tensor, transfer) is not transfer:
            _fail(f"segment {transfer.segment} has two transfers of {transfer.tensor}")
    streams: dict[int, dict[str, WeightStream]] = {}
    for stream in plan.weight_streams:
        if streams.setdefault(stream.segment, {}).setdefault(stream.op, stream) is not stream:
            _fail(f"segment {stream.segment} has two weight streams for {stream.op}")
    for kind, numbers in (("transfers", sorted(transfers)), ("weight streams", sorted(streams))):
        for number in numbers:
            if not 0 <= number < len(plan.segments):
                _fail(f"there are {kind} of segment {number}, which does not exist")
    held: dict[int, set[str]] = {}
    for buffer in plan.local:
        if buffer.use == "data":
            held.setdefault(buffer.segment, set()).add(buffer.name)
    for index, segment in enumerate(plan.segments):
        _check_transfers(facts, index, segment, transfers.get(index, {}), held.get(index, set()))
        _check_streams(facts, index, segment, streams.get(index, {}))


def _check_transfers(
    facts: Facts, index: int, segment: Segment, transfers: dict[str, Transfer], held: set[str]
) -> None:
    """One for each tensor that is loaded or stored; portions have extents, loads have issuers.

    ``held``: the tensors with a data buffer in the segment. Those that lie in one of another tensor are moved as well.
    """
    host = facts.is_host(segment)
    results = {op.output for op in facts.ops(segment)}
    stored = set() if host else {op.output for op in leaving(facts.graph, facts.ops(segment))}
    loaded = (held | set(segment.aliased)) - results
    for name in sorted(loaded | stored):
        if name not in transfers:
            _fail(f"segment {index} {'stores' if name in stored else 'loads'} {name}, and has no transfer of it")
    for name, transfer in transfers.items():
        if name not in loaded | stored:
            _fail(f"segment {index} has a transfer of {name}, which it neither loads nor stores")
        rank = len(facts.graph.tensor[name].shape)
        if len(transfer.portion) != rank or any(extent < 1 for extent in transfer.portion):
            _fail(f"segment {index} moves {name}, of {rank} dimensions, in portions of {transfer.portion}")
        _check_issuers(facts, f"the transfer of {name} in segment {index}", transfer.issuers, name in loaded)


def _check_streams(facts: Facts, index: int, segment: Segment, streams: dict[str, WeightStream]) -> None:
    """One for each operator on the matrix engine, with versions that its buffer has."""
    for op in () if facts.is_host(segment) else facts.ops(segment):
        right = facts.stationary(segment, op)
        if right is not None and op.name not in streams:
            _fail(f"segment {index} has no weight stream for {op.name}")
        if right is None and op.name in streams:
            _fail(f"segment {index} has a weight stream for {op.name}, which the matrix engine does not run")
        if right is None:
            continue
        stream, where = streams.pop(op.name), f"the weight stream of {op.name} in segment {index}"
        depth = segment.tile[op.name].weight_depth
        if not stream.versions or any(not 0 <= v < depth for v in stream.versions):
            _fail(f"{where} goes to versions {stream.versions}, and there are {depth}")
        shared = facts.streamed(segment, right)
        # What replaces a tile that has not been used yet would have it brought again, after those behind it.
        most = _distinct(stream.versions) if shared else 0
        if not 0 <= stream.prefetch <= most:
            why = f"{most} versions come before one of them again" if shared else f"{right} comes from local memory"
            _fail(f"{where} prefetches {stream.prefetch} tiles, and {why}")
        _check_issuers(facts, where, stream.issuers, shared)
    if streams:
        _fail(f"segment {index} has a weight stream for {min(streams)}, which it does not run")


def _distinct(versions: tuple[int, ...]) -> int:
    """How many there are before one comes for the second time."""
    return next((n for n, version in enumerate(versions) if version in versions[:n]), len(versions))


def _check_issuers(facts: Facts, where: str, issuers: tuple[int, ...], broadcast: bool) -> None:
    cores = facts.machine.cores
    if not broadcast and issuers:
        _fail(f"{where} has issuers {issuers}, and nothing to broadcast")
    if broadcast and (not issuers or any(not 0 <= issuer < cores for issuer in issuers)):
        _fail(f"{where} has issuers {issuers}; it needs some, each below the {cores} cores")
