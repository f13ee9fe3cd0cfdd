"""Instructions made ready for the clock, and the violations that can be told without running them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...ir.isa.footprint import Strided
from ...ir.isa.table import Instruction
from ...ir.isa.timing import KernelWork
from ...ir.machine import Machine
from ...ir.program import Program, Queue
from ...ir.trace import ViolationKind
from .places import Banks, Place, Shares, places
from .sync import Wait, resolve, waits_of
from .templates import InstructionTemplate, InstructionTemplates, identity
from .violations import Violations


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """What the clock needs of an instruction.

    ``work`` is done at a rate of up to ``cap`` a cycle after ``issue`` cycles: cycles of arithmetic (cap 1), or bytes
    of a transfer. A unit of work puts a number of bytes on each of ``links`` and of ``banks``. A synchronising
    instruction has ``waits`` instead: it takes no time once each of these queues has retired so many instructions.
    """

    issue: int = 0
    latency: int = 0
    work: float = 0.0
    cap: float = 1.0
    links: tuple[tuple[int, float], ...] = ()
    banks: tuple[tuple[int, float], ...] = ()
    waits: tuple[Wait, ...] | None = None


class Prepared:
    """A program with ``tasks[q][i]`` and ``templates[q][i]`` of each instruction.

    ``first[q][i]`` is the index of the first instruction of the queue that is the same, address for address.
    ``broken`` holds (q, i) of instructions that cannot be executed; ``used`` is the extent of each place in bytes.
    """

    def __init__(
        self, program: Program, machine: Machine, kernels: tuple[KernelWork, ...], violations: Violations
    ) -> None:
        self._machine = machine
        self._violations = violations
        self._known: dict[tuple[object, ...], Task] = {}
        self._same_elsewhere: dict[tuple[object, ...], tuple[InstructionTemplate, Task, int]] = {}
        self._moved: dict[tuple[int, int], Task] = {}
        self.banks = Banks.of_machine(machine)
        self.used: dict[Place, int] = dict.fromkeys(places(machine), 0)
        self.broken: set[tuple[int, int]] = set()
        self.tasks: list[list[Task]] = []
        self.templates: list[list[InstructionTemplate]] = []
        self.first: list[list[int]] = []
        resolved = resolve(program, violations)
        templates = InstructionTemplates(machine, kernels)
        for number, (queue, stream) in enumerate(zip(program.queues, program.streams, strict=True)):
            engine = machine.engine[queue.engine]
            # Most instructions of a queue repeat another one, address for address.
            known: dict[tuple[object, ...], int] = {}
            queue_templates: list[InstructionTemplate] = []
            tasks: list[Task] = []
            first: list[int] = []
            for index, instruction in enumerate(stream):
                same, template = index, templates.sync.get(instruction.mnemonic)
                if template is not None:
                    task = Task(waits=waits_of(instruction, resolved.get((number, index))))
                else:
                    key = identity(instruction)
                    same = known.get(key, index)
                    if same < index:
                        template, task = queue_templates[same], tasks[same]
                    elif (elsewhere := self._same_elsewhere.get((engine.name, *key))) is not None:
                        template, task = elsewhere[0], self._on_other_core(queue, instruction, *elsewhere)
                        known[key] = index
                    else:
                        template = templates.template(engine, instruction)
                        task = self._task(queue, (number, index), instruction, template)
                        # What is wrong is told of each one.
                        if (number, index) not in self.broken:
                            known[key] = index
                            if queue.core is not None and template.row.kind != "broadcast":
                                self._same_elsewhere[engine.name, *key] = template, task, queue.core
                queue_templates.append(template)
                tasks.append(task)
                first.append(same)
            self.templates.append(queue_templates)
            self.tasks.append(tasks)
            self.first.append(first)

    def _task(
        self, queue: Queue, where: tuple[int, int], instruction: Instruction, template: InstructionTemplate
    ) -> Task:
        for kind, message in template.problems:
            self._report(kind, where, 0, message)
        shares: list[tuple[Shares, ...]] = []
        for operand, at in zip(template.operands, template.bases, strict=True):
            shares.append(self._shares(queue, where, instruction, operand, int(instruction.values[at])))
        key = (id(template), *shares)
        task = self._known.get(key)
        if task is None:
            task = self._known[key] = _make_task(template, shares)
        return task

    def _on_other_core(
        self, queue: Queue, instruction: Instruction, template: InstructionTemplate, task: Task, core: int
    ) -> Task:
        """The task of an instruction of ``core`` that ``queue``, of another core, has as well."""
        assert queue.core is not None
        for operand, at in zip(template.operands, template.bases, strict=True):
            if operand.low < operand.high:
                (owner,) = operand_cores(self._machine, queue, instruction, operand)
                self._use((operand.memory, owner), int(instruction.values[at]) + operand.high)
        key = id(task), queue.core
        moved = self._moved.get(key)
        if moved is None:
            banks = self.banks.moved(task.banks, queue.core - core)
            moved = self._moved[key] = replace(task, banks=banks)
        return moved

    def _use(self, place: Place, end: int) -> None:
        if end > self.used[place]:
            self.used[place] = end

    def _shares(
        self,
        queue: Queue,
        where: tuple[int, int],
        instruction: Instruction,
        operand: Strided,
        base: int,
    ) -> tuple[Shares, ...]:
        """The banks that hold the operand, in each core that it is in; reports its bounds and alignment."""
        low, high = base + operand.low, base + operand.high
        if low == high:
            return ()
        memory = self._machine.memories[operand.memory]
        if base % operand.itemsize:
            message = f"{operand.name} begins at {base:#x}, not at a multiple of its {operand.itemsize} bytes"
            self._report("alignment", where, base, message)
        if low < 0 or high > memory.capacity:
            message = (
                f"{operand.name} covers {low:#x} to {high:#x} of {memory.name}, which ends at {memory.capacity:#x}"
            )
            self._report("bounds", where, low if low < 0 else high - 1, message)
            return ()
        if where in self.broken:
            return ()
        banks: list[Shares] = []
        for core in operand_cores(self._machine, queue, instruction, operand):
            place = operand.memory, core
            self._use(place, high)
            banks.append(self.banks.shares(place, operand, base))
        return tuple(banks)

    def _report(self, kind: ViolationKind, where: tuple[int, int], address: int, message: str) -> None:
        self.broken.add(where)
        self._violations.add(kind, *where, address, message)


def operand_cores(machine: Machine, queue: Queue, instruction: Instruction, operand: Strided) -> tuple[int, ...]:
    """The cores in whose memory the operand is; (-1,) for a memory of the cluster."""
    if machine.memories[operand.memory].scope != "core":
        return (-1,)
    if operand.writes and instruction.mnemonic == "mbcast":
        mask = int(instruction.values[4])
        return tuple(core for core in range(machine.cores) if mask >> core & 1)
    assert queue.core is not None
    return (queue.core,)


def _make_task(template: InstructionTemplate, shares: list[tuple[Shares, ...]]) -> Task:
    """Spread each operand's traffic over the banks that hold it. A transfer's work is the bytes on its busiest link."""
    cost = template.cost
    work, cap = float(cost.body), 1.0
    if cost.payload:
        work = float(max([cost.payload, *(crossed for _, crossed in cost.links)]))
        cap = template.engine.bytes_per_cycle * work / cost.payload
        if cost.computing:
            cap = min(cap, work / cost.computing)
    if not work:
        return Task(cost.issue, cost.latency)
    demand: dict[int, float] = {}
    for traffic, cores in zip(cost.traffic, shares, strict=False):
        for banks in cores:
            for bank, part in banks:
                demand[bank] = demand.get(bank, 0.0) + traffic * part / work
    links = tuple((number, crossed / work) for number, crossed in cost.links)
    return Task(cost.issue, cost.latency, work, cap, links, tuple(sorted(demand.items())))
