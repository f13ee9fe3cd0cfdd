"""Data: runs the instructions on the memories, in the order in which the clock ended them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from ...ir.errors import UsageError
from ...ir.isa.table import field
from ...ir.machine import Machine
from ...ir.program import HostKernel, Placed, Program, ProgramPort
from ..tasks.places import Place, home_numbers
from ..tasks.tasks import Prepared, operand_cores
from ..tasks.templates import InstructionTemplate
from ..tasks.violations import Violations
from .blas import single_threaded
from .memory import Located, MainStore, MemoryContents, dense
from .numbers import store
from .ports import constant_bytes, join, split
from .semantics import picked, semantics

RunHost = Callable[[HostKernel, Sequence[np.ndarray], Callable[[str], None]], Sequence[np.ndarray]]
"""Runs a host kernel: one replica's inputs to its outputs, in the order of the kernel's tensors.

It calls the function that it is given with what is wrong about the indices that it computes."""


class Execution:
    """The memories of one cluster, for all replicas at once, and what can be done with them."""

    def __init__(
        self, program: Program, machine: Machine, prepared: Prepared, violations: Violations, *, sanitize: bool
    ) -> None:
        """Without ``sanitize`` nobody remembers what was written."""
        self._program = program
        self._machine = machine
        self._prepared = prepared
        self._violations = violations
        self._home_numbers = home_numbers(machine)
        used = dict(prepared.used)
        for placed in _placed(program):
            number = self._home_number(placed)
            used[number, -1] = max(used[number, -1], dense(placed, number).high)
        for number in self._home_numbers:
            memory, end = machine.memories[number], used[number, -1]
            if end > memory.capacity:
                raise UsageError(
                    f"the program places data up to {end:#x} in {memory.name}, which has {memory.capacity:#x}"
                )
        self._homes = {n: MainStore(used[n, -1], program.replicas, tracked=sanitize) for n in self._home_numbers}
        self._stores: dict[Place, MemoryContents] = {
            place: self._homes.get(place[0]) or MemoryContents(size, program.replicas, tracked=sanitize)
            for place, size in used.items()
        }

    def _home_number(self, placed: Placed) -> int:
        """The memory, by its number, that a tensor is placed in."""
        return self._home_numbers[1 if placed.sha256 else 0]

    def _home(self, placed: Placed) -> MainStore:
        return self._homes[self._home_number(placed)]

    def load(self, constants: Mapping[str, np.ndarray], inputs: Mapping[str, np.ndarray]) -> None:
        """Place constants and inputs in main memory."""
        for constant in self._program.constants:
            self._home(constant).place_constant(constant.address, constant_bytes(constant, constants))
        for port in self._program.inputs:
            tensor = _port_tensor(port)
            at = dense(tensor, self._home_number(tensor), writes=True)
            with np.errstate(all="ignore"):
                parts = split(port, inputs[port.name], self._program.replicas)
            self._home(tensor).view(at, 0)[...] = parts.reshape(self._program.replicas, -1)
            self._home(tensor).mark(at, 0)

    def run(self, order: Sequence[tuple[int, int]], host: RunHost | None) -> None:
        """Execute the instructions (queue, index) in this order, but those that cannot be."""
        again: dict[tuple[int, int], Callable[[], None]] = {}
        with np.errstate(all="ignore"), single_threaded():
            for queue, index in order:
                first = queue, self._prepared.first[queue][index]
                if first in again:
                    again[first]()
                elif (queue, index) in self._prepared.broken:
                    continue
                elif self._prepared.templates[queue][index].row.latency == "kernel":
                    self._call_kernel(queue, index, host)
                else:
                    complaints = self._violations.count
                    action = self._execute(queue, index)
                    if action is not None and index != first[1] and complaints == self._violations.count:
                        again[first] = action

    def outputs(self) -> dict[str, np.ndarray]:
        """The output ports, for the whole batch."""
        outputs: dict[str, np.ndarray] = {}
        for port in self._program.outputs:
            tensor = _port_tensor(port)
            array = self._read(tensor, -1, 0, f"the output {port.name}")
            with np.errstate(all="ignore"):
                outputs[port.name] = join(port, array)
        return outputs

    def _execute(self, queue: int, index: int) -> Callable[[], None] | None:
        """Execute one instruction; returns what does the same again, where nothing has to be looked up or checked.

        What was written stays written; but views of main memory change, and so do indices.
        """
        template = self._prepared.templates[queue][index]
        row = template.row
        if template.idle:
            return None
        targets, *sources = self._located(queue, index)
        views = [source[0].view() for source in sources]
        if row.indices:
            indices = views[-1]
            if not self._are_entries(indices, queue, index):
                return None
            picks = picked(row, indices)
            targets, *sources = (
                [located._replace(picks=picks) for located in place] if spec.picked else place
                for place, spec in zip((targets, *sources), row.operands, strict=True)
            )
        for source in sources:
            self._check_written(source[0], queue, index)
        for target in targets:
            if target.at.reads:
                self._check_written(target, queue, index)
        action = partial(_apply, template, [target.view() for target in targets], views)
        action()
        for target in targets:
            target.mark()
        touched = {located.at.memory for place in (targets, *sources) for located in place}
        return None if row.indices or not touched.isdisjoint(self._home_numbers) else action

    def _located(self, queue: int, index: int) -> list[list[Located]]:
        """Each operand, in each core that it is in."""
        template, instruction = self._prepared.templates[queue][index], self._program.streams[queue][index]
        place = self._program.queues[queue]
        return [
            [
                Located(self._stores[operand.memory, core], operand, int(instruction.values[at]))
                for core in operand_cores(self._machine, place, instruction, operand)
            ]
            for operand, at in zip(template.operands, template.bases, strict=True)
        ]

    def _are_entries(self, indices: np.ndarray, queue: int, index: int) -> bool:
        """Whether indices name entries that there are; reports them otherwise."""
        instruction = self._program.streams[queue][index]
        entries = int(field(instruction, "entries"))
        low, high = int(indices.min()), int(indices.max())
        if low >= 0 and high < entries:
            return True
        name = instruction.row.operands[-1].name
        message = f"{name} holds the index {low if low < 0 else high}, and there are {entries} entries"
        self._violations.add("bounds", queue, index, int(field(instruction, f"{name}.base")), message)
        return False

    def _check_written(self, operand: Located, queue: int, index: int) -> None:
        if not operand.is_written():
            name = self._machine.memories[operand.at.memory].name
            address = operand.base + operand.at.start
            message = f"reads bytes of {operand.at.name} in {name} from {address:#x} on that nothing wrote"
            self._violations.add("uninitialised", queue, index, address, message)

    def _call_kernel(self, queue: int, index: int, host: RunHost | None) -> None:
        kernel = self._program.kernels[int(self._program.streams[queue][index].values[0])]
        if host is None:
            raise UsageError(f"the program calls the kernel {kernel.name}, and there is nothing to run it")
        inputs = [self._read(p, queue, index, f"{p.tensor}, read by the kernel {kernel.name},") for p in kernel.inputs]
        outputs = [(self._home(p), dense(p, self._home_number(p), writes=True)) for p in kernel.outputs]
        targets = [home.view(at, 0) for home, at in outputs]

        def report(message: str) -> None:
            self._violations.add("bounds", queue, index, kernel.outputs[0].address, message)

        for replica in range(self._program.replicas):
            results = host(kernel, [array[replica] for array in inputs], report)
            for target, result in zip(targets, results, strict=True):
                store(target[replica], np.asarray(result).reshape(-1))
        for home, at in outputs:
            home.mark(at, 0)

    def _read(self, placed: Placed, queue: int, index: int, name: str) -> np.ndarray:
        """(replicas, *shape) of a tensor in main memory."""
        home, at = self._home(placed), dense(placed, self._home_number(placed))
        if at.low < at.high and not home.is_written(at, 0):
            self._violations.add("uninitialised", queue, index, placed.address, f"nothing wrote all of {name}")
        return home.view(at, 0).reshape(self._program.replicas, *placed.shape)


def _apply(template: InstructionTemplate, targets: Sequence[np.ndarray], sources: Sequence[np.ndarray]) -> None:
    if len(targets) > 1:
        # A broadcast to its own core as well reads before it writes.
        sources = [source.copy() for source in sources]
    run = semantics(template.row)
    for target in targets:
        run(template, target, *sources)


def _placed(program: Program) -> list[Placed]:
    """Everything that a program places in main memory."""
    ports = [_port_tensor(port) for port in (*program.inputs, *program.outputs)]
    return [*program.constants, *ports, *(p for k in program.kernels for p in (*k.inputs, *k.outputs))]


def _port_tensor(port: ProgramPort) -> Placed:
    return Placed(port.name, port.address, port.tensor_dtype, port.tensor_shape)
