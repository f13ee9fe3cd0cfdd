"""Waits: every two accesses that conflict are ordered, by their queue or by waits, and none waits for other bytes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product
from random import Random

import pytest

from girih.ir.isa.footprint import Strided
from girih.ir.isa.table import DTYPE_NAMES, Instruction
from girih.lowering.program import dependences
from girih.lowering.program.dependences import Dependences, LiveBuffer
from girih.lowering.program.queues import arrange
from girih.lowering.program.stamp import OperandFootprint, Relocatable, operand_footprint
from tests.support.sampled import sampled

QUEUES, BYTES = 3, 64
INT8 = DTYPE_NAMES.index("int8")


@dataclass(frozen=True)
class Access:
    task: int
    queue: int
    touched: frozenset[int]
    write: bool


def emit(tasks: Dependences, queue: int, *touched: tuple[LiveBuffer, int, int, bool]) -> int:
    """Emit an instruction that accesses bytes of buffers (from, to, whether it writes); its number."""
    return stamp(
        tasks, queue, *((b, low, OperandFootprint(0, high - low, (), write)) for b, low, high, write in touched)
    )


def stamp(tasks: Dependences, queue: int, *touched: tuple[LiveBuffer, int, OperandFootprint]) -> int:
    """Emit an instruction with these footprints at these addresses; its number."""
    pattern = Relocatable("nop", (), (), (), tuple(covered for _, _, covered in touched))
    bases = [low for _, low, _ in touched]
    number = len(tasks.tasks)
    tasks.emit(queue, Instruction("nop", 0, (number,)), pattern, bases, [(buffer,) for buffer, *_ in touched])
    return number


def retired(streams: list[list[Instruction]]) -> dict[int, list[int]]:
    """For each task, how many instructions of each queue have retired when it begins, whatever the engines' speed."""
    known: list[list[list[int]]] = [[] for _ in streams]
    at = [0] * QUEUES
    when: dict[int, list[int]] = {}
    while any(at[q] < len(s) for q, s in enumerate(streams)):
        moved = False
        for q, stream in enumerate(streams):
            while at[q] < len(stream):
                clock = list(known[q][-1]) if known[q] else [0] * QUEUES
                clock[q] = at[q]
                instruction = stream[at[q]]
                if instruction.mnemonic == "wait":
                    source, count = (int(v) for v in instruction.values)
                    if at[source] < count:
                        break
                    clock = [max(a, b) for a, b in zip(clock, known[source][count - 1], strict=True)]
                    clock[source] = max(clock[source], count)
                else:
                    when[int(instruction.values[0])] = clock
                known[q].append(clock)
                at[q] += 1
                moved = True
        assert moved, "the queues wait for each other"
    return when


def any_order(tasks: Dependences, random: Random) -> list[int]:
    """The tasks in a random order in which each comes after those that it depends on."""
    order: list[int] = []
    left = set(range(len(tasks.tasks)))
    while left:
        able = sorted(t for t in left if not left & set(tasks.tasks[t].after))
        order.append(random.choice(able))
        left.remove(order[-1])
    return order


