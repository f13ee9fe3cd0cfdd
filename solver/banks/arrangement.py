"""Arrangements of the local buffers of a segment: which of them share an address, and how long each keeps its bytes.

A buffer needs its bytes from the first operator that touches it to the last one. With no more than that, engines wait
for one another: a load for what lies there still. Where the memory has room, lives are extended (:class:`Extension`),
and there is room for what the next instance of the segment loads (:class:`NextInstance`); where it has little, results
take the place of inputs. The arrangements are tried one after the other, and the first that can be placed is taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import product

from ...ir.graph import Graph
from ...ir.machine import Level, Machine, Memory
from ...ir.plan import LocalBuffer, Segment
from ...ir.semantics.cell import count, leaving
from ...ir.semantics.concat_aliasing import concat_aliases, loaded_aliases, parent_buffers
from ...ir.semantics.in_place import replaced
from ..cost.local_buffers import in_place_groups, scratch_groups
from ..switches import ALL_ON, Disabled
from .problem import BufferRequest

NEXT_INSTANCE_OPERATORS = 2
"""Operators before the last one of a segment during which the next instance may be loaded; chosen, not measured."""

Group = Sequence[LocalBuffer]
"""Buffers at one address, in the order of their lives."""
Key = tuple[str, str]
"""Operator and name of a buffer."""


class Extension(Enum):
    """How much longer than it is needed a buffer keeps its bytes."""

    OPERATOR_BEFORE = "operator before"
    """It has them during the operator before the first that needs it: it can be loaded while that one works."""
    ALL_OPERATORS_BEFORE = "all operators before"
    """It has them from the first operator of the segment on: several constants are loaded one behind the other."""
    OPERATOR_AFTER = "operator after"
    """It keeps them during the operator after the last that needs it: a result is still being stored then, and what one
    engine has to do with scratch or weights of an operator does not delay another engine that begins the next one."""


@dataclass(frozen=True)
class NextInstance:
    """The tensors ``names``, which the first operator touches, have room for the next instance from operator
    ``position`` on: while the last operators of this instance work, those of the next are loaded or computed."""

    position: int
    names: frozenset[str]


@dataclass(frozen=True)
class Arrangement:
    """``groups``: the buffers that share an address; ``extended``: by how lives are extended, whose."""

    groups: Sequence[Group]
    extended: Mapping[Extension, frozenset[Key]] = field(default_factory=dict[Extension, frozenset[Key]])
    next_instance: NextInstance | None = None

    def requests(self) -> tuple[BufferRequest, ...]:
        """One request for each group."""
        last = max((b.live[1] for group in self.groups for b in group), default=0) - 1
        return tuple(
            BufferRequest(
                ", ".join(f"{b.op}:{b.name}" for b in group),
                max(b.bytes for b in group),
                self._life(group),
                again=self._again(group, last),
            )
            for group in self.groups
        )

    def _life(self, group: Group) -> tuple[int, int]:
        """Extended at its beginning as its first buffer is, and at its end as any is."""
        first, stop = group[0].live[0], group[-1].live[1]
        if self._extends(Extension.OPERATOR_BEFORE, group[0]):
            first = max(0, first - 1)
        if self._extends(Extension.ALL_OPERATORS_BEFORE, group[0]):
            first = 0
        if any(self._extends(Extension.OPERATOR_AFTER, b) for b in group):
            stop += 1
        return first, stop

    def _extends(self, extension: Extension, buffer: LocalBuffer) -> bool:
        return (buffer.op, buffer.name) in self.extended.get(extension, ())

    def _again(self, group: Group, last: int) -> int | None:
        """From where on there is room for the group as the next instance has it: not before this one is done with it,
        and only up to operator ``last``."""
        free = group[-1].live[1]
        if self.next_instance is None or group[0].name not in self.next_instance.names or free > last:
            return None
        return max(free, self.next_instance.position)


def arrangements(
    graph: Graph, machine: Machine, segment: Segment, buffers: Sequence[LocalBuffer], level: Level,
    disabled: Disabled = ALL_ON,
) -> Iterator[Arrangement]:  # fmt: skip
    """Those of a segment's ``buffers`` in one memory, in the order in which they are to be tried: the best first."""
    extends = "extended-lifetimes" not in disabled
    if level == machine.levels.activations:
        yield from _of_activations(graph, segment, buffers, extends=extends)
        return
    groups: Sequence[Group] = [[b] for b in buffers]
    if level == machine.levels.sums:
        groups = scratch_groups(graph, segment, buffers)
    longer = _beside_the_next(groups, level.memory) if extends else frozenset[Key]()
    if longer:
        yield Arrangement(groups, {Extension.OPERATOR_AFTER: longer})
    yield Arrangement(groups)


