"""Plans drawn at random: any segments, splits, tiles, buffers and addresses that the rules of a plan allow.

They are bad plans on purpose: partial last tiles, single rows, memory reused as soon as it may be. The sizes are
counted here box by box, without the solver, and every plan passes :func:`check_plan` before it is handed out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise, product
from math import prod
from random import Random

from girih.ir.box import Box, Span, contains, full, hull, intersect, is_empty, volume
from girih.ir.checks.check_plan import check_plan
from girih.ir.errors import CheckError
from girih.ir.graph import DTYPES, Graph, Op
from girih.ir.machine import Level, Machine
from girih.ir.plan import LocalBuffer, Plan, Segment, SharedBuffer, Split, Step, Tile, Transfer, WeightStream
from girih.ir.semantics.cell import Cell, Cells, count, leaving, tile_boxes
from girih.ir.semantics.concat_aliasing import parent_buffers, possible_aliases
from girih.ir.semantics.region import accessed, op_boxes

VECTOR_POINTS = 1 << 13
"""Points of a contraction up to which the vector engine may be given it."""


class NoPlanFitsError(AssertionError):
    """All plans that were drawn need more memory than there is."""


def random_plan(
    graph: Graph, machine: Machine, seed: int, *, longest: int = 1, tiles: int = 6, tries: int = 40,
    on_vector: float = 0.15,
) -> Plan:  # fmt: skip
    """A valid plan; at most ``longest`` operators a segment, about ``tiles`` tiles an operator and core.

    ``on_vector`` is the share of the small contractions that the vector engine is given.
    What does not fit is drawn again, with smaller tiles each time.
    """
    reason = ""
    for attempt in range(tries):
        rng, of_homes = Random(f"{seed}.{attempt}"), Random(f"{seed}.{attempt} homes")
        plan = _Drawing(graph, machine, rng, of_homes, longest, tiles, 1 + attempt // 4, on_vector).plan()
        try:
            check_plan(plan, graph, machine)
        except CheckError as error:
            reason = str(error)
            if "beyond" not in reason and "is still needed" not in reason:
                raise
            continue
        return plan
    raise NoPlanFitsError(f"no plan of {tries} fits: {reason}")


class _Drawing:
    def __init__(
        self, graph: Graph, machine: Machine, rng: Random, of_homes: Random, longest: int, tiles: int, crowded: int,
        on_vector: float,
    ) -> None:  # fmt: skip
        self.on_vector = on_vector
        self.graph = graph
        self.machine = machine
        self.rng = rng
        self.of_homes = of_homes
        self.longest = longest
        self.tiles = tiles * crowded
        self.instances = 3 * crowded
        self.cells = Cells(graph)
        self.walks: dict[tuple[str, Box], list[Box]] = {}
        """By operator and the part of its result that a core computes."""

    def plan(self) -> Plan:
        segments = tuple(self.segments())
        steps = tuple(self.steps(segments))
        local = tuple(b for i, s in enumerate(segments) for b in self.local(i, s))
        shared = tuple(self.shared(segments, steps, local))
        barrier = self.rng.random() < 0.1
        cores = tuple(
            tuple(self.rng.sample(range(self.machine.cores), count(s.cores) if s.tiles else 0)) for s in segments
        )
        transfers = tuple(t for i, s in enumerate(segments) for t in self.transfers(i, s, local))
        streams = tuple(w for i, s in enumerate(segments) for w in self.weight_streams(i, s, local))
        return Plan(
            "drawn", self.machine.name, self.graph.digest, 0, segments, cores, steps, local, shared, transfers, streams,
            barrier, 0, 0, "", (), (),
        )  # fmt: skip

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    # Movement ------------------------------------------------------------------------------------------------------

    def transfers(self, index: int, segment: Segment, local: tuple[LocalBuffer, ...]) -> Iterator[Transfer]:
        if not segment.tiles:
            return
        ops = tuple(self.graph.op[name] for name in segment.ops)
        results = {op.output for op in ops}
        data = [b.name for b in local if b.segment == index and b.use == "data"]
        for name in (*data, *segment.aliased):
            if name not in results:
                yield Transfer(index, name, self.portion(name), self.issuers())
        for op in leaving(self.graph, ops):
            yield Transfer(index, op.output, self.portion(op.output))

    def portion(self, name: str) -> tuple[int, ...]:
        """Half of the dimensions whole, the others in up to three parts."""
        return tuple(-(-n // self.rng.choice([1, 1, 2, 3])) for n in self.graph.tensor[name].shape)

    def issuers(self) -> tuple[int, ...]:
        return tuple(self.rng.randrange(self.machine.cores) for _ in range(self.rng.randint(1, 4)))

    def weight_streams(self, index: int, segment: Segment, local: tuple[LocalBuffer, ...]) -> Iterator[WeightStream]:
        data = {b.name for b in local if b.segment == index and b.use == "data"}
        for tile in segment.tiles:
            op = self.graph.op[tile.op]
            if tile.engine != "matrix" or op.contraction is None:
                continue
            depth = tile.weight_depth
            versions = tuple(self.rng.randrange(depth) for _ in range(self.rng.randint(1, 2 * depth)))
            right = op.stages[op.contraction].reads[1].tensor
            if right in self.graph.constant_names and right not in data:
                most = next((n for n, v in enumerate(versions) if v in versions[:n]), len(versions))
                yield WeightStream(index, op.name, versions, self.rng.randint(0, most), self.issuers())
            else:
                yield WeightStream(index, op.name, versions)

    # Cuts ----------------------------------------------------------------------------------------------------------

    def segments(self) -> Iterator[Segment]:
        ops, first = self.graph.ops, 0
        while first < len(ops):
            lengths = [n for n in range(1, self.longest + 1) if self.together(ops[first : first + n], n)]
            run = ops[first : first + self.rng.choice(lengths)]
            first += len(run)
            if run[0].host is not None:
                yield Segment((run[0].name,), (), (), ())
            else:
                yield self.segment(self.shuffled(run))

    def shuffled(self, run: tuple[Op, ...]) -> tuple[Op, ...]:
        """The operators in any order that they can run in; the root operator stays the last."""
        left = list(run)
        found: list[Op] = []
        while left:
            waiting = {name for op in left for name in op.outputs}
            ready = [o for o in left if not waiting.intersection(o.inputs)]
            op = ready[0] if len(ready) == 1 else self.rng.choice(ready)
            left.remove(op)
            found.append(op)
        return tuple(found)

    def together(self, run: tuple[Op, ...], length: int) -> bool:
        """Whether all of ``run`` are ancestors of its last operator."""
        if len(run) < length or (length > 1 and any(op.host for op in run)):
            return False
        needed = set(run[-1].outputs)
        for op in reversed(run):
            if not needed & set(op.outputs):
                return False
            needed |= set(op.inputs)
        return True

    def segment(self, run: tuple[Op, ...]) -> Segment:
        shape = self.graph.tensor[run[-1].output].shape
        instances = self.splits(shape, self.rng.choice([1, 1, self.instances - 1, self.instances]))
        left = tuple(-(-n // prod(s.parts for s in instances if s.dim == d)) for d, n in enumerate(shape))
        cores = self.splits(left, self.rng.randint(1, self.machine.cores))
        names = tuple(op.name for op in run)
        bare = Segment(names, instances, cores, ())
        made = Random(f"{names} {instances} {cores}")
        parts = tuple(name for name in possible_aliases(self.graph, run) if made.random() < 0.8)
        return Segment(names, instances, cores, tuple(self.tile(op, bare) for op in run), parts)

    def splits(self, shape: tuple[int, ...], most: int) -> tuple[Split, ...]:
        """One or two cuts into at most ``most`` parts together."""
        dims = self.rng.sample(range(len(shape)), min(len(shape), self.rng.choice([1, 1, 2])))
        found: list[Split] = []
        for after, dim in zip(range(len(dims))[::-1], dims, strict=True):
            room = most // 2 if after else most
            parts = min(shape[dim], self.rng.randint(room // 2 + 1, room)) if room > 1 else 1
            most //= parts
            if parts > 1:
                found.append(Split(dim, parts))
        return tuple(found)

    def tile(self, op: Op, segment: Segment) -> Tile:
        boxes = [c.ops[op.name].tensors[op.output] for c in self.all_cells(segment) if op.name in c.ops]
        sizes = [max((b[d].size for b in boxes), default=1) for d in range(len(self.graph.tensor[op.output].shape))]
        order = self.rng.sample(range(len(sizes)), len(sizes))
        budget = self.tiles
        for dim in self.rng.sample(range(len(sizes)), len(sizes))[: self.rng.choice([0, 1, 2, 2])]:
            parts = self.rng.randint(1, max(1, min(budget, sizes[dim])))
            budget //= parts
            sizes[dim] = -(-sizes[dim] // parts)
        engine, reduce = "vector", ()
        if op.contraction is not None:
            anchor = op.stages[op.contraction]
            dtypes = {t.name: t.dtype for t in (*self.graph.tensors, *op.buffers)}
            known = all(dtypes[r.tensor] in (self.machine.engine_for("matrix").rate or {}) for r in anchor.factors)
            if known and (anchor.points > VECTOR_POINTS or self.chance(1 - self.on_vector)):
                engine = "matrix"
                budget = max(2, self.tiles // 2)
                cuts: list[int] = []
                for axis in (a for a in anchor.axes if a.reduce):
                    parts = self.rng.randint(1, max(1, min(budget, axis.extent)))
                    budget //= parts
                    cuts.append(-(-axis.extent // parts))
                reduce = tuple(cuts)
        depth, weight_depth = self.rng.randint(1, 3), self.rng.randint(1, 3)
        return Tile(op.name, tuple(sizes), tuple(order), reduce, engine, depth, weight_depth)

    def all_cells(self, segment: Segment) -> list[Cell]:
        return [c for i in range(count(segment.instances)) for c in self.cells_of(segment, i)]

    def cells_of(self, segment: Segment, instance: int) -> list[Cell]:
        return [self.cells.cell(segment, instance, core) for core in range(self.machine.cores)]

    def steps(self, segments: tuple[Segment, ...]) -> Iterator[Step]:
        """All instances: in order, or each as soon as what it reads is there."""
        waiting = [Step(s, i) for s, segment in enumerate(segments) for i in range(count(segment.instances))]
        eager = self.chance(0.4)
        done: dict[str, list[Box]] = {}
        made_here = {name for op in self.graph.ops for name in op.outputs}
        while waiting:
            step = waiting[0]
            if eager:
                ready = [s for s in waiting if self.is_ready(segments[s.segment], s.instance, done, made_here)]
                step = self.rng.choice(ready)
            waiting.remove(step)
            segment = segments[step.segment]
            for name in self.graph.op[segment.ops[0]].outputs if not segment.tiles else ():
                done.setdefault(name, []).append(full(self.graph.tensor[name].shape))
            for cell in self.cells_of(segment, step.instance):
                for name, box in cell.owned.items():
                    done.setdefault(name, []).append(box)
            yield step

    def is_ready(self, segment: Segment, instance: int, done: dict[str, list[Box]], made_here: set[str]) -> bool:
        own = {name for op in segment.ops for name in self.graph.op[op].outputs}
        wanted: list[tuple[str, Box]] = []
        if not segment.tiles:
            wanted = [(n, full(self.graph.tensor[n].shape)) for n in self.graph.op[segment.ops[0]].inputs]
        for cell in self.cells_of(segment, instance):
            wanted += [(n, b) for n, b in cell.tensors.items() if n not in own]
        return all(
            n not in made_here
            or sum(volume(intersect(b, d)) for d in done.get(n, ()) if not is_empty(intersect(b, d))) == volume(b)
            for n, b in wanted
        )

    # Memories of a core --------------------------------------------------------------------------------------------

    def stationary(self, op: Op, tile: Tile) -> str | None:
        return (
            op.stages[op.contraction].reads[1].tensor
            if tile.engine == "matrix" and op.contraction is not None
            else None
        )

    def streamed(self, segment: Segment, name: str) -> bool:
        """Whether a constant is nothing but stationary in a segment."""
        if name not in self.graph.constant_names:
            return False
        for op in (self.graph.op[n] for n in segment.ops):
            for position, stage in enumerate(op.stages):
                for number, read in enumerate(stage.reads):
                    weights = (
                        self.stationary(op, segment.tile[op.name]) == name
                        and position == op.contraction
                        and number == 1
                    )
                    if read.tensor == name and not weights:
                        return False
        return True

    def weight_boxes(self, op: Op, tile: Tile, cell: Cell) -> list[Box]:
        """The tiles of the stationary operand in the order of the walk."""
        key = op.name, cell.ops[op.name].tensors[op.output]
        if key not in self.walks:
            self.walks[key] = list(self.weight_walk(op, tile, cell))
        return self.walks[key]

    def weight_walk(self, op: Op, tile: Tile, cell: Cell) -> Iterator[Box]:
        """What :meth:`weight_boxes` remembers: several instances and both memories ask for the same."""
        assert op.contraction is not None
        stage = op.stages[op.contraction]
        right = stage.reads[1]
        reduced = [a for a, axis in enumerate(stage.axes) if axis.reduce]
        for box in tile_boxes(cell.ops[op.name].tensors[op.output], tile.sizes, tile.order):
            points = op_boxes(op, self.graph.tensor, box).points[op.contraction]
            if is_empty(points):
                continue
            cuts = [
                [Span(lo, min(lo + size, points[a].hi)) for lo in range(points[a].lo, points[a].hi, size)]
                for a, size in zip(reduced, tile.reduce, strict=True)
            ]
            for chosen in product(*cuts):
                part = list(points)
                for a, span in zip(reduced, chosen, strict=True):
                    part[a] = span
                yield accessed(right, tuple(part), self.graph.tensor[right.tensor].shape)

    def local(self, number: int, segment: Segment) -> list[LocalBuffer]:
        if not segment.tiles:
            return []
        cells = self.all_cells(segment)
        ops = [self.graph.op[n] for n in segment.ops]
        wanted: list[LocalBuffer] = []
        levels = self.machine.levels

        def want(level: Level, op: str, name: str, size: int, depth: int, live: tuple[int, int]) -> None:
            total = depth * round_up(size, level.alignment)
            wanted.append(LocalBuffer(number, op, name, level.use, level.name, -1, total, depth, live))

        whole = parent_buffers(self.graph, segment)
        for name in dict.fromkeys(whole.get(n, n) for c in cells for n in c.tensors):
            if self.streamed(segment, name):
                continue
            members = {name, *(n for n in whole if whole[n] == name)}
            size = max(volume(c.allocated(n)) for c in cells for n in members if n in c.tensors) * self.itemsize(name)
            touched = [p for p, op in enumerate(ops) if op.output in members or members & set(op.inputs)]
            first = touched[0] if any(op.output == name for op in ops) else self.rng.randint(0, touched[0])
            want(levels.activations, "", name, size, 1, (first, touched[-1] + 1))
        for position, op in enumerate(ops):
            tile = segment.tile[op.name]
            there = [c for c in cells if op.name in c.ops]
            boxes = {c.ops[op.name].tensors[op.output] for c in there}
            tiles = {t for b in boxes for t in tile_boxes(b, tile.sizes, tile.order)}
            parts = [op_boxes(op, self.graph.tensor, t).tensors for t in tiles]
            for buffer in op.buffers:
                size = max((volume(p[buffer.name]) for p in parts if buffer.name in p), default=0)
                if size:
                    each = size * DTYPES[buffer.dtype]
                    want(levels.sums, op.name, buffer.name, each, tile.depth, (position, position + 1))
            name = self.stationary(op, tile)
            if name is not None and there:
                size = max(volume(b) for c in there for b in self.weight_boxes(op, tile, c)) * self.itemsize(name)
                want(levels.weights, op.name, name, size, tile.weight_depth, (position, position + 1))
        return [
            LocalBuffer(b.segment, b.op, b.name, b.use, b.memory, address, b.bytes, b.depth, b.live)
            for b, address in zip(wanted, self.addresses(wanted), strict=True)
        ]

    def itemsize(self, name: str) -> int:
        return DTYPES[self.graph.tensor[name].dtype]

    def addresses(self, buffers: list[LocalBuffer] | list[SharedBuffer], rng: Random | None = None) -> list[int]:
        """The lowest address that is free while a buffer lives; buffers come in any order."""
        found: dict[int, int] = {}
        for i in (rng or self.rng).sample(range(len(buffers)), len(buffers)):
            mine = buffers[i]
            rivals = sorted(
                (found[j], found[j] + buffers[j].bytes)
                for j in found
                if buffers[j].memory == mine.memory
                and buffers[j].live[0] < mine.live[1]
                and mine.live[0] < buffers[j].live[1]
            )
            alignment = self.machine.memory[mine.memory].alignment
            at = 0
            for low, high in rivals:
                if at + mine.bytes <= low:
                    break
                at = max(at, round_up(high, alignment))
            found[i] = at
        return [found[i] for i in range(len(buffers))]

    # Memories of the cluster ---------------------------------------------------------------------------------------

    def shared(
        self, segments: tuple[Segment, ...], steps: tuple[Step, ...], local: tuple[LocalBuffer, ...]
    ) -> list[SharedBuffer]:
        graph = self.graph
        starts = [0]
        for step in steps:
            starts.append(starts[-1] + len(segments[step.segment].ops))
        slots = starts[-1]
        made: dict[str, list[tuple[int, Box]]] = {}
        """By tensor: (slot, hull of the shares) of each step that stores it."""
        reads: dict[str, list[tuple[int, int, Box]]] = {}
        """By tensor: (first slot, end, hull over the cores) of each step that loads it."""
        streams: dict[str, list[tuple[int, list[Box]]]] = {}
        """By constant: (slot, weight tiles in the order of a core's walk) of each step that streams it."""
        by_host: set[str] = set()
        for number, step in enumerate(steps):
            segment, start = segments[step.segment], starts[number]
            ops = [graph.op[n] for n in segment.ops]
            if not segment.tiles:
                by_host |= {*ops[0].inputs, *ops[0].outputs}
                continue
            there = self.cells_of(segment, step.instance)
            out = leaving(graph, tuple(ops))
            for position, op in enumerate(ops):
                shares = [c.owned[op.output] for c in there if op.output in c.owned]
                if op in out and shares:
                    made.setdefault(op.output, []).append((start + position, _hull(shares)))
                tile = segment.tile[op.name]
                name = self.stationary(op, tile)
                walked = [b for c in there if op.name in c.ops for b in self.weight_boxes(op, tile, c)] if name else []
                if name and self.streamed(segment, name) and walked:
                    streams.setdefault(name, []).append((start + position, walked))
            own = {op.output for op in ops}
            data = {b.name: b.live[0] for b in local if b.segment == step.segment and b.use == "data"}
            for name in segment.aliased:
                data[name] = next(p for p, op in enumerate(ops) if name in op.inputs or name == op.output)
            for name, position in data.items():
                boxes = [c.tensors[name] for c in there if name in c.tensors]
                if boxes and name not in own:
                    reads.setdefault(name, []).append((start + position, start + position + 1, _hull(boxes)))
        main, here = self.machine.levels.home.name, self.machine.levels.exchange.name
        wanted: list[SharedBuffer] = []
        homes: list[str] = []
        fixed: list[SharedBuffer] = []

        def want(name: str, box: Box, live: tuple[int, int], fetch: bool = False, store: bool = False) -> None:
            # Tiles of weights lie in one buffer; everything else may lie in several.
            for part in [box] if name in streams else self.parts(box):
                size = volume(part) * self.itemsize(name)
                wanted.append(SharedBuffer(name, part, here, -1, size, live, fetch, store))

        for tensor in graph.tensors:
            name, whole = tensor.name, full(tensor.shape)
            mine, theirs, walked = made.get(name, []), reads.get(name, []), streams.get(name, [])
            given = name in graph.constant_names or name in graph.input_tensors
            uses = [*theirs, *((slot, slot + 1, _hull(boxes)) for slot, boxes in walked)]
            if given or name in by_host:
                homes.append(name)
                ready = 1 + max((s for s, st in enumerate(self.host_slots(segments, steps)) if name in st), default=-1)
                if mine:  # the host reads it
                    for slot, box in mine:
                        want(name, box, (slot, slot + 1), store=True)
                    ready = 1 + max(slot for slot, _ in mine)
                if uses and self.chance(0.5):
                    first = self.rng.randint(ready if not given else 0, min(u[0] for u in uses))
                    want(name, whole, (first, max(u[1] for u in uses)), fetch=True)
                else:
                    for slot, end, box in theirs:
                        want(name, box, (slot, end), fetch=True)
                    for slot, boxes in walked:
                        wanted += self.chunks(name, slot, boxes)
            elif mine:
                output = name in graph.output_tensors
                if uses and self.chance(0.5) and (not output or len(mine) == 1):
                    live = (mine[0][0], max([mine[-1][0] + 1, *(u[1] for u in uses)]))
                    want(name, whole, live, store=output)
                    homes += [name] if output else []
                else:
                    homes.append(name)
                    for slot, box in mine:
                        want(name, box, (slot, slot + 1), store=True)
                    for slot, end, box in uses:
                        first = (
                            self.rng.randint(max(s for s, _ in mine) + 1, slot)
                            if self.chance(0.3) and mine[-1][0] < slot
                            else slot
                        )
                        want(name, box, (first, end), fetch=True)
        top = 0
        for name in homes:
            tensor = graph.tensor[name]
            fixed.append(SharedBuffer(name, full(tensor.shape), main, top, max(1, tensor.bytes), (0, slots)))
            top += round_up(tensor.bytes, self.machine.memory[main].alignment)
        buffers = self.placed(wanted)
        if self.of_homes.random() < 0.7:
            fixed = self.sharing(fixed, self.home_accesses(buffers, self.host_accesses(segments, steps)))
        return [*fixed, *buffers]

    def host_accesses(self, segments: tuple[Segment, ...], steps: tuple[Step, ...]) -> list[tuple[str, int]]:
        """What the host reads and makes, each with the slot."""
        slots = [(segments[step.segment], op) for step in steps for op in segments[step.segment].ops]
        return [
            (name, slot)
            for slot, (segment, op) in enumerate(slots)
            if not segment.tiles
            for name in (*self.graph.op[op].inputs, *self.graph.op[op].outputs)
        ]

    def home_accesses(
        self, buffers: list[SharedBuffer], by_host: list[tuple[str, int]]
    ) -> dict[str, tuple[int, int]]:  # fmt: skip
        """By tensor: the first slot that accesses its home, and the last."""
        spans: dict[str, tuple[int, int]] = {}
        for name, slot in [*by_host, *((b.tensor, b.live[0]) for b in buffers if b.fetch or b.store)]:
            first, last = spans.get(name, (slot, slot))
            spans[name] = min(first, slot), max(last, slot)
        return spans

    def sharing(self, homes: list[SharedBuffer], spans: dict[str, tuple[int, int]]) -> list[SharedBuffer]:
        """Homes of results live as long as they must, or a little longer, at addresses that others had before."""
        rng, graph = self.of_homes, self.graph
        kept = graph.constant_names | graph.input_tensors | graph.output_tensors
        lived: list[SharedBuffer] = []
        for home in homes:
            slots = home.live[1]
            if home.tensor not in kept and home.tensor in spans:
                first, last = spans[home.tensor]
                longer = rng.choice([0, 0, 0, 1, 2]), rng.choice([0, 0, 0, 1, 2])
                home = replace(home, live=(max(0, first - longer[0]), min(slots, last + 1 + longer[1])))
            lived.append(home)
        return [replace(b, address=at) for b, at in zip(lived, self.addresses(lived, rng), strict=True)]

    def parts(self, box: Box) -> list[Box]:
        """The box, or a few that divide it along one dimension."""
        wide = [d for d, span in enumerate(box) if span.size > 1]
        if not wide or self.chance(0.6):
            return [box]
        dim = self.rng.choice(wide)
        span = box[dim]
        inside = range(span.lo + 1, span.hi)
        cuts = [span.lo, *sorted(self.rng.sample(inside, min(len(inside), self.rng.randint(1, 2)))), span.hi]
        return [(*box[:dim], Span(lo, hi), *box[dim + 1 :]) for lo, hi in pairwise(cuts)]

    def host_slots(self, segments: tuple[Segment, ...], steps: tuple[Step, ...]) -> list[set[str]]:
        """What the host makes, slot by slot."""
        return [
            set(self.graph.op[op].outputs) if not segments[step.segment].tiles else set()
            for step in steps
            for op in segments[step.segment].ops
        ]

    def chunks(self, name: str, slot: int, walked: list[Box]) -> list[SharedBuffer]:
        """A streamed constant whole, or along one dimension in pieces that take turns where the walk allows it."""
        here, box = self.machine.levels.exchange.name, _hull(walked)

        def buffer(part: Box, ring_position: int) -> SharedBuffer:
            return SharedBuffer(
                name, part, here, -1, volume(part) * self.itemsize(name), (slot, slot + 1), True, False, ring_position,
                self.rng.randint(0, 1) if ring_position else 0,
            )  # fmt: skip

        def borders(dim: int) -> list[int]:
            spans = {(b[dim].lo, b[dim].hi) for b in walked}
            inside = {at for at, _ in spans if not any(lo < at < hi for lo, hi in spans)}
            return sorted(inside | {box[dim].lo, box[dim].hi})

        dim = max(range(len(box)), key=lambda d: (len(borders(d)), self.rng.random()))
        parts = [(*box[:dim], Span(lo, hi), *box[dim + 1 :]) for lo, hi in pairwise(borders(dim))]
        order = [i for i, part in enumerate(parts) if any(contains(part, b) for b in walked)]
        if len(order) < 2 or len(order) > 12 or self.chance(0.3):
            return [buffer(box, 0)]
        in_order = sorted(order, key=lambda i: next(n for n, b in enumerate(walked) if contains(parts[i], b)))
        ring = len(order) > 2 and self.chance(0.8)
        return [buffer(parts[i], ring_position if ring else 0) for ring_position, i in enumerate(in_order)]

    def placed(self, buffers: list[SharedBuffer]) -> list[SharedBuffer]:
        """With addresses; ring_positions of a ring take turns in two places."""
        rings: dict[tuple[str, tuple[int, int]], list[int]] = {}
        for i, b in enumerate(buffers):
            rings.setdefault((b.tensor, b.live), []).append(i)
        ring_of = {
            i: group for group in rings.values() if max(buffers[i].ring_position for i in group) > 1 for i in group
        }
        alone: list[SharedBuffer] = []
        index: dict[tuple[int, int], int] = {}
        for i, b in enumerate(buffers):
            group = ring_of.get(i)
            key = (i, 0) if group is None else (group[0], b.ring_position % 2 + 1)
            if key in index:
                continue
            index[key] = len(alone)
            size = (
                b.bytes
                if group is None
                else max(buffers[j].bytes for j in group if buffers[j].ring_position % 2 == b.ring_position % 2)
            )
            alone.append(SharedBuffer(b.tensor, b.box, b.memory, -1, size, b.live))
        places = self.addresses(alone)
        out: list[SharedBuffer] = []
        for i, b in enumerate(buffers):
            group = ring_of.get(i)
            key = (i, 0) if group is None else (group[0], b.ring_position % 2 + 1)
            at = places[index[key]]
            out.append(replace(b, address=at))
        return out


def round_up(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment


def _hull(boxes: list[Box]) -> Box:
    whole: Box | None = None
    for box in boxes:
        whole = hull(whole, box)
    assert whole is not None
    return whole