@pytest.mark.parametrize("crowded", [96, 5, 2])
@pytest.mark.parametrize("seed", sampled(range(60)))
def test_conflicting_accesses_are_ordered(seed: int, crowded: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of emission, and in any other that keeps the dependences; also where many records are merged."""
    monkeypatch.setattr(dependences, "_CROWDED", crowded)
    random = Random(seed)
    tasks = Dependences(QUEUES)
    open_buffers: list[LiveBuffer] = []
    accesses: list[Access] = []
    for _ in range(12):
        low = random.randrange(BYTES - 1)
        high = random.randint(low + 1, BYTES)
        # Buffers that are open at once lie apart; a new one ends those that it meets.
        open_buffers = [b for b in open_buffers if high <= b.address or b.end <= low]
        open_buffers.append(tasks.area(0, 0, low, high - low))
        for _ in range(random.randrange(12)):
            queue, touched = random.randrange(QUEUES), list[tuple[LiveBuffer, int, int, bool]]()
            for buffer in random.sample(open_buffers, random.randint(1, min(2, len(open_buffers)))):
                start = random.randrange(buffer.address, buffer.end)
                touched.append((buffer, start, random.randint(start + 1, buffer.end), random.random() < 0.5))
            number = emit(tasks, queue, *touched)
            accesses += [
                Access(number, queue, frozenset(range(start, stop)), write) for _, start, stop, write in touched
            ]
    assert_ordered(tasks, accesses, random)


@pytest.mark.parametrize("crowded", [96, 5, 2])
@pytest.mark.parametrize("seed", sampled(range(60)))
def test_conflicting_accesses_of_rows_are_ordered(seed: int, crowded: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As above where some accesses are of rows, every so many bytes, with gaps that others may touch."""
    monkeypatch.setattr(dependences, "_CROWDED", crowded)
    random = Random(seed)
    tasks = Dependences(QUEUES)
    open_buffers: list[LiveBuffer] = []
    accesses: list[Access] = []
    for _ in range(8):
        low = random.randrange(BYTES - 1)
        low, high = random.choice([(0, BYTES), (low, random.randint(low + 1, BYTES))])
        open_buffers = [b for b in open_buffers if high <= b.address or b.end <= low]
        open_buffers.append(tasks.area(0, 0, low, high - low))
        for _ in range(random.randrange(14)):
            queue, number = random.randrange(QUEUES), len(tasks.tasks)
            touched: list[tuple[LiveBuffer, int, OperandFootprint]] = []
            for buffer in random.sample(open_buffers, random.randint(1, min(2, len(open_buffers)))):
                start = random.randrange(buffer.address, buffer.end)
                array = strided(random, random.randint(1, buffer.end - start))
                touched.append((buffer, start, operand_footprint(array)))
                accesses.append(Access(number, queue, bytes_of(start, array), array.writes))
            stamp(tasks, queue, *touched)
    assert_ordered(tasks, accesses, random)


def strided(random: Random, size: int) -> Strided:
    """An array of at most so many bytes: of rows with gaps between them, of rows of such rows, or all of the bytes."""
    extents, strides, span = [1], [1], 1
    for stride in random.choice([(1,), (1,), (1, 4), (1, 6), (1, 8), (1, 4, 16), (1, 4, 18), (2, 8, 32), (3, 6, 8)]):
        most = (size - span) // stride + 1
        extents.append(random.randint(1, min(most, 5)) if stride > 1 or random.random() < 0.5 else most)
        strides.append(stride)
        span += stride * (extents[-1] - 1)
    write = random.random() < 0.5
    return Strided("x", not write, write, 0, INT8, 0, tuple(extents), tuple(strides), 0, span)


def bytes_of(start: int, array: Strided) -> frozenset[int]:
    points = product(*(range(extent) for extent in array.extents))
    return frozenset(start + sum(s * i for s, i in zip(array.strides, point, strict=True)) for point in points)


def anyhow(random: Random) -> tuple[Strided, int]:
    """An array with strides of both signs, or of none, and the bytes of an element."""
    name, size = random.choice([("int8", 1), ("float16", 2), ("float32", 4)])
    extents = tuple(random.randint(1, 4) for _ in range(random.randint(1, 4)))
    strides = tuple(random.choice((-1, 1)) * random.choice((0, 1, 2, 3, 4, 6, 8, 12, 16, 18, 24)) for _ in extents)
    ends = [stride * (extent - 1) for stride, extent in zip(strides, extents, strict=True)]
    low, high = sum(min(0, end) for end in ends), size + sum(max(0, end) for end in ends)
    return Strided("x", False, True, 0, DTYPE_NAMES.index(name), 0, extents, strides, low, high), size


def test_accesses_that_share_a_byte_meet() -> None:
    random, needless = Random(0), 0
    tasks = Dependences(2)
    buffer = tasks.area(0, 0, 3, 4000)
    for _ in range(6000):
        drawn = [(*anyhow(random), random.randint(400, 480)) for _ in range(2)]
        records = [
            tasks._record(queue, operand_footprint(array), base, buffer) for queue, (array, _, base) in enumerate(drawn)
        ]
        one, other = (
            {at + byte for at in bytes_of(base, array) for byte in range(size)} for array, size, base in drawn
        )
        meet = dependences._meet(*records)
        assert meet or not one & other, drawn
        needless += meet and not one & other
    assert needless < 1000


def assert_ordered(tasks: Dependences, accesses: list[Access], random: Random) -> None:
    for order in (range(len(tasks.tasks)), any_order(tasks, random)):
        streams, _ = arrange(tasks.tasks, order, QUEUES)
        place = {
            int(i.values[0]): n for stream in streams for n, i in enumerate(stream) if i.mnemonic != "wait"
        }  # fmt: skip
        when = retired(streams)
        for a, b in combinations(accesses, 2):
            if a.task != b.task and (a.write or b.write) and a.touched & b.touched:
                assert when[b.task][a.queue] > place[a.task], (a, b)


def test_what_merged_records_leave_out_comes_before_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes on both sides of the bytes 24..40 become one record of all bytes, for which the last of them stands: the
    write of 24..40 in the lifetime before, of the same queue, must come before that one."""
    monkeypatch.setattr(dependences, "_CROWDED", 2)
    tasks = Dependences(QUEUES)
    between = emit(tasks, 0, (tasks.area(0, 0, 0, 64), 24, 40, True))
    beside = tasks.area(0, 0, 0, 64)
    for low, high in ((0, 8), (8, 16), (48, 64)):
        emit(tasks, 0, (beside, low, high, True))
    assert len(beside.records) == 1
    reader = emit(tasks, 1, (tasks.area(0, 0, 0, 64), 24, 40, False))
    assert between in all_before(tasks, reader)


def all_before(tasks: Dependences, task: int) -> set[int]:
    """What a task comes after, directly or not."""
    after = set(tasks.tasks[task].after)
    return after.union(*(all_before(tasks, other) for other in after))


def test_rows_beside_each_other_need_no_order() -> None:
    tasks = Dependences(QUEUES)
    buffer = tasks.area(0, 0, 0, 64)
    left = stamp(tasks, 0, (buffer, 0, OperandFootprint(0, 60, ((8, 4),), True)))
    right = stamp(tasks, 1, (buffer, 4, OperandFootprint(0, 60, ((8, 4),), True)))
    reader = stamp(tasks, 2, (buffer, 2, OperandFootprint(0, 50, ((8, 2),), False)))
    assert [tasks.tasks[t].after for t in (left, right, reader)] == [(), (), (left,)]


def test_boxes_beside_each_other_need_no_order() -> None:
    """Of 4 x 4 x 8 bytes, each of four queues writes a box that is cut in the two inner dimensions."""
    tasks = Dependences(4)
    buffer = tasks.area(0, 0, 0, 128)
    box = operand_footprint(Strided("x", False, True, 0, INT8, 0, (4, 2, 4), (32, 8, 1), 0, 108))
    writers = [stamp(tasks, queue, (buffer, start, box)) for queue, start in enumerate((0, 4, 16, 20))]
    assert [tasks.tasks[task].after for task in writers] == [(), (), (), ()]
    row = operand_footprint(Strided("x", True, False, 0, INT8, 0, (4, 8), (32, 1), 0, 104))
    readers = [stamp(tasks, 0, (buffer, start, row)) for start in (8, 16)]
    assert [set(tasks.tasks[task].after) - {*readers} for task in readers] == [{*writers[:2]}, {*writers[2:]}]


def test_what_a_direct_dependence_comes_after_is_not_named_again() -> None:
    """Of writer, reader and a second writer: the last names the reader alone, which comes after the first."""
    tasks = Dependences(QUEUES)
    buffer = tasks.area(0, 0, 0, 64)
    first = emit(tasks, 0, (buffer, 0, 64, True))
    reader = emit(tasks, 1, (buffer, 0, 32, False))
    second = emit(tasks, 2, (buffer, 0, 64, True))
    assert [tasks.tasks[t].after for t in (first, reader, second)] == [(), (first,), (reader,)]


def test_many_accesses_have_few_dependences() -> None:
    """A long-lived buffer of 4 MiB: writes of other bytes each, then reads of the same."""
    tasks = Dependences(QUEUES)
    buffer = tasks.area(0, 0, 0, 1 << 22)
    for queue, write in ((0, True), (1, False)):
        for low in range(0, 2000 * 2048, 2048):
            emit(tasks, queue, (buffer, low, low + 2048, write))
    assert max(len(task.after) for task in tasks.tasks) <= 8
    # Records merge neighbours in address, so that what reads the first bytes need not await what made the last.
    assert min(tasks.tasks[2000].after) < 200


def test_dependences_grow_linearly_with_accesses() -> None:
    def dependences_of(count: int) -> int:
        random, tasks = Random(0), Dependences(QUEUES)
        buffer = tasks.area(0, 0, 0, 1 << 22)
        for _ in range(count):
            low = random.randrange(buffer.end - 4096)
            emit(tasks, random.randrange(QUEUES), (buffer, low, low + 4096, random.random() < 0.5))
        # What a new lifetime comes after stays few, too.
        assert len(tasks.area(0, 0, 0, 1 << 22).earlier) <= 4 * 96
        assert max(len(task.after) for task in tasks.tasks) <= 96
        return sum(len(task.after) for task in tasks.tasks)

    assert dependences_of(4000) <= 2.2 * dependences_of(2000) <= 2000 * 2.2 * 20


def test_accesses_of_one_queue_to_other_bytes_need_no_order() -> None:
    """In one lifetime: what reads the first half need not come after what makes the second."""
    tasks = Dependences(QUEUES)
    buffer = tasks.area(0, 0, 0, 64)
    first = emit(tasks, 0, (buffer, 0, 32, True))
    second = emit(tasks, 0, (buffer, 32, 64, True))
    reader = emit(tasks, 0, (buffer, 0, 32, False))
    assert [tasks.tasks[t].after for t in (first, second, reader)] == [(), (), (first,)]


def test_a_new_lifetime_waits_for_its_own_bytes_alone() -> None:
    tasks = Dependences(QUEUES)
    old = tasks.area(0, 0, 0, 64)
    emit(tasks, 0, (old, 0, 16, True))
    last = emit(tasks, 1, (old, 48, 64, True))
    new = tasks.area(0, 0, 0, 64)
    middle = emit(tasks, 2, (new, 16, 32, True))
    end = emit(tasks, 2, (new, 32, 64, True))
    assert tasks.tasks[middle].after == () and tasks.tasks[end].after == (last,)
    stream = arrange(tasks.tasks, range(4), QUEUES)[0][2]
    assert [(i.mnemonic, i.values) for i in stream] == [("nop", (2,)), ("wait", (1, 1)), ("nop", (3,))]