def _beside_the_next(groups: Sequence[Group], memory: Memory) -> frozenset[Key]:
    """The buffers of the operators whose buffers have room beside those of the next one."""
    load: dict[int, int] = {}
    for buffer, *_ in groups:
        load[buffer.live[0]] = load.get(buffer.live[0], 0) + buffer.bytes
    fits = {p for p in load if p + 1 in load and load[p] + load[p + 1] <= memory.capacity}
    return frozenset((b.op, b.name) for group in groups for b in group if group[-1].live[1] - 1 in fits)


def _of_activations(
    graph: Graph, segment: Segment, buffers: Sequence[LocalBuffer], *, extends: bool
) -> Iterator[Arrangement]:
    """Where room is short, these are given up, one after the other: that constants are loaded one behind the other;
    that results have time to be stored; that the next instance begins early; that results have places of their own;
    that operands are loaded during the operator before; and at last, that the next instance has any room."""
    ops = tuple(graph.op[n] for n in segment.ops)
    apart: Sequence[Group] = [[b] for b in buffers]
    in_place = in_place_groups(buffers, replaced(graph, ops, concat_aliases(graph, segment)))
    groupings = [apart] if in_place == apart else [apart, in_place]
    if not extends:
        yield from map(Arrangement, groupings)
        return
    names = frozenset(b.name for b in buffers)
    whole = parent_buffers(graph, segment)
    loaded = (names - {op.output for op in ops}) | {whole[name] for name in loaded_aliases(graph, segment)}
    stored = frozenset(whole.get(op.output, op.output) for op in leaving(graph, ops) if op != ops[-1])

    def keys(chosen: frozenset[str]) -> frozenset[Key]:
        return frozenset((b.op, b.name) for b in buffers if b.name in chosen)

    nothing, constants = frozenset[Key](), keys(loaded & graph.constant_names)
    for next_instances in (_next_instances(segment, buffers, loaded), (None,)):
        for before, groups, next_instance, after, all_before in product(
            dict.fromkeys((keys(loaded), constants, nothing)),
            groupings,
            next_instances,
            dict.fromkeys((keys(stored), nothing)),
            dict.fromkeys((constants, nothing)),
        ):
            extended = {
                Extension.OPERATOR_BEFORE: before,
                Extension.ALL_OPERATORS_BEFORE: all_before,
                Extension.OPERATOR_AFTER: after,
            }
            yield Arrangement(groups, extended, next_instance)


def _next_instances(
    segment: Segment, buffers: Iterable[LocalBuffer], loaded: frozenset[str]
) -> tuple[NextInstance, ...]:
    """The next instance as early as it may be, and then later: all that its first operator touches, or what it loads.

    None if there is a single instance.
    """
    if count(segment.instances) == 1:
        return ()
    last = len(segment.ops) - 1
    first = frozenset(b.name for b in buffers if b.live[0] == 0)
    positions = range(max(1, last - NEXT_INSTANCE_OPERATORS), last + 1)
    return tuple(
        NextInstance(position, names) for position in positions for names in dict.fromkeys((first, first & loaded))
    )
